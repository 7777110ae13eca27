// The node at a glance, its warnings, and its configuration.

function showHeader(node) {
  const looks = { ready: "good", terminating: "warn", draining: "warn", starting: "warn" };
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
  setText(byId("total"), `${count(node.requests)} total`);
  setText(byId("p50"), `p50 ${milliseconds(node.p50_ms)}, last second`);
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
      make("br"), ...wrapped(event.text));
    return item;
  }));
}

let generation;

function showReload(reload) {
  const error = byId("reload-error");
  error.hidden = !reload?.last_error;
  setText(error, reload?.last_error ? `The last reload was refused: ${reload.last_error}` : "");
  if (!reload) return;
  // Seconds since the Unix epoch.
  const when = new Date(reload.loaded_at * 1000).toLocaleString("en-GB");
  setText(byId("reload"), `Generation ${reload.generation} has been in force since ${when}.`);
  if (generation !== undefined && generation !== reload.generation && byId("config").open) loadConfig();
  generation = reload.generation;
}
