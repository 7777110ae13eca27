//! Every bound of the configuration, each with its reason.

use std::time::Duration;

pub use steppe_config::limits::{
    FILE_BYTES_MAX, MISTAKES_SHOWN_MAX, NAME_BYTES_MAX, TIMEOUT_MAX, TIMEOUT_MIN, TOKENS_MAX,
};
use steppe_http::limits::RESPOND_BYTES_MAX;
pub use steppe_http::limits::{BODY_BYTES, RATE_MAX};
use steppe_mem::limits::{BUDGET_BYTES_MAX, BUDGET_BYTES_MIN};

/// Worker threads: more than the cores of any machine that is sold.
pub const WORKERS_MAX: u64 = 1024;

/// The least `memory_budget`.
pub const MEMORY_BUDGET_MIN: u64 = BUDGET_BYTES_MIN;
/// The most, a typing mistake beyond it.
pub const MEMORY_BUDGET_MAX: u64 = BUDGET_BYTES_MAX;

/// The most of `drain_timeout`.
pub const DRAIN_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);

const _: () = assert!(RESPOND_BYTES_MAX < FILE_BYTES_MAX);

/// JSON that is edited is held whole, and one worker is busy with it meanwhile: some 10 ms a MiB.
pub const JSON_BYTES_MIN: u64 = 1 << 10;

/// See [`JSON_BYTES_MIN`].
pub const JSON_BYTES_MAX: u64 = 8 << 20;

/// Keys that a rate limit remembers.
pub const RATE_ENTRIES: (u64, u64) = (64, 1 << 22);

/// Verified tokens that are remembered.
pub const VERIFIED_TOKENS_MAX: u64 = 1 << 20;
