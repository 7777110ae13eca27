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

mod clock;
mod ended;
mod escape;
mod field;
mod format;
mod record;

use std::cell::RefCell;
use std::rc::Rc;

use steppe_mem::Lease;
use steppe_telemetry::{LineLog, LineWriter};

use crate::field::FieldBlock;
use crate::h1::parse::RequestLine;
use clock::Clock;
use record::{Needs, Records};

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
    records: Rc<Records>,
    clock: RefCell<Clock>,
}

/// Captures the values of requests that the format needs.
#[derive(Debug, Clone)]
pub struct Capture {
    needs: Needs,
    records: Rc<Records>,
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
            records: Rc::new(Records::new(lease.clone())),
            clock: RefCell::default(),
        }
    }
}

impl WorkerAccess {
    /// The capture for the worker's connections.
    pub(crate) fn capture(&self) -> Capture {
        Capture {
            needs: self.format.needs(),
            records: Rc::clone(&self.records),
        }
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
    }

    /// Queues the buffered lines for the writer thread.
    pub(crate) fn flush(&self) {
        self.writer.borrow_mut().flush();
    }
}

impl Capture {
    /// Captures the values of a request that was just parsed. `None`: the budget refused memory.
    pub(crate) fn take(&self, line: &RequestLine, fields: &FieldBlock) -> Option<Record> {
        self.records.take(self.needs, line, fields)
    }
}

#[cfg(test)]
mod tests;
