//! The node's allocator: a cargo feature, counted.
//!
//! Invariant: exactly one of `alloc-steppe`, `alloc-mimalloc` and `alloc-system` is used. If several are enabled
//! (`--all-features`), the last of these is: a build that adds one to the default wants it, and `alloc-system` serves
//! to count allocations or to run a sanitizer.

mod figures;
#[cfg(all(
    feature = "alloc-steppe",
    not(any(feature = "alloc-mimalloc", feature = "alloc-system"))
))]
mod steppe;
#[cfg(not(all(
    feature = "alloc-steppe",
    not(any(feature = "alloc-mimalloc", feature = "alloc-system"))
)))]
mod sys;

use std::cell::Cell;
use std::time::Duration;

use serde_json::Value;
use steppe_mem::alloc::thread_allocations;

#[cfg(all(
    feature = "alloc-steppe",
    not(any(feature = "alloc-mimalloc", feature = "alloc-system"))
))]
use steppe as chosen;
#[cfg(not(all(
    feature = "alloc-steppe",
    not(any(feature = "alloc-mimalloc", feature = "alloc-system"))
)))]
use sys as chosen;

pub use chosen::{AllocatorView, NAME};
pub use figures::Figures;

/// The global allocator of the program.
#[global_allocator]
static ALLOCATOR: steppe_mem::alloc::Counted<chosen::Allocator> =
    steppe_mem::alloc::Counted(chosen::ALLOCATOR);

/// A thread with no more allocations than this between two calls of [`rest`] counts as idle.
const ALLOCATIONS_AT_REST: u64 = 64;

const REST_EVERY: Duration = Duration::from_secs(1);

/// The allocator's statistics, if it has any.
#[must_use]
pub fn figures() -> Option<Figures> {
    chosen::figures()
}

/// The statistics by size class and thread, for `/memory`; `null` if the allocator has none.
#[must_use]
pub fn details() -> Value {
    chosen::details()
}

/// Free resident bytes that the allocator hands out before it takes new pages; 0 if it does not report them.
#[must_use]
pub fn dirty_bytes() -> u64 {
    chosen::dirty_bytes()
}

/// Returns free pages to the system now, as far as the allocator can.
pub fn purge() {
    chosen::purge();
}

/// Starts a heap profile. False: this allocator, or this build, does not support it.
#[must_use]
pub fn start_heap_profile() -> bool {
    chosen::start_heap_profile()
}

/// Stops the heap profile.
pub fn stop_heap_profile() {
    chosen::stop_heap_profile();
}

/// The heap profile in the text format of `jeprof` and `pprof`, while one is active.
#[must_use]
pub fn heap_profile() -> Option<String> {
    chosen::heap_profile()
}

/// Flushes the caches of an idle thread in the allocator, so that their memory can be purged. To be called once or
/// twice a second by long-lived threads.
pub fn rest() {
    thread_local! {
        static BEFORE: Cell<u64> = const { Cell::new(0) };
    }
    let now = thread_allocations();
    if now - BEFORE.replace(now) <= ALLOCATIONS_AT_REST {
        chosen::on_idle();
    }
}

/// Calls [`rest`] every second, for as long as it is polled.
pub async fn keep_resting() {
    loop {
        tokio::time::sleep(REST_EVERY).await;
        rest();
    }
}
