//! Blocking wait for the next packet without an event loop, for a reader in a Worker.
//!
//! **Invariant:** the audio thread makes a system call to wake readers only while one sleeps, and
//! never waits itself.

pub mod sys;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::layout::{closed, word};
use crate::limits::WAIT_MS_MAX;
use crate::ring::sys::Memory;

/// Waits until `HEAD` is no longer `seen`, the capture ends, or `timeout_ms` have passed, at most
/// [`WAIT_MS_MAX`]. Returns `HEAD`.
pub fn wait(memory: &Memory, seen: u32, timeout_ms: u32) -> u32 {
    let head = memory.u32(word::HEAD * 4);
    if head.load(SeqCst) != seen || memory.u32(word::CLOSED * 4).load(SeqCst) != closed::OPEN {
        return head.load(SeqCst);
    }
    let waiters = memory.u32(word::WAITERS * 4);
    waiters.fetch_add(1, SeqCst);
    let timeout = Duration::from_millis(timeout_ms.min(WAIT_MS_MAX).into());
    sys::sleep_while_equal(head, seen, timeout);
    waiters.fetch_sub(1, SeqCst);
    head.load(SeqCst)
}

/// A blocking reader: the ring counts its creation and its drop.
pub struct Waiter {
    memory: Memory,
}

impl Waiter {
    /// A reader of this ring, whose memory outlives it.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        memory.u32(word::READERS_BEGUN * 4).fetch_add(1, SeqCst);
        Self { memory }
    }

    /// Like [`wait`].
    #[must_use]
    pub fn wait(&self, seen: u32, timeout_ms: u32) -> u32 {
        wait(&self.memory, seen, timeout_ms)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let ended = self.memory.u32(word::READERS_ENDED * 4);
        ended.fetch_add(1, SeqCst);
    }
}

/// Wakes blocking readers, after `HEAD` or `CLOSED` has changed.
pub fn wake(memory: &Memory) {
    if memory.u32(word::WAITERS * 4).load(SeqCst) > 0 {
        sys::wake_all(memory.u32(word::HEAD * 4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::ring;
    use std::thread;

    #[test]
    fn a_reader_sleeps_until_a_packet_comes() {
        let ring = ring(2, 4);
        let memory = ring.memory();
        let reader = thread::spawn(move || {
            let mut waits = 0;
            while wait(&memory, 0, WAIT_MS_MAX) == 0 {
                waits += 1;
            }
            waits
        });
        while memory.u32(word::WAITERS * 4).load(SeqCst) == 0 {
            thread::yield_now();
        }
        memory.u32(word::HEAD * 4).store(1, SeqCst);
        wake(&memory);
        reader.join().unwrap();
        assert_eq!(memory.u32(word::WAITERS * 4).load(SeqCst), 0);
        assert_eq!(wait(&memory, 0, WAIT_MS_MAX), 1);
    }

    #[test]
    fn readers_are_counted_when_they_begin_and_end() {
        let memory = ring(2, 4).memory();
        let counts = || {
            [word::READERS_BEGUN, word::READERS_ENDED].map(|word| memory.u32(word * 4).load(SeqCst))
        };
        let first = Waiter::new(memory);
        let second = Waiter::new(memory);
        assert_eq!(counts(), [2, 0]);
        drop(first);
        assert_eq!(counts(), [2, 1]);
        drop(second);
        assert_eq!(counts(), [2, 2]);
    }

    #[test]
    fn nobody_waits_for_a_capture_that_ended() {
        let memory = ring(2, 4).memory();
        memory.u32(word::CLOSED * 4).store(closed::ENDED, SeqCst);
        assert_eq!(wait(&memory, 0, u32::MAX), 0);
    }
}
