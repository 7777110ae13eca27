//! A section of the fuzzed connection.

use steppe_h2::Section;
use steppe_h2::hpack::{FieldSink, Indexing};
use steppe_mem::{Buffer, Lease};

/// Field lines in a buffer of a size that the budget knows.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Buffer,
    line: usize,
    name: Option<usize>,
    last: (usize, usize, usize),
}

impl Lines {
    pub(super) fn new(lease: &Lease) -> Option<Self> {
        Some(Self {
            bytes: Buffer::take(lease, 512).ok()?,
            line: 0,
            name: None,
            last: (0, 0, 0),
        })
    }
}

impl FieldSink for Lines {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let room = self.bytes.spare_mut();
        let bytes = bytes.min(room.len());
        Some(&mut room[..bytes]).filter(|room| !room.is_empty())
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }

    fn end_name(&mut self) {
        self.name = Some(self.bytes.len());
    }

    fn end_field(&mut self, _: Indexing) {
        let name = self.name.take().expect("its name has ended");
        self.last = (self.line, name, self.bytes.len());
        self.line = self.bytes.len();
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let (start, name, end) = self.last;
        (
            &self.bytes.filled()[start..name],
            &self.bytes.filled()[name..end],
        )
    }

    fn lost(&mut self, _: usize) {}
}

impl Section for Lines {
    fn has_room(&mut self, _: usize) -> bool {
        self.bytes.spare() > 0
    }

    fn unfinished(&self) -> (&[u8], Option<&[u8]>) {
        let line = &self.bytes.filled()[self.line..];
        match self.name {
            Some(name) => {
                let (name, value) = line.split_at(name - self.line);
                (name, Some(value))
            }
            None => (line, None),
        }
    }
}
