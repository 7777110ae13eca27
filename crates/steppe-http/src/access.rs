//! The access log: one line per exchange.
//!
//! The request's values are captured when its head was parsed, before filters change it; the
//! line is formatted when the exchange ends.
//!
//! Invariant: a peer's bytes can neither end a line nor the value that they are part of.
//! While the log is off, none of this code runs.
//!
//! Non-goals: the file and its thread ([`LineLog`]), and exchanges dropped when a drain
//! timed out. Spec: nginx's and Apache's `combined`; RFC 8259.

mod ended;
mod escape;
mod field;
mod format;
mod record;

use std::cell::{Cell, RefCell};

use steppe_mem::Lease;
use steppe_telemetry::clock::Clock;
use steppe_telemetry::{LineLog, LineWriter};

use crate::head::RequestView;
use record::Records;

pub(crate) use ended::Ended;
pub use field::AccessField;
pub use format::AccessFormat;
pub(crate) use record::Record;

/// The format and the destination of an access log.
#[derive(Debug)]
pub struct AccessLog {
    format: AccessFormat,
    lines: LineLog,
}

/// The access log of one worker.
#[derive(Debug)]
pub(crate) struct WorkerAccess {
    format: AccessFormat,
    writer: RefCell<LineWriter>,
    records: Records,
    clock: RefCell<Clock>,
    /// Exchanges that began before the log was changed end here.
    is_retired: Cell<bool>,
}

impl AccessLog {
    /// An access log that writes to `lines`.
    #[must_use]
    pub fn new(format: AccessFormat, lines: LineLog) -> Self {
        Self { format, lines }
    }

    /// The log of one worker, its memory charged to `lease`.
    pub(crate) fn worker(&self, lease: &Lease) -> WorkerAccess {
        WorkerAccess {
            format: self.format.clone(),
            writer: RefCell::new(self.lines.writer(lease.clone())),
            records: Records::new(lease.clone()),
            clock: RefCell::default(),
            is_retired: Cell::new(false),
        }
    }
}

impl WorkerAccess {
    /// Copies what a line needs of a request that was just read. `None`: there is no memory.
    pub(crate) fn capture(&self, request: &RequestView<'_>) -> Option<Record> {
        self.records.take(self.format.needs(), request)
    }

    /// Writes the line of an exchange that ended.
    pub(crate) fn ended(&self, ended: Ended<'_>) {
        let mut clock = self.clock.borrow_mut();
        let now = clock.now();
        self.writer
            .borrow_mut()
            .line(|line| self.format.write(line, &ended, &now));
        if let Some(record) = ended.record {
            self.records.put_back(record);
        }
        if self.is_retired.get() {
            self.flush();
        }
    }

    /// No exchange begins with it any more. From now on each line goes to the writer thread as it is: nobody flushes
    /// the log of an earlier snapshot.
    pub(crate) fn retire(&self) {
        self.is_retired.set(true);
        self.flush();
    }

    /// Queues the buffered lines for the writer thread.
    pub(crate) fn flush(&self) {
        self.writer.borrow_mut().flush();
    }
}

#[cfg(test)]
mod tests;
