//! The access log: a line for each exchange.
//!
//! What a line needs of a request is copied when its head was read, before anything is
//! changed or dropped; the line is made when the exchange is over.
//!
//! Invariant: a peer's bytes can neither end a line nor leave the value they stand in.
//! While the log is off, nothing of it runs.
//!
//! Leaves out the file and its thread ([`LineLog`]), and exchanges that were dropped
//! when a drain ran out of time. Spec: nginx's and Apache's `combined`; RFC 8259.

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

/// What is logged, and where to.
#[derive(Debug)]
pub struct AccessLog {
    format: AccessFormat,
    lines: LineLog,
}

/// One worker's end of it.
#[derive(Debug)]
pub(crate) struct WorkerAccess {
    format: AccessFormat,
    writer: RefCell<LineWriter>,
    records: Rc<Records>,
    clock: RefCell<Clock>,
}

/// Copies what lines need of requests.
#[derive(Debug, Clone)]
pub struct Capture {
    needs: Needs,
    records: Rc<Records>,
}

impl AccessLog {
    /// Logs exchanges to `lines`.
    #[must_use]
    pub fn new(format: AccessFormat, lines: LineLog) -> Self {
        Self { format, lines }
    }

    /// A worker's end, charged to `lease`.
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
    /// For connections, which see requests first.
    pub(crate) fn capture(&self) -> Capture {
        Capture {
            needs: self.format.needs(),
            records: Rc::clone(&self.records),
        }
    }

    /// Writes the line of an exchange.
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

    /// Hands over what there is.
    pub(crate) fn flush(&self) {
        self.writer.borrow_mut().flush();
    }
}

impl Capture {
    /// Copies what is needed of a request that was just read. `None`: there is no memory.
    pub(crate) fn take(&self, line: &RequestLine, fields: &FieldBlock) -> Option<Record> {
        self.records.take(self.needs, line, fields)
    }
}

#[cfg(test)]
mod tests;
