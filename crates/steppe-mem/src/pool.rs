//! Each thread's pool of idle buffers, by size class.
//!
//! A buffer returns to the pool of the thread that drops it, without a lock.
//! Idle buffers are charged to the pool's account, are capped, and go back to the system if they were not needed
//! between two [`trim`]s.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use crate::account::{Lease, Reservation};
use crate::block::Block;
use crate::limits::{CHARGE_SLACK_BYTES, TEND_EVERY};
use crate::size_class::SizeClass;

/// The bound on idle buffers of a thread's pool.
#[derive(Debug, Clone)]
pub struct Stock {
    /// The account that idle buffers are charged to.
    pub lease: Lease,
    /// Idle bytes kept at most.
    pub idle_bytes_max: usize,
}

/// Buffers of every class, of all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolReport {
    /// Classes that have buffers, smallest first.
    pub classes: Vec<ClassReport>,
}

/// Buffers of one class, in use and idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassReport {
    /// Size of one buffer.
    pub class_bytes: usize,
    /// Buffers in use.
    pub in_use_count: usize,
    /// Idle buffers in a pool.
    pub idle_count: usize,
}

#[derive(Debug)]
struct LocalPool {
    #[expect(
        clippy::vec_box,
        reason = "a buffer is its box: one that comes and goes allocates none"
    )]
    idle: [Vec<Box<Block>>; SizeClass::COUNT],
    /// Fewest idle buffers since the last trim: so many were not needed.
    idle_count_min: [usize; SizeClass::COUNT],
    idle_bytes: usize,
    idle_bytes_max: usize,
    /// Reservation for at least `idle_bytes`, at most [`CHARGE_SLACK_BYTES`] more, so that a buffer that comes and goes
    /// charges nothing. `None` on threads that keep no buffers.
    charge: Option<Reservation>,
    /// Time of the last trim by [`tend`]; `None`: another caller trims.
    tended: Option<Instant>,
    counts: Arc<PoolCounts>,
}

/// Counts of buffers, written by one thread, read by reports. A buffer that changes threads leaves one count too high
/// and another too low; the sums are right.
#[derive(Debug)]
struct PoolCounts {
    in_use: [AtomicI64; SizeClass::COUNT],
    idle: [AtomicI64; SizeClass::COUNT],
}

static THREADS: Mutex<Vec<Weak<PoolCounts>>> = Mutex::new(Vec::new());
/// In-use counts of threads that have ended.
static ENDED: PoolCounts = PoolCounts::zero();

thread_local! {
    static LOCAL: RefCell<LocalPool> = RefCell::new(LocalPool::new());
}

/// Lets the calling thread keep idle buffers. Without it they are freed at once.
pub fn install(stock: &Stock) {
    let charge = stock.lease.try_reserve(0).expect("nothing always fits");
    LOCAL.with_borrow_mut(|local| {
        local.drain();
        local.charge = Some(charge);
        local.tended = None;
        local.idle_bytes_max = stock.idle_bytes_max;
    });
}

/// Does the work of [`install`] and [`trim`] for a thread that calls neither; to be called at each turn of its loop.
/// Returns the latest time of the next call; `None`: no buffer is idle, or the pool was installed by [`install`].
pub fn tend(stock: &Stock, now: Instant) -> Option<Instant> {
    LOCAL.with_borrow_mut(|local| {
        if local.charge.is_none() {
            local.charge = stock.lease.try_reserve(0).ok();
            local.idle_bytes_max = stock.idle_bytes_max;
            local.tended = Some(now);
        }
        let mut next = local.tended? + TEND_EVERY;
        if next <= now {
            local.trim();
            if local.idle_bytes == 0 {
                // The part of the charge for the next buffers.
                local.drain();
            }
            local.tended = Some(now);
            next = now + TEND_EVERY;
        }
        local.charge.as_ref().filter(|charge| charge.bytes() > 0)?;
        Some(next)
    })
}

/// Ends the work of [`tend`] on the calling thread: it keeps no buffers, until that is called again.
pub fn untend() {
    LOCAL.with_borrow_mut(|local| {
        if local.tended.take().is_some() {
            local.drain();
            local.charge = None;
        }
    });
}

/// Frees the buffers of the calling thread that were idle since the last call; all idle ones, while a task waits for
/// bytes.
pub fn trim() {
    LOCAL.with_borrow_mut(LocalPool::trim);
}

/// Frees every idle buffer of the calling thread.
pub fn drain() {
    LOCAL.with_borrow_mut(LocalPool::drain);
}

/// Buffers in use and idle, of all threads.
#[must_use]
pub fn report() -> PoolReport {
    let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    let live: Vec<Arc<PoolCounts>> = threads.iter().filter_map(Weak::upgrade).collect();
    drop(threads);
    let sum = |count: fn(&PoolCounts) -> &[AtomicI64; SizeClass::COUNT], index: usize| {
        let of = |counts: &PoolCounts| count(counts)[index].load(Ordering::Relaxed);
        let total = of(&ENDED) + live.iter().map(|counts| of(counts)).sum::<i64>();
        usize::try_from(total).unwrap_or(0)
    };
    let classes = SizeClass::all()
        .map(|class| ClassReport {
            class_bytes: class.bytes(),
            in_use_count: sum(|counts| &counts.in_use, class.index()),
            idle_count: sum(|counts| &counts.idle, class.index()),
        })
        .filter(|class| class.in_use_count + class.idle_count > 0)
        .collect();
    PoolReport { classes }
}

/// Memory for a buffer of `class`, every byte initialized.
pub(crate) fn take(class: SizeClass) -> Box<Block> {
    LOCAL
        .try_with(|local| local.borrow_mut().take(class))
        .unwrap_or_else(|_| {
            ENDED.in_use[class.index()].fetch_add(1, Ordering::Relaxed);
            Block::new(class)
        })
}

/// Takes memory of `class` back.
pub(crate) fn put(class: SizeClass, block: Box<Block>) {
    let put = LOCAL.try_with(|local| match local.try_borrow_mut() {
        Ok(mut local) => local.put(class, block),
        // Only reached from this module's own frees, which hold no buffers.
        Err(_) => drop(block),
    });
    if put.is_err() {
        ENDED.in_use[class.index()].fetch_sub(1, Ordering::Relaxed);
    }
}

impl LocalPool {
    fn new() -> Self {
        let counts = Arc::new(PoolCounts::zero());
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| thread.strong_count() > 0);
        threads.push(Arc::downgrade(&counts));
        drop(threads);
        Self {
            idle: [const { Vec::new() }; SizeClass::COUNT],
            idle_count_min: [0; SizeClass::COUNT],
            idle_bytes: 0,
            idle_bytes_max: 0,
            charge: None,
            tended: None,
            counts,
        }
    }

    fn take(&mut self, class: SizeClass) -> Box<Block> {
        let index = class.index();
        PoolCounts::add(&self.counts.in_use[index], 1);
        let Some(block) = self.idle[index].pop() else {
            return Block::new(class);
        };
        let left = self.idle[index].len();
        self.idle_count_min[index] = self.idle_count_min[index].min(left);
        self.forget(class, 1);
        block
    }

    fn put(&mut self, class: SizeClass, block: Box<Block>) {
        let index = class.index();
        PoolCounts::add(&self.counts.in_use[index], -1);
        if self.is_wanted() {
            return self.drain();
        }
        let idle_bytes = self.idle_bytes + class.bytes();
        if idle_bytes <= self.idle_bytes_max && self.cover(idle_bytes) {
            self.idle_bytes = idle_bytes;
            PoolCounts::add(&self.counts.idle[index], 1);
            self.idle[index].push(block);
        }
    }

    /// Makes the charge cover `idle_bytes`. False: there is no room.
    fn cover(&mut self, idle_bytes: usize) -> bool {
        let Some(charge) = &mut self.charge else {
            return false;
        };
        let covered = charge.bytes();
        covered >= idle_bytes || charge.try_grow(idle_bytes - covered).is_ok()
    }

    /// True if a task waits for bytes that idle buffers hold.
    fn is_wanted(&self) -> bool {
        let charge = self.charge.as_ref();
        charge.is_some_and(|charge| charge.lease().waiting().is_any())
    }

    fn trim(&mut self) {
        if self.is_wanted() {
            return self.drain();
        }
        for class in SizeClass::all() {
            let index = class.index();
            let unused = self.idle_count_min[index].min(self.idle[index].len());
            let left = self.idle[index].len() - unused;
            self.idle[index].truncate(left);
            self.forget(class, unused);
            self.idle_count_min[index] = left;
        }
    }

    fn drain(&mut self) {
        if self.idle_bytes > 0 {
            self.free_all();
        }
        if let Some(charge) = &mut self.charge {
            charge.shrink(charge.bytes());
        }
    }

    fn free_all(&mut self) {
        for class in SizeClass::all() {
            let count = self.idle[class.index()].len();
            self.idle[class.index()].clear();
            self.idle_count_min[class.index()] = 0;
            self.forget(class, count);
        }
    }

    /// Accounts for `count` buffers that left the pool.
    fn forget(&mut self, class: SizeClass, count: usize) {
        if count == 0 {
            return;
        }
        let bytes = class.bytes() * count;
        self.idle_bytes -= bytes;
        if let Some(charge) = &mut self.charge {
            let slack = charge.bytes() - self.idle_bytes;
            if slack > CHARGE_SLACK_BYTES {
                charge.shrink(slack);
            }
        }
        let count = i64::try_from(count).expect("a pool is bounded");
        PoolCounts::add(&self.counts.idle[class.index()], -count);
    }
}

impl Drop for LocalPool {
    fn drop(&mut self) {
        self.drain();
        for (ended, own) in ENDED.in_use.iter().zip(&self.counts.in_use) {
            ended.fetch_add(own.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl PoolCounts {
    const fn zero() -> Self {
        Self {
            in_use: [const { AtomicI64::new(0) }; SizeClass::COUNT],
            idle: [const { AtomicI64::new(0) }; SizeClass::COUNT],
        }
    }

    /// Adds `change`, as the only writer: a load and a store, no locked instruction.
    fn add(count: &AtomicI64, change: i64) {
        count.store(count.load(Ordering::Relaxed) + change, Ordering::Relaxed);
    }
}
