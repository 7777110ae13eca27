//! A model of the allocator: its guarantees to a program, checked after every operation.
//!
//! Blocks stand in slots. A block's whole usable size overlaps no other block, lies at a multiple
//! of its alignment, and holds words made of its seed and their offsets until it is given back: so
//! a block that is handed out twice, moved wrongly or purged too early is detected by the next
//! check. When everything is given back and trimmed, the books must say so.
//!
//! Operations run on the thread that they name, one at a time, so a failure repeats itself. Several
//! worlds may run at once: they exchange blocks through a [`Post`].
//!
//! Shared by the property tests and the fuzz target.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use steppe_malloc::profile::{self, Profile};
use steppe_malloc::size_class::{BLOCK_BYTES, CLASSES};
use steppe_malloc::stats::{self, Stats};
use steppe_malloc::{SteppeMalloc, raw};

/// Blocks that a world holds at once.
pub const SLOTS: usize = 64;
/// Threads of a world, the calling one included.
pub const THREADS: usize = 4;
/// Bytes that a world holds, at most; beyond, it allocates little.
const LIVE_BYTES_MAX: usize = if cfg!(miri) { 3 << 20 } else { 48 << 20 };
/// Size in bytes up to which every word of a block is written; of larger ones, some on every page.
const DENSE_BYTES: usize = 4 << 10;
const SPARSE_STEP_BYTES: usize = 512;
/// Time that the background thread may delay a trim, and that a finished thread takes to end: a
/// scope waits for its work, not for its destructors.
const SETTLE_TIME: Duration = Duration::from_secs(30);

/// Something that a program does.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// The thread that does it, modulo [`THREADS`].
    pub thread: u8,
    /// The slot of the block, modulo [`SLOTS`].
    pub slot: u8,
    /// The operation on the slot.
    pub action: Action,
}

/// An operation on a slot. A block that is in the slot of a new one is freed first.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// `malloc`.
    Allocate(usize),
    /// `calloc`.
    Zeroed(usize),
    /// `aligned_alloc`: bytes, and the alignment's `log2`.
    Aligned(usize, u8),
    /// The same, zeroed.
    AlignedZeroed(usize, u8),
    /// `realloc`; on an empty slot, of null.
    Reallocate(usize),
    /// `free`.
    Free,
    /// A request for more than there can be: null, and the block stays as it is.
    TooMuch(usize),
    /// The block goes to the post, from which any world may take it.
    Post,
    /// A block is taken from the post.
    Collect,
    /// Everything free is given back now.
    Trim,
    /// The thread is about to sleep.
    Idle,
    /// The profile changes.
    Profile(Profile),
    /// The thread ends; the next operation that names it gets a new one.
    EndThread,
}

/// A size of one of the kinds where allocators go wrong, from two arbitrary numbers.
pub fn size(kind: u8, number: u16) -> usize {
    let number = usize::from(number);
    match kind % 10 {
        0..=3 => number % 300,
        4 => number % 1_100,
        5 => number % (33 << 10),
        // About the edge of a class.
        6 => (BLOCK_BYTES[number % CLASSES] + number / CLASSES % 3).saturating_sub(1),
        // About the edges of runs and of mappings.
        7 => ((number % 18 + 1) * (64 << 10) + number / 18 % 3).saturating_sub(1),
        8 => number * 20,
        _ => number * 100,
    }
}

/// Blocks on their way between worlds.
pub type Post = Arc<Mutex<Vec<Block>>>;

/// A pointer that any thread may use: the world keeps track of its owner.
#[derive(Debug, Clone, Copy)]
struct Pointer(*mut u8);
// SAFETY: only the thread that has a block uses it, one at a time.
unsafe impl Send for Pointer {}

impl Pointer {
    fn get(self) -> *mut u8 {
        self.0
    }
}

/// A block of a world, with its expected content.
#[derive(Debug)]
pub struct Block {
    start: Pointer,
    asked_bytes: usize,
    usable_bytes: usize,
    align: usize,
    seed: u64,
}

/// The blocks of a program, and its threads.
pub struct World {
    slots: Vec<Option<Block>>,
    /// End address of each block, by its start.
    spans: BTreeMap<usize, usize>,
    live_bytes: usize,
    seed: u64,
    post: Post,
    crew: Crew,
}

impl World {
    /// A world without blocks. `seed` makes its blocks' content different from other worlds'.
    pub fn new(seed: u64, post: &Post) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| None).collect(),
            spans: BTreeMap::new(),
            live_bytes: 0,
            seed,
            post: Arc::clone(post),
            crew: Crew::default(),
        }
    }

    /// Does one operation and checks the result.
    pub fn apply(&mut self, op: Op) {
        let (thread, slot) = (
            usize::from(op.thread) % THREADS,
            usize::from(op.slot) % SLOTS,
        );
        match op.action {
            Action::Allocate(bytes) => self.allocate(thread, slot, bytes, 0, Content::Any),
            Action::Zeroed(bytes) => self.allocate(thread, slot, bytes, 0, Content::Zeros),
            Action::Aligned(bytes, shift) => {
                self.allocate(thread, slot, bytes, shift, Content::Any);
            }
            Action::AlignedZeroed(bytes, shift) => {
                self.allocate(thread, slot, bytes, shift, Content::Zeros);
            }
            Action::Reallocate(bytes) => self.reallocate(thread, slot, bytes),
            Action::Free => self.free(thread, slot),
            Action::TooMuch(excess) => self.ask_for_too_much(thread, slot, excess),
            Action::Post => {
                if let Some(block) = self.leave(slot) {
                    self.post().push(block);
                }
            }
            Action::Collect => {
                let block = self.post().pop();
                if let Some(block) = block {
                    block.check();
                    self.free(thread, slot);
                    self.enter(slot, block);
                }
            }
            Action::Trim => {
                self.crew.run(thread, || {
                    raw::trim();
                    NOTHING
                });
            }
            Action::Idle => {
                self.crew.run(thread, || {
                    raw::on_idle();
                    NOTHING
                });
            }
            Action::Profile(profile) => profile::set(profile),
            Action::EndThread => self.crew.end(thread),
        }
    }

    /// Frees all blocks, those at the post too, and ends the threads.
    pub fn finish(mut self) {
        for slot in 0..SLOTS {
            self.free(slot % THREADS, slot);
        }
        let posted = std::mem::take(&mut *self.post());
        for block in posted {
            self.enter(0, block);
            self.free(0, 0);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn allocate(&mut self, thread: usize, slot: usize, bytes: usize, shift: u8, content: Content) {
        self.free(thread, slot);
        let bytes = self.affordable(bytes);
        let align = 1_usize << shift;
        let start = self.crew.run(thread, move || {
            Pointer(call_allocate(bytes, align, content))
        });
        let block = self.new_block(start, bytes, align);
        let is_as_wanted = content == Content::Any || block.is_zero();
        // First: a failure leaves no block behind.
        self.enter(slot, block);
        assert!(is_as_wanted, "not zeroed: {:x?}", self.slots[slot]);
    }

    fn reallocate(&mut self, thread: usize, slot: usize, bytes: usize) {
        let Some(old) = self.leave(slot) else {
            return self.allocate(thread, slot, bytes, 0, Content::Any);
        };
        old.check();
        let bytes = self.affordable(bytes);
        let (start, asked, align) = (old.start, old.asked_bytes, old.align);
        let start = self.crew.run(thread, move || {
            Pointer(call_reallocate(start, asked, align, bytes))
        });
        let new = self.new_block(start, bytes, align);
        // The Rust interface keeps the requested bytes, the C interface all usable ones.
        let before = if align > raw::ALIGN {
            old.asked_bytes
        } else {
            old.usable_bytes
        };
        old.check_at(new.start, before.min(bytes));
        self.enter(slot, new);
    }

    fn free(&mut self, thread: usize, slot: usize) {
        let Some(block) = self.leave(slot) else {
            return;
        };
        block.check();
        self.crew.run(thread, move || {
            let start = block.start;
            // SAFETY: the block lives, and left the world's slots.
            unsafe { raw::free(start.get()) };
            NOTHING
        });
    }

    fn ask_for_too_much(&mut self, thread: usize, slot: usize, excess: usize) {
        let bytes = (isize::MAX as usize).saturating_add(1 + excess);
        let block = self.slots[slot]
            .as_ref()
            .map_or(NOTHING, |block| block.start);
        let given = self.crew.run(thread, move || {
            let (plain, zeroed) = (raw::allocate(bytes), raw::allocate_zeroed(bytes));
            let aligned = raw::allocate_aligned(1 << 12, bytes);
            // SAFETY: null, or a block that lives; null is returned, so it still does.
            let moved = unsafe { raw::reallocate(block.get(), bytes) };
            let given = [plain, zeroed, aligned, moved];
            Pointer(given.into_iter().fold(
                NOTHING.get(),
                |any, one| if any.is_null() { one } else { any },
            ))
        });
        assert!(given.get().is_null(), "more than there can be: {bytes}");
        if let Some(block) = &self.slots[slot] {
            block.check();
        }
    }

    fn new_block(&mut self, start: Pointer, asked_bytes: usize, align: usize) -> Block {
        let address = start.get().addr();
        assert_ne!(address, 0, "no memory for {asked_bytes} bytes at {align}");
        assert!(
            address.is_multiple_of(align.max(raw::ALIGN)),
            "{address:x} for {align}"
        );
        // SAFETY: just handed out.
        let usable_bytes = unsafe { raw::usable_size(start.get()) };
        assert!(
            usable_bytes >= asked_bytes,
            "{usable_bytes} for {asked_bytes}"
        );
        assert!(raw::owns(start.get()), "not owned: {address:x}");
        let seed = self.next_seed();
        Block {
            start,
            asked_bytes,
            usable_bytes,
            align,
            seed,
        }
    }

    /// Puts a block into a slot, after a check that it overlaps no other.
    fn enter(&mut self, slot: usize, block: Block) {
        let start = block.start.get().addr();
        let end = start + block.usable_bytes;
        if let Some((_, &before_end)) = self.spans.range(..end).next_back() {
            assert!(before_end <= start, "overlap at {start:x}");
        }
        self.spans.insert(start, end);
        self.live_bytes += block.usable_bytes;
        block.fill();
        self.slots[slot] = Some(block);
    }

    fn leave(&mut self, slot: usize) -> Option<Block> {
        let block = self.slots[slot].take()?;
        self.spans.remove(&block.start.get().addr());
        self.live_bytes -= block.usable_bytes;
        Some(block)
    }

    fn affordable(&self, bytes: usize) -> usize {
        if self.live_bytes + bytes > LIVE_BYTES_MAX {
            bytes % 1_024
        } else {
            bytes
        }
    }

    fn next_seed(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        self.seed
    }

    fn post(&self) -> std::sync::MutexGuard<'_, Vec<Block>> {
        // A failed check elsewhere is reported there.
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for World {
    /// Frees all blocks after a failure, so that the next program finds the books as they were.
    fn drop(&mut self) {
        let posted = std::mem::take(&mut *self.post());
        let blocks = self.slots.iter_mut().filter_map(Option::take);
        for block in blocks.chain(posted) {
            // SAFETY: it lives, and left its slot.
            unsafe { raw::free(block.start.get()) };
        }
        (0..THREADS).for_each(|thread| self.crew.end(thread));
    }
}

/// The required content of a new block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Any,
    Zeros,
}

fn call_allocate(bytes: usize, align: usize, content: Content) -> *mut u8 {
    match (content, align) {
        (Content::Any, ..=1) => raw::allocate(bytes),
        (Content::Zeros, ..=1) => raw::allocate_zeroed(bytes),
        (Content::Any, _) => raw::allocate_aligned(align, bytes),
        (Content::Zeros, _) => {
            let layout = Layout::from_size_align(bytes.max(1), align).expect("a small alignment");
            // SAFETY: not of zero bytes.
            unsafe { SteppeMalloc.alloc_zeroed(layout) }
        }
    }
}

/// Resizes by the interface that keeps the alignment, where there is one.
fn call_reallocate(start: Pointer, asked: usize, align: usize, bytes: usize) -> *mut u8 {
    if align <= raw::ALIGN {
        // SAFETY: the block lives, and left the world's slots.
        return unsafe { raw::reallocate(start.get(), bytes) };
    }
    let layout = Layout::from_size_align(asked, align).expect("as it was asked for");
    // SAFETY: as above, with the layout that it has.
    unsafe { SteppeMalloc.realloc(start.get(), layout, bytes) }
}

/// The result of work without a pointer to return.
const NOTHING: Pointer = Pointer(std::ptr::null_mut());

impl Block {
    fn fill(&self) {
        for offset in self.offsets(self.usable_bytes) {
            // SAFETY: eight bytes at a multiple of eight, within the block.
            let word = unsafe { self.start.get().add(offset).cast::<u64>() };
            // SAFETY: as above; no other thread has the block.
            unsafe { word.write(self.word(offset)) };
        }
    }

    /// Checks that the whole block still has its fill.
    fn check(&self) {
        self.check_at(self.start, self.usable_bytes);
    }

    /// Checks that the first `bytes` at `start`, where they may have moved, still have the fill.
    fn check_at(&self, start: Pointer, bytes: usize) {
        for offset in self.offsets(bytes) {
            // SAFETY: eight bytes at a multiple of eight, within the block.
            let word = unsafe { start.get().add(offset).cast::<u64>() };
            // SAFETY: as above, and initialized by `fill`.
            let found = unsafe { word.read() };
            assert_eq!(
                found,
                self.word(offset),
                "overwritten at {offset} of {self:x?}"
            );
        }
    }

    fn is_zero(&self) -> bool {
        // SAFETY: the block lives and has as many bytes, all of which were zeroed.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.get(), self.asked_bytes) };
        // Under Miri each byte takes its time: those where words stand will do.
        let step = if cfg!(miri) { 64 } else { 1 };
        bytes.iter().step_by(step).all(|&byte| byte == 0)
    }

    /// Offsets of the words of the first `bytes`; the last one always has one.
    fn offsets(&self, bytes: usize) -> impl Iterator<Item = usize> + use<> {
        let step = if self.usable_bytes <= DENSE_BYTES {
            8
        } else {
            SPARSE_STEP_BYTES
        };
        let last = self.usable_bytes - 8;
        let whole = (bytes / 8 * 8).min(last);
        let end = (bytes >= self.usable_bytes).then_some(last);
        (0..whole)
            .step_by(step)
            .filter(move |offset| offset + 8 <= whole)
            .chain(end)
    }

    fn word(&self, offset: usize) -> u64 {
        (self.seed ^ offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

type Work = Box<dyn FnOnce() -> Pointer + Send>;

/// The threads of a world: started when they are first named.
#[derive(Default)]
struct Crew {
    workers: [Option<Worker>; THREADS],
}

struct Worker {
    work: SyncSender<Work>,
    results: Receiver<Pointer>,
    thread: JoinHandle<()>,
}

impl Crew {
    /// Runs some work on a thread; number 0 is the calling one.
    fn run(&mut self, thread: usize, work: impl FnOnce() -> Pointer + Send + 'static) -> Pointer {
        if thread == 0 {
            return work();
        }
        let worker = self.workers[thread].get_or_insert_with(Worker::start);
        worker.work.send(Box::new(work)).expect("it waits for work");
        worker.results.recv().expect("the work returns")
    }

    fn end(&mut self, thread: usize) {
        if let Some(worker) = self.workers[thread].take() {
            drop(worker.work);
            worker.thread.join().expect("it only did what it was told");
        }
    }
}

impl Worker {
    fn start() -> Self {
        let (work, works) = sync_channel::<Work>(1);
        let (result, results) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            for work in works {
                if result.send(work()).is_err() {
                    return;
                }
            }
        });
        Self {
            work,
            results,
            thread,
        }
    }
}

/// Gives everything back and returns the statistics, once no block is out and no thread is at work.
///
/// The background thread may be giving memory back at the same moment: then this waits.
pub fn settle() -> Stats {
    let end = Instant::now() + SETTLE_TIME;
    loop {
        raw::trim();
        let stats = stats::read();
        let held = stats.binned_bytes + stats.retained_bytes + stats.dirty_bytes;
        let is_settled = held == 0 && stats.chunks <= 1;
        if is_settled || Instant::now() > end {
            return stats;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that nothing is out: not with the program, not in bins, stores or slabs.
pub fn assert_empty(stats: &Stats) {
    let held = [
        stats.live_bytes,
        stats.huge_bytes,
        stats.run_bytes,
        stats.binned_bytes,
    ];
    assert_eq!(held, [0; 4], "{stats:?}");
    let kept = [stats.stored_bytes, stats.retained_bytes, stats.dirty_bytes];
    assert_eq!(kept, [0; 3], "{stats:?}");
    assert!(stats.chunks <= 1, "{stats:?}");
    for class in stats::classes() {
        let out = (
            class.slabs,
            class.out_blocks,
            class.given_blocks - class.taken_blocks,
        );
        assert_eq!(out, (0, 0, 0), "{class:?}");
    }
}
