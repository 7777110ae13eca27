//! Keys of limits on clients and servers.

use std::num::NonZeroU32;

use steppe_config::choice::Choices;
use steppe_config::key::{Key, choice, integer, key, size};
use steppe_config::keys;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use crate::config::{Limits, Rebinding};
use crate::limits::CNAME_CHAIN_MAX;

/// The highest limit in queries a second: ten microseconds for each query, which buckets still count exactly.
pub(super) const PER_SECOND_MAX: u64 = 100_000;

/// `[dns.limits]`.
pub(super) static TABLE: Table = Table::new(
    "dns.limits",
    "Limits on clients and servers. The first three are token buckets that hold one second's worth, \
     shared by all workers; `0` turns each off. Refusals are counted in `steppe_dns_limited_total`.",
    keys! { CLIENT_QPS, UNPROVEN_BYTES_PER_S, ZONE_MISSES_PER_S, CNAME_DEPTH, REBINDING },
);

static CLIENT_QPS: Key<u32> = key(
    "client_qps",
    integer(0, PER_SECOND_MAX),
    "Queries per second of a client's network (/24, /56). Beyond it, queries over UDP are dropped, since \
     their sender may be forged; queries over connections get REFUSED.",
)
.or(Absent::Number(0));

static UNPROVEN_BYTES_PER_S: Key<u32> = key(
    "unproven_bytes_per_s",
    size(0, 1 << 30),
    "Bytes per second of responses over UDP to a network (/24, /56) that has not proven its address in \
     the last ten minutes, by a cookie or over a connection. Beyond it, every second response is sent \
     truncated (TC) and without records, so that the client asks over TCP; the others are dropped.",
)
.or(Absent::Text("0"));

static ZONE_MISSES_PER_S: Key<u32> = key(
    "zone_misses_per_s",
    integer(0, PER_SECOND_MAX),
    "Questions per second below a zone that the cache does not answer. Beyond it, SERVFAIL with the \
     extended error 13, and no server is asked; cached responses and other zones are served as before.",
)
.or(Absent::Number(0));

static CNAME_DEPTH: Key<usize> = key(
    "cname_depth",
    integer(1, CNAME_CHAIN_MAX as u64 - 1),
    "Aliases (CNAME) that are followed in a response.",
)
.or(Absent::Number(8));

static REBINDING: Key<Rebinding> = key(
    "rebinding",
    choice(&Choices::of(&[
        ("refuse", Rebinding::Refuse),
        ("allow", Rebinding::Allow),
    ])),
    "Treatment of private addresses for public names from upstreams that are not `private` (DNS \
     rebinding): \"refuse\" responds with REFUSED, \"allow\" passes them on.",
)
.or(Absent::Text("refuse"));

pub(super) fn build(limits: &Fields) -> Option<Limits> {
    Some(Limits {
        client_qps: NonZeroU32::new(limits.get(&CLIENT_QPS)?),
        unproven_bytes_per_s: NonZeroU32::new(limits.get(&UNPROVEN_BYTES_PER_S)?),
        zone_misses_per_s: NonZeroU32::new(limits.get(&ZONE_MISSES_PER_S)?),
        cname_depth: limits.get(&CNAME_DEPTH)?,
        rebinding: limits.get(&REBINDING)?,
    })
}
