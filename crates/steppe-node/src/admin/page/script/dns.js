// The DNS forwarder.

const DNS_WORDS = {
  hit: "answered from the cache",
  stale: "answered from the cache, past its time",
  failure: "failed a moment ago, not asked again",
  miss: "not in the cache",
  dropped: "dropped",
  blocked: "blocked by a rule",
  hosts: "answered by hosts",
  coalesced: "waited for one in flight",
  refresh: "refreshed ahead of its end",
  unsent: "not sent for want of room",
  cookie: "came with a good cookie",
  encoded: "looked like data in a name",
  client_qps: "beyond client_qps",
  unproven_bytes: "beyond unproven_bytes_per_s",
  zone_misses: "beyond zone_misses_per_s",
  rule: "beyond a rule's rate",
  tunnel: "data in names, limited",
};

// Some have names that mean something else above.
const DNS_TROUBLE = {
  failure: "a server failed",
  probe: "a server that is down was probed",
  timeout: "a server did not answer in time",
  mismatch: "a datagram answered no query",
  by_stream: "asked again by TCP",
  rebinding: "a private address for a public name",
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
  showDnsLists(dns.lists);
  showDnsNames(dns.top_names);
}

const DNS_STATES = {
  up: ["healthy", "up"],
  partly_down: ["draining", "down for some workers"],
  down: ["unhealthy", "down"],
  unasked: ["quiet", "not asked yet"],
};

const DNS_SERVER_COLUMNS = [
  ["Queries", (server) => count(server.queries)],
  ["Failures", (server) => count(server.failures)],
  ["Latency", (server) => milliseconds(server.latency_ms)],
];

function dnsUpstream(upstream) {
  const box = make("div", "upstream");
  const title = make("h3", "", upstream.name);
  title.append(make("span", "quiet", ` · ${upstream.policy}`));
  const rows = upstream.servers.map((server) => {
    const [look, words] = DNS_STATES[server.state] ?? ["", server.state];
    const cells = [make("th", "", server.server), make("span", look, words)];
    return rowOfServer(cells, DNS_SERVER_COLUMNS, server);
  });
  box.append(title, serverTable(DNS_SERVER_COLUMNS, rows));
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
  setText(byId("dns-lists-note"), `Read ${when}; their index takes ${bytes(size)}.`);
  byId("dns-lists-error").hidden = !error;
  setText(byId("dns-lists-error"), error ? `Not read since: ${error}` : "");
}

/** Names are counted only where a log of queries is kept anyway. */
function showDnsNames(names) {
  const most = names?.length ? names[0].queries : 0;
  byId("dns-names").replaceChildren(...(names ?? []).map((top) => {
    const queries = top.over > 0 ? `≤ ${count(top.queries)}` : count(top.queries);
    return dataRow(top.name, [queries], share(top.queries, most));
  }));
  setText(byId("dns-names-note"), names
    ? "Since the query log was opened."
    : "Not counted: the query log (dns.log.queries) is off.");
}
