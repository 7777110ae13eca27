// The connection to the node, and the reports that are polled.

const SILENCE_MS = 5_000;
const RETRY_MS_MAX = 15_000;
const REPORTS_EVERY_MS = 10_000;
const EVENT_CHARS_MAX = 4 << 20;
const TOKEN = "steppe-token";

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
  showResponses(node.responses);
  showUpstreams(node.upstreams, node.responses);
  showCaches(node.caches);
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

/** Takes the events of a text; returns the rest, which is no whole event yet. */
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

/** Reads events until they end. A silence counts as an end: the connection may be lost. */
async function readEvents(response, abort) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const timer = setTimeout(() => abort.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    text = takeEvents(text + value);
    if (text.length > EVENT_CHARS_MAX) throw new Error("an event exceeds the limit");
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
      // The node ends a stream after some minutes. That is no error.
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
  if (token) setText(byId("token-hint"), "The node refused this token.");
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
    setText(text, response.ok ? await response.text() : `/config responded with ${response.status}`);
  } catch {
    setText(text, "The node does not respond.");
  }
}

/** Polls the reports that change slowly. */
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
        const plane = await ask("plane");
        if (plane.ok) showPlane(await plane.json());
      } catch {
        // The state of the connection shows it already.
      }
    }
    await sleep(isLive ? REPORTS_EVERY_MS : 500);
  }
}

byId("config").addEventListener("toggle", (event) => {
  if (event.target.open) loadConfig();
});
stayConnected();
pollReports();
