//! The watermark: the program hears once that more is held than it wanted.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Lock;
use crate::sys::file;

pub(crate) static WATERMARK: Watermark = Watermark {
    lock: Lock::new(),
    bytes: AtomicUsize::new(usize::MAX),
    target: Cell::new(None),
};

/// Where the program hears of it.
pub(crate) struct Watermark {
    pub lock: Lock,
    /// `usize::MAX`: it is not set, or was reached.
    bytes: AtomicUsize,
    /// Our copy of the descriptor, and what it was open on: a program that closes all its descriptors and opens
    /// others gets nothing written into those.
    target: Cell<Option<(c_int, (u64, u64))>>,
}

// SAFETY: the cell is touched under the lock only.
unsafe impl Sync for Watermark {}

impl Watermark {
    /// See [`crate::pressure::set_watermark`].
    pub fn set(&self, bytes: usize, eventfd: c_int) -> bool {
        let _guard = self.lock.lock();
        self.clear();
        if bytes == 0 {
            return true;
        }
        let Some(copy) = file::duplicate(eventfd) else {
            return false;
        };
        let Some(identity) = file::identity(copy) else {
            return false;
        };
        self.target.set(Some((copy, identity)));
        self.bytes.store(bytes, Ordering::Relaxed);
        true
    }

    /// Bytes that it is set to; `usize::MAX`: to none.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Tells the program, if it is passed.
    pub fn look(&self, held: usize) {
        if held <= self.bytes() {
            return;
        }
        let _guard = self.lock.lock();
        if let Some((target, identity)) = self.target.get()
            && file::identity(target) == Some(identity)
        {
            let _ = file::write(target, &1_u64.to_ne_bytes());
        }
        self.clear();
    }

    /// In the child of a fork, after the lock was opened.
    pub fn forget(&self) {
        self.clear();
    }

    fn clear(&self) {
        self.bytes.store(usize::MAX, Ordering::Relaxed);
        if let Some((target, identity)) = self.target.take()
            && file::identity(target) == Some(identity)
        {
            file::close(target);
        }
    }
}
