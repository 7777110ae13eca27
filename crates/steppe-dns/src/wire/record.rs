//! Records where they stand in a message. Spec: RFC 1035 §4.1.3.

use super::code::{Class, Rtype};
use super::error::WireError;
use super::name::skip_name;

/// A section of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// What answers the question.
    Answer,
    /// Authorities, and proofs of absence.
    Authority,
    /// Additional records, and OPT.
    Additional,
}

impl Section {
    /// In the order of a message.
    pub const ALL: [Self; 3] = [Self::Answer, Self::Authority, Self::Additional];
}

/// A record in a message, by where its parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where its owner's name begins.
    pub owner_at: usize,
    /// Its type.
    pub rtype: Rtype,
    /// Its class; of OPT, the requestor's payload size.
    pub class: Class,
    /// Where its TTL stands.
    pub ttl_at: usize,
    /// Its TTL in seconds.
    pub ttl: u32,
    /// Where its data begins.
    pub rdata_at: usize,
    /// Its data.
    pub rdata: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record that begins at `at`.
    ///
    /// # Errors
    /// [`WireError::Short`], or what is wrong with its owner's name.
    pub(super) fn read(bytes: &'a [u8], at: usize) -> Result<Self, WireError> {
        let fixed_at = skip_name(bytes, at)?;
        let fixed = bytes
            .get(fixed_at..)
            .and_then(|rest| rest.first_chunk::<10>());
        let &[t0, t1, c0, c1, l0, l1, l2, l3, d0, d1] = fixed.ok_or(WireError::Short)?;
        let rdata_at = fixed_at + 10;
        let rdata_end = rdata_at + usize::from(u16::from_be_bytes([d0, d1]));
        Ok(Self {
            owner_at: at,
            rtype: Rtype(u16::from_be_bytes([t0, t1])),
            class: Class(u16::from_be_bytes([c0, c1])),
            ttl_at: fixed_at + 4,
            ttl: u32::from_be_bytes([l0, l1, l2, l3]),
            rdata_at,
            rdata: bytes.get(rdata_at..rdata_end).ok_or(WireError::Short)?,
        })
    }

    /// Where the next record begins.
    #[must_use]
    pub fn end(&self) -> usize {
        self.rdata_at + self.rdata.len()
    }
}
