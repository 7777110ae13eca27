//! Every bound of the configuration, each with its reason.

use std::time::Duration;

pub use steppe_config::limits::{
    FILE_BYTES_MAX, MISTAKES_SHOWN_MAX, NAME_BYTES_MAX, TIMEOUT_MAX, TIMEOUT_MIN, TOKENS_MAX,
};
use steppe_dns::limits::{
    CACHE_SHARD_BYTES_MIN, CNAME_CHAIN_MAX, SERVERS_PER_EXCHANGE_MAX, STALE_SECONDS_MAX,
};
use steppe_http::limits::RESPOND_BYTES_MAX;
pub use steppe_http::limits::{BODY_BYTES, RATE_MAX};
use steppe_mem::limits::{BUDGET_BYTES_MAX, BUDGET_BYTES_MIN};
use steppe_plane::limits::{CONNECTION_BYTES, CONNECTION_CREDIT, EAGER_BYTES_MAX, WINDOW_BYTES};

/// Worker threads: more than the cores of any machine that is sold.
pub const WORKERS_MAX: u64 = 1024;

/// The least `memory_budget`.
pub const MEMORY_BUDGET_MIN: u64 = BUDGET_BYTES_MIN;
/// The most, a typing mistake beyond it.
pub const MEMORY_BUDGET_MAX: u64 = BUDGET_BYTES_MAX;

/// The least `dns.cache.bytes`.
pub const DNS_CACHE_BYTES: u64 = CACHE_SHARD_BYTES_MIN as u64;
/// Bounds of `dns.upstream.concurrent`.
pub const DNS_CONCURRENT: (u64, u64) = (1, SERVERS_PER_EXCHANGE_MAX as u64);
/// Bytes of the path of a DNS server by HTTPS.
pub const DNS_PATH_BYTES_MAX: usize = 1024;
/// Bounds of `dns.limits.cname_depth`.
pub const CNAME_DEPTH: (u64, u64) = (1, CNAME_CHAIN_MAX as u64 - 1);
/// The most of `dns.limits` that counts queries: a bucket counts in microseconds, and ten are still exact.
pub const DNS_PER_S_MAX: u64 = 100_000;
/// The most of `dns.limits.unproven_bytes_per_s`.
pub const DNS_BYTES_PER_S_MAX: u64 = 1 << 30;
/// The most of a time that records are kept: RFC 2181 §8 has 31 bits of seconds, which nobody means.
pub const TTL_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most of `dns.cache.serve_stale.up_to`.
pub const STALE_TIME_MAX: Duration = Duration::from_secs(STALE_SECONDS_MAX as u64);

/// The least `plane.budget`: a dozen connections, each with its standing credit, and a window of a body beside them.
pub const PLANE_BUDGET_MIN: u64 = 8 << 20;
/// Bounds of `plane.max_payload`: the largest body that is sent without asking fits the least; bodies are
/// streamed, so the most is only a typing mistake away.
pub const PLANE_PAYLOAD: (u64, u64) = (EAGER_BYTES_MAX as u64, BODY_BYTES.1);
/// The most of `plane.queue.bytes`: what a plane may hold bounds it anyway.
pub const PLANE_QUEUE_BYTES_MAX: u64 = MEMORY_BUDGET_MAX;

/// The least of `dns.list.refresh`: who has lists for all asks for an hour at least.
pub const LIST_REFRESH_MIN: Duration = Duration::from_secs(60);
/// The most of it.
pub const LIST_REFRESH_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most of `drain_timeout`.
pub const DRAIN_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);

const _: () = assert!(
    (12 * (CONNECTION_CREDIT as usize + CONNECTION_BYTES) + 4 * WINDOW_BYTES) as u64
        <= PLANE_BUDGET_MIN
);
const _: () = assert!(RESPOND_BYTES_MAX < FILE_BYTES_MAX);

/// JSON that is edited is held whole, and one worker is busy with it meanwhile: some 10 ms a MiB.
pub const JSON_BYTES_MIN: u64 = 1 << 10;

/// See [`JSON_BYTES_MIN`].
pub const JSON_BYTES_MAX: u64 = 8 << 20;

/// Keys that a rate limit remembers.
pub const RATE_ENTRIES: (u64, u64) = (64, 1 << 22);

/// Verified tokens that are remembered.
pub const VERIFIED_TOKENS_MAX: u64 = 1 << 20;

/// Memory of a cache: room for a few responses, up to the largest budget.
pub const CACHE_BYTES: (u64, u64) = (1 << 20, MEMORY_BUDGET_MAX);
