//! The counts of traces, which workers, the thread and metrics share.

use std::sync::atomic::{AtomicBool, AtomicU64};

#[derive(Debug, Default)]
pub(super) struct TraceCounters {
    /// There is a tracer, or was one.
    pub(super) is_used: AtomicBool,
    pub(super) exported: AtomicU64,
    /// There was no room for them, or no memory.
    pub(super) overflowed: AtomicU64,
    /// No collector took them.
    pub(super) failed: AtomicU64,
    /// The collector took their batch, and not them.
    pub(super) rejected: AtomicU64,
    /// Set at shutdown: nothing is sent again.
    pub(super) is_ending: AtomicBool,
}
