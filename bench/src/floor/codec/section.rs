//! A field section in reusable memory.

use steppe_h2::Section;
use steppe_h2::hpack::{FieldLine, FieldSink, Indexing};

/// The field lines of a section.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Names and values; bytes behind `filled` are spare.
    bytes: Vec<u8>,
    filled: usize,
    lines: Vec<Line>,
    /// Start of the line in progress, and end of its name once that is complete.
    line: usize,
    name: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    start: usize,
    name_end: usize,
    end: usize,
    indexing: Indexing,
}

impl Lines {
    /// Removes all lines, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        (self.filled, self.line, self.name) = (0, 0, None);
    }

    /// Bytes of all lines in HTTP/1.1: each takes four more than its name and value.
    pub(super) fn text_bytes(&self) -> usize {
        self.filled + 4 * self.lines.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        self.lines.iter().map(|line| FieldLine {
            name: &self.bytes[line.start..line.name_end],
            value: &self.bytes[line.name_end..line.end],
            indexing: line.indexing,
        })
    }
}

impl FieldSink for Lines {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let end = self.filled + bytes;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        Some(&mut self.bytes[self.filled..end])
    }

    fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    fn end_name(&mut self) {
        self.name = Some(self.filled);
    }

    fn end_field(&mut self, indexing: Indexing) {
        self.lines.push(Line {
            start: self.line,
            name_end: self.name.take().unwrap_or(self.filled),
            end: self.filled,
            indexing,
        });
        self.line = self.filled;
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let Some(line) = self.lines.last() else {
            return (&[], &[]);
        };
        let (name, value) = (line.start..line.name_end, line.name_end..line.end);
        (&self.bytes[name], &self.bytes[value])
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
        let end = self.name.unwrap_or(self.filled);
        let value = self.name.map(|name| &self.bytes[name..self.filled]);
        (&self.bytes[self.line..end], value)
    }
}
