//! The counts of a line log, which its workers, its thread and its metrics share.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// Lines written and lost.
#[derive(Debug, Default)]
pub(super) struct LineCounters {
    /// Set once a log was opened.
    pub(super) is_used: AtomicBool,
    pub(super) written: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) write_errors: AtomicU64,
    /// Set at shutdown: the thread no longer waits for a slow reader.
    pub(super) is_ending: AtomicBool,
}
