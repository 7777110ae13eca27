// Responses by route and by upstream.

/** A count of errors, marked unless it is none. */
const errors = (number) => make("span", number > 0 ? "bad" : "", count(number));
const perSecond = (value) =>
  (value == null ? "–" : value > 0 && value < 10 ? value.toFixed(1) : count(value));
const ratio = (value) => (value == null ? "–" : percent(value * 100));

const ROUTE_COLUMNS = [
  ["Route", ({ name, upstream }) => (name === "-"
    ? make("span", "quiet", "no matching route")
    : remarked(name, upstream && upstream !== name ? `→ ${upstream}` : ""))],
  ["Requests/s", (route) => perSecond(route.last_minute?.requests_per_second)],
  ["4xx", (route) => count(route.last_minute?.["4xx"])],
  ["5xx", (route) => errors(route.last_minute?.["5xx"])],
  ["Error rate", (route) => ratio(route.last_minute?.error_rate)],
  ["4xx total", (route) => count(route["4xx"])],
  ["5xx total", (route) => count(route["5xx"])],
];

const UPSTREAM_COLUMNS = [
  ["Upstream", (upstream) => upstream.name],
  ["Responses/s", (upstream) => perSecond(upstream.last_minute?.responses_per_second)],
  ["4xx", (upstream) => count(upstream.last_minute?.["4xx"])],
  ["5xx", (upstream) => errors(upstream.last_minute?.["5xx"])],
  ["Gateway 5xx", (upstream) => errors(upstream.last_minute?.gateway_5xx)],
  ["Error rate", (upstream) => ratio(upstream.last_minute?.error_rate)],
  ["4xx total", (upstream) => count(upstream["4xx"])],
  ["5xx total", (upstream) => count(upstream["5xx"])],
  ["Gateway 5xx total", (upstream) => count(upstream.gateway_5xx)],
];

const ROUTES_NOTE = byId("routes-note").textContent;
const UPSTREAMS_NOTE = byId("upstreams-note").textContent;

function showResponses(responses) {
  const { last_minute: all, routes, upstreams } = responses;
  setText(byId("error-rate"), ratio(all?.error_rate));
  byId("error-rate").className = all?.["5xx"] > 0 ? "bad" : "";
  setText(byId("errors"), all ? `4xx ${count(all["4xx"])} · 5xx ${count(all["5xx"])}` : "");
  byId("no-routes").hidden = routes.length > 0;
  byId("routes-note").hidden = routes.length === 0;
  byId("routes").replaceChildren(...(routes.length ? [stackedTable(ROUTE_COLUMNS, routes)] : []));
  setText(byId("routes-note"), ROUTES_NOTE + leftOff(responses.routes_left_off, "routes"));
  byId("upstreams-note").hidden = upstreams.length === 0;
  byId("upstream-responses").replaceChildren(
    ...(upstreams.length ? [stackedTable(UPSTREAM_COLUMNS, upstreams)] : []));
  setText(byId("upstreams-note"), UPSTREAMS_NOTE + leftOff(responses.upstreams_left_off, "upstreams"));
}

/** Tables of the node have a bound; those of /metrics have none. */
function leftOff(number, rows) {
  return number > 0 ? ` ${count(number)} ${rows} with fewer errors are not shown: see /metrics.` : "";
}
