//! Field lines of a section.

use steppe_h2::Section;
use steppe_h2::hpack::{FieldLine, FieldSink, Indexing, Pieces};

/// Field lines one behind the other.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    filled: usize,
    line: usize,
    name: Option<usize>,
    /// Start, end of the name, end.
    lines: Vec<(usize, usize, usize)>,
}

impl Lines {
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        (self.lines.iter())
            .map(|&(start, name, end)| (&self.bytes[start..name], &self.bytes[name..end]))
    }
}

impl FieldSink for Lines {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.bytes.resize(self.filled + bytes, 0);
        Some(&mut self.bytes[self.filled..])
    }

    fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    fn end_name(&mut self) {
        self.name = Some(self.filled);
    }

    fn end_field(&mut self, _: Indexing) {
        let name = self.name.take().expect("its name has ended");
        self.lines.push((self.line, name, self.filled));
        self.line = self.filled;
    }

    /// Every other one.
    fn take_line(&mut self, name: Pieces<'_>, value: Pieces<'_>) -> bool {
        if self.lines.len() % 2 == 1 {
            return false;
        }
        self.bytes.truncate(self.filled);
        name.0.iter().for_each(|piece| self.bytes.extend(*piece));
        let end = self.bytes.len();
        value.0.iter().for_each(|piece| self.bytes.extend(*piece));
        self.filled = self.bytes.len();
        self.lines.push((self.line, end, self.filled));
        self.line = self.filled;
        true
    }

    fn last(&self) -> (&[u8], &[u8]) {
        self.iter().last().expect("a line has ended")
    }

    fn lost(&mut self, _: usize) {
        unreachable!("there is always room");
    }
}

impl Section for Lines {
    fn has_room(&mut self, _: usize) -> bool {
        true
    }

    fn unfinished(&self) -> (&[u8], Option<&[u8]>) {
        let line = &self.bytes[self.line..self.filled];
        match self.name {
            Some(name) => {
                let (name, value) = line.split_at(name - self.line);
                (name, Some(value))
            }
            None => (line, None),
        }
    }
}

/// A field line to send.
pub fn line<'a>((name, value): (&'a [u8], &'a [u8])) -> FieldLine<'a> {
    FieldLine {
        name,
        value,
        indexing: Indexing::Without,
    }
}
