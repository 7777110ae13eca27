//! Keys of the cache.

use std::path::PathBuf;
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::FILE;
use steppe_config::key::{Key, OptionalKey, Type, choice, duration, key, of, section, size, text};
use steppe_config::keys;
use steppe_config::limits::TIMEOUT_MAX;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node, Typed};
use steppe_mem::limits::BUDGET_BYTES_MAX;

use crate::config::{Cache, ServeStale, Stale};
use crate::limits::{CACHE_SHARD_BYTES_MIN, STALE_SECONDS_MAX};

/// A time that records are kept, up to a week: the 31 bits of seconds of RFC 2181 §8 are more than anyone needs.
pub(super) const fn ttl() -> Type<Duration> {
    duration(Duration::ZERO, Duration::from_secs(7 * 24 * 60 * 60))
}

/// `[dns.cache]`.
pub(super) static TABLE: Table = Table::new(
    "dns.cache",
    "Cache of responses.",
    keys! { BYTES, MIN_TTL, MAX_TTL, NEGATIVE_TTL_MAX, SERVE_STALE, PREFETCH, SNAPSHOT },
);

static BYTES: Key<usize> = key(
    "bytes",
    size(CACHE_SHARD_BYTES_MIN as u64, BUDGET_BYTES_MAX),
    "Memory of the cache, of the node's budget.",
)
.or(Absent::Text("16MiB"));

static MIN_TTL: Key<Duration> =
    key("min_ttl", ttl(), "Least time that responses are kept.").or(Absent::Text("0s"));

static MAX_TTL: Key<Duration> =
    key("max_ttl", ttl(), "Longest time that responses are kept.").or(Absent::Text("1d"));

static NEGATIVE_TTL_MAX: Key<Duration> = key(
    "negative_ttl_max",
    ttl(),
    "Longest time that negative responses (no such name or type) are kept.",
)
.or(Absent::Text("1h"));

static SERVE_STALE: OptionalKey<ServeStale> = section("serve_stale", &STALE, stale);

static PREFETCH: Key<u8> = key(
    "prefetch",
    of(
        Kind::Either(&[Kind::Share, Kind::Choice(&["off"])]),
        percent,
    ),
    "Last part of a response's lifetime in which it is refreshed if it is in use; \"off\" turns this off.",
)
.or(Absent::Text("10%"));

/// File that keeps responses over a restart.
pub static SNAPSHOT: OptionalKey<PathBuf> = key(
    "snapshot",
    text(&FILE),
    "File that keeps responses over a restart. It is read at start, while clients are answered already, \
     and written every ten minutes and when the node ends.",
);

/// `serve_stale` of the cache, and of a rule.
pub(super) static STALE: Table = Table::new(
    "dns.cache.serve_stale",
    "Serves expired responses if servers do not answer (RFC 8767).",
    keys! { UP_TO, AFTER, ONLY },
);

static UP_TO: Key<Duration> = key(
    "up_to",
    duration(
        Duration::from_secs(1),
        Duration::from_secs(STALE_SECONDS_MAX as u64),
    ),
    "Longest time after the expiry.",
)
.or(Absent::Text("1d"));

static AFTER: Key<Duration> = key(
    "after",
    duration(Duration::ZERO, TIMEOUT_MAX),
    "Time to wait for servers first.",
)
.or(Absent::Text("1.8s"));

static ONLY: Key<Stale> = key(
    "only",
    choice(&Choices::of(&[
        ("positive", Stale::Positive),
        ("all", Stale::All),
    ])),
    "Responses that are served: \"positive\" for those with records, \"all\" for negative ones too.",
)
.or(Absent::Text("positive"));

pub(super) fn build(cache: &Fields) -> Option<Cache> {
    Some(Cache {
        bytes: cache.get(&BYTES)?,
        min_ttl: cache.get(&MIN_TTL)?,
        max_ttl: cache.get(&MAX_TTL)?,
        negative_ttl_max: cache.get(&NEGATIVE_TTL_MAX)?,
        serve_stale: cache.get(&SERVE_STALE)?,
        prefetch_percent: cache.get(&PREFETCH)?,
        snapshot: cache.get(&SNAPSHOT)?,
    })
}

pub(super) fn stale(stale: &Fields) -> Option<ServeStale> {
    Some(ServeStale {
        up_to: stale.get(&UP_TO)?,
        after: stale.get(&AFTER)?,
        only: stale.get(&ONLY)?,
    })
}

fn percent(prefetch: &Node) -> Option<u8> {
    match prefetch.typed {
        Typed::Choice(_) => Some(0),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is above 0 and at most 1"
        )]
        Typed::Share(share) => Some((share * 100.0).round() as u8),
        _ => None,
    }
}
