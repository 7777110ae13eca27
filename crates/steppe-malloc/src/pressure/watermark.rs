//! The watermark: the library tells the program once when more is held than a number of bytes.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Lock;
use crate::sys::file;

pub(crate) static WATERMARK: Watermark = Watermark {
    lock: Lock::new(),
    bytes: AtomicUsize::new(usize::MAX),
    eventfd: Cell::new(None),
};

/// A number of bytes, and the program's eventfd(2).
pub(crate) struct Watermark {
    pub lock: Lock,
    /// Bytes held beyond which the program is told; `usize::MAX`: not set, or reached already.
    bytes: AtomicUsize,
    /// The program's own descriptor, which it keeps open: a copy would be closed by programs that close descriptors
    /// that they do not know, and no two eventfds can be told apart.
    eventfd: Cell<Option<c_int>>,
}

// SAFETY: the cell is touched under the lock only.
unsafe impl Sync for Watermark {}

impl Watermark {
    /// See [`crate::pressure::set_watermark`].
    pub fn set(&self, bytes: usize, eventfd: c_int) -> bool {
        let _guard = self.lock.lock();
        self.forget();
        if bytes == 0 {
            return true;
        }
        if file::identity(eventfd).is_none() {
            return false;
        }
        self.eventfd.set(Some(eventfd));
        self.bytes.store(bytes, Ordering::Relaxed);
        true
    }

    /// The watermark in bytes; `usize::MAX`: none.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Writes to the eventfd, if `held` is above the watermark.
    pub fn look(&self, held: usize) {
        if held <= self.bytes() {
            return;
        }
        let _guard = self.lock.lock();
        // The watermark may have been reached, or set anew, before the lock was open.
        if held <= self.bytes() {
            return;
        }
        if let Some(eventfd) = self.eventfd.get() {
            let _ = file::write(eventfd, &1_u64.to_ne_bytes());
        }
        self.forget();
    }

    /// Removes the watermark; under the lock, or in the child of a fork after the lock was opened.
    pub fn forget(&self) {
        self.bytes.store(usize::MAX, Ordering::Relaxed);
        self.eventfd.set(None);
    }
}
