//! Every bound of the configuration, each with its reason.

use std::time::Duration;

pub use steppe_config::limits::{FILE_BYTES_MAX, MISTAKES_SHOWN_MAX, NAME_BYTES_MAX, TOKENS_MAX};
use steppe_http::limits::RESPOND_BYTES_MAX;
use steppe_mem::limits::{BUDGET_BYTES_MAX, BUDGET_BYTES_MIN};

/// Worker threads: more than the cores of any machine that is sold.
pub const WORKERS_MAX: u64 = 1024;

/// The smallest `memory_budget`.
pub const MEMORY_BUDGET_MIN: u64 = BUDGET_BYTES_MIN;
/// The largest `memory_budget`; more is taken for a typing mistake.
pub const MEMORY_BUDGET_MAX: u64 = BUDGET_BYTES_MAX;

/// The longest `drain_timeout`.
pub const DRAIN_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);

const _: () = assert!(RESPOND_BYTES_MAX < FILE_BYTES_MAX);
