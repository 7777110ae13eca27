//! The node's allocator: a cargo feature, counted.
//!
//! Invariant: exactly one of `alloc-mimalloc` and `alloc-system` answers; where
//! both are asked for (`--all-features`), `alloc-system` does, since whoever adds
//! it counts allocations or runs a sanitizer.

mod sys;

pub use sys::{AllocatorView, NAME};

/// The whole program's allocator.
#[global_allocator]
static ALLOCATOR: steppe_mem::alloc::Counted<sys::Allocator> =
    steppe_mem::alloc::Counted(sys::ALLOCATOR);
