//! The node's allocator: a cargo feature, counted.
//!
//! Invariant: exactly one of `alloc-steppe`, `alloc-mimalloc` and `alloc-system`
//! answers. Where several are asked for (`--all-features`), the later of these
//! does: whoever adds one to the default wants it, and who adds `alloc-system`
//! counts allocations or runs a sanitizer.

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

/// The whole program's allocator.
#[global_allocator]
static ALLOCATOR: steppe_mem::alloc::Counted<chosen::Allocator> =
    steppe_mem::alloc::Counted(chosen::ALLOCATOR);

/// A thread that allocated no more often than this in a second had little to do.
const ALLOCATIONS_AT_REST: u64 = 64;

const REST_EVERY: Duration = Duration::from_secs(1);

/// What the allocator says of its memory, if it says anything.
#[must_use]
pub fn figures() -> Option<Figures> {
    chosen::figures()
}

/// The same by size class and thread, for `/memory`; `null` if it says nothing.
#[must_use]
pub fn details() -> Value {
    chosen::details()
}

/// Starts a sample of who allocates. False: this allocator, or this build, can't.
#[must_use]
pub fn start_heap_profile() -> bool {
    chosen::start_heap_profile()
}

/// Takes no more samples.
pub fn stop_heap_profile() {
    chosen::stop_heap_profile();
}

/// Which call paths hold how many bytes, as text that `jeprof` and `pprof` read, while
/// samples are taken.
#[must_use]
pub fn heap_profile() -> Option<String> {
    chosen::heap_profile()
}

/// For each thread that lives long, every second: where it had little to do, what
/// the allocator keeps for this thread alone is left to all, so that it can go back
/// to the system.
pub fn rest() {
    thread_local! {
        static BEFORE: Cell<u64> = const { Cell::new(0) };
    }
    let now = thread_allocations();
    if now - BEFORE.replace(now) <= ALLOCATIONS_AT_REST {
        chosen::on_idle();
    }
}

/// Rests every second, for as long as it is polled.
pub async fn keep_resting() {
    loop {
        tokio::time::sleep(REST_EVERY).await;
        rest();
    }
}
