//! Keys of the filter that limits rates.

use std::path::Path;
use std::time::Duration;

use steppe_config::form::{Form, MASK, Read, Refusal};
use steppe_config::key::{Key, OptionalKey, duration, integer, key, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Table};
use steppe_config::typed::Fields;

use super::DAY;
use crate::config::{Rate, RateKey, RateLimit, RateStore};
use crate::limits::RATE_MAX;

/// `[http.filter.NAME]` of the kind `rate-limit`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Limits the rate of requests, or their number in flight, for all workers together. Requests \
     beyond it get 429 with `Retry-After`.",
    keys! { RATE, CONCURRENT, PER, BURST, KEY, IPV4_PREFIX, IPV6_PREFIX, ENTRIES, STORE },
)
.needing(Needs::Any(&["rate", "concurrent"]));

static RATE: OptionalKey<u32> = key(
    "rate",
    integer(1, RATE_MAX),
    "Requests that each key may send in the time `per`.",
);

static CONCURRENT: OptionalKey<u32> = key(
    "concurrent",
    integer(1, RATE_MAX),
    "Requests in flight for each key. A request counts until its response has ended, a tunnel \
     until it begins.",
);

static PER: Key<Duration> = key(
    "per",
    duration(Duration::from_secs(1), DAY),
    "Time that `rate` refers to.",
)
.or(Absent::Text("1s"));

static BURST: OptionalKey<u32> = key(
    "burst",
    integer(1, RATE_MAX),
    "Requests that may arrive at once. Without it, `rate`.",
);

static KEY: Key<RateKey> = key(
    "key",
    text(&RATE_KEY),
    "Key that requests are counted by: \"ip\", \"header:NAME\", \"jwt:CLAIM\" (after a `jwt` \
     filter), \"api-key\" (the name of the key, after an `api-keys` filter) or \"route\". Requests without the field share one key. A request with several lines \
     of the field gets 400. A field whose value clients choose freely does not limit them.",
)
.or(Absent::Text("ip"));

static IPV4_PREFIX: Key<u8> = key(
    "ipv4_prefix",
    integer(1, 32),
    "Leading bits of an IPv4 address that form the key.",
)
.or(Absent::Number(32));

static IPV6_PREFIX: Key<u8> = key(
    "ipv6_prefix",
    integer(1, 128),
    "Leading bits of an IPv6 address that form the key: a host has a whole /64.",
)
.or(Absent::Number(64));

static ENTRIES: Key<usize> = key(
    "entries",
    integer(64, 1 << 22),
    "Keys that are remembered, at 16 bytes each for `rate` and 8 for `concurrent`.",
)
.or(Absent::Number(65_536));

static STORE: OptionalKey<RateStore> = key(
    "store",
    text(&RATE_STORE),
    "URL of a Valkey or Redis database (5 or later) that shares `rate` among nodes with a filter \
     of this name: \"redis://127.0.0.1:6379/0\", with `USER:PASSWORD@` or without. While it is \
     unreachable, each node limits by itself.",
)
.secret();

/// Key by which a rate limit tells requests apart.
static RATE_KEY: Form<RateKey> = Form::new(
    "\"ip\", \"header:NAME\", \"jwt:CLAIM\", \"api-key\" or \"route\"",
    rate_key,
)
.pattern("^(ip|route|api-key|(header|jwt):.+)$");

/// Database of Valkey or Redis.
static RATE_STORE: Form<RateStore> =
    Form::new("a URL such as \"redis://127.0.0.1:6379/0\"", rate_store)
        .masked_by(store_without_password);

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(name: &str, filter: &Fields) -> Option<RateLimit> {
    let (per, burst) = (filter.get(&PER)?, filter.get(&BURST)?);
    let rate = |requests| Rate {
        requests,
        per,
        burst: burst.unwrap_or(requests),
    };
    Some(RateLimit {
        name: name.to_owned(),
        rate: filter.get(&RATE)?.map(rate),
        concurrent: filter.get(&CONCURRENT)?,
        key: filter.get(&KEY)?,
        prefix: (filter.get(&IPV4_PREFIX)?, filter.get(&IPV6_PREFIX)?),
        entries: filter.get(&ENTRIES)?,
        store: filter.get(&STORE)?,
    })
}

/// Keys of a rate have no effect without one.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if filter.place_of(&RATE).is_some() {
        return;
    }
    for key in [&PER.spec, &BURST.spec, &STORE.spec] {
        if let Some(span) = filter.given(key) {
            mistakes.push(
                Mistake::new(span, format!("`{}` without `rate`", key.name))
                    .label("no effect on requests in flight")
                    .help("add `rate`, or take it out"),
            );
        }
    }
}

/// True if requests are counted by a claim of their token.
pub(super) fn reads_token(filter: &Fields) -> bool {
    matches!(filter.get(&KEY), Some(RateKey::Claim(_)))
}

/// True if requests are counted by the name of their API key.
pub(super) fn reads_api_key(filter: &Fields) -> bool {
    matches!(filter.get(&KEY), Some(RateKey::ApiKey))
}

/// `ip`, `route`, `api-key`, `header:NAME`, `jwt:CLAIM`.
fn rate_key(text: &str, _: &Path) -> Read<RateKey> {
    RateKey::parse(text).ok_or_else(|| {
        Refusal::new(format!("`{}` is not a key to count by", shown(text)))
            .help("write \"ip\", \"header:NAME\", \"jwt:CLAIM\", \"api-key\" or \"route\"")
    })
}

/// A database of Valkey or Redis. It is not shown: a password may stand in it.
fn rate_store(text: &str, _: &Path) -> Read<RateStore> {
    RateStore::parse(text).ok_or_else(|| {
        Refusal::new("not the URL of a Valkey or Redis database")
            .help("write a URL such as \"redis://127.0.0.1:6379/0\"")
    })
}

/// The URL of a database: the password alone is a secret, and the rest tells where it leads.
fn store_without_password(url: &str) -> String {
    let Some(rest) = url.strip_prefix("redis://") else {
        return MASK.to_owned();
    };
    let Some((user, host)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    let name = user.split(':').next().unwrap_or_default();
    format!("redis://{name}:{MASK}@{host}")
}
