//! Keys of the filter that caches.

use std::time::Duration;

use steppe_config::key::{Key, OptionalKey, boolean, duration, key, size};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;
use steppe_mem::limits::BUDGET_BYTES_MAX;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// `[http.filter.NAME]` of the kind `cache`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Stores and serves responses: a shared cache (RFC 9111) of the whole node.",
    keys! { BYTES, MAX_OBJECT_BYTES, STALE_WHILE_REVALIDATE, STALE_IF_ERROR, REQUEST_DIRECTIVES, STORE_SET_COOKIE, CACHE_STATUS },
);

/// The cache's memory.
pub(super) static BYTES: Key<usize> = key(
    "bytes",
    size(BYTES_MIN, BUDGET_BYTES_MAX),
    "Memory of the cache, of the node's budget. The cache gives up entries before any request is \
     refused for lack of memory.",
)
.or(Absent::Text("64MiB"));

/// Room for a few responses.
const BYTES_MIN: u64 = 1 << 20;

static MAX_OBJECT_BYTES: OptionalKey<usize> = key(
    "max_object_bytes",
    size(1, BUDGET_BYTES_MAX),
    "Largest content that is stored. Without it, an eighth of `bytes`.",
);

/// Time that a stale response is served while a new one is fetched.
pub(super) static STALE_WHILE_REVALIDATE: Key<Duration> = key(
    "stale_while_revalidate",
    duration(Duration::ZERO, YEAR),
    "Time that a stale response is served while a new one is fetched, unless the response sets it \
     itself (RFC 5861). Only for responses with an explicit lifetime.",
)
.or(Absent::Text("0s"));

/// Time that a stale response is served instead of an error.
pub(super) static STALE_IF_ERROR: Key<Duration> = key(
    "stale_if_error",
    duration(Duration::ZERO, YEAR),
    "Time that a stale response is served if its server can't be reached or responds with 500, \
     502, 503 or 504, unless the response sets it itself. Only for responses with an explicit \
     lifetime.",
)
.or(Absent::Text("0s"));

static REQUEST_DIRECTIVES: Key<bool> = key(
    "request_directives",
    boolean(),
    "Honors `Cache-Control` of requests that ask for a newer response (RFC 9111 §5.2.1). With \
     `false`, clients can't make the cache contact its servers.",
)
.or(Absent::Yes);

static STORE_SET_COOKIE: Key<bool> = key(
    "store_set_cookie",
    boolean(),
    "Stores responses that set cookies, if they are `public`: every client then gets these \
     cookies.",
)
.or(Absent::No);

static CACHE_STATUS: Key<bool> = key(
    "cache_status",
    boolean(),
    "Adds `Cache-Status` (RFC 9211) to responses.",
)
.or(Absent::Yes);

/// Settings of a store of responses (RFC 9111).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Memory of the store, of the node's budget.
    pub bytes: usize,
    /// Largest content that is stored.
    pub max_object_bytes: usize,
    /// Time that a stale response may be used while another is fetched, unless it says so itself.
    pub stale_while_revalidate: Duration,
    /// Time that it may be used if no other can be had, unless it says so itself.
    pub stale_if_error: Duration,
    /// Requests may ask for a newer response (RFC 9111 §5.2.1).
    pub request_directives: bool,
    /// Responses that set cookies are stored if they are `public`.
    pub store_set_cookie: bool,
    /// Clients are told whether a response is from the store (RFC 9211).
    pub cache_status: bool,
}

impl Default for Cache {
    fn default() -> Self {
        build(&TABLE.defaults()).expect("the table's own defaults")
    }
}

impl Cache {
    /// True if content of this length is stored.
    #[must_use]
    pub fn stores(&self, content_bytes: u64) -> bool {
        content_bytes <= self.max_object_bytes as u64
    }
}

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Cache> {
    let bytes = filter.get(&BYTES)?;
    Some(Cache {
        bytes,
        max_object_bytes: filter.get(&MAX_OBJECT_BYTES)?.unwrap_or(bytes / 8),
        stale_while_revalidate: filter.get(&STALE_WHILE_REVALIDATE)?,
        stale_if_error: filter.get(&STALE_IF_ERROR)?,
        request_directives: filter.get(&REQUEST_DIRECTIVES)?,
        store_set_cookie: filter.get(&STORE_SET_COOKIE)?,
        cache_status: filter.get(&CACHE_STATUS)?,
    })
}

/// Content that is larger than the store would never be stored.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if let (Some(bytes), Some((object, at))) =
        (filter.get(&BYTES), filter.located(&MAX_OBJECT_BYTES))
        && object > bytes
    {
        let mistake = Mistake::new(at, "no response of this size fits into `bytes`");
        mistakes.push(mistake.help("make `bytes` larger, or this smaller"));
    }
}
