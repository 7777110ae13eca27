//! The statistics of mimalloc and of the system's allocator, and the search for their memory.
#![expect(
    unsafe_code,
    reason = "allocators answer through C functions of their own"
)]

use serde_json::Value;

use super::figures::Figures;

#[cfg(any(feature = "alloc-system", not(feature = "alloc-mimalloc")))]
pub(super) use system::{ALLOCATOR, Allocator};
#[cfg(any(feature = "alloc-system", not(feature = "alloc-mimalloc")))]
pub use system::{AllocatorView, NAME};

#[cfg(all(feature = "alloc-mimalloc", not(feature = "alloc-system")))]
pub(super) use mi::{ALLOCATOR, Allocator};
#[cfg(all(feature = "alloc-mimalloc", not(feature = "alloc-system")))]
pub use mi::{AllocatorView, NAME};

/// None: neither reports more than its total.
pub(super) fn figures() -> Option<Figures> {
    None
}

pub(super) fn details() -> Value {
    Value::Null
}

/// False: neither takes samples.
pub(super) fn start_heap_profile() -> bool {
    false
}

pub(super) fn stop_heap_profile() {}

pub(super) fn heap_profile() -> Option<String> {
    None
}

/// 0: free memory within arenas has no cheap count, so all resident bytes count as taken.
pub(super) fn dirty_bytes() -> u64 {
    0
}

/// Has glibc give back all free memory, at any cost.
#[cfg(all(
    target_env = "gnu",
    any(feature = "alloc-system", not(feature = "alloc-mimalloc"))
))]
pub(super) fn purge() {
    // SAFETY: it takes no pointer, locks each arena for itself, and leaves used blocks in place.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(all(feature = "alloc-mimalloc", not(feature = "alloc-system")))]
pub(super) fn purge() {
    // SAFETY: it takes no pointer, and collects the free memory of the calling thread and of threads that ended.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

#[cfg(not(any(target_env = "gnu", feature = "alloc-mimalloc")))]
pub(super) fn purge() {}

/// Has glibc give back the free pages within its arenas, once after each period of work: by itself it only shortens
/// them from the top, so the remainder depends on the address of the last small block. A relay kept 20 to 25 MiB so,
/// another figure after each cycle of load. mimalloc gives back by itself.
#[cfg(all(
    target_env = "gnu",
    any(feature = "alloc-system", not(feature = "alloc-mimalloc"))
))]
pub(super) fn on_idle() {
    use std::cell::Cell;

    use steppe_mem::alloc::thread_allocations;

    /// A trim visits every free chunk, some milliseconds: not worth it for the allocations of an idle node in a quarter
    /// of a minute.
    const ALLOCATIONS_BETWEEN: u64 = 1024;
    thread_local! {
        static TRIMMED_AT: Cell<u64> = const { Cell::new(0) };
    }
    let now = thread_allocations();
    if now - TRIMMED_AT.get() > ALLOCATIONS_BETWEEN {
        TRIMMED_AT.set(now);
        // SAFETY: it takes no pointer, locks each arena for itself, and leaves used blocks in place.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Does nothing: mimalloc gives back by itself, and musl's allocator keeps nothing for a thread.
#[cfg(not(all(
    target_env = "gnu",
    any(feature = "alloc-system", not(feature = "alloc-mimalloc"))
)))]
pub(super) fn on_idle() {}

#[cfg(all(feature = "alloc-mimalloc", not(feature = "alloc-system")))]
mod mi {
    /// The allocator's name in reports.
    pub const NAME: &str = "mimalloc";

    pub(in super::super) type Allocator = mimalloc::MiMalloc;
    pub(in super::super) const ALLOCATOR: Allocator = mimalloc::MiMalloc;

    /// Tells the allocator's memory from the process's other mappings.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct AllocatorView;

    impl AllocatorView {
        /// True if some page of the allocator lies within `start..end`.
        ///
        /// mimalloc hands memory out from slices of 64 KiB, all of which its page map knows, so one query a slice finds
        /// any that is in use.
        #[must_use]
        pub fn owns(self, start: usize, end: usize) -> bool {
            const SLICE_BYTES: usize = 64 << 10;
            (start..end).step_by(SLICE_BYTES).any(|address| {
                let pointer = std::ptr::without_provenance::<core::ffi::c_void>(address);
                // SAFETY: any address may be queried; it is looked up in mimalloc's page map and never dereferenced.
                unsafe { libmimalloc_sys::mi_is_in_heap_region(pointer) }
            })
        }

        /// Bytes taken from the system, if the allocator can't be queried by address.
        #[must_use]
        pub fn taken_bytes(self) -> u64 {
            0
        }

        /// False: the break segment belongs to the C library's own `malloc`.
        #[must_use]
        pub fn owns_break(self) -> bool {
            false
        }
    }
}

#[cfg(any(feature = "alloc-system", not(feature = "alloc-mimalloc")))]
mod system {
    /// The allocator's name in reports.
    pub const NAME: &str = "system";

    pub(in super::super) type Allocator = std::alloc::System;
    pub(in super::super) const ALLOCATOR: Allocator = std::alloc::System;

    /// Tells the allocator's memory from the process's other mappings.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct AllocatorView;

    impl AllocatorView {
        /// False: the C library does not identify the owner of an address.
        #[must_use]
        pub fn owns(self, _start: usize, _end: usize) -> bool {
            false
        }

        /// Bytes taken from the system: arenas and mapped chunks.
        #[must_use]
        pub fn taken_bytes(self) -> u64 {
            // SAFETY: takes nothing, locks each arena for itself, returns a copy.
            let info = unsafe { libc::mallinfo2() };
            (info.arena + info.hblkhd) as u64
        }

        /// True: the break segment is the main arena.
        #[must_use]
        pub fn owns_break(self) -> bool {
            true
        }
    }
}
