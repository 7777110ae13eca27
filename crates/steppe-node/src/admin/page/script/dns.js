// The DNS forwarder.

const DNS_WORDS = {
  hit: "cache hit",
  stale: "cache hit, stale",
  failure: "cached failure",
  miss: "cache miss",
  dropped: "dropped",
  blocked: "blocked by a rule",
  hosts: "resolved by hosts",
  coalesced: "coalesced with a query in flight",
  refresh: "prefetched before expiry",
  unsent: "UDP response not sent",
  cookie: "valid DNS cookie",
  encoded: "encoded data in a name",
  client_qps: "limited by client_qps",
  unproven_bytes: "limited by unproven_bytes_per_s",
  zone_misses: "limited by zone_misses_per_s",
  rule: "limited by a rule",
  tunnel: "limited as a DNS tunnel",
};

// Some of these names have another meaning above.
const DNS_TROUBLE = {
  failure: "upstream: a server failed",
  probe: "upstream: a server that is down was probed",
  timeout: "upstream: a query timed out",
  mismatch: "upstream: a datagram matched no query",
  by_stream: "upstream: a query was retried over TCP",
  rebinding: "rebinding: a private address for a public name",
};

let dnsBefore;

function showDns(dns) {
  const total = (rows) => Object.values(rows).reduce((sum, each) => sum + each, 0);
  const queries = total(dns.queries);
  byId("dns").hidden = dns.listeners.length === 0;
  const now = performance.now();
  const elapsed = dnsBefore ? (now - dnsBefore.at) / 1000 : 0;
  const rate = elapsed > 0 ? (queries - dnsBefore.queries) / elapsed : null;
  dnsBefore = { at: now, queries };
  setText(byId("dns-rate"), count(rate));
  setText(byId("dns-total"), count(queries));
  const { hit, stale } = dns.lookups;
  const lookups = total(dns.lookups);
  setText(byId("dns-ratio"), lookups ? percent(share(hit + stale, lookups)) : "–");
  setText(byId("dns-entries"), count(dns.cache.entries));
  setText(byId("dns-used"), bytes(dns.cache.used_bytes));
  setText(byId("dns-bytes"), bytes(dns.cache.bytes));
  const responses = Object.entries(dns.responses).filter(([, number]) => number > 0);
  const answered = total(dns.responses);
  byId("dns-responses").replaceChildren(...responses.map(([rcode, number]) => {
    const part = share(number, answered);
    return dataRow(rcode, [count(number), percent(part)], part);
  }));
  const happened = [
    [DNS_WORDS, { ...dns.lookups, ...dns.events, ...dns.limited }],
    [DNS_TROUBLE, dns.upstream_trouble],
  ];
  byId("dns-events").replaceChildren(...happened.flatMap(([words, rows]) =>
    Object.entries(rows).filter(([, number]) => number > 0).map(([name, number]) =>
      dataRow(words[name] ?? name, [count(number)]))));
  byId("dns-upstreams").replaceChildren(...dns.upstreams.map(dnsUpstream));
  byId("dns-counts").hidden = answered === 0;
  showDnsLists(dns.lists);
  showDnsNames(dns.top_names);
}

const DNS_STATES = {
  up: ["healthy", "up"],
  partly_down: ["draining", "down for some workers"],
  down: ["unhealthy", "down"],
  unasked: ["quiet", "not queried yet"],
};

const DNS_SERVER_COLUMNS = [
  ["Server", (server) => server.server],
  ["State", dnsServerState, "state"],
  ["Queries", (server) => count(server.queries)],
  ["Failures", (server) => count(server.failures)],
  ["Latency", (server) => milliseconds(server.latency_ms)],
];

function dnsServerState(server) {
  const [look, words] = DNS_STATES[server.state] ?? ["", server.state];
  return make("span", look, words);
}

function dnsUpstream(upstream) {
  const box = make("div", "upstream");
  const title = make("h3", "", upstream.name);
  title.append(make("span", "quiet", ` · ${upstream.policy}`));
  box.append(title, stackedTable(DNS_SERVER_COLUMNS, upstream.servers));
  return box;
}

function showDnsLists({ lists, bytes: size, read_at: readAt, error }) {
  byId("dns-lists").hidden = lists.length === 0;
  byId("dns-list-rows").replaceChildren(...lists.map((list) => {
    const leftOut = list.unsupported + list.malformed;
    const row = dataRow(list.name, [list.rules, leftOut, list.hits].map(count));
    if (list.error) row.firstChild.append(make("div", "trouble", list.error));
    return row;
  }));
  // Seconds since the Unix epoch.
  const when = new Date(readAt * 1000).toLocaleString("en-GB");
  setText(byId("dns-lists-note"), `The lists were read ${when}. Their index takes ${bytes(size)}.`);
  byId("dns-lists-error").hidden = !error;
  setText(byId("dns-lists-error"), error ? `The last reload of the lists failed: ${error}` : "");
}

/** Names are counted only with a query log, which has them anyway. */
function showDnsNames(names) {
  const most = names?.length ? names[0].queries : 0;
  byId("dns-names").replaceChildren(...(names ?? []).map((top) => {
    const queries = top.over > 0 ? `≤ ${count(top.queries)}` : count(top.queries);
    return dataRow(top.name, [queries], share(top.queries, most));
  }));
  byId("dns-names").parentElement.hidden = most === 0;
  setText(byId("dns-names-note"), names
    ? "Counted since the query log was opened."
    : "The query log (dns.log.queries) is off, so names are not counted.");
}
