//! Metrics of a limit that nodes share.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// Counts of decisions, and whether the store is there.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) shared: AtomicU64,
    pub(crate) local: AtomicU64,
    pub(crate) is_store_there: AtomicBool,
}
