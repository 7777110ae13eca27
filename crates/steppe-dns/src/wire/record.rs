//! Records in place, in their message. Spec: RFC 1035 §4.1.3.

use super::code::{Class, Rtype};
use super::error::WireError;
use super::name::skip_name;

/// A section of a message with records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Answers to the question.
    Answer,
    /// Authorities, and proofs of nonexistence.
    Authority,
    /// Additional records, and OPT.
    Additional,
}

impl Section {
    /// All sections, in the order of a message.
    pub const ALL: [Self; 3] = [Self::Answer, Self::Authority, Self::Additional];
}

/// A record in a message, by the offsets of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset of the owner name.
    pub owner_at: usize,
    /// Type of the record.
    pub rtype: Rtype,
    /// Class of the record; in OPT, the requestor's payload size.
    pub class: Class,
    /// Offset of the TTL.
    pub ttl_at: usize,
    /// TTL in seconds.
    pub ttl: u32,
    /// Offset of the data.
    pub rdata_at: usize,
    /// Data of the record.
    pub rdata: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads the record at offset `at`.
    ///
    /// # Errors
    /// [`WireError::Short`], or the error of the owner name.
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

    /// Offset of the next record.
    #[must_use]
    pub fn end(&self) -> usize {
        self.rdata_at + self.rdata.len()
    }
}
