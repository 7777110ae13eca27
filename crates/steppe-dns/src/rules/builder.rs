//! Collects rules of lists, and makes the index and the file of their sources.
//!
//! Invariant: while it collects it takes sixteen bytes a rule and an eighth more; while it makes the index
//! it gives these back part by part.

use std::io::{self, Write};

use crate::limits::{LISTS_MAX, RULES_MAX};
use crate::siphash::SipKey;

use super::index::{Depths, Filling, Index, Masks, hash_name};
use super::sources::{self, Origin, Record};
use super::syntax::{LineRule, Scope, Verdict};

/// Parts that rules are sorted in, one after the other, by the upper bits of their hash.
const PARTS: usize = 256;

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// More rules than an index has.
    #[error("more than {RULES_MAX} rules")]
    Rules,
    /// A list's number is too large.
    #[error("list {0}, and there may be {LISTS_MAX}")]
    List(u8),
    /// More combinations of lists than can be told apart.
    #[error("too many combinations of lists for one name")]
    Combinations,
    /// The file of sources can't be written.
    #[error("cannot write where rules come from")]
    Io(#[from] io::Error),
}

/// Collects rules.
#[derive(Debug)]
pub struct Builder {
    key: SipKey,
    parts: Vec<Vec<Record>>,
    count: usize,
    depths: Depths,
}

impl Builder {
    /// Collects rules for an index with this key, which is to be random and secret.
    #[must_use]
    pub fn new(key: SipKey) -> Self {
        Self {
            key,
            parts: (0..PARTS).map(|_| Vec::new()).collect(),
            count: 0,
            depths: Depths::default(),
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn add(&mut self, rule: &LineRule, origin: Origin) -> Result<(), BuildError> {
        if origin.list >= LISTS_MAX {
            return Err(BuildError::List(origin.list));
        }
        if self.count == RULES_MAX {
            return Err(BuildError::Rules);
        }
        let (hash, labels) = hash_name(&self.key, &rule.name);
        // The root, and with it every name, is a rule of its own and no list's.
        if labels == 0 {
            return Ok(());
        }
        self.depths.add(labels);
        self.count += 1;
        let part = &mut self.parts[usize::from(hash.to_be_bytes()[0])];
        if part.len() == part.capacity() {
            part.reserve_exact((part.len() / 8).max(64));
        }
        part.push(Record::new(hash, rule, origin));
        Ok(())
    }

    /// Rules so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes the index, and writes the file that [`super::explain`] reads.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn finish(self, sources: &mut impl Write) -> Result<Index, BuildError> {
        sources::write_header(&self.key, self.count, sources)?;
        let mut filling = Filling::new(self.key, self.count, self.depths);
        for mut part in self.parts {
            part.sort_unstable();
            for rules in part.chunk_by(|one, other| one.hash == other.hash) {
                let masks = rules.iter().fold(Masks::default(), add_rule);
                if !filling.push(rules[0].hash, masks) {
                    return Err(BuildError::Combinations);
                }
                rules.iter().try_for_each(|record| record.write(sources))?;
            }
        }
        Ok(filling.finish())
    }
}

fn add_rule(mut masks: Masks, record: &Record) -> Masks {
    let bit = 1_u64 << record.list;
    let verdict = match record.verdict() {
        Verdict::Block => 0,
        Verdict::Allow => 1,
    };
    let scope = record.scope();
    if scope != Scope::Below {
        masks.exact[verdict] |= bit;
    }
    if scope != Scope::Exact {
        masks.below[verdict] |= bit;
    }
    masks
}
