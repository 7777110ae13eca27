//! The builder of the index: collects rules of lists.
//!
//! Invariant: collecting takes sixteen bytes a rule and an eighth more; making the index frees these part by
//! part.

use crate::limits::{LISTS_MAX, RULES_MAX};
use crate::siphash::SipKey;

use super::index::{Depths, Filling, Index, Masks, hash_name};
use super::syntax::{LineRule, Scope};

/// Parts that rules are sorted in, one after the other, by the upper bits of their hash.
const PARTS: usize = 256;

/// The reason why an index can't be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More rules than an index has room for.
    #[error("more than {RULES_MAX} rules")]
    Rules,
    /// A list's number is too large.
    #[error("list number {0}, at most {LISTS_MAX} lists are allowed")]
    List(u8),
    /// More combinations of lists than an index can tell apart.
    #[error("too many combinations of lists for one name")]
    Combinations,
}

/// Collects rules.
#[derive(Debug)]
pub struct Builder {
    key: SipKey,
    parts: Vec<Vec<Record>>,
    count: usize,
    depths: Depths,
}

/// The rules of a builder at some time.
#[derive(Debug)]
pub struct Mark {
    lengths: Vec<usize>,
    count: usize,
    depths: Depths,
}

/// A rule, with the hash of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    hash: u64,
    list: u8,
    /// Fields of [`Masks`] that the rule is for: `exact` (1), `below` (2); its verdict in the bits above.
    kind: u8,
}

const EXACT: u8 = 1;
const BELOW: u8 = 2;
const VERDICT_SHIFT: u32 = 2;

impl Builder {
    /// A builder of an index with this key, which has to be random and secret.
    #[must_use]
    pub fn new(key: SipKey) -> Self {
        Self {
            key,
            parts: (0..PARTS).map(|_| Vec::new()).collect(),
            count: 0,
            depths: Depths::default(),
        }
    }

    /// Adds a rule of a list.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn add(&mut self, rule: &LineRule, list: u8) -> Result<(), BuildError> {
        if list >= LISTS_MAX {
            return Err(BuildError::List(list));
        }
        if self.count == RULES_MAX {
            return Err(BuildError::Rules);
        }
        let (hash, labels) = hash_name(&self.key, &rule.name);
        // A list is never for the root, and so for every name: that takes a rule of the configuration.
        if labels == 0 {
            return Ok(());
        }
        self.depths.add(labels);
        self.count += 1;
        let part = &mut self.parts[usize::from(hash.to_be_bytes()[0])];
        if part.len() == part.capacity() {
            part.reserve_exact((part.len() / 8).max(64));
        }
        part.push(Record::new(hash, rule, list));
        Ok(())
    }

    /// A mark of the rules so far, for [`Self::return_to`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            lengths: self.parts.iter().map(Vec::len).collect(),
            count: self.count,
            depths: self.depths,
        }
    }

    /// Removes the rules that were added since a mark, and frees their memory.
    pub fn return_to(&mut self, mark: &Mark) {
        for (part, length) in self.parts.iter_mut().zip(&mark.lengths) {
            part.truncate(*length);
            part.shrink_to_fit();
        }
        (self.count, self.depths) = (mark.count, mark.depths);
    }

    /// The number of rules so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the collected rules take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let records: usize = self.parts.iter().map(Vec::capacity).sum();
        records * size_of::<Record>()
    }

    /// Makes the index.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn finish(self) -> Result<Index, BuildError> {
        let mut filling = Filling::new(self.key, self.count, self.depths);
        for mut part in self.parts {
            part.sort_unstable();
            for rules in part.chunk_by(|one, other| one.hash == other.hash) {
                let masks = rules.iter().fold(Masks::default(), add_rule);
                if !filling.push(rules[0].hash, masks) {
                    return Err(BuildError::Combinations);
                }
            }
        }
        Ok(filling.finish())
    }
}

impl Record {
    fn new(hash: u64, rule: &LineRule, list: u8) -> Self {
        let scope = match rule.scope {
            Scope::Exact => EXACT,
            Scope::Below => BELOW,
            Scope::Suffix => EXACT | BELOW,
        };
        let verdict = (rule.verdict as u8) << VERDICT_SHIFT;
        Self {
            hash,
            list,
            kind: scope | verdict,
        }
    }
}

fn add_rule(mut masks: Masks, record: &Record) -> Masks {
    let bit = 1_u64 << record.list;
    let verdict = usize::from(record.kind >> VERDICT_SHIFT);
    if record.kind & EXACT != 0 {
        masks.exact[verdict] |= bit;
    }
    if record.kind & BELOW != 0 {
        masks.below[verdict] |= bit;
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{PlainScope, Reader};

    fn add(builder: &mut Builder, names: std::ops::Range<usize>) {
        let mut reader = Reader::new(PlainScope::Suffix);
        for number in names {
            let line = format!("n{number}.example");
            reader.line(line.as_bytes(), |rule| {
                builder.add(&rule, 0).expect("there is room");
            });
        }
    }

    #[test]
    fn rules_that_were_added_since_a_mark_are_removed_with_their_memory() {
        let mut builder = Builder::new(SipKey([1, 2]));
        add(&mut builder, 0..1000);
        let (mark, bytes) = (builder.mark(), builder.bytes());
        add(&mut builder, 1000..100_000);
        assert!(builder.bytes() > 4 * bytes);
        builder.return_to(&mark);
        assert_eq!(builder.len(), 1000);
        assert!(builder.bytes() <= bytes, "{} bytes", builder.bytes());
        let index = builder.finish().expect("there is room");
        let is_on = |name: &str| {
            let name = name.parse().expect("a name");
            index.matches(&name).listed().has(0)
        };
        assert_eq!(
            (is_on("n999.example"), is_on("n1000.example")),
            (true, false)
        );
    }
}
