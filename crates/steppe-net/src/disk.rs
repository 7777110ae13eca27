//! Work that may wait for a disk, on threads of its own.
//!
//! Invariant: a worker never waits for a disk, and what waits for it is bounded,
//! whatever clients do: those that leave take their place in the queue along only
//! when their turn has come.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::limits::DISK_TASKS_MAX;

/// Work under way, or queued. Work that did not begin yet never does once this is dropped.
#[derive(Debug)]
pub struct DiskTask<T>(JoinHandle<T>);

/// Of all workers.
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// Counts a task for as long as it is there.
struct Counted;

impl<T: Send + 'static> DiskTask<T> {
    /// Starts `work`.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] where [`DISK_TASKS_MAX`] are waiting already.
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let before = TASKS.fetch_add(1, Ordering::Relaxed);
        let counted = Counted;
        if before >= DISK_TASKS_MAX {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(Self(spawn_blocking(move || {
            let done = work();
            drop(counted);
            done
        })))
    }

    /// Ready with what came of it.
    ///
    /// # Errors
    /// When its thread ended without an answer.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Future::poll(Pin::new(&mut self.0), cx).map_err(io::Error::other)
    }
}

impl<T> Drop for DiskTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TASKS.fetch_sub(1, Ordering::Relaxed);
    }
}
