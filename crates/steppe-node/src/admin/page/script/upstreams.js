// Upstreams of the gateway and their servers.

const SERVER_COLUMNS = [
  ["Weight", (server) => count(server.weight)],
  ["Active", (server) => count(server.active)],
  ["Requests", (server) => count(server.requests)],
  ["Failures", (server) => count(server.failures)],
  ["Latency", (server) => milliseconds(server.latency_ms || null)],
  ["Ejections", (server) => count(server.ejections)],
  ["Probes", (server) => probes(server.probe)],
];

function probes(probe) {
  return probe ? `${count(probe.passed)} passed, ${count(probe.failed)} failed` : "–";
}

function showUpstreams(upstreams) {
  byId("no-upstreams").hidden = Boolean(upstreams?.length);
  byId("upstreams").replaceChildren(...(upstreams ?? []).map(upstreamTable));
}

function upstreamTable(upstream) {
  const box = make("div", "upstream");
  const retries = upstream.retries;
  const more = [upstream.balance ?? ""];
  if (upstream.circuit && upstream.circuit !== "closed") more.push(`circuit ${upstream.circuit}`);
  if (retries) more.push(`${count(retries.tried)} retries, ${count(retries.denied)} denied`);
  const title = make("h3", "", upstream.name);
  title.append(make("span", "quiet", ` · ${more.filter(Boolean).join(" · ")}`));
  box.append(title, serverTable(SERVER_COLUMNS, upstream.servers.map(serverRow)));
  return box;
}

/** A table of servers: each has a name and a state, and these columns. */
function serverTable(columns, rows) {
  const table = make("table");
  // Stacked on a phone, by CSS that would take the table's meaning away from screen readers.
  table.setAttribute("role", "table");
  const heads = ["Server", "State", ...columns.map(([name]) => name)].map((name) => {
    const head = make("th", name === "State" ? "state" : "", name);
    head.scope = "col";
    head.setAttribute("role", "columnheader");
    return head;
  });
  const thead = make("thead");
  thead.append(tableRow(heads));
  const tbody = make("tbody");
  tbody.append(...rows);
  table.append(thead, tbody);
  return table;
}

function tableRow(cells) {
  const row = make("tr");
  row.setAttribute("role", "row");
  row.append(...cells);
  return row;
}

const STATES = ["healthy", "unhealthy", "ejected", "draining", "unresolved"];

function serverRow(server) {
  const head = make("th", "", server.server);
  if (server.address && server.address !== server.server) {
    head.append(make("span", "quiet", ` ${server.address}`));
  }
  const since = server.since_s == null ? "" : ` for ${duration(server.since_s)}`;
  const why = server.reason ? `: ${server.reason}` : "";
  const state = make("span", STATES.includes(server.state) ? server.state : "", server.state);
  state.append(make("span", "quiet", `${since}${why}`));
  return rowOfServer([head, state], SERVER_COLUMNS, server);
}

/** A row of a server's table. */
function rowOfServer([head, state], columns, server) {
  head.scope = "row";
  head.setAttribute("role", "rowheader");
  const second = make("td", "state");
  second.dataset.label = "State";
  second.append(state);
  const cells = columns.map(([name, value]) => {
    const cell = make("td", "", value(server));
    cell.dataset.label = name;
    return cell;
  });
  for (const cell of [second, ...cells]) cell.setAttribute("role", "cell");
  return tableRow([head, second, ...cells]);
}
