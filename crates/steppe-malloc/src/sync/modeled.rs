//! The futex word of a lock under loom, and the kernel's part in it.
//!
//! A word is an ordinary atomic, as loom's can't be in statics, unless a test asks for a modeled
//! one: then every order of its threads' steps is tried. A section under an ordinary lock is one
//! step in such a test, since loom runs one thread at a time and switches threads at modeled steps
//! only.
//!
//! Invariant: as in the kernel, to compare and to fall asleep is one step for the thread that
//! wakes: both hold the word's bucket.

use std::boxed::Box;
#[cfg(test)]
use std::sync::PoisonError;

use core::ffi::c_int;
use core::sync::atomic::{self, Ordering};

use loom::sync::{Condvar, Mutex};

/// A word of four bytes that threads can sleep on.
#[derive(Debug)]
pub struct AtomicU32 {
    plain: atomic::AtomicU32,
    modeled: Option<Box<Modeled>>,
}

#[derive(Debug)]
struct Modeled {
    word: loom::sync::atomic::AtomicU32,
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl AtomicU32 {
    /// An ordinary word.
    pub const fn new(value: u32) -> Self {
        Self {
            plain: atomic::AtomicU32::new(value),
            modeled: None,
        }
    }

    /// A modeled word: every access is a step, within `loom::model`.
    #[cfg(test)]
    fn modeled(value: u32) -> Self {
        Self {
            modeled: Some(Box::new(Modeled {
                word: loom::sync::atomic::AtomicU32::new(value),
                bucket: Mutex::new(()),
                sleepers: Condvar::new(),
            })),
            ..Self::new(value)
        }
    }

    pub fn load(&self, order: Ordering) -> u32 {
        match &self.modeled {
            Some(modeled) => modeled.word.load(order),
            None => self.plain.load(order),
        }
    }

    pub fn store(&self, value: u32, order: Ordering) {
        match &self.modeled {
            Some(modeled) => modeled.word.store(value, order),
            None => self.plain.store(value, order),
        }
    }

    pub fn swap(&self, value: u32, order: Ordering) -> u32 {
        match &self.modeled {
            Some(modeled) => modeled.word.swap(value, order),
            None => self.plain.swap(value, order),
        }
    }

    pub fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        match &self.modeled {
            Some(modeled) => modeled
                .word
                .compare_exchange(current, new, success, failure),
            None => self.plain.compare_exchange(current, new, success, failure),
        }
    }
}

/// A pointer that threads share; ordinary like [`AtomicU32`], unless a test asks for a modeled one.
///
/// Accesses of a modeled pointer are steps in one order for all threads: the guarantee of a
/// [`barrier`], and no more than that. (Loom has no order of all stores to a place that stands
/// beside fences of another thread.)
#[derive(Debug)]
pub struct AtomicPtr<T> {
    plain: atomic::AtomicPtr<T>,
    modeled: Option<Box<Mutex<()>>>,
}

impl<T> AtomicPtr<T> {
    /// An ordinary pointer.
    pub const fn new(pointer: *mut T) -> Self {
        Self {
            plain: atomic::AtomicPtr::new(pointer),
            modeled: None,
        }
    }

    /// A modeled pointer: every access is a step, within `loom::model`.
    #[cfg(test)]
    pub fn modeled(pointer: *mut T) -> Self {
        Self {
            modeled: Some(Box::new(Mutex::new(()))),
            ..Self::new(pointer)
        }
    }

    fn step<R>(&self, access: impl FnOnce(&atomic::AtomicPtr<T>) -> R) -> R {
        let step = self.modeled.as_ref().map(|step| step.lock());
        let result = access(&self.plain);
        drop(step);
        result
    }

    pub fn load(&self, order: Ordering) -> *mut T {
        self.step(|it| it.load(order))
    }

    pub fn store(&self, pointer: *mut T, order: Ordering) {
        self.step(|it| it.store(pointer, order));
    }

    pub fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        self.step(|it| it.swap(pointer, order))
    }

    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.step(|it| it.compare_exchange(current, new, success, failure))
    }
}

/// A barrier in all threads: modeled accesses are in one order anyway.
pub fn barrier() {}

/// Sleeps while `word` holds `value`, until woken; there is no time under loom.
pub fn futex_wait(word: &AtomicU32, value: u32, _timeout_ms: Option<u32>) {
    let modeled = word.modeled.as_ref();
    let modeled = modeled.expect("one thread at a time: nobody waits for an ordinary word");
    let bucket = modeled
        .bucket
        .lock()
        .expect("no test goes on after a panic");
    if modeled.word.load(Ordering::Relaxed) == value {
        drop(modeled.sleepers.wait(bucket));
    }
}

/// Wakes one of the sleeping threads.
pub fn futex_wake(word: &AtomicU32, sleepers: c_int) {
    assert_eq!(sleepers, 1, "locks wake one");
    if let Some(modeled) = &word.modeled {
        let bucket = modeled.bucket.lock();
        modeled.sleepers.notify_one();
        drop(bucket);
    }
}

/// Tries every order of the threads' steps with at most `switches` preemptions of a thread that
/// could go on. (Every bug that loom's authors know of shows within two or three.)
///
/// Models run one after the other, since they share the state behind ordinary locks: beside another
/// model, such a lock could be contended, and the same order of steps would not lead to the same
/// state.
#[cfg(test)]
pub fn explore(switches: usize, work: impl Fn() + Send + Sync + 'static) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(work);
}

#[cfg(test)]
impl super::Lock {
    /// An open lock whose every step is modeled.
    pub fn modeled() -> Self {
        Self {
            state: AtomicU32::modeled(super::OPEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    use super::explore;
    use crate::sync::Lock;

    /// Data behind a lock; loom fails the test on two accesses that nothing orders.
    struct Guarded {
        lock: Lock,
        number: UnsafeCell<u32>,
    }

    fn guarded() -> Arc<Guarded> {
        Arc::new(Guarded {
            lock: Lock::modeled(),
            number: UnsafeCell::new(0),
        })
    }

    fn add(guarded: &Guarded) {
        guarded.number.with_mut(|number| {
            // SAFETY: under the lock, whose exclusion is the subject of this test.
            unsafe { *number += 1 };
        });
    }

    /// Counts under the lock. A thread that never comes back is a deadlock for loom: a lost
    /// wake-up.
    fn count(threads: u32, turns: u32, switches: usize) {
        explore(switches, move || {
            let guarded = guarded();
            let work = move |guarded: Arc<Guarded>| {
                for _ in 0..turns {
                    let _guard = guarded.lock.lock();
                    add(&guarded);
                }
            };
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let guarded = Arc::clone(&guarded);
                    loom::thread::spawn(move || work(guarded))
                })
                .collect();
            work(Arc::clone(&guarded));
            for other in others {
                other.join().expect("adds only");
            }
            let _guard = guarded.lock.lock();
            guarded.number.with(|number| {
                // SAFETY: the other threads ended.
                assert_eq!(unsafe { *number }, threads * turns);
            });
        });
    }

    #[test]
    fn two_threads_take_turns() {
        count(2, 2, 6);
    }

    #[test]
    fn three_threads_all_get_in() {
        count(3, 1, 3);
    }

    #[test]
    fn who_tries_gets_in_or_leaves() {
        explore(6, || {
            let guarded = guarded();
            let other = Arc::clone(&guarded);
            let other = loom::thread::spawn(move || {
                let Some(_guard) = other.lock.try_lock() else {
                    return 0;
                };
                add(&other);
                1
            });
            {
                let _guard = guarded.lock.lock();
                add(&guarded);
            }
            let others = other.join().expect("adds only");
            guarded.number.with(|number| {
                // SAFETY: the other thread ended.
                assert_eq!(unsafe { *number }, 1 + others);
            });
        });
    }

    #[test]
    fn what_is_closed_by_hand_opens_for_those_who_wait() {
        explore(6, || {
            let guarded = guarded();
            guarded.lock.close();
            let other = Arc::clone(&guarded);
            let other = loom::thread::spawn(move || {
                let _guard = other.lock.lock();
                add(&other);
            });
            add(&guarded);
            guarded.lock.open();
            other.join().expect("adds only");
        });
    }
}
