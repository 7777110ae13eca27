//! The node's allocator, counted: live bytes of the process and of a thread, and allocations of a thread.
//!
//! Counting costs a locked add an allocation, and hot paths do not allocate. A thread that measures resident memory is
//! woken whenever a thread has requested another [`NOTICE_BYTES`], so that growth is noticed in time.
//!
//! Bytes are counted as requested, and for a thread also in whole blocks ([`block_bytes`]): a tree of many small nodes
//! takes up to a quarter more than its nodes requested.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread::Thread;

use crate::limits::NOTICE_BYTES;

/// Shards of the count, on cache lines of their own; threads beyond this number share.
const SHARDS: usize = 16;

/// Wraps an allocator and counts its allocations.
#[derive(Debug, Default)]
pub struct Counted<A>(pub A);

#[repr(align(128))]
struct LiveShard(AtomicI64);

static LIVE_BYTES: [LiveShard; SHARDS] = [const { LiveShard(AtomicI64::new(0)) }; SHARDS];
static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);
/// The thread that is unparked when another has requested much.
static WATCHER: OnceLock<Thread> = OnceLock::new();

/// Sums of one thread; in one place, which each allocation looks up once.
struct ThreadSums {
    /// Index of the thread's shard; `usize::MAX`: none yet.
    shard: Cell<usize>,
    allocations: Cell<u64>,
    asked_bytes: Cell<u64>,
    freed_bytes: Cell<u64>,
    /// Bytes of blocks allocated, less those freed.
    block_bytes: Cell<i64>,
}

thread_local! {
    // Constant and without a destructor: usable while a thread starts and ends.
    static THREAD: ThreadSums = const {
        ThreadSums {
            shard: Cell::new(usize::MAX),
            allocations: Cell::new(0),
            asked_bytes: Cell::new(0),
            freed_bytes: Cell::new(0),
            block_bytes: Cell::new(0),
        }
    };
}

/// Largest block of a size class; larger ones are whole units of [`UNIT_BYTES`].
const CLASS_BYTES_MAX: usize = 32 << 10;
const UNIT_BYTES: usize = 64 << 10;

/// Bytes requested and not freed, of the whole process. Zero if no [`Counted`] is the global allocator.
#[must_use]
pub fn live_bytes() -> u64 {
    let sum: i64 = LIVE_BYTES
        .iter()
        .map(|shard| shard.0.load(Ordering::Relaxed))
        .sum();
    u64::try_from(sum).unwrap_or(0)
}

/// Allocations and reallocations of the calling thread so far.
#[must_use]
pub fn thread_allocations() -> u64 {
    THREAD.with(|thread| thread.allocations.get())
}

/// Bytes that the calling thread requested so far, freed or not.
#[must_use]
pub fn thread_asked_bytes() -> u64 {
    THREAD.with(|thread| thread.asked_bytes.get())
}

/// Bytes that the calling thread requested, less those that it freed: negative if other threads allocated them.
#[must_use]
pub fn thread_live_bytes() -> i64 {
    THREAD.with(|thread| {
        let live = thread
            .asked_bytes
            .get()
            .wrapping_sub(thread.freed_bytes.get());
        live.cast_signed()
    })
}

/// The same as [`thread_live_bytes`], in whole blocks ([`block_bytes`]).
#[must_use]
pub fn thread_block_bytes() -> i64 {
    THREAD.with(|thread| thread.block_bytes.get())
}

/// True if a [`Counted`] is the program's allocator.
#[must_use]
pub fn is_counting() -> bool {
    thread_allocations() > 0 || live_bytes() > 0
}

/// The memory that a block of `bytes` takes, by the size classes of `steppe-malloc`: steps of 16 bytes up to 128, four
/// a doubling up to 32 KiB, units of 64 KiB above. Those of mimalloc and glibc differ by few per cent on average.
#[must_use]
pub const fn block_bytes(bytes: usize) -> usize {
    const GRANULE: usize = 16;
    let step = match bytes {
        0 => return GRANULE,
        1..=128 => GRANULE,
        129..=CLASS_BYTES_MAX => 1 << ((bytes - 1).ilog2() - 2),
        _ => UNIT_BYTES,
    };
    // A power of two: no division on the path of each allocation.
    bytes.saturating_add(step - 1) & !(step - 1)
}

/// Has `watcher` unparked by each thread that requested another [`NOTICE_BYTES`]; the first watcher stays.
pub fn set_watcher(watcher: Thread) {
    // One thread of the process measures.
    let _ = WATCHER.set(watcher);
}

#[cold]
fn notify_watcher() {
    // A futex call at most: nothing here allocates.
    if let Some(watcher) = WATCHER.get() {
        watcher.unpark();
    }
}

impl ThreadSums {
    fn count(&self, live: i64, blocks: i64) {
        let block_bytes = self.block_bytes.get().wrapping_add(blocks);
        self.block_bytes.set(block_bytes);
        if self.shard.get() == usize::MAX {
            self.draw_shard();
        }
        let shard = &LIVE_BYTES[self.shard.get() % SHARDS];
        shard.0.fetch_add(live, Ordering::Relaxed);
    }

    #[cold]
    fn draw_shard(&self) {
        let next = NEXT_SHARD.fetch_add(1, Ordering::Relaxed);
        self.shard.set(next % SHARDS);
    }
}

fn count_allocation(bytes: usize) {
    THREAD.with(|thread| {
        thread.allocations.set(thread.allocations.get() + 1);
        let before = thread.asked_bytes.get();
        let asked = before + bytes as u64;
        thread.asked_bytes.set(asked);
        thread.count(signed(bytes), signed(block_bytes(bytes)));
        if before / NOTICE_BYTES != asked / NOTICE_BYTES {
            notify_watcher();
        }
    });
}

fn count_free(bytes: usize) {
    THREAD.with(|thread| {
        thread
            .freed_bytes
            .set(thread.freed_bytes.get() + bytes as u64);
        thread.count(-signed(bytes), -signed(block_bytes(bytes)));
    });
}

/// The size as a signed change: a size of memory never exceeds `isize::MAX`.
pub(crate) fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[expect(
    unsafe_code,
    reason = "the trait is unsafe: an allocator must keep its contract"
)]
// SAFETY: every call is passed on unchanged to `A`, which keeps the contract;
// counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract, which is `A`'s.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is `A`'s.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_free(layout.size());
        // SAFETY: the caller keeps `dealloc`'s contract; `pointer` came from `A`.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation(size);
        count_free(layout.size());
        // SAFETY: the caller keeps `realloc`'s contract; `pointer` came from `A`.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
