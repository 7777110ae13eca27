//! The counts of traces, which workers, the thread and metrics share.

use std::sync::atomic::{AtomicBool, AtomicU64};

#[derive(Debug, Default)]
pub(super) struct TraceCounters {
    /// Set once a tracer was started.
    pub(super) is_used: AtomicBool,
    pub(super) exported: AtomicU64,
    /// Spans for which there was no room, or no memory.
    pub(super) overflowed: AtomicU64,
    /// Spans that no collector took.
    pub(super) failed: AtomicU64,
    /// Spans that the collector rejected in a batch that it took.
    pub(super) rejected: AtomicU64,
    /// Set at shutdown: no batch is sent again.
    pub(super) is_ending: AtomicBool,
}
