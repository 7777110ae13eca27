// The DNS forwarder.

const DNS_WORDS = {
  hit: "answered from the cache",
  stale: "answered from the cache, past its time",
  failure: "failed a moment ago, not asked again",
  miss: "not in the cache",
  dropped: "dropped",
  blocked: "blocked by a rule",
  coalesced: "waited for one in flight",
  refresh: "refreshed ahead of its end",
  unsent: "not sent for want of room",
  encoded: "looked like data in a name",
  client_qps: "beyond client_qps",
  unproven_bytes: "beyond unproven_bytes_per_s",
  zone_misses: "beyond zone_misses_per_s",
  tunnel: "data in names, limited",
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
  const events = { ...dns.lookups, ...dns.events, ...dns.limited, ...dns.upstream_trouble };
  const seen = Object.entries(events).filter(([, number]) => number > 0);
  byId("dns-events").replaceChildren(...seen.map(([name, number]) =>
    dataRow(DNS_WORDS[name] ?? name, [count(number)])));
  byId("dns-upstreams").replaceChildren(...dns.upstreams.map(dnsUpstreamTable));
}

function dnsUpstreamTable(upstream) {
  const box = make("div", "upstream");
  const title = make("h3", "", upstream.name);
  title.append(make("span", "quiet", ` · ${upstream.policy}`));
  const list = make("p", "quiet note", upstream.servers.join(", "));
  box.append(title, list);
  return box;
}
