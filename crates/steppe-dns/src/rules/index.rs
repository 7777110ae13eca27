//! The index of domain rules: from a name to the lists that it is on.
//!
//! ```text
//!  starts:   4 bytes a bucket of about eight entries, by the upper bits of a name's hash
//!  entries:  48 bits of the hash, 16 bits: which masks
//!  masks:    two sets of lists for each verdict, each combination that occurs once
//! ```
//! Names themselves are not kept: with the bits that choose a bucket, 64 bits of a keyed hash are compared.
//! Among a million rules a name that is on no list is taken for one with a probability of 10⁻¹² (eight
//! suffixes, each against about 2²⁰ hashes of 64 bits), and without the key such a name can't be made on
//! purpose. Lookups go from the top of the name downwards, so that each label is hashed once.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::syntax::Verdict;
use crate::limits::NAME_LABELS_MAX;
use crate::siphash::{SipHash13, SipKey};
use crate::wire::Name;

/// A set of lists, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ListSet(pub u64);

/// The lists that a name is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Matches {
    /// Lists that have a rule for the name by which it has no data (NODATA).
    pub no_data: ListSet,
    /// Lists that have a rule for the name.
    pub blocked: ListSet,
    /// Lists that have an exception for the name.
    pub allowed: ListSet,
    /// Lists that have a rule for the name that overrides exceptions.
    pub blocked_important: ListSet,
    /// Lists that have an exception for the name that overrides those rules too.
    pub allowed_important: ListSet,
}

/// The lists with rules for one name, by verdict: rules for the name itself, and rules for names below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Masks {
    pub exact: [u64; Verdict::COUNT],
    pub below: [u64; Verdict::COUNT],
}

/// The index.
#[derive(Debug)]
pub struct Index {
    key: SipKey,
    starts: Box<[u32]>,
    entries: Box<[u64]>,
    masks: Box<[Masks]>,
    depths: Depths,
}

/// Bits of an entry for the hash.
const HASH_BITS: u32 = 48;
/// Bits of an entry for the number of its masks.
const MASK_BITS: u32 = 64 - HASH_BITS;
/// Different masks that an index can have.
pub(super) const MASKS_MAX: usize = 1 << MASK_BITS;
/// Entries of a bucket, as planned.
const BUCKET_ENTRIES: usize = 8;

impl ListSet {
    /// True if a list is in the set.
    #[must_use]
    pub fn has(self, list: u8) -> bool {
        self.0 >> (list % 64) & 1 == 1
    }

    /// The lists of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |list| self.has(*list))
    }
}

impl FromIterator<u8> for ListSet {
    fn from_iter<I: IntoIterator<Item = u8>>(lists: I) -> Self {
        Self(
            lists
                .into_iter()
                .fold(0, |set, list| set | 1 << (list % 64)),
        )
    }
}

impl Matches {
    /// The lists that the name is on: those that have a rule and no exception for it, importance considered.
    #[must_use]
    pub fn listed(&self) -> ListSet {
        let usual = (self.blocked.0 | self.no_data.0) & !self.allowed.0;
        ListSet((usual | self.blocked_important.0) & !self.allowed_important.0)
    }

    /// True if all of `lists`, which the name is on, have it without data (NODATA).
    #[must_use]
    pub fn deny_data(&self, lists: ListSet) -> bool {
        lists.0 & (self.blocked.0 | self.blocked_important.0) == 0
    }

    /// The lists that have a rule of this verdict for the name.
    pub(crate) fn of_mut(&mut self, verdict: Verdict) -> &mut ListSet {
        match verdict {
            Verdict::NoData => &mut self.no_data,
            Verdict::Block => &mut self.blocked,
            Verdict::Allow => &mut self.allowed,
            Verdict::BlockImportant => &mut self.blocked_important,
            Verdict::AllowImportant => &mut self.allowed_important,
        }
    }
}

/// The numbers of labels that names of rules have, a bit each: suffixes with another number are not looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Depths(u128);

impl Depths {
    /// Adds the number of labels of a name.
    pub(super) fn add(&mut self, labels: usize) {
        self.0 |= 1 << labels;
    }

    pub(super) fn has(self, labels: usize) -> bool {
        self.0 >> labels & 1 == 1
    }

    /// True if there are names of more than `labels` labels.
    pub(super) fn go_on(self, labels: usize) -> bool {
        self.0 >> labels > 1
    }
}

/// Calls `each` with each suffix of a name, the shortest first: its hash, its number of labels, and its depth.
/// Stops when `each` breaks.
pub(super) fn for_each_suffix(
    key: &SipKey,
    name: &Name,
    mut each: impl FnMut(&SipHash13, usize, Depth) -> ControlFlow<()>,
) {
    let lower = name.to_lower();
    let wire = lower.wire();
    let (mut starts, mut count, mut at) = ([0; NAME_LABELS_MAX], 0, 0);
    while wire[at] != 0 {
        starts[count] = at;
        count += 1;
        at += 1 + usize::from(wire[at]);
    }
    let mut hash = SipHash13::new(key);
    for (labels, &start) in starts[..count].iter().rev().enumerate() {
        let end = start + 1 + usize::from(wire[start]);
        hash.write(&wire[start + 1..end]);
        hash.write_byte(wire[start]);
        let depth = if labels + 1 == count {
            Depth::Whole
        } else {
            Depth::Above
        };
        if each(&hash, labels + 1, depth).is_break() {
            return;
        }
    }
}

/// The depth of a suffix: the whole name, or a name above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Whole,
    Above,
}

/// The hash of a name, and its number of labels.
#[must_use]
pub fn hash_name(key: &SipKey, name: &Name) -> (u64, usize) {
    let mut found = (SipHash13::new(key).finish(), 0);
    for_each_suffix(key, name, |hash, labels, _| {
        found = (hash.finish(), labels);
        ControlFlow::Continue(())
    });
    found
}

impl Index {
    /// The lists that a name is on.
    #[must_use]
    pub fn matches(&self, name: &Name) -> Matches {
        let mut sets = [0; Verdict::COUNT];
        for_each_suffix(&self.key, name, |hash, labels, depth| {
            if self.depths.has(labels)
                && let Some(masks) = self.masks_of(hash.finish())
            {
                let of_suffix = match depth {
                    Depth::Whole => &masks.exact,
                    Depth::Above => &masks.below,
                };
                sets.iter_mut()
                    .zip(of_suffix)
                    .for_each(|(set, mask)| *set |= mask);
            }
            if self.depths.go_on(labels) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let [
            no_data,
            blocked,
            allowed,
            blocked_important,
            allowed_important,
        ] = sets.map(ListSet);
        Matches {
            no_data,
            blocked,
            allowed,
            blocked_important,
            allowed_important,
        }
    }

    /// The number of names that have rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no name has rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that an index of so many rules takes at most while it is made, without its masks.
    #[must_use]
    pub fn bytes_max(rules: usize) -> usize {
        rules * size_of::<u64>() + (buckets(rules) + 1) * size_of::<u32>()
    }

    /// Bytes of the index.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.entries) + size_of_val(&*self.masks)
    }

    /// The key of the index's hashes.
    #[must_use]
    pub fn key(&self) -> &SipKey {
        &self.key
    }

    fn masks_of(&self, hash: u64) -> Option<&Masks> {
        let bucket = bucket_of(hash, self.starts.len() - 1);
        let (start, end) = (self.starts[bucket], self.starts[bucket + 1]);
        let entries = &self.entries[start as usize..end as usize];
        let wanted = hash << MASK_BITS >> MASK_BITS;
        let entry = entries
            .iter()
            .find(|entry| **entry >> MASK_BITS == wanted)?;
        self.masks
            .get(usize::try_from(entry & (MASKS_MAX as u64 - 1)).ok()?)
    }
}

/// Buckets of an index for so many names.
fn buckets(names_max: usize) -> usize {
    (names_max / BUCKET_ENTRIES).next_power_of_two()
}

/// The bucket for the upper bits of a hash.
fn bucket_of(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

/// An index that is being filled, hashes in ascending order.
#[derive(Debug)]
pub(super) struct Filling {
    key: SipKey,
    starts: Vec<u32>,
    entries: Vec<u64>,
    masks: Vec<Masks>,
    numbers: HashMap<Masks, u16>,
    depths: Depths,
}

impl Filling {
    /// An empty index for at most `names_max` names.
    pub(super) fn new(key: SipKey, names_max: usize, depths: Depths) -> Self {
        Self {
            key,
            starts: vec![0; buckets(names_max) + 1],
            entries: Vec::with_capacity(names_max),
            masks: Vec::new(),
            numbers: HashMap::new(),
            depths,
        }
    }

    /// Adds a name. False if there is no room for another combination of lists.
    #[must_use]
    pub(super) fn push(&mut self, hash: u64, masks: Masks) -> bool {
        let number = match self.numbers.get(&masks) {
            Some(number) => *number,
            None => {
                let Ok(number) = u16::try_from(self.masks.len()) else {
                    return false;
                };
                self.masks.push(masks);
                self.numbers.insert(masks, number);
                number
            }
        };
        let bucket = bucket_of(hash, self.starts.len() - 1);
        // Counts of buckets, which `finish` sums up.
        self.starts[bucket + 1] += 1;
        self.entries.push(hash << MASK_BITS | u64::from(number));
        true
    }

    pub(super) fn finish(mut self) -> Index {
        for bucket in 1..self.starts.len() {
            self.starts[bucket] += self.starts[bucket - 1];
        }
        Index {
            key: self.key,
            starts: self.starts.into_boxed_slice(),
            entries: self.entries.into_boxed_slice(),
            masks: self.masks.into_boxed_slice(),
            depths: self.depths,
        }
    }
}

// A name's number of labels has a bit.
const _: () = assert!(NAME_LABELS_MAX < 128);
