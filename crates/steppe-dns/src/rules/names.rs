//! Names of the configuration's rules: from a query's name to the rules that have it.
//!
//! Names are compared by 64 bits of a keyed hash, as in the index of lists.

use std::ops::ControlFlow;

use super::index::{Depth, Depths, for_each_suffix, hash_name};
use super::syntax::Scope;
use crate::limits::RULES_PER_PROGRAM_MAX;
use crate::siphash::SipKey;
use crate::wire::Name;

/// A set of rules, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleSet([u64; WORDS]);

/// Names, and the rules that have them.
#[derive(Debug)]
pub(super) struct RuleNames {
    key: SipKey,
    /// Names in the order of their hashes.
    entries: Box<[Entry]>,
    depths: Depths,
    /// Rules for the root alone, which has no label to hash.
    of_root: RuleSet,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    rule: u16,
    scope: Scope,
}

const WORDS: usize = RULES_PER_PROGRAM_MAX / 64;

impl RuleSet {
    pub(crate) const EMPTY: Self = Self([0; WORDS]);

    pub(crate) fn insert(&mut self, rule: usize) {
        self.0[rule / 64] |= 1 << (rule % 64);
    }

    pub(crate) fn has(&self, rule: usize) -> bool {
        self.0[rule / 64] >> (rule % 64) & 1 == 1
    }

    /// Words of sixty-four rules each, in ascending order.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    /// The rules of the set, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * at + bit)
            })
        })
    }
}

impl RuleNames {
    /// The names of rules, each with its rule's number and scope.
    pub(super) fn new(key: SipKey, names: impl Iterator<Item = (Name, usize, Scope)>) -> Self {
        let (mut entries, mut depths) = (Vec::new(), Depths::default());
        let mut of_root = RuleSet::EMPTY;
        for (name, rule, scope) in names {
            let (hash, labels) = hash_name(&key, &name);
            if labels == 0 {
                of_root.insert(rule);
                continue;
            }
            depths.add(labels);
            let rule = u16::try_from(rule).unwrap_or(u16::MAX);
            entries.push(Entry { hash, rule, scope });
        }
        entries.sort_unstable_by_key(|entry| entry.hash);
        Self {
            key,
            entries: entries.into_boxed_slice(),
            depths,
            of_root,
        }
    }

    /// Rules that have a name, or a suffix of it.
    pub(super) fn matches(&self, name: &Name) -> RuleSet {
        if name.wire().len() == 1 {
            return self.of_root;
        }
        let mut found = RuleSet::EMPTY;
        if self.entries.is_empty() {
            return found;
        }
        for_each_suffix(&self.key, name, |hash, labels, depth| {
            if self.depths.has(labels) {
                self.insert(hash.finish(), depth, &mut found);
            }
            match self.depths.go_on(labels) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        found
    }

    fn insert(&self, hash: u64, depth: Depth, found: &mut RuleSet) {
        let start = self.entries.partition_point(|entry| entry.hash < hash);
        let same = self.entries[start..].iter();
        for entry in same.take_while(|entry| entry.hash == hash) {
            let is_for_it = match depth {
                Depth::Whole => entry.scope != Scope::Below,
                Depth::Above => entry.scope != Scope::Exact,
            };
            if is_for_it {
                found.insert(entry.rule.into());
            }
        }
    }
}

// A rule's number has 16 bits, and a set whole words.
const _: () = assert!(RULES_PER_PROGRAM_MAX <= u16::MAX as usize);
const _: () = assert!(RULES_PER_PROGRAM_MAX.is_multiple_of(64));
