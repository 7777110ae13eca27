//! Disk I/O on blocking threads.
//!
//! Invariant: a worker never blocks on a disk, and the number of queued tasks is
//! bounded whatever clients do: the task of a client that left keeps its place in
//! the queue until it is dequeued.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::limits::DISK_TASKS_MAX;

/// A task that is queued or running. Dropping it cancels a task that has not started.
#[derive(Debug)]
pub struct DiskTask<T>(JoinHandle<T>);

/// Tasks of all workers.
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// Counts a task in [`TASKS`] until it is dropped.
struct CountedTask;

impl<T: Send + 'static> DiskTask<T> {
    /// Queues `work`.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] when [`DISK_TASKS_MAX`] tasks are queued or running.
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let before = TASKS.fetch_add(1, Ordering::Relaxed);
        let counted = CountedTask;
        if before >= DISK_TASKS_MAX {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(Self(spawn_blocking(move || {
            let done = work();
            drop(counted);
            done
        })))
    }

    /// Ready with the result of the task.
    ///
    /// # Errors
    /// When the task panicked or was cancelled.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Future::poll(Pin::new(&mut self.0), cx).map_err(io::Error::other)
    }
}

impl<T> Drop for DiskTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        TASKS.fetch_sub(1, Ordering::Relaxed);
    }
}
