// Servers of the gateway's upstreams.

const STATES = ["healthy", "unhealthy", "ejected", "draining", "unresolved"];

const SERVER_COLUMNS = [
  ["Server", ({ server, address }) =>
    remarked(server, address !== server ? address : "")],
  ["State", serverState, "state"],
  ["Weight", (server) => count(server.weight)],
  ["Active", (server) => count(server.active)],
  ["Requests", (server) => count(server.requests)],
  ["Failures", (server) => count(server.failures)],
  ["Latency", (server) => milliseconds(server.latency_ms || null)],
  ["Ejections", (server) => count(server.ejections)],
  ["Probes", (server) => probes(server.probe), "long"],
];

function serverState({ state: name, since_s: seconds, reason }) {
  const since = seconds == null ? "" : ` for ${duration(seconds)}`;
  const state = make("span", STATES.includes(name) ? name : "", name);
  const more = make("span", "quiet");
  more.append(...wrapped(`${since}${reason ? `: ${reason}` : ""}`));
  state.append(more);
  return state;
}

function probes(probe) {
  return probe ? `${count(probe.passed)} passed, ${count(probe.failed)} failed` : "–";
}

function showUpstreams(upstreams, responses) {
  byId("no-upstreams").hidden = upstreams.length > 0 || responses.upstreams.length > 0;
  byId("upstreams").replaceChildren(...upstreams.map(upstreamTable));
}

function upstreamTable(upstream) {
  const box = make("div", "upstream");
  const { retries, circuit } = upstream;
  const more = [upstream.balance ?? ""];
  if (circuit) more.push(`circuit ${circuit}`);
  if (retries) more.push(`${count(retries.tried)} retries, ${count(retries.denied)} denied`);
  const title = make("h3", "", upstream.name);
  title.append(make("span", "quiet", ` · ${more.filter(Boolean).join(" · ")}`));
  box.append(title, stackedTable(SERVER_COLUMNS, upstream.servers));
  return box;
}
