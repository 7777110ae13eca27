//! Tails: the rest of a retained mapping when a shorter block gets it.
//!
//! ```text
//!   retained   │ ──────────────── resident ──────────────── │
//!   live       │ block ───────────────── │ tail ─────────── │ untouched │
//!   resized    │ block ──────────────────────── │ tail ──── │ untouched │      into the tail: nothing is mapped
//!   freed      │ ──────────────── resident ──────────────── │ untouched │      retained, as a whole
//!   decayed    │ block ───────────────── │ untouched ────────────────── │
//! ```
//! A program whose large blocks change their lengths finds mappings that suit none of them. With tails it reuses the
//! same few for all lengths: in a run of blocks of 1 to 16 MiB, eight at a time, 33,000 pages were touched first where
//! 86,000 were. A tail is free memory: it counts as such against the profile's share, and goes back when it has
//! decayed, while its block lives.
//!
//! Invariant: a record is in the list if and only if its `tail_bytes` are not 0. They are written under both locks, or
//! by the thread that took the record off the retained ones, so either lock is enough to read them. While a tail goes
//! back its record's `tail_lock` is held, so no block takes its place; the system call needs no lock that other threads
//! wait for.

use core::sync::atomic::Ordering;

use super::Large;
use crate::deadline;
use crate::held::{self, RETAINED_BYTES};
use crate::huge::Huge;
use crate::profile;
use crate::sys;

impl Large {
    /// Notes a tail of `bytes`, under the lock. It decays from now on.
    pub(super) fn put_tail(&self, huge: &'static Huge, bytes: usize) {
        if bytes > 0 {
            huge.tail_bytes.set(bytes);
            huge.stamp.set(sys::now_ms());
            self.tails.push_front(huge);
            RETAINED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Notes `bytes` of a tail whose block was resized, under the lock. It decays since its `stamp`, so a block that is
    /// resized again and again does not keep it.
    pub(super) fn keep_tail(&self, huge: &'static Huge, bytes: usize, stamp: u32) {
        if bytes > 0 {
            huge.tail_bytes.set(bytes);
            huge.stamp.set(stamp);
            self.tails.push_back(huge);
            RETAINED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Takes a tail from its record, under the lock. Returns its bytes, 0 if there is none.
    pub(super) fn take_tail(&self, huge: &'static Huge) -> usize {
        let bytes = huge.tail_bytes.take();
        if bytes > 0 {
            self.tails.remove(huge);
            RETAINED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
        }
        bytes
    }

    /// Gives back `enough` bytes, or a tail's more, of tails that have aged for `decay_ms`. Returns the bytes.
    pub(super) fn purge_tails(&self, now: u32, decay_ms: u32, enough: usize) -> usize {
        let mut purged = 0;
        let mut busy = 0;
        while purged < enough && busy < BUSY_MAX {
            let guard = self.lock.lock();
            let Some(oldest) = self.tails.last() else {
                break;
            };
            if !deadline::has_passed(oldest.stamp.get(), now, decay_ms) {
                break;
            }
            let Some(_tail_lock) = oldest.tail_lock.try_lock() else {
                // The tail's block is being freed or resized, and the tail with it; or it was when a fork copied it.
                // The other tails do not wait for it.
                self.tails.remove(oldest);
                self.tails.push_front(oldest);
                busy += 1;
                continue;
            };
            let bytes = self.take_tail(oldest);
            drop(guard);
            if !purge_behind(oldest, bytes) {
                let _guard = self.lock.lock();
                self.put_tail(oldest, bytes);
                break;
            }
            held::give(bytes);
            purged += bytes;
        }
        purged
    }
}

/// Tails that a purge passes over, since their blocks are being freed or resized.
const BUSY_MAX: usize = 16;

/// Gives `bytes` behind a block back. False: the kernel refused.
pub(super) fn purge_behind(huge: &Huge, bytes: usize) -> bool {
    let start = huge.base.get().wrapping_add(huge.block_bytes.get());
    if profile::huge_pages() {
        // SAFETY: behind the block, within its mapping, and unused while the caller has the record's lock.
        unsafe { sys::split_huge_pages(start, bytes) };
    }
    // SAFETY: as above.
    unsafe { sys::purge(start, bytes) }
}

#[cfg(all(test, not(any(miri, loom))))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::chunk_map::{self, Owner};

    const LONG: usize = 12 << 20;
    const SHORT: usize = 3 << 20;

    /// A short block in the mapping of a longer one, and its record.
    fn shorter(large: &Large) -> (&'static Huge, *mut u8) {
        let allocated = |bytes| large.allocate(bytes, 1).expect("there is memory").pointer;
        let huge = |block: *mut u8| match chunk_map::owner(block.addr()) {
            Owner::Huge(huge) => huge,
            _ => unreachable!("it is a mapping"),
        };
        let long = allocated(LONG);
        large.free_huge(huge(long), long);
        let short = allocated(SHORT);
        assert_eq!(long, short);
        (huge(short), short)
    }

    /// The lock is held as if the block were being freed or resized: the purge leaves its tail.
    #[test]
    fn the_tail_of_a_block_in_change_stays() {
        static OWN: Large = Large::new();
        let (huge, block) = shorter(&OWN);
        let tail_lock = huge.tail_lock.lock();
        assert_eq!(OWN.purge_some(0, 0, usize::MAX), 0);
        assert_eq!(huge.tail_bytes.get(), LONG - SHORT);
        drop(tail_lock);
        assert_eq!(OWN.purge_some(0, 0, usize::MAX), LONG - SHORT);
        OWN.free_huge(huge, block);
        assert_eq!(OWN.purge_some(0, 0, usize::MAX), SHORT);
    }

    /// The lock is held as in a child of a fork that copied it: no thread opens it there.
    #[test]
    fn tails_behind_one_that_stays_locked_go_back() {
        static OWN: Large = Large::new();
        let (first, _) = shorter(&OWN);
        let (second, _) = shorter(&OWN);
        let _tail_lock = first.tail_lock.lock();
        assert_eq!(OWN.purge_some(0, 0, usize::MAX), LONG - SHORT);
        assert_eq!(
            (first.tail_bytes.get(), second.tail_bytes.get()),
            (LONG - SHORT, 0)
        );
    }

    #[test]
    fn a_block_that_is_resized_does_not_renew_its_tail() {
        static OWN: Large = Large::new();
        let (huge, _) = shorter(&OWN);
        let stamp = huge.stamp.get().wrapping_sub(700);
        huge.stamp.set(stamp);
        assert!(OWN.resize_huge(huge, 2 * SHORT).is_some());
        assert_eq!(huge.stamp.get(), stamp);
        assert!(huge.tail_bytes.get() > 0);
    }

    /// The lock is held as if the tail were going back: the block is neither freed nor resized before.
    #[test]
    fn a_block_whose_tail_goes_back_stays_as_it_is() {
        static OWN: Large = Large::new();
        static IS_FREED: AtomicBool = AtomicBool::new(false);
        let (huge, block) = shorter(&OWN);
        let (huge_at, block_at) = (core::ptr::from_ref(huge).addr(), block.addr());
        let tail_lock = huge.tail_lock.lock();
        thread::scope(|scope| {
            scope.spawn(move || {
                let Owner::Huge(huge) = chunk_map::owner(block_at) else {
                    unreachable!("it is a mapping")
                };
                assert_eq!(core::ptr::from_ref(huge).addr(), huge_at);
                let block = huge.base.get();
                assert_eq!(OWN.resize_huge(huge, 2 * SHORT), Some(block));
                OWN.free_huge(huge, block);
                IS_FREED.store(true, Ordering::Release);
            });
            // A thread that did not wait would be done with both.
            thread::sleep(std::time::Duration::from_millis(50));
            assert!(!IS_FREED.load(Ordering::Acquire));
            assert_eq!(huge.block_bytes.get(), SHORT);
            drop(tail_lock);
        });
        assert!(IS_FREED.load(Ordering::Acquire));
        assert_eq!(OWN.purge_some(0, 0, usize::MAX), LONG);
    }
}
