// Caches of the gateway.

const CACHE_COLUMNS = [
  ["Cache filter", (cache) => cache.name],
  ["Hit ratio", (cache) => ratio(cache.last_minute?.hit_ratio)],
  ["Hit ratio total", (cache) => ratio(cache.hit_ratio)],
  ["Hits", (cache) => count(cache.requests.hit)],
  ["Stale", (cache) => count(cache.requests.stale)],
  ["Revalidated", (cache) => count(cache.requests.revalidated)],
  ["Misses", (cache) => count(cache.requests.miss)],
  ["Bypassed", (cache) => count(cache.requests.bypass)],
  ["Responses", (cache) => count(cache.responses)],
  ["Stored total", (cache) => count(cache.stored)],
  ["Evictions", (cache) => count(cache.evicted)],
  ["Memory", (cache) => remarked(bytes(cache.bytes), `of ${bytes(cache.bytes_max)}`), "long"],
];

const CACHES_NOTE = byId("caches-note").textContent;

function showCaches({ filters, filters_left_off: left }) {
  byId("caches").hidden = filters.length === 0;
  byId("cache-rows").replaceChildren(stackedTable(CACHE_COLUMNS, filters));
  setText(byId("caches-note"),
    CACHES_NOTE + (left > 0 ? ` ${count(left)} caches are not shown: see /cache.` : ""));
}
