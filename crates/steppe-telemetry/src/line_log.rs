//! A log of lines that many workers write and one thread puts into a file.
//!
//! A worker appends to a buffer of its own and hands it over when it is full, or
//! when it is asked to flush. The thread writes it, and gives it back to be filled
//! again. Lines of one worker keep their order; those of several interleave.
//!
//! Invariant: a worker never waits. Where all its buffers are on their way, or the
//! budget has no room for another, the line is dropped and counted.
//!
//! Leaves out what a line says, and when a file has to be changed for another:
//! whoever rotates it says so by [`LineLog::reopen`].

mod sink;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::encode::Family;
use crate::limits::{LINE_BUFFERS_MAX, LINE_ORDERS_MAX, LINE_PIPE_PAUSE};
use sink::Sink;

pub use writer::{Line, LineWriter};

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Appended to a file, which is made if there is none.
    File(PathBuf),
}

/// A log of lines. Clones write to the same.
#[derive(Debug, Clone)]
pub struct LineLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    to_thread: SyncSender<Order>,
    counts: Arc<Counts>,
    ended: Mutex<Receiver<()>>,
}

/// What became of lines.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    write_errors: AtomicU64,
    /// Nobody waits for a slow reader any more.
    is_ending: AtomicBool,
}

/// What the thread is to do.
#[derive(Debug)]
enum Order {
    Write(Filled),
    Reopen,
    End,
}

/// Whole lines, and where their buffer goes when they are written.
#[derive(Debug)]
struct Filled {
    bytes: Vec<u8>,
    lines: u64,
    home: SyncSender<Vec<u8>>,
}

impl LineLog {
    /// Opens `destination` for `workers`, and starts the thread that writes it.
    ///
    /// # Errors
    /// Where it can't be opened, or no thread be started.
    pub fn open(destination: Destination, workers: usize) -> io::Result<Self> {
        let sink = Sink::open(destination)?;
        let counts = Arc::new(Counts::default());
        // Buffers are bounded by their number, so sending one never fails for want of room.
        let (to_thread, orders) = sync_channel(workers * LINE_BUFFERS_MAX + LINE_ORDERS_MAX);
        let (end, ended) = sync_channel(1);
        let of_thread = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                write(sink, &orders, &of_thread);
                // Nobody may have waited.
                let _ = end.try_send(());
            })?;
        Ok(Self(Arc::new(Shared {
            to_thread,
            counts,
            ended: Mutex::new(ended),
        })))
    }

    /// Writes to a new file of the same name from the next buffer on: the old one was
    /// moved away.
    pub fn reopen(&self) {
        if self.0.to_thread.try_send(Order::Reopen).is_err() {
            tracing::error!("the access log is stuck, and was not opened again");
        }
    }

    /// Waits until everything that was handed over is written, `timeout` at most.
    /// Whether it was.
    pub fn close(&self, timeout: Duration) -> bool {
        let ends_at = Instant::now() + timeout;
        // A slow file may have left no room for the order itself.
        while let Err(TrySendError::Full(_)) = self.0.to_thread.try_send(Order::End)
            && Instant::now() < ends_at
        {
            std::thread::sleep(LINE_PIPE_PAUSE);
        }
        let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let result = ended.recv_timeout(ends_at.saturating_duration_since(Instant::now()));
        self.0.counts.is_ending.store(true, Ordering::Relaxed);
        result != Err(RecvTimeoutError::Timeout)
    }

    /// Lines that reached their destination.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.counts.written.load(Ordering::Relaxed)
    }

    /// Lines that did not, and never will.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.counts.dropped.load(Ordering::Relaxed)
    }

    /// Writes that failed.
    #[must_use]
    pub fn write_errors(&self) -> u64 {
        self.0.counts.write_errors.load(Ordering::Relaxed)
    }

    /// Its counts, for registration.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(LineLogCollector(self.clone()))
    }
}

fn write(mut sink: Sink, orders: &Receiver<Order>, counts: &Counts) {
    for order in orders {
        match order {
            Order::Write(filled) => {
                let Filled {
                    mut bytes,
                    lines,
                    home,
                } = filled;
                sink.write(&bytes, lines, counts);
                bytes.clear();
                // Its worker may be gone.
                let _ = home.try_send(bytes);
            }
            Order::Reopen => sink.reopen(counts),
            Order::End => return,
        }
    }
}

/// Writes what became of lines.
#[derive(Debug)]
struct LineLogCollector(LineLog);

const LINES: Family = Family::new("steppe_access_log_lines", "Lines of the access log written");
const DROPPED: Family = Family::new(
    "steppe_access_log_dropped",
    "Lines of the access log lost: written too slowly, or not at all",
);
const WRITE_ERRORS: Family = Family::new(
    "steppe_access_log_write_errors",
    "Writes of the access log that failed",
);

impl Collector for LineLogCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let log = &self.0;
        LINES.counter(&mut encoder, log.written())?;
        DROPPED.counter(&mut encoder, log.dropped())?;
        WRITE_ERRORS.counter(&mut encoder, log.write_errors())
    }
}

#[cfg(test)]
mod tests;
