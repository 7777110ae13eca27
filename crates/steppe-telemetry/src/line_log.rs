//! An asynchronous line log: workers fill buffers, one thread writes them to a file.
//!
//! A worker appends to a buffer of its own and queues it for the writer thread when it
//! is full or flushed. The thread writes it and returns it for reuse. Lines of one
//! worker keep their order; those of several interleave.
//!
//! Invariant: a worker never blocks. If all its buffers are queued, or the budget
//! refuses another, the line is dropped and counted.
//!
//! Non-goals: the content of a line, and when to rotate: the program that rotates the file has
//! [`LineLog::reopen`] called.

mod counters;
mod destination;
mod sink;
mod writer;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::encode::Family;
use crate::limits::{LINE_BUFFERS_MAX, LINE_COMMANDS_MAX, LINE_PIPE_PAUSE};
use counters::LineCounters;
use sink::LineSink;

pub use destination::Destination;
pub use writer::{LineWriter, LogLine};

/// A line log. Clones write to the same destination.
#[derive(Debug, Clone)]
pub struct LineLog(Arc<LineLogThread>);

#[derive(Debug)]
struct LineLogThread {
    /// The log's name in messages.
    name: &'static str,
    to_thread: SyncSender<Command>,
    counts: Arc<LineCounters>,
    ended: Mutex<Receiver<()>>,
}

/// A line log that ends when its last [`LineLog`] is dropped.
#[derive(Debug, Clone)]
pub struct WeakLineLog(Weak<LineLogThread>);

/// Lines written and lost, of all logs that replace each other. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LineCounts(Arc<LineCounters>);

/// A command to the writer thread.
#[derive(Debug)]
enum Command {
    Write(Filled),
    Reopen,
    End,
}

/// A buffer of whole lines, and the channel that returns it to its worker.
#[derive(Debug)]
struct Filled {
    bytes: Vec<u8>,
    lines: u64,
    returns: SyncSender<Vec<u8>>,
}

impl LineLog {
    /// Opens the access log at `destination` for `workers`, and starts the writer thread.
    ///
    /// # Errors
    /// When the destination can't be opened or the thread can't be started.
    pub fn open(destination: Destination, workers: usize) -> io::Result<Self> {
        Self::open_counted(destination, workers, &LineCounts::default())
    }

    /// The same as [`Self::open`] with counts that continue.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_counted(
        destination: Destination,
        workers: usize,
        counts: &LineCounts,
    ) -> io::Result<Self> {
        let sink = LineSink::open("access log", destination)?;
        Self::start("access log", sink, workers, counts)
    }

    /// The same as [`Self::open_counted`] for a log of another name, such as `access log`, for
    /// messages and the thread.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_named(
        name: &'static str,
        destination: Destination,
        workers: usize,
    ) -> io::Result<Self> {
        let sink = LineSink::open(name, destination)?;
        Self::start(name, sink, workers, &LineCounts::default())
    }

    fn start(
        name: &'static str,
        sink: LineSink,
        workers: usize,
        LineCounts(counts): &LineCounts,
    ) -> io::Result<Self> {
        counts.is_used.store(true, Ordering::Relaxed);
        // The channel holds every buffer that may exist, so sending one never fails.
        let (to_thread, commands) = sync_channel(workers * LINE_BUFFERS_MAX + LINE_COMMANDS_MAX);
        let (end, ended) = sync_channel(1);
        let of_thread = Arc::clone(counts);
        std::thread::Builder::new()
            .name(name.replace(' ', "-"))
            .spawn(move || {
                write(sink, &commands, &of_thread);
                // The receiver may be gone.
                let _ = end.try_send(());
            })?;
        Ok(Self(Arc::new(LineLogThread {
            name,
            to_thread,
            counts: Arc::clone(counts),
            ended: Mutex::new(ended),
        })))
    }

    /// Reopens the file by its name before the next buffer, after it was rotated.
    pub fn reopen(&self) {
        if self.0.to_thread.try_send(Command::Reopen).is_err() {
            let name = self.0.name;
            tracing::error!("the {name} is blocked on a write and was not reopened");
        }
    }

    /// Waits until all queued buffers are written, for at most `timeout`. Returns true if they
    /// were.
    pub fn close(&self, timeout: Duration) -> bool {
        let ends_at = Instant::now() + timeout;
        // With a slow disk the queue may be full.
        while let Err(TrySendError::Full(_)) = self.0.to_thread.try_send(Command::End)
            && Instant::now() < ends_at
        {
            std::thread::sleep(LINE_PIPE_PAUSE);
        }
        let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let result = ended.recv_timeout(ends_at.saturating_duration_since(Instant::now()));
        self.0.counts.is_ending.store(true, Ordering::Relaxed);
        result != Err(RecvTimeoutError::Timeout)
    }

    /// Lines written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.counts.written.load(Ordering::Relaxed)
    }

    /// Lines lost.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.counts.dropped.load(Ordering::Relaxed)
    }

    /// Writes that failed.
    #[must_use]
    pub fn write_errors(&self) -> u64 {
        self.0.counts.write_errors.load(Ordering::Relaxed)
    }

    /// A collector of its counts, for registration.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        LineCounts(Arc::clone(&self.0.counts)).collector()
    }

    /// A handle that does not keep the log open.
    #[must_use]
    pub fn downgrade(&self) -> WeakLineLog {
        WeakLineLog(Arc::downgrade(&self.0))
    }
}

impl WeakLineLog {
    /// The log; `None`: it has been dropped, and its lines are written.
    #[must_use]
    pub fn upgrade(&self) -> Option<LineLog> {
        self.0.upgrade().map(LineLog)
    }
}

impl LineCounts {
    /// A collector, for registration. It encodes nothing before there is a log.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(LineLogCollector(self.clone()))
    }
}

fn write(mut sink: LineSink, commands: &Receiver<Command>, counts: &LineCounters) {
    for command in commands {
        match command {
            Command::Write(filled) => {
                let Filled {
                    mut bytes,
                    lines,
                    returns,
                } = filled;
                sink.write(&bytes, lines, counts);
                bytes.clear();
                // The worker may be gone.
                let _ = returns.try_send(bytes);
            }
            Command::Reopen => sink.reopen(counts),
            Command::End => return,
        }
    }
}

/// Encodes the counts of a line log.
#[derive(Debug)]
struct LineLogCollector(LineCounts);

const LINES: Family = Family::new("steppe_access_log_lines", "Access log lines written");
const DROPPED: Family = Family::new(
    "steppe_access_log_dropped",
    "Access log lines lost: the file was too slow, or a write failed",
);
const WRITE_ERRORS: Family = Family::new(
    "steppe_access_log_write_errors",
    "Failed writes of the access log",
);

impl Collector for LineLogCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let LineCounts(counts) = &self.0;
        if !counts.is_used.load(Ordering::Relaxed) {
            return Ok(());
        }
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LINES.counter(&mut encoder, load(&counts.written))?;
        DROPPED.counter(&mut encoder, load(&counts.dropped))?;
        WRITE_ERRORS.counter(&mut encoder, load(&counts.write_errors))
    }
}

#[cfg(test)]
mod tests;
