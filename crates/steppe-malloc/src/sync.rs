//! Atomics, and the one lock: the standard ones, or loom's under `--cfg loom`.
//!
//! Invariant: a lock is held for a bounded number of steps, never across a system call that can wait for another
//! thread, and taken in the order of `fork`'s list.

#[cfg(loom)]
pub mod modeled;

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicPtr, AtomicU32};
#[cfg(loom)]
pub use modeled::{AtomicPtr, AtomicU32, barrier, futex_wait, futex_wake};

use core::sync::atomic::Ordering;

use crate::sys;

/// A barrier in all threads of the process: stores that another thread made before it are visible to the caller after
/// it, and loads that another thread makes after it see the caller's earlier stores. It waits; see `heap/sweep.rs`.
#[cfg(not(loom))]
pub fn barrier() {
    core::sync::atomic::fence(Ordering::SeqCst);
    sys::rest(BARRIER_US);
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// A wait in microseconds after which every processor's stores are visible.
#[cfg(not(loom))]
const BARRIER_US: u64 = 1_000;

const OPEN: u32 = 0;
const HELD: u32 = 1;
/// Held, and another thread may be asleep.
const CONTENDED: u32 = 2;

/// Looks at a held lock before sleeping: for about as long as a lock is held.
const SPINS: u32 = if cfg!(loom) { 1 } else { 64 };

/// A mutual exclusion of four bytes that sleeps in the kernel.
///
/// Drepper, "Futexes Are Tricky", §6 (mutex, take 3). The standard library's may not be used here: it is not available
/// to `no_std`, and a lock here has to be openable by hand after a fork.
#[derive(Debug)]
pub struct Lock {
    state: AtomicU32,
}

/// Opens the lock when dropped.
#[derive(Debug)]
pub struct Guard<'lock> {
    lock: &'lock Lock,
}

impl Lock {
    /// An open lock.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(OPEN),
        }
    }

    /// Waits until the lock is open, and takes it.
    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        if self.take().is_err() {
            self.wait();
        }
        Guard { lock: self }
    }

    /// Takes the lock if it is open.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.take().ok().map(|()| Guard { lock: self })
    }

    /// Takes the lock until [`Lock::open`] is called: around a fork.
    pub fn close(&self) {
        core::mem::forget(self.lock());
    }

    /// Opens a lock that [`Lock::close`] took.
    pub fn open(&self) {
        if self.state.swap(OPEN, Ordering::Release) == CONTENDED {
            sys::futex_wake(&self.state, 1);
        }
    }

    /// Opens the lock in the child of a fork, where the threads that waited for it do not exist.
    pub fn reset(&self) {
        self.state.store(OPEN, Ordering::Release);
    }

    #[inline]
    fn take(&self) -> Result<(), u32> {
        self.state
            .compare_exchange(OPEN, HELD, Ordering::Acquire, Ordering::Relaxed)
            .map(|_| ())
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            if self.state.load(Ordering::Relaxed) == OPEN && self.take().is_ok() {
                return;
            }
            sys::spin_hint();
        }
        while self.state.swap(CONTENDED, Ordering::Acquire) != OPEN {
            sys::futex_wait(&self.state, CONTENDED, None);
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.open();
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}
