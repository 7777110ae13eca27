//! The heap profile: live bytes by call path, from a sample.
//!
//! ```text
//!  thread ── off ──▶ Heap: its bins                          the short ways, as always
//!         └─ on ───▶ Sampler.empty: bins empty and full ──▶ the long ways, which count bytes
//!                    Sampler.real ──▶ Heap: its bins
//! ```
//! Switched off, it costs only a look at a null pointer on the slow paths. Switched on, each thread points to a heap
//! whose bins are empty and full at once, so every call takes the slow path and counts down; each byte is as likely as
//! any other to be the one that takes the sample ([`MEAN_BYTES`] apart on the average, exponentially distributed). A
//! sampled block is a run of units of its own, or a mapping: its books have the number of its record, so a free in any
//! thread finds it, and the free of any other block needs no check.
//!
//! Invariant: records are bounded by `table`'s limits, and made outside of every lock of the
//! allocator but the table's own. While a stack is walked the thread's own heap serves it.
//!
//! Leaves out: threads that are running when a profile starts count only from their next slow path on.

mod due;
mod stack;
mod table;
mod write;

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::chunk::{Chunk, UNIT_BYTES};
use crate::chunk_map::{self, Owner};
use crate::heap::Heap;
use crate::large::LARGE;
use crate::meta::META;
use crate::{sys, tls};

pub(crate) use due::{is_set as is_ever_due, sleep_ms};
pub(crate) use stack::Skipped;
pub(crate) use table::lock;
pub use table::lost;
pub use write::{write, write_file};
pub(crate) use write::{write_at_exit, write_every, write_if_due, write_on_signal};

/// Bytes between two samples, on the average, unless set otherwise: tcmalloc's and jemalloc's number.
pub const MEAN_BYTES: usize = 512 << 10;

static IS_ON: AtomicBool = AtomicBool::new(false);
static MEAN: AtomicUsize = AtomicUsize::new(MEAN_BYTES);

/// The heap of a thread while samples are taken.
#[repr(C)]
pub(crate) struct Sampler {
    empty: Heap,
    real: &'static Heap,
    /// Bytes until the next sample.
    left_bytes: Cell<usize>,
    random: Cell<u64>,
    /// Set while a stack is being walked, which may allocate.
    is_busy: Cell<bool>,
}

/// Starts sampling, a block each `mean_bytes` on the average. May allocate. False: stacks can't be
/// walked in this program.
///
/// Blocks that are live already are in no profile. A change of `mean_bytes` while records are kept
/// makes the earlier ones count for too much or too little.
pub fn start(mean_bytes: usize) -> bool {
    if !stack::prepare() {
        return false;
    }
    MEAN.store(mean_bytes.max(1), Ordering::Relaxed);
    IS_ON.store(true, Ordering::Release);
    true
}

/// Takes no more samples. Those that were taken stay until their blocks are freed.
pub fn stop() {
    IS_ON.store(false, Ordering::Release);
}

/// True while samples are taken.
#[must_use]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Bytes between two samples, on the average.
#[must_use]
pub fn mean_bytes() -> usize {
    MEAN.load(Ordering::Relaxed)
}

/// A thread's heap with bins, whether or not it points to a sampler's now.
#[inline]
pub(crate) fn behind(heap: &'static Heap) -> &'static Heap {
    heap.sampler.get().map_or(heap, |sampler| sampler.real)
}

/// The same as [`behind`]; starts or stops the sampling of the thread, as is set now.
#[inline]
pub(crate) fn look(heap: &'static Heap) -> &'static Heap {
    match heap.sampler.get() {
        None if !is_on() => heap,
        sampler => change(heap, sampler),
    }
}

#[cold]
fn change(heap: &'static Heap, sampler: Option<&'static Sampler>) -> &'static Heap {
    let Some(sampler) = sampler.or_else(|| Sampler::new(heap)) else {
        return heap;
    };
    let is_sampling = ptr::eq(&raw const sampler.empty, heap);
    if !sampler.is_busy.get() && is_sampling != is_on() {
        let wanted = match is_on() {
            true => &sampler.empty,
            false => sampler.real,
        };
        tls::set_heap(wanted);
    }
    sampler.real
}

/// A small block, if this request is a sample; `None`: it is not, or there is no memory.
#[inline]
pub(crate) fn on_small(size: usize, skipped: Skipped) -> Option<*mut u8> {
    match is_on() {
        true => sample_small(size, skipped),
        false => None,
    }
}

#[cold]
#[inline(never)]
fn sample_small(size: usize, skipped: Skipped) -> Option<*mut u8> {
    let sampler = due(size)?;
    let block = LARGE.allocate_run(size.div_ceil(UNIT_BYTES).max(1), 1)?;
    let unit = Chunk::holding(block.pointer).unit_at(block.pointer.addr());
    unit.sample.set(sampler.record(size, skipped));
    Some(block.pointer)
}

/// Notes a large block that was handed out.
#[inline]
pub(crate) fn on_large(block: *mut u8, size: usize, skipped: Skipped) {
    if is_on() {
        sample_large(block, size, skipped);
    }
}

#[cold]
#[inline(never)]
fn sample_large(block: *mut u8, size: usize, skipped: Skipped) {
    let Some(sampler) = due(size) else { return };
    let number = sampler.record(size, skipped);
    match chunk_map::owner(block.addr()) {
        Owner::Chunk(chunk) => chunk.unit_at(block.addr()).sample.set(number),
        Owner::Huge(huge) => huge.sample.set(number),
        Owner::Nobody => table::forget(number),
    }
}

/// Notes that a large block was resized, where it stands or with its mapping. `mark` is its record's number, `sizes`
/// are the old one and the new one. The bytes that it grew by may be a sample like a block of their own.
#[inline]
pub(crate) fn on_resize(mark: &Cell<u32>, sizes: (usize, usize), skipped: Skipped) {
    if mark.get() != 0 || is_on() {
        resize(mark, sizes, skipped);
    }
}

#[cold]
#[inline(never)]
fn resize(mark: &Cell<u32>, (old, new): (usize, usize), skipped: Skipped) {
    if mark.get() != 0 {
        table::resize(mark.get(), new);
    } else if new > old
        && let Some(sampler) = due(new - old)
    {
        mark.set(sampler.record(new, skipped));
    }
}

/// Notes that a large or sampled block is freed.
#[inline]
pub(crate) fn on_free(mark: &Cell<u32>) {
    if mark.get() != 0 {
        table::forget(mark.replace(0));
    }
}

/// Functions between a request and the stack that is walked for it.
fn long_ways() -> [usize; 4] {
    [
        sample_small as *const () as usize,
        sample_large as *const () as usize,
        resize as *const () as usize,
        Sampler::record as *const () as usize,
    ]
}

/// The calling thread's sampler, if `bytes` more are a sample.
fn due(bytes: usize) -> Option<&'static Sampler> {
    let heap = tls::heap();
    let sampler = heap.sampler.get()?;
    let is_sampling = ptr::eq(&raw const sampler.empty, heap);
    (is_sampling && sampler.count(bytes.max(1))).then_some(sampler)
}

impl Sampler {
    /// A heap's sampler. `None`: no memory, and the heap goes unsampled.
    fn new(real: &'static Heap) -> Option<&'static Self> {
        let record = META.allocate(size_of::<Self>())?.cast::<Self>();
        let seed = sys::random() ^ record.addr() as u64 ^ u64::from(sys::now_ms()) << 32;
        let sampler = Self {
            empty: Heap::empty(),
            real,
            left_bytes: Cell::new(0),
            random: Cell::new(seed | 1),
            is_busy: Cell::new(false),
        };
        // SAFETY: a fresh record, large enough, at a cache line.
        unsafe { record.write(sampler) };
        // SAFETY: initialized above, never unmapped.
        let sampler = unsafe { &*record };
        sampler.left_bytes.set(sampler.draw());
        sampler.empty.sampler.set(Some(sampler));
        real.sampler.set(Some(sampler));
        Some(sampler)
    }

    /// Counts `bytes` down. True: they are a sample.
    fn count(&self, bytes: usize) -> bool {
        let left = self.left_bytes.get();
        if bytes < left {
            self.left_bytes.set(left - bytes);
            return false;
        }
        self.left_bytes.set(self.draw());
        true
    }

    /// Makes the record of a block. Returns its number; 0: there is no room for it.
    #[inline(never)]
    fn record(&'static self, size: usize, skipped: Skipped) -> u32 {
        self.is_busy.set(true);
        tls::set_heap(self.real);
        let number = sys::keeping_errno(|| {
            let stack = stack::Stack::here(skipped);
            table::enter(stack.frames(), size)
        });
        tls::set_heap(&self.empty);
        self.is_busy.set(false);
        number
    }

    /// Bytes until the next sample: exponentially distributed, so that it does not matter into which blocks they are
    /// cut.
    fn draw(&self) -> usize {
        // xorshift64*: Marsaglia, "Xorshift RNGs", 2003; Vigna, 2016.
        let mut random = self.random.get();
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        self.random.set(random);
        let uniform = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> (64 - UNIFORM_BITS);
        exponential(uniform, mean_bytes())
    }
}

const UNIFORM_BITS: u32 = 26;
/// ln 2 in units of 2^-16.
const LN_2: u128 = 45_426;

/// `-ln((uniform + 1) / 2^26) * mean`.
fn exponential(uniform: u64, mean: usize) -> usize {
    let log2 = u64::from(UNIFORM_BITS) << 16;
    let exponent = u128::from(log2 - log2_of(uniform + 1));
    usize::try_from((exponent * LN_2 * mean as u128) >> 32).unwrap_or(usize::MAX)
}

/// `log2(x)` in units of 2^-16, a bit a squaring; `core` has no logarithms.
fn log2_of(x: u64) -> u64 {
    let whole = u64::from(x.ilog2());
    // The mantissa, in units of 2^-31: 1 up to 2.
    let mut mantissa = (x << x.leading_zeros()) >> 32;
    let mut log2 = whole;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 31;
        let bit = mantissa >> 32;
        mantissa >>= bit;
        log2 = log2 << 1 | bit;
    }
    log2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right() {
        for x in [1_u64, 2, 3, 1000, 1 << 26, (1 << 26) - 1] {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let (ours, theirs) = (log2_of(x) as f64 / 65_536.0, (x as f64).log2());
            assert!((ours - theirs).abs() < 1e-4, "{x}: {ours} {theirs}");
        }
    }

    #[test]
    fn intervals_have_the_mean_that_was_asked_for() {
        let count = 1 << 20;
        let step = (1 << UNIFORM_BITS) / count;
        let sum: usize = (0..count)
            .map(|index| exponential(index * step + step / 2, 512 << 10) >> 4)
            .sum();
        let mean = (sum / usize::try_from(count).unwrap_or(1)) << 4;
        assert!(mean.abs_diff(512 << 10) < 1 << 10, "{mean}");
    }
}
