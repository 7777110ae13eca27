// The admin page: reads /events and shows it. What comes from the node is only ever set as text.
"use strict";

const SPAN_MS = 600_000;
const SPAN_MS_MIN = 60_000;
const SILENCE_MS = 5_000;
const RETRY_MS_MAX = 15_000;
const REPORTS_EVERY_MS = 10_000;
const EVENT_CHARS_MAX = 4 << 20;
const TOKEN = "steppe-token";

const byId = (id) => document.getElementById(id);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** An element with a class and a text. */
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Sets a text only where it changed, so that selections and screen readers are left alone. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Units

function bytes(value) {
  if (value == null) return "–";
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let scaled = value / 1024;
  let unit = 0;
  while (scaled >= 1023.95 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)} ${units[unit]}`;
}

const count = (value) => (value == null ? "–" : Math.round(value).toLocaleString("en"));

function milliseconds(value) {
  if (value == null) return "–";
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value)} ms`;
}

function duration(seconds) {
  const parts = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0 s";
  let rest = Math.floor(seconds);
  return parts.slice(first, first + 2).flatMap(([length, unit]) => {
    const whole = Math.floor(rest / length);
    rest -= whole * length;
    return whole ? [`${whole} ${unit}`] : [];
  }).join(" ");
}

const timeOfDay = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const share = (part, whole) => (whole > 0 ? Math.min(100, (part / whole) * 100) : 0);

function percent(value) {
  return value > 0 && value < 0.1 ? "< 0.1 %" : `${value.toFixed(value < 10 ? 1 : 0)} %`;
}

// Charts

const SVG = "http://www.w3.org/2000/svg";

/** Lines over the last ten minutes. A line is a column of the history, with a name and a class. */
class Chart {
  constructor(id, lines, format) {
    const figure = byId(id);
    this.title = figure.querySelector("h2").textContent;
    this.svg = figure.querySelector("svg");
    this.summary = figure.querySelector(".summary");
    this.lines = lines;
    this.format = format;
    this.key = figure.querySelector(".key");
    for (const line of lines) this.key.append(make("span", line.look, line.name));
    this.limitKey = make("span", "limit", "budget");
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  show(rows, limit) {
    this.rows = rows;
    this.limit = limit;
    this.draw();
  }

  /** The scale's end. A limit far above all values would press them to the floor: it is left out. */
  top() {
    const values = this.rows.flatMap((row) => this.lines.map((line) => row[line.column] ?? 0));
    const most = Math.max(0, ...values);
    this.limitShown = this.limit != null && most > this.limit * 0.25;
    const wanted = this.limitShown ? Math.max(most, this.limit) : most;
    return roundUp(wanted * 1.05, this.format === bytes);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!this.rows || width === 0 || document.hidden) return;
    const plot = { left: 58, right: width - 6, top: 8, bottom: height - 18 };
    const top = this.top();
    const end = this.rows.length ? this.rows[this.rows.length - 1][0] : 0;
    // A young node fills the chart too: whole minutes, up to ten.
    const age = this.rows.length ? end - this.rows[0][0] : 0;
    const span = Math.min(SPAN_MS, Math.max(1, Math.ceil(age / SPAN_MS_MIN)) * SPAN_MS_MIN);
    const x = (ms) => plot.right - ((end - ms) / span) * (plot.right - plot.left);
    const y = (value) => plot.bottom - (value / top) * (plot.bottom - plot.top);
    const parts = [];
    for (const fraction of [0, 0.5, 1]) {
      const at = Math.round(y(top * fraction)) + 0.5;
      parts.push(path("grid", `M${plot.left} ${at}H${plot.right}`));
      parts.push(label(plot.left - 6, at + 4, fraction ? this.format(top * fraction) : "0", "end"));
    }
    parts.push(label(plot.left, height - 3, `${span / SPAN_MS_MIN} min ago`, "start"));
    parts.push(label(plot.right, height - 3, "now", "end"));
    for (const line of this.lines) parts.push(...this.line(line, x, y, plot.bottom));
    if (this.limitShown) parts.push(path("limit", `M${plot.left} ${y(this.limit)}H${plot.right}`));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
    this.describe();
  }

  line(line, x, y, floor) {
    let drawn = "";
    let area = "";
    let begun = null;
    let last = null;
    const close = () => {
      if (begun !== null && line.filled) area += `L${last} ${floor}L${begun} ${floor}Z`;
      begun = null;
    };
    let before = null;
    for (const row of this.rows) {
      const value = row[line.column];
      const gap = before !== null && row[0] - before > 5_000;
      before = row[0];
      if (gap) close();
      if (value == null) {
        close();
        continue;
      }
      last = x(row[0]).toFixed(1);
      const point = `${begun === null ? "M" : "L"}${last} ${y(value).toFixed(1)}`;
      if (begun === null) begun = last;
      drawn += point;
      area += point;
    }
    close();
    const paths = [path(line.look, drawn)];
    if (line.filled) paths.unshift(path("fill", area));
    return paths;
  }

  /** The chart in words. */
  describe() {
    const parts = this.lines.map((line) => {
      const values = this.rows.map((row) => row[line.column]).filter((value) => value != null);
      if (!values.length) return `${line.name}: none`;
      const now = this.rows[this.rows.length - 1][line.column];
      return `${line.name} now ${this.format(now)}, highest ${this.format(Math.max(...values))}`;
    });
    const above = this.limit != null && !this.limitShown ? ` · budget ${this.format(this.limit)}` : "";
    setText(this.summary, parts.join(" · ") + above);
    this.svg.setAttribute("aria-label", `${this.title}, last ten minutes: ${parts.join("; ")}`);
    if (this.limitShown) this.key.append(this.limitKey);
    else this.limitKey.remove();
  }
}

/** The next round number; for bytes, a round number of the unit. */
function roundUp(value, isBytes) {
  if (!(value > 0)) return isBytes ? 1 << 20 : 1;
  const unit = isBytes ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
  const scaled = value / unit;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= scaled) ?? 10;
  return step * power * unit;
}

function path(look, d) {
  const element = document.createElementNS(SVG, "path");
  element.setAttribute("class", look);
  element.setAttribute("d", d);
  return element;
}

function label(x, y, text, anchor) {
  const element = document.createElementNS(SVG, "text");
  element.setAttribute("x", x);
  element.setAttribute("y", y);
  element.setAttribute("text-anchor", anchor);
  element.textContent = text;
  return element;
}

const charts = {
  memory: new Chart("chart-memory", [
    { name: "resident", column: 1, look: "one", filled: true },
    { name: "reserved", column: 2, look: "two" },
  ], bytes),
  rate: new Chart("chart-rate", [
    { name: "requests", column: 3, look: "one", filled: true },
  ], (value) => (value < 10 && value > 0 ? value.toFixed(1) : count(value))),
  latency: new Chart("chart-latency", [
    { name: "p50", column: 4, look: "one", filled: true },
    { name: "p99", column: 5, look: "two" },
  ], milliseconds),
};

let samples = [];

function showHistory(history) {
  samples = history.samples;
}

function addSample(node) {
  const last = samples.length ? samples[samples.length - 1][0] : 0;
  if (node.at_ms > last) {
    samples.push([
      node.at_ms, node.rss_bytes, node.budget.reserved_bytes, node.requests_per_second,
      node.p50_ms, node.p99_ms,
    ]);
  }
  const oldest = node.at_ms - SPAN_MS;
  samples = samples.filter((sample) => sample[0] >= oldest);
}

// Sections

function showHeader(node) {
  const looks = { ready: "good", draining: "warn", starting: "warn" };
  const state = byId("state");
  setText(state, node.state);
  state.className = `pill ${looks[node.state] ?? ""}`;
  setText(byId("about"), `${node.version} · up ${duration(node.uptime_s)}`);
}

function showBudget(budget) {
  setText(byId("reserved"), bytes(budget.reserved_bytes));
  setText(byId("limit"), bytes(budget.limit_bytes));
  setText(byId("peak"), bytes(budget.peak_bytes));
  setText(byId("refused"), count(budget.refused));
  const bar = byId("budget");
  const used = share(budget.reserved_bytes, budget.limit_bytes);
  bar.querySelector("i").style.width = `${used}%`;
  bar.querySelector("s").style.left = `${share(budget.peak_bytes, budget.limit_bytes)}%`;
  bar.setAttribute("aria-valuenow", used.toFixed(1));
  bar.setAttribute("aria-valuetext",
    `${bytes(budget.reserved_bytes)} of ${bytes(budget.limit_bytes)}`);
  bar.dataset.reserved = budget.reserved_bytes;
  bar.dataset.limit = budget.limit_bytes;
}

function showTiles(node) {
  const { connections } = node;
  setText(byId("rate"), `${count(node.requests_per_second)}/s`);
  setText(byId("total"), `${count(node.requests)} in all`);
  setText(byId("p50"), milliseconds(node.p50_ms));
  setText(byId("p99"), milliseconds(node.p99_ms));
  setText(byId("clients"), count(connections.downstream));
  setText(
    byId("tunnels"),
    `${count(connections.downstream_streams)} streams, ${count(connections.tunnels)} tunnels`,
  );
  setText(byId("active"), count(connections.upstream_active));
  setText(byId("idle"), `${count(connections.upstream_streams)} streams, ${count(connections.upstream_idle)} idle`);
  setText(byId("rss"), bytes(node.rss_bytes));
  setText(byId("live"), `${bytes(node.allocator_live_bytes)} allocated`);
}

// Rows of accounts by path, kept from one event to the next: what is open stays open.
const accountRows = new Map();

function showAccounts(root) {
  const body = byId("accounts");
  const seen = new Set();
  const visit = (account, above, depth, visible) => {
    // Names have slashes, but no control character.
    const name = `${above}\n${account.name}`;
    seen.add(name);
    const row = accountRows.get(name) ?? newAccountRow(name, account, depth, body);
    updateAccountRow(row, account, root);
    row.element.hidden = !visible;
    for (const child of account.children) visit(child, name, depth + 1, visible && row.open);
  };
  visit(root, "", 0, true);
  for (const [name, row] of accountRows) {
    if (!seen.has(name)) {
      row.element.remove();
      accountRows.delete(name);
    }
  }
}

function newAccountRow(path, account, depth, body) {
  const element = make("tr");
  const head = make("th");
  head.scope = "row";
  head.style.setProperty("--depth", depth);
  const name = make("div", "name");
  const row = { element, open: depth < 2, tag: make("span", "tag"), fill: make("i") };
  row.toggle = toggleOf(row, account.name);
  row.leaf = make("span", "leaf");
  name.append(row.toggle, row.leaf, make("span", "", account.name), row.tag);
  const thin = make("div", "thin");
  thin.append(row.fill);
  head.append(name, thin);
  row.cells = [make("td"), make("td"), make("td")];
  element.append(head, ...row.cells);
  // Accounts come with the configuration, in order: a new one stands behind those of its parent.
  const parent = path.slice(0, path.lastIndexOf("\n"));
  const family = [...accountRows.entries()].filter(([each]) => each === parent || each.startsWith(`${parent}\n`));
  const before = family.length ? family[family.length - 1][1].element.nextSibling : null;
  body.insertBefore(element, before);
  accountRows.set(path, row);
  return row;
}

function toggleOf(row, name) {
  const button = make("button");
  button.type = "button";
  button.addEventListener("click", () => {
    row.open = !row.open;
    if (latest) showAccounts(latest.budget);
  });
  button.setAttribute("aria-label", `Accounts below ${name}`);
  return button;
}

function updateAccountRow(row, account, root) {
  const isLeaf = account.children.length === 0;
  row.toggle.hidden = isLeaf;
  row.leaf.hidden = !isLeaf;
  setText(row.toggle, row.open ? "▾" : "▸");
  row.toggle.setAttribute("aria-expanded", String(row.open));
  setText(row.tag, account.refused > 0 ? `${count(account.refused)} refused` : "");
  row.fill.style.width = `${share(account.reserved_bytes, root.reserved_bytes)}%`;
  const limit = account.limit_bytes == null ? "–" : bytes(account.limit_bytes);
  const texts = [bytes(account.reserved_bytes), bytes(account.peak_bytes), limit];
  texts.forEach((text, index) => setText(row.cells[index], text));
}

const HOLDERS = {
  allocator_live: "Allocated, in use",
  allocator_retained: "Kept by the allocator",
  pool_mapped: "Large pooled buffers",
  thread_stacks: "Thread stacks",
  program_data: "Program data",
  libc_heap: "libc heap",
};

function showHolders(memory) {
  const whole = memory.anonymous_rss_bytes;
  const rows = memory.explained.map((part) => [HOLDERS[part.name] ?? part.name, part.bytes]);
  rows.push(["Unexplained", memory.unexplained_bytes]);
  byId("holders").replaceChildren(...rows.map(([name, held]) => {
    const part = share(held, whole);
    return dataRow(name, [bytes(held), percent(part)], part);
  }));
  showAllocator(memory.allocator);
  const sockets = memory.socket_buffers;
  setText(byId("holders-note"),
    `${bytes(whole)} anonymous of ${bytes(memory.rss_bytes)} resident, measured every ten seconds. ` +
    `Kernel: ${bytes(sockets.receive_bytes + sockets.send_bytes)} in ${count(sockets.sockets)} sockets.`);
}

const ALLOCATOR_PARTS = [
  ["live_bytes", "in use", "one"],
  ["retained_bytes", "free among blocks in use", "two"],
  ["dirty_bytes", "free, goes back soon", "three"],
  ["meta_bytes", "its books", "rest"],
];

/** What steppe-malloc says of itself; other allocators say nothing. */
function showAllocator({ name, resident_bytes: resident, details }) {
  byId("allocator").hidden = !details;
  if (!details) return;
  const held = ALLOCATOR_PARTS.reduce((sum, [key]) => sum + details[key], 0);
  const bar = byId("allocator-bar");
  bar.setAttribute("aria-label",
    ALLOCATOR_PARTS.map(([key, text]) => `${bytes(details[key])} ${text}`).join(", "));
  bar.replaceChildren(...ALLOCATOR_PARTS.map(([key, , look]) => {
    const part = make("i", look);
    part.style.width = `${share(details[key], held)}%`;
    return part;
  }));
  byId("allocator-key").replaceChildren(...ALLOCATOR_PARTS.map(([key, text, look]) => {
    const part = make("span", look);
    part.append(make("b", "", bytes(details[key])), ` ${text}`);
    return part;
  }));
  setText(byId("allocator-note"),
    `${name}, profile ${details.profile}: ${bytes(resident)} of this are resident. What is free goes ` +
    `back after ${milliseconds(details.decay_ms)}; ${bytes(details.purged_bytes)} did so far.`);
  showClasses(details);
  byId("heaps").replaceChildren(...details.heaps.map((heap) =>
    dataRow(heap.name ?? `thread ${heap.thread}`, [bytes(heap.binned_bytes)])));
}

const SLAB_BYTES = 64 << 10;

function showClasses(details) {
  // Who holds most stands first, as people ask.
  const classes = details.classes.filter((each) => each.slabs > 0)
    .sort((one, other) => other.slabs - one.slabs || other.block_bytes - one.block_bytes);
  const rows = classes.map((each) => {
    const live = each.live_blocks * each.block_bytes;
    const whole = each.slabs * SLAB_BYTES;
    const ready = (each.binned_blocks + each.stored_blocks) * each.block_bytes;
    const figures = [live, Math.max(0, whole - live), ready].map(bytes);
    return dataRow(bytes(each.block_bytes), [...figures, count(each.slabs)], share(live, whole));
  });
  const large = [["32 KiB to 1 MiB", details.run_bytes], ["above 1 MiB", details.huge_bytes]];
  for (const [name, live] of large) {
    if (live > 0) rows.push(dataRow(name, [bytes(live), "–", "–", "–"], 100));
  }
  byId("classes").replaceChildren(...rows);
}

/** A row with a head, texts, and a bar below the head where there is a share. */
function dataRow(name, texts, filled) {
  const head = make("th", "", name);
  head.scope = "row";
  if (filled !== undefined) {
    const thin = make("div", "thin flat");
    const fill = make("i");
    fill.style.width = `${filled}%`;
    thin.append(fill);
    head.append(thin);
  }
  const row = make("tr");
  row.append(head, ...texts.map((text) => make("td", "", text)));
  return row;
}

function showEvents(events) {
  byId("no-events").hidden = events.length > 0;
  const list = byId("events");
  const wanted = JSON.stringify(events);
  if (list.dataset.shown === wanted) return;
  list.dataset.shown = wanted;
  list.replaceChildren(...events.map((event) => {
    const item = make("li");
    const times = event.count > 1 ? ` × ${count(event.count)}` : "";
    const when = make("span", "when", ` ${timeOfDay(event.at_ms)} · ${event.target}${times}`);
    item.append(make("span", event.level === "error" ? "error" : "warn", event.level), when,
      make("br"), document.createTextNode(event.text));
    return item;
  }));
}

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
  if (retries) more.push(`${count(retries.tried)} retries, ${count(retries.denied)} denied`);
  const title = make("h3", "", upstream.name);
  title.append(make("span", "quiet", ` · ${more.filter(Boolean).join(" · ")}`));
  const table = make("table");
  // Stacked on a phone, by CSS that would take the table's meaning away from screen readers.
  table.setAttribute("role", "table");
  const heads = ["Server", "State", ...SERVER_COLUMNS.map(([name]) => name)].map((name) => {
    const head = make("th", name === "State" ? "state" : "", name);
    head.scope = "col";
    head.setAttribute("role", "columnheader");
    return head;
  });
  const thead = make("thead");
  thead.append(tableRow(heads));
  const tbody = make("tbody");
  tbody.append(...upstream.servers.map(serverRow));
  table.append(thead, tbody);
  box.append(title, table);
  return box;
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
  head.scope = "row";
  head.setAttribute("role", "rowheader");
  if (server.address && server.address !== server.server) {
    head.append(make("span", "quiet", ` ${server.address}`));
  }
  const state = make("td", "state");
  state.dataset.label = "State";
  const since = server.since_s == null ? "" : ` for ${duration(server.since_s)}`;
  const why = server.reason ? `: ${server.reason}` : "";
  const text = make("span", STATES.includes(server.state) ? server.state : "", server.state);
  text.append(make("span", "quiet", `${since}${why}`));
  state.append(text);
  const cells = SERVER_COLUMNS.map(([name, value]) => {
    const cell = make("td", "", value(server));
    cell.dataset.label = name;
    return cell;
  });
  for (const cell of [state, ...cells]) cell.setAttribute("role", "cell");
  return tableRow([head, state, ...cells]);
}

// DNS

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

// Whoever renews by hand needs a fortnight.
const DAYS_LEFT_MIN = 14;

function showCertificates(certificates) {
  byId("certificates").hidden = certificates.length === 0;
  byId("certificate-rows").replaceChildren(...certificates.map(certificateRow));
}

function certificateRow(certificate) {
  const names = certificate.names.join(", ");
  const head = make("th", "", names || certificate.subject);
  head.scope = "row";
  head.setAttribute("role", "rowheader");
  if (names && certificate.subject) head.append(make("span", "quiet", ` ${certificate.subject}`));
  const cells = [["Expires", expiry(certificate)], ["Listener", certificate.listener], ["File", certificate.file]]
    .map(([label, content]) => {
      const cell = make("td", label === "Expires" ? "state" : "path");
      cell.dataset.label = label;
      cell.setAttribute("role", "cell");
      cell.append(make("span"));
      cell.firstChild.append(content);
      return cell;
    });
  return tableRow([head, ...cells]);
}

/** Days left in words, and the day. */
function expiry({ state, days_left: days, not_after: end }) {
  const left = days === 0 ? "today" : days === 1 ? "in 1 day" : `in ${count(days)} days`;
  const words = { expired: "expired", not_yet_valid: "not valid yet" }[state] ?? left;
  const isBad = state !== "valid" || days < DAYS_LEFT_MIN;
  const text = make("span", isBad ? "expiring" : "", words);
  // Seconds since the Unix epoch.
  text.append(make("span", "quiet", `, ${new Date(end * 1000).toLocaleDateString("en-GB")}`));
  return text;
}

let generation;

function showReload(reload) {
  const error = byId("reload-error");
  error.hidden = !reload?.last_error;
  setText(error, reload?.last_error ? `The last reload was refused: ${reload.last_error}` : "");
  if (!reload) return;
  // Seconds since the Unix epoch.
  const when = new Date(reload.loaded_at * 1000).toLocaleString("en-GB");
  setText(byId("reload"), `Generation ${reload.generation}, in force since ${when}.`);
  if (generation !== undefined && generation !== reload.generation && byId("config").open) loadConfig();
  generation = reload.generation;
}

// The connection

let token = sessionStorage.getItem(TOKEN);
let latest;

function ask(path, options = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return fetch(path, { headers, cache: "no-store", ...options });
}

function show(node) {
  latest = node;
  addSample(node);
  byId("node").hidden = false;
  showHeader(node);
  showBudget(node.budget);
  showTiles(node);
  showAccounts(node.budget);
  showEvents(node.events);
  showUpstreams(node.upstreams);
  showReload(node.reload);
  charts.memory.show(samples, node.budget.limit_bytes);
  charts.rate.show(samples);
  charts.latency.show(samples);
  document.body.dataset.live = node.at_ms;
}

function setLink(look, text) {
  const link = byId("link");
  link.className = `link ${look}`;
  setText(link, text);
  document.body.classList.toggle("stale", look === "bad");
}

function onEvent(name, data) {
  if (name === "history") showHistory(data);
  else if (name === "snapshot") show(data);
}

/** Events of a chunk of text; returns what is not whole yet. */
function takeEvents(text) {
  const parts = text.split("\n\n");
  const rest = parts.pop();
  for (const part of parts) {
    const fields = Object.fromEntries(part.split("\n").map((line) => {
      const at = line.indexOf(": ");
      return [line.slice(0, at), line.slice(at + 2)];
    }));
    if (fields.event && fields.data) onEvent(fields.event, JSON.parse(fields.data));
  }
  return rest;
}

/** Reads events until they end. A silence counts as an end: a peer may be gone without a word. */
async function readEvents(response, abort) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const timer = setTimeout(() => abort.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    text = takeEvents(text + value);
    if (text.length > EVENT_CHARS_MAX) throw new Error("an event without an end");
    setLink("good", "Live");
  }
}

async function connect() {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), SILENCE_MS);
  const response = await ask("events", { signal: abort.signal }).finally(() => clearTimeout(timer));
  if (response.status === 401) return "locked";
  if (!response.ok) return (await response.text()).trim();
  byId("locked").hidden = true;
  await readEvents(response, abort);
  return "ended";
}

async function stayConnected() {
  let wait = 500;
  for (;;) {
    let outcome;
    try {
      outcome = await connect();
    } catch {
      outcome = "";
    }
    if (outcome === "locked") {
      await askForToken();
    } else if (outcome === "ended" && latest?.state === "ready") {
      // Streams end by themselves after a while. That is no trouble.
      wait = 500;
      await sleep(100);
    } else {
      const why = outcome && outcome !== "ended" ? ` (${outcome})` : "";
      setLink("bad", `Disconnected${why}, retrying…`);
      await sleep(wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, RETRY_MS_MAX);
      continue;
    }
    wait = 500;
  }
}

function askForToken() {
  setLink("", "Locked");
  byId("node").hidden = true;
  byId("locked").hidden = false;
  if (token) setText(byId("token-hint"), "This token does not open the node.");
  byId("token").focus();
  return new Promise((done) => {
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      token = byId("token").value.trim();
      sessionStorage.setItem(TOKEN, token);
      byId("token").value = "";
      setLink("", "Connecting…");
      done();
    }, { once: true });
  });
}

async function loadConfig() {
  const text = byId("config-text");
  try {
    const response = await ask("config");
    setText(text, response.ok ? await response.text() : `/config answers ${response.status}`);
  } catch {
    setText(text, "The node does not answer.");
  }
}

/** What is measured when it is asked for, and changes slowly. */
async function pollReports() {
  for (;;) {
    const isLive = byId("link").classList.contains("good");
    if (isLive && !document.hidden) {
      try {
        const memory = await ask("memory");
        if (memory.ok) showHolders(await memory.json());
        const certificates = await ask("certificates");
        if (certificates.ok) showCertificates((await certificates.json()).certificates);
        const dns = await ask("dns");
        if (dns.ok) showDns(await dns.json());
      } catch {
        // The state of the connection says it already.
      }
    }
    await sleep(isLive ? REPORTS_EVERY_MS : 500);
  }
}

byId("config").addEventListener("toggle", (event) => {
  if (event.target.open) loadConfig();
});
// With a token, links would go without it; their text still tells the path.
stayConnected();
pollReports();
