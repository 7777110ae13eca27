//! Records: the captured values of a request, in memory that is reused.
//!
//! Invariant: a record's memory is charged while it exists; there is one for each exchange in
//! flight, and a few idle ones.

use std::cell::RefCell;

use steppe_mem::{Lease, Reservation};

use crate::field::FieldId;
use crate::head::{RequestView, Version};
use crate::limits::{
    ACCESS_RECORD_BYTES, ACCESS_RECORDS_IDLE_MAX, ACCESS_TARGET_BYTES_MAX, ACCESS_VALUE_BYTES_MAX,
};

/// A value of a request that may be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Captured {
    Method,
    Target,
    Host,
    UserAgent,
    Referer,
    RequestId,
    ForwardedFor,
}

const PARTS: usize = 7;

/// A set of [`Captured`] values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Needs(u8);

/// The captured values of one request.
#[derive(Debug)]
pub(crate) struct Record {
    bytes: Vec<u8>,
    /// Start and end of each value. `None`: the request has none, or the format needs none.
    parts: [Option<(u16, u16)>; PARTS],
    version: Version,
    charge: Reservation,
}

/// The pool of records of one worker.
#[derive(Debug)]
pub(super) struct Records {
    lease: Lease,
    idle: RefCell<Vec<Record>>,
}

impl FromIterator<Captured> for Needs {
    fn from_iter<I: IntoIterator<Item = Captured>>(parts: I) -> Self {
        Self(parts.into_iter().fold(0, |set, part| set | 1 << part as u8))
    }
}

impl Needs {
    fn has(self, part: Captured) -> bool {
        self.0 & 1 << part as u8 != 0
    }
}

impl Records {
    pub(super) fn new(lease: Lease) -> Self {
        Self {
            lease,
            idle: RefCell::default(),
        }
    }

    /// Copies what is needed. `None`: the budget has no room.
    pub(super) fn take(&self, needs: Needs, request: &RequestView<'_>) -> Option<Record> {
        let idle = self.idle.borrow_mut().pop();
        let mut record = idle.map_or_else(|| Record::new(&self.lease), Some)?;
        record.clear(request.version);
        match record.copy(needs, request) {
            Some(()) => Some(record),
            None => {
                self.put_back(record);
                None
            }
        }
    }

    pub(super) fn put_back(&self, record: Record) {
        let mut idle = self.idle.borrow_mut();
        // Grown records are rare, and would keep their memory.
        let is_usual = record.bytes.capacity() <= ACCESS_RECORD_BYTES;
        if is_usual && idle.len() < ACCESS_RECORDS_IDLE_MAX {
            idle.push(record);
        }
    }
}

impl Record {
    fn new(lease: &Lease) -> Option<Self> {
        Some(Self {
            charge: lease.try_reserve(ACCESS_RECORD_BYTES).ok()?,
            bytes: Vec::with_capacity(ACCESS_RECORD_BYTES),
            parts: [None; PARTS],
            version: Version::Http11,
        })
    }

    fn clear(&mut self, version: Version) {
        self.bytes.clear();
        self.parts = [None; PARTS];
        self.version = version;
    }

    fn copy(&mut self, needs: Needs, request: &RequestView<'_>) -> Option<()> {
        let lines = [
            (Captured::Method, request.method),
            (Captured::Target, request.target),
        ];
        for (part, value) in lines {
            if needs.has(part) {
                self.add(part, value)?;
            }
        }
        for (id, name, value) in request.fields.iter() {
            let part = part_of(id, name).filter(|&part| needs.has(part));
            // The first of several field lines is logged.
            if let Some(part) = part.filter(|&part| self.parts[part as usize].is_none()) {
                self.add(part, value)?;
            }
        }
        Some(())
    }

    fn add(&mut self, part: Captured, value: &[u8]) -> Option<()> {
        let most = match part {
            Captured::Target => ACCESS_TARGET_BYTES_MAX,
            _ => ACCESS_VALUE_BYTES_MAX,
        };
        let value = &value[..value.len().min(most)];
        let (start, end) = (self.bytes.len(), self.bytes.len() + value.len());
        if end > self.bytes.capacity() {
            let wanted = end.next_power_of_two();
            self.charge.try_grow(wanted - self.bytes.capacity()).ok()?;
            self.bytes.reserve_exact(wanted - start);
        }
        self.bytes.extend_from_slice(value);
        let at = |place: usize| u16::try_from(place).expect("all parts together are shorter");
        self.parts[part as usize] = Some((at(start), at(end)));
        Some(())
    }

    /// A captured value, if the request has it and the format needs it.
    pub(super) fn value(&self, part: Captured) -> Option<&[u8]> {
        let (start, end) = self.parts[part as usize]?;
        Some(&self.bytes[usize::from(start)..usize::from(end)])
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }
}

fn part_of(id: FieldId, name: &[u8]) -> Option<Captured> {
    match id {
        FieldId::Host => return Some(Captured::Host),
        FieldId::XForwardedFor => return Some(Captured::ForwardedFor),
        FieldId::Other => {}
        _ => return None,
    }
    let named = |text: &[u8]| name.eq_ignore_ascii_case(text);
    match name.len() {
        7 => named(b"referer").then_some(Captured::Referer),
        10 => named(b"user-agent").then_some(Captured::UserAgent),
        12 => named(b"x-request-id").then_some(Captured::RequestId),
        _ => None,
    }
}

// Places are 16 bits wide; see also `LINE_BYTES_MAX`: no peer can make a line too long.
const ALL_PARTS_MAX: usize = ACCESS_TARGET_BYTES_MAX + (PARTS - 1) * ACCESS_VALUE_BYTES_MAX;
const _: () = assert!(ALL_PARTS_MAX <= u16::MAX as usize);
const _: () = assert!(ACCESS_RECORD_BYTES.is_power_of_two());
// An escaped byte takes four at most, the target may be there twice, and names of ours add some.
const _: () = assert!(
    4 * (ALL_PARTS_MAX + ACCESS_TARGET_BYTES_MAX) + 8 * 1024
        <= steppe_telemetry::limits::LINE_BYTES_MAX
);
/// Parts of the TLS session that a client chooses: server name, protocol, subject.
const SESSION_PARTS: usize = 3;
// Only JSON has these, where an escaped byte takes three at most.
const _: () = assert!(
    3 * (ALL_PARTS_MAX + ACCESS_TARGET_BYTES_MAX + SESSION_PARTS * ACCESS_VALUE_BYTES_MAX)
        + 8 * 1024
        <= steppe_telemetry::limits::LINE_BYTES_MAX
);

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;
    use steppe_mem::alloc::thread_block_bytes;

    use super::*;

    /// A tenth less would not be enough.
    #[test]
    fn a_record_is_charged_with_what_it_takes() {
        let lease = Budget::new(1 << 20).root().lease();
        let before = thread_block_bytes();
        let record = Record::new(&lease).expect("room");
        let taken = usize::try_from(thread_block_bytes() - before).expect("more than before");
        assert_eq!(
            (taken, record.charge.bytes()),
            (ACCESS_RECORD_BYTES, ACCESS_RECORD_BYTES)
        );
    }
}
