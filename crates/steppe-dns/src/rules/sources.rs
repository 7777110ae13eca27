//! Where rules stand: a file of sixteen bytes a rule, in the order of their names' hashes, in which a name
//! is found by halving. It is not held in memory.
//!
//! ```text
//! "steppeRS", version (4 bytes), 0 (4), rules (8), hash of nothing by the index's key (8)
//! for each rule: hash (8), line (4), file (2), list (1), kind (1)
//! ```
//! Numbers have their highest byte first, so that records sort as bytes do.

use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::siphash::{SipHash13, SipKey};
use crate::wire::Name;

use super::index::{Depth, Index, for_each_suffix};
use super::syntax::{LineRule, Scope, Verdict};

const MAGIC: &[u8; 8] = b"steppeRS";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 32;
const RECORD_BYTES: usize = 16;
/// Rules for one name that are shown: one a list, and some that repeat.
const SHOWN_MAX: u64 = 256;

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The list, below [`crate::limits::LISTS_MAX`].
    pub list: u8,
    /// The file of the list, as the caller numbers them.
    pub file: u16,
    /// The line, from 1.
    pub line: u32,
}

/// A rule's name as its hash, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub hash: u64,
    line: u32,
    file: u16,
    pub list: u8,
    kind: u8,
}

/// A rule that is for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where it stands.
    pub origin: Origin,
    /// Labels of its name, which is the end of the name that was asked for.
    pub labels: usize,
    /// Which names it is for.
    pub scope: Scope,
    /// What becomes of them.
    pub verdict: Verdict,
}

/// Why a file says nothing about an index.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// It can't be read.
    #[error("cannot read where rules come from")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a file of rules' sources")]
    Magic,
    /// It was written with another index.
    #[error("sources of another index")]
    OtherIndex,
}

impl Record {
    pub(super) fn new(hash: u64, rule: &LineRule, origin: Origin) -> Self {
        let scope = match rule.scope {
            Scope::Exact => 0,
            Scope::Below => 1,
            Scope::Suffix => 2,
        };
        let verdict = match rule.verdict {
            Verdict::Block => 0,
            Verdict::Allow => 4,
        };
        Self {
            hash,
            line: origin.line,
            file: origin.file,
            list: origin.list,
            kind: scope | verdict,
        }
    }

    pub(super) fn scope(&self) -> Scope {
        match self.kind & 3 {
            0 => Scope::Exact,
            1 => Scope::Below,
            _ => Scope::Suffix,
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        if self.kind & 4 == 0 {
            Verdict::Block
        } else {
            Verdict::Allow
        }
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.hash.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.line.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.file.to_be_bytes());
        bytes[14..].copy_from_slice(&[self.list, self.kind]);
        out.write_all(&bytes)
    }

    fn read(bytes: [u8; RECORD_BYTES]) -> Self {
        let [
            h0,
            h1,
            h2,
            h3,
            h4,
            h5,
            h6,
            h7,
            l0,
            l1,
            l2,
            l3,
            f0,
            f1,
            list,
            kind,
        ] = bytes;
        Self {
            hash: u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7]),
            line: u32::from_be_bytes([l0, l1, l2, l3]),
            file: u16::from_be_bytes([f0, f1]),
            list,
            kind,
        }
    }
}

fn key_check(key: &SipKey) -> u64 {
    SipHash13::of(key, &[])
}

pub(super) fn write_header(key: &SipKey, rules: usize, out: &mut impl Write) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_be_bytes())?;
    out.write_all(&[0; 4])?;
    out.write_all(&(rules as u64).to_be_bytes())?;
    out.write_all(&key_check(key).to_be_bytes())
}

/// Shows the rules of an index that are for a name, those of shorter names first. `read_at` fills a buffer
/// from a place of the file.
///
/// # Errors
/// [`SourcesError`].
pub fn explain(
    index: &Index,
    name: &Name,
    mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    mut each: impl FnMut(Found),
) -> Result<(), SourcesError> {
    let rules = read_header(index, &mut read_at)?;
    let mut result = Ok(());
    for_each_suffix(index.key(), name, |hash, labels, depth| {
        result = rules_of(hash.finish(), rules, &mut read_at, |record| {
            let is_for_it = match depth {
                Depth::Whole => record.scope() != Scope::Below,
                Depth::Above => record.scope() != Scope::Exact,
            };
            if is_for_it {
                each(Found {
                    origin: Origin {
                        list: record.list,
                        file: record.file,
                        line: record.line,
                    },
                    labels,
                    scope: record.scope(),
                    verdict: record.verdict(),
                });
            }
        });
        if result.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    Ok(result?)
}

fn read_header(
    index: &Index,
    read_at: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<u64, SourcesError> {
    let mut magic = [0; 16];
    let mut numbers = [[0; 8]; 2];
    read_at(0, &mut magic)?;
    read_at(16, &mut numbers[0])?;
    read_at(24, &mut numbers[1])?;
    if !magic.starts_with(MAGIC) || magic[8..12] != VERSION.to_be_bytes() {
        return Err(SourcesError::Magic);
    }
    let [rules, check] = numbers.map(u64::from_be_bytes);
    if check != key_check(index.key()) {
        return Err(SourcesError::OtherIndex);
    }
    Ok(rules)
}

/// Shows the records of a hash.
fn rules_of(
    hash: u64,
    rules: u64,
    read_at: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    mut each: impl FnMut(Record),
) -> io::Result<()> {
    let mut record = |at: u64| {
        let mut bytes = [0; RECORD_BYTES];
        let place = at
            .saturating_mul(RECORD_BYTES as u64)
            .saturating_add(HEADER_BYTES);
        read_at(place, &mut bytes).map(|()| Record::read(bytes))
    };
    let (mut low, mut high) = (0, rules);
    while low < high {
        let middle = low + (high - low) / 2;
        if record(middle)?.hash < hash {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for at in low..rules.min(low.saturating_add(SHOWN_MAX)) {
        let found = record(at)?;
        if found.hash != hash {
            break;
        }
        each(found);
    }
    Ok(())
}
