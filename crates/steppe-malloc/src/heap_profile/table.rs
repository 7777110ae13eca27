//! Records of sampled blocks, and of the stacks that allocated them.
//!
//! Invariant: a stack's record is never removed or moved, and its counts are atomics: they are read
//! without the lock. At most [`SAMPLES_MAX`] blocks and [`STACKS_MAX`] stacks have records; further
//! samples are counted as lost.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::meta::META;
use crate::sync::Lock;

/// Sampled blocks, at most: 64 GiB of live bytes at the usual rate.
const SAMPLES_MAX: usize = PAGES * PAGE_SAMPLES;
const PAGES: usize = 256;
const PAGE_SAMPLES: usize = 512;
/// Stacks, at most: the call paths of a large program; a record is 600 bytes at most.
const STACKS_MAX: usize = 1 << 14;
const BUCKETS: usize = 1 << 10;

static TABLE: Table = Table {
    lock: Lock::new(),
    stacks: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS],
    stack_count: Cell::new(0),
    pages: [const { AtomicPtr::new(ptr::null_mut()) }; PAGES],
    free: Cell::new(0),
    used: Cell::new(0),
    lost: AtomicU64::new(0),
};

struct Table {
    lock: Lock,
    /// Stacks by hash, each the head of a list.
    stacks: [AtomicPtr<StackRecord>; BUCKETS],
    stack_count: Cell<usize>,
    pages: [AtomicPtr<Page>; PAGES],
    /// The first free sample, 0 for none.
    free: Cell<u32>,
    /// Samples that were ever used.
    used: Cell<usize>,
    lost: AtomicU64,
}

// SAFETY: the cells are touched under the lock only.
unsafe impl Sync for Table {}

type Page = [Sample; PAGE_SAMPLES];

/// A sampled block. Its number is its place plus one.
struct Sample {
    stack: Cell<Option<&'static StackRecord>>,
    bytes: Cell<usize>,
    next_free: Cell<u32>,
}

/// Counts of the samples of one stack. The frames follow it in memory.
#[repr(C)]
pub struct StackRecord {
    next: AtomicPtr<StackRecord>,
    hash: usize,
    depth: usize,
    /// Sampled blocks that are live, and their bytes …
    pub live_blocks: AtomicU64,
    pub live_bytes: AtomicU64,
    /// … and of all samples ever taken.
    pub blocks: AtomicU64,
    pub bytes: AtomicU64,
}

/// The table's lock, for forks.
pub(crate) fn lock() -> &'static Lock {
    &TABLE.lock
}

/// Samples dropped for want of room.
pub fn lost() -> u64 {
    TABLE.lost.load(Ordering::Relaxed)
}

/// Makes the record of a block. Returns its number; 0: no room.
pub fn enter(frames: &[usize], bytes: usize) -> u32 {
    let _guard = TABLE.lock.lock();
    let sample = TABLE.stack_of(frames).zip(TABLE.take_sample());
    let Some((stack, (number, sample))) = sample else {
        TABLE.lost.fetch_add(1, Ordering::Relaxed);
        return 0;
    };
    sample.stack.set(Some(stack));
    sample.bytes.set(bytes);
    stack.live_blocks.fetch_add(1, Ordering::Relaxed);
    stack.live_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    stack.blocks.fetch_add(1, Ordering::Relaxed);
    stack.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    number
}

/// Ends the record of a block that is freed.
pub fn forget(number: u32) {
    let _guard = TABLE.lock.lock();
    let Some(sample) = TABLE.sample(number) else {
        return;
    };
    if let Some(stack) = sample.stack.take() {
        let bytes = sample.bytes.get() as u64;
        stack.live_blocks.fetch_sub(1, Ordering::Relaxed);
        stack.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        sample.next_free.set(TABLE.free.replace(number));
    }
}

/// Notes that a block has another size.
pub fn resize(number: u32, bytes: usize) {
    let _guard = TABLE.lock.lock();
    if let Some(sample) = TABLE.sample(number)
        && let Some(stack) = sample.stack.get()
    {
        let old = sample.bytes.replace(bytes) as u64;
        let new = bytes as u64;
        stack.live_bytes.fetch_add(new, Ordering::Relaxed);
        stack.live_bytes.fetch_sub(old, Ordering::Relaxed);
        stack
            .bytes
            .fetch_add(new.saturating_sub(old), Ordering::Relaxed);
    }
}

/// All stacks, in no order.
pub fn stacks() -> impl Iterator<Item = &'static StackRecord> {
    TABLE.stacks.iter().flat_map(StackRecord::list)
}

impl Table {
    fn stack_of(&self, frames: &[usize]) -> Option<&'static StackRecord> {
        let hash = hash(frames);
        let head = &self.stacks[hash % BUCKETS];
        let known =
            StackRecord::list(head).find(|each| each.hash == hash && each.frames() == frames);
        if known.is_some() || self.stack_count.get() >= STACKS_MAX {
            return known;
        }
        let stack = StackRecord::new(hash, frames)?;
        stack
            .next
            .store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(ptr::from_ref(stack).cast_mut(), Ordering::Release);
        self.stack_count.set(self.stack_count.get() + 1);
        Some(stack)
    }

    fn take_sample(&self) -> Option<(u32, &'static Sample)> {
        let free = self.free.get();
        if let Some(sample) = self.sample(free) {
            self.free.set(sample.next_free.get());
            return Some((free, sample));
        }
        let place = self.used.get();
        if place >= SAMPLES_MAX {
            return None;
        }
        let page = self.pages.get(place / PAGE_SAMPLES)?;
        if page.load(Ordering::Relaxed).is_null() {
            page.store(META.allocate(size_of::<Page>())?.cast(), Ordering::Relaxed);
        }
        self.used.set(place + 1);
        let number = u32::try_from(place + 1).ok()?;
        Some((number, self.sample(number)?))
    }

    fn sample(&self, number: u32) -> Option<&'static Sample> {
        let place = (number as usize).checked_sub(1)?;
        let page = self
            .pages
            .get(place / PAGE_SAMPLES)?
            .load(Ordering::Relaxed);
        // SAFETY: null, or a record of `meta`: never unmapped, and zeroed it is a page of samples
        // without a stack.
        let page = unsafe { page.as_ref::<'static>() }?;
        page.get(place % PAGE_SAMPLES)
    }
}

impl StackRecord {
    fn new(hash: usize, frames: &[usize]) -> Option<&'static Self> {
        let record = META.allocate(size_of::<Self>() + size_of_val(frames))?;
        let stack = record.cast::<Self>();
        let zero = || AtomicU64::new(0);
        let empty = Self {
            next: AtomicPtr::new(ptr::null_mut()),
            hash,
            depth: frames.len(),
            live_blocks: zero(),
            live_bytes: zero(),
            blocks: zero(),
            bytes: zero(),
        };
        // SAFETY: a fresh record, large enough, at a cache line.
        unsafe { stack.write(empty) };
        // SAFETY: the frames begin behind it, and there is room for them.
        let first = unsafe { stack.add(1) }.cast::<usize>();
        // SAFETY: as above; no other thread knows of it yet.
        unsafe { ptr::copy_nonoverlapping(frames.as_ptr(), first, frames.len()) };
        // SAFETY: initialized above, never unmapped. The reference is made of the whole record's
        // pointer, so that the frames can be reached from it.
        Some(unsafe { &*stack })
    }

    /// Return addresses, the innermost first.
    pub fn frames(&self) -> &'static [usize] {
        // SAFETY: right behind the record.
        let first = unsafe { ptr::from_ref(self).add(1) }.cast::<usize>();
        // SAFETY: `new` wrote as many there, and they don't change.
        unsafe { core::slice::from_raw_parts(first, self.depth) }
    }

    fn list(head: &AtomicPtr<Self>) -> impl Iterator<Item = &'static Self> {
        let mut next = head.load(Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: null, or a record: never unmapped.
            let stack = unsafe { next.as_ref::<'static>() }?;
            next = stack.next.load(Ordering::Acquire);
            Some(stack)
        })
    }
}

/// FNV-1a, by words.
fn hash(frames: &[usize]) -> usize {
    let fold = |hash: usize, &frame: &usize| (hash ^ frame).wrapping_mul(0x0100_0000_01b3);
    let hash = frames.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    hash ^ hash >> 32
}
