//! The most frequent qnames, in a table of fixed size: Space-Saving (Metwally, Agrawal and El Abbadi,
//! "Efficient computation of frequent and top-k elements in data streams", 2005).
//!
//! Invariant: counting allocates nothing. A name with more than a [`TOP_NAMES_MAX`]th of all queries is
//! in the table, and its count is too high by `over` at most.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::limits::{NAME_BYTES_MAX, TOP_NAMES_MAX, TOP_NAMES_SHOWN};
use crate::wire::Name;

/// A frequent qname.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopName {
    /// The qname in presentation format.
    pub name: String,
    /// Upper bound of the queries for the name.
    pub queries: u64,
    /// Part of this number that may belong to other names.
    pub over: u64,
}

/// A table of names with their counts.
#[derive(Debug, Clone)]
pub(crate) struct TopNames(Vec<Entry>);

#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    count: u64,
    /// Part of the count that may belong to other names.
    over: u64,
    len: u8,
    name: [u8; NAME_BYTES_MAX],
}

/// The tables that workers have published last.
#[derive(Debug, Default)]
pub(crate) struct ShownNames(Mutex<Vec<Weak<Mutex<TopNames>>>>);

impl TopNames {
    /// Bytes of a table.
    pub(crate) const BYTES: usize = TOP_NAMES_MAX * size_of::<Entry>();

    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(TOP_NAMES_MAX))
    }

    /// Counts a qname in wire form.
    pub(crate) fn count(&mut self, qname: &[u8]) {
        let (hash, Ok(len)) = (hash(qname), u8::try_from(qname.len())) else {
            return;
        };
        let is_it = |entry: &&mut Entry| entry.hash == hash && entry.is(qname);
        if let Some(entry) = self.0.iter_mut().find(is_it) {
            entry.count += 1;
            return;
        }
        let mut entry = Entry {
            hash,
            count: 1,
            over: 0,
            len,
            name: [0; NAME_BYTES_MAX],
        };
        entry.name[..qname.len()].copy_from_slice(qname);
        entry.name.make_ascii_lowercase();
        if self.0.len() < TOP_NAMES_MAX {
            self.0.push(entry);
        } else if let Some(least) = self.0.iter_mut().min_by_key(|entry| entry.count) {
            entry.over = least.count;
            entry.count += least.count;
            *least = entry;
        }
    }

    /// Replaces the contents by those of another table.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.0.clear();
        self.0.extend_from_slice(&other.0);
    }
}

impl Entry {
    fn name(&self) -> &[u8] {
        &self.name[..usize::from(self.len)]
    }

    fn is(&self, qname: &[u8]) -> bool {
        self.name().eq_ignore_ascii_case(qname)
    }
}

impl ShownNames {
    /// A table for a worker to publish its counts in.
    pub(crate) fn add(&self) -> Arc<Mutex<TopNames>> {
        let table = Arc::new(Mutex::new(TopNames::new()));
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(&table));
        table
    }

    /// The names with the highest counts over all workers, the highest first.
    pub(crate) fn top(&self) -> Vec<TopName> {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::<Entry>::new();
        for table in tables.iter().filter_map(Weak::upgrade) {
            let table = table.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in &table.0 {
                match all.iter_mut().find(|known| known.is(entry.name())) {
                    Some(known) => {
                        known.count += entry.count;
                        known.over += entry.over;
                    }
                    None => all.push(*entry),
                }
            }
        }
        all.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        let shown = all.iter().take(TOP_NAMES_SHOWN);
        let shown = shown.filter_map(|entry| {
            Some(TopName {
                name: Name::from_wire(entry.name()).ok()?.to_string(),
                queries: entry.count,
                over: entry.over,
            })
        });
        shown.collect()
    }
}

/// FNV-1a of a name in lower case. Names are compared too, so a client gains nothing from collisions.
fn hash(qname: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    };
    qname.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of one label, in wire form.
    fn wire(label: &str) -> Vec<u8> {
        let mut name = vec![u8::try_from(label.len()).expect("a label")];
        name.extend(label.as_bytes());
        name.push(0);
        name
    }

    #[test]
    fn names_in_numbers_stay_whatever_else_comes() {
        let shown = ShownNames::default();
        let (one, other) = (shown.add(), shown.add());
        let mut names = TopNames::new();
        for number in 0..10 * TOP_NAMES_MAX {
            names.count(&wire(&format!("n{number}")));
            names.count(&wire(if number % 2 == 0 { "often" } else { "Often" }));
        }
        assert_eq!(names.0.len(), TOP_NAMES_MAX);
        one.lock().expect("unused").copy_from(&names);
        let mut names = TopNames::new();
        names.count(&wire("often"));
        other.lock().expect("unused").copy_from(&names);
        let top = shown.top();
        assert_eq!(top.len(), TOP_NAMES_SHOWN);
        assert_eq!(top[0].name, "often.");
        let sure = top[0].queries - top[0].over;
        let asked = u64::try_from(10 * TOP_NAMES_MAX + 1).expect("few");
        assert!(sure <= asked && top[0].queries >= asked, "{:?}", top[0]);
        drop((one, other));
        assert!(shown.top().is_empty());
    }
}
