//! Hashes by which an encoder finds entries of its dynamic table, and field lines that repeat.
//!
//! Hashes have no secret seed. A peer that makes them equal gains little: strings are compared then, of the entries of
//! one table at most.

use std::collections::VecDeque;

use super::dynamic_table::{DynamicTable, entries_max, grow};
use super::field_line::FieldLine;
use crate::words;

/// Field lines are remembered for about this many others, which covers the heads of two or three clients that take
/// turns on a connection.
const SEEN: usize = 64;

/// A field line with its hashes, which do not depend on the case of its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashed<'a> {
    pub(super) line: &'a FieldLine<'a>,
    /// Its name has capital letters.
    pub(super) has_capitals: bool,
    hashes: Hashes,
}

/// Hashes of a field line.
#[derive(Debug, Clone, Copy)]
struct Hashes {
    name: u32,
    line: u32,
}

/// Hashes of the entries of a table, and of field lines seen lately.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Oldest first; before those of the table's entries are those that it has evicted since the last insertion.
    entries: VecDeque<Hashes>,
    /// Entries that were inserted in all; it wraps around.
    inserted: u32,
    /// Each hash has one place, where it stays until another one comes there. Where more field lines take turns than
    /// there are places, some are still found; a queue would have dropped each before it came again.
    seen: Option<Box<[Seen; SEEN]>>,
}

/// A field line that was seen lately.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    line: u32,
    /// [`History::inserted`] once it was an entry; 0: it was none.
    inserted: u32,
}

impl<'a> Hashed<'a> {
    pub(super) fn of(line: &'a FieldLine<'a>) -> Self {
        let length = line.name.len() as u64;
        let (of_name, capitals) = words::fold(line.name, (length, 0), |(hash, capitals), word| {
            let hash = mix(hash, words::lowered(word));
            (hash, capitals | words::has_capital(word))
        });
        // `aa` and `aaa` are the same word: their lengths tell them apart.
        let of_line = mix(of_name, line.value.len() as u64);
        let hashes = Hashes {
            name: high_word(of_name),
            line: high_word(words::fold(line.value, of_line, mix)),
        };
        Self {
            line,
            has_capitals: capitals != 0,
            hashes,
        }
    }

    /// The hashes, for the same line with its name in lower case.
    pub(super) fn lowered<'b>(self, line: &'b FieldLine<'b>) -> Hashed<'b> {
        Hashed {
            line,
            has_capitals: false,
            hashes: self.hashes,
        }
    }
}

impl History {
    /// As [`History::find`], of a field line whose place among those seen lately no other one has taken.
    pub(super) fn find_lately(&self, table: &DynamicTable, sought: Hashed<'_>) -> Option<usize> {
        let Hashed { line, hashes, .. } = sought;
        let seen = self.seen.as_deref()?[place(hashes.line)];
        if seen.line != hashes.line || seen.inserted == 0 {
            return None;
        }
        let at = self.inserted.wrapping_sub(seen.inserted) as usize;
        table.is_entry(at, line.name, line.value).then_some(at)
    }

    /// The place in the table of the entry with a name and value, the newest being at 0.
    pub(super) fn find(&mut self, table: &DynamicTable, sought: Hashed<'_>) -> Option<usize> {
        let Hashed { line, hashes, .. } = sought;
        let entries = self.entries.iter().rev().enumerate();
        let mut found = entries.filter(|(_, entry)| entry.line == hashes.line);
        let is_same = |at: usize| table.is_entry(at, line.name, line.value);
        let (at, _) = found.find(|(at, _)| is_same(*at))?;
        // A line that is no entry yet keeps the place: it becomes one when it comes again.
        let seen = self.seen.as_deref();
        if seen.is_none_or(|seen| seen[place(hashes.line)].inserted != 0) {
            let later = u32::try_from(at).unwrap_or(u32::MAX);
            self.see(hashes, self.inserted.wrapping_sub(later));
        }
        Some(at)
    }

    /// The place in the table of the newest entry with the name of a field line.
    pub(super) fn find_name(&self, table: &DynamicTable, sought: Hashed<'_>) -> Option<usize> {
        let Hashed { line, hashes, .. } = sought;
        let is_same = |at: usize| table.entry(at).is_some_and(|(of, _)| of.is(line.name));
        let entries = self.entries.iter().rev().enumerate();
        let mut found = entries.filter(|(_, entry)| entry.name == hashes.name);
        found.find(|(at, _)| is_same(*at)).map(|(at, _)| at)
    }

    /// Remembers a field line. True: it was seen lately.
    pub(super) fn is_repeated(&mut self, seen: Hashed<'_>) -> bool {
        self.see(seen.hashes, 0).line == seen.hashes.line
    }

    /// Remembers a field line in the place of another one, which is returned.
    fn see(&mut self, hashes: Hashes, inserted: u32) -> Seen {
        let seen = (self.seen).get_or_insert_with(|| Box::new([Seen::default(); SEEN]));
        let line = hashes.line;
        std::mem::replace(&mut seen[place(line)], Seen { line, inserted })
    }

    /// The table has a new entry, and has evicted what is not in it anymore.
    pub(super) fn inserted(&mut self, entry: Hashed<'_>, table: &DynamicTable) {
        let hashes = entry.hashes;
        let evicted = self.entries.len() + 1 - table.len();
        self.entries.drain(..evicted);
        grow(&mut self.entries, 1, entries_max(table.size_max()));
        self.entries.push_back(hashes);
        self.inserted = self.inserted.wrapping_add(1);
        self.see(hashes, self.inserted);
    }

    /// Bytes that it has allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        let seen = self.seen.as_deref().map_or(0, size_of_val);
        seen + self.entries.capacity() * size_of::<Hashes>()
    }

    /// The most that it allocates beside a table.
    pub(super) const fn memory_bytes_max(table_bytes_max: u32) -> usize {
        match entries_max(table_bytes_max) {
            0 => 0,
            entries => size_of::<[Seen; SEEN]>() + entries * size_of::<Hashes>(),
        }
    }
}

/// Mixes a word into a hash, as rustc's FxHash does.
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The place of a hash among the field lines seen lately, by its highest bits: the lowest ones hardly depend on the last
/// octets of a value.
fn place(line: u32) -> usize {
    (line >> (u32::BITS - SEEN.ilog2())) as usize
}

/// The upper half, which all octets have an influence on.
fn high_word(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::field_line::Indexing;
    use super::*;

    fn line<'a>(name: &'a str, value: &'a str) -> FieldLine<'a> {
        FieldLine {
            name: name.as_bytes(),
            value: value.as_bytes(),
            indexing: Indexing::Without,
        }
    }

    /// A field line with the hashes of every other one.
    fn same<'a>(line: &'a FieldLine<'a>) -> Hashed<'a> {
        let hashes = Hashes { name: 1, line: 1 };
        Hashed {
            line,
            has_capitals: false,
            hashes,
        }
    }

    /// Values of two clients that take turns on a connection may differ in their last octets alone.
    #[test]
    fn values_that_end_differently_have_different_places() {
        for length in 1..=24 {
            let values = (0..32).map(|number| format!("{number:0>length$}"));
            let values = values.filter(|value| value.len() == length);
            let hashes = values.map(|value| Hashed::of(&line("x-tenant", &value)).hashes.line);
            let places: Vec<_> = hashes.map(place).collect();
            let different: HashSet<_> = places.iter().collect();
            assert!(
                different.len() > places.len() / 3,
                "{length} octets: {places:?}"
            );
        }
    }

    #[test]
    fn hashes_do_not_depend_on_the_case_of_a_name() {
        let hashes = |name| {
            let Hashes { name, line } = Hashed::of(&line(name, "A")).hashes;
            [name, line]
        };
        assert_eq!(hashes("X-Forwarded-For"), hashes("x-forwarded-for"));
        assert_ne!(hashes("x"), hashes("y"));
    }

    #[test]
    fn field_lines_with_the_same_hashes_are_told_apart() {
        let mut table = DynamicTable::new(4096);
        let mut history = History::default();
        for (name, value) in [("a", "1"), ("b", "2")] {
            table.insert(name.as_bytes(), value.as_bytes());
            history.inserted(same(&line(name, value)), &table);
        }
        let mut find = |name, value| history.find(&table, same(&line(name, value)));
        assert_eq!((find("a", "1"), find("b", "2")), (Some(1), Some(0)));
        assert_eq!((find("a", "2"), find("c", "2")), (None, None));
        // The one that was looked for last has the place of both.
        let lately = |history: &History, line| history.find_lately(&table, same(&line));
        assert_eq!(lately(&history, line("b", "2")), Some(0));
        assert_eq!(lately(&history, line("a", "1")), None);
        assert_eq!(history.find(&table, same(&line("a", "1"))), Some(1));
        assert_eq!(lately(&history, line("a", "1")), Some(1));
        assert_eq!(lately(&history, line("b", "2")), None);
        let find_name = |name| history.find_name(&table, same(&line(name, "")));
        assert_eq!((find_name("a"), find_name("b")), (Some(1), Some(0)));
        assert_eq!(find_name("c"), None);
    }
}
