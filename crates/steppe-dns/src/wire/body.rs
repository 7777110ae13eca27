//! A response as it is cached: without OPT, with TTLs within the policy, ready to be aged and sent.

use crate::limits::CACHED_RECORDS_MAX;

use super::code::Rtype;
use super::error::WireError;
use super::message::{Message, Question};
use super::record::{Record, Section};

/// Offsets of the sections of a response in a buffer, without an OPT record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// Length in bytes.
    pub len: usize,
    /// Offset of the authority section.
    pub authority_at: usize,
    /// Offset of the additional section.
    pub additional_at: usize,
}

/// Offsets of the TTLs of a response's records.
#[derive(Debug, Clone)]
pub struct TtlOffsets {
    at: [u16; CACHED_RECORDS_MAX],
    len: usize,
}

/// Bounds of TTLs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlPolicy {
    /// Minimum TTL of records.
    pub min: u32,
    /// Maximum TTL of records.
    pub max: u32,
    /// Maximum TTL of negative responses. RFC 2308 §5 recommends one to three hours.
    pub negative_max: u32,
}

/// Time that a response may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// A positive response: the shortest of its TTLs.
    Positive(u32),
    /// A negative response, to a name or type that does not exist: RFC 2308 §5.
    Negative(u32),
}

impl Lifetime {
    /// The time in seconds.
    #[must_use]
    pub fn seconds(self) -> u32 {
        match self {
            Self::Positive(seconds) | Self::Negative(seconds) => seconds,
        }
    }
}

impl Default for TtlOffsets {
    fn default() -> Self {
        Self {
            at: [0; CACHED_RECORDS_MAX],
            len: 0,
        }
    }
}

impl TtlOffsets {
    /// The offsets in ascending order.
    #[must_use]
    pub fn as_slice(&self) -> &[u16] {
        &self.at[..self.len]
    }

    fn push(&mut self, ttl_at: usize) -> Option<()> {
        *self.at.get_mut(self.len)? = u16::try_from(ttl_at).ok()?;
        self.len += 1;
        Some(())
    }
}

impl TtlPolicy {
    /// A TTL within the bounds. RFC 8767 §4: a TTL of more than 31 bits is large, not zero.
    #[must_use]
    pub fn bounded(&self, ttl: u32) -> u32 {
        ttl.max(self.min).min(self.max)
    }
}

/// Limits the TTLs of a response's records to the policy, in place, and stores their offsets in `offsets`.
/// Returns the time that the response may be cached. `negative_ttl` is the TTL of a negative response:
/// its records have no longer one.
///
/// # Errors
/// [`WireError`] for a malformed message. `Ok(None)` without records, or with more records than can be cached; their
/// TTLs are limited all the same.
pub fn apply_policy(
    response: &mut [u8],
    policy: &TtlPolicy,
    negative_ttl: Option<u32>,
    offsets: &mut TtlOffsets,
) -> Result<Option<Lifetime>, WireError> {
    let ttl_max = match negative_ttl {
        Some(ttl) => policy.bounded(ttl).min(policy.negative_max),
        None => policy.max,
    };
    let message = Message::parse(response)?;
    let counts = Section::ALL.map(|section| usize::from(message.count(section)));
    let mut at = message.section_at(Section::Answer);
    let (mut shortest, mut can_be_kept) = (ttl_max, true);
    offsets.len = 0;
    for _ in 0..counts.iter().sum() {
        let record = Record::read(response, at)?;
        at = record.end();
        if record.rtype == Rtype::OPT {
            continue;
        }
        let ttl = policy.bounded(record.ttl).min(ttl_max);
        let ttl_at = record.ttl_at;
        can_be_kept &= offsets.push(ttl_at).is_some();
        shortest = shortest.min(ttl);
        response[ttl_at..ttl_at + 4].copy_from_slice(&ttl.to_be_bytes());
    }
    Ok(match negative_ttl {
        _ if !can_be_kept => None,
        Some(_) => Some(Lifetime::Negative(shortest)),
        None if offsets.len == 0 => None,
        None => Some(Lifetime::Positive(shortest)),
    })
}

/// Subtracts `age` seconds from the TTLs at these offsets; TTLs that would be lower become `floor`.
pub fn age_ttls(response: &mut [u8], offsets: impl Iterator<Item = u16>, age: u32, floor: u32) {
    for at in offsets.map(usize::from) {
        if let Some(place) = response.get_mut(at..at + 4)
            && let Ok(bytes) = <[u8; 4]>::try_from(&*place)
        {
            let left = u32::from_be_bytes(bytes).saturating_sub(age).max(floor);
            place.copy_from_slice(&left.to_be_bytes());
        }
    }
}

impl Body {
    /// The sections of a parsed response, whose OPT record is last or missing.
    #[must_use]
    pub fn of(message: &Message<'_>) -> Self {
        Self {
            len: message.bytes().len(),
            authority_at: message.section_at(Section::Authority),
            additional_at: message.section_at(Section::Additional),
        }
    }

    /// A response with a question and no records.
    #[must_use]
    pub fn of_question(question: &Question<'_>) -> Self {
        Self {
            len: question.end(),
            authority_at: question.end(),
            additional_at: question.end(),
        }
    }
}
