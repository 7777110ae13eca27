//! A response as it is kept: without OPT, its TTLs within the policy, ready to be aged and sent again.

use crate::limits::CACHED_RECORDS_MAX;

use super::code::Rtype;
use super::error::WireError;
use super::message::{Message, Question};
use super::record::{Record, Section};

/// Where the parts of a response are that lies in a buffer, without an OPT record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// Bytes of the whole.
    pub len: usize,
    /// Where the authority section begins.
    pub authority_at: usize,
    /// Where the additional section begins.
    pub additional_at: usize,
}

/// Where the TTLs of a response's records stand.
#[derive(Debug, Clone)]
pub struct TtlOffsets {
    at: [u16; CACHED_RECORDS_MAX],
    len: usize,
}

/// Bounds of TTLs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlPolicy {
    /// Records are kept for at least this long.
    pub min: u32,
    /// Records are kept for at most this long.
    pub max: u32,
    /// Negative responses are kept for at most this long. RFC 2308 §5 recommends one to three hours.
    pub negative_max: u32,
}

/// What a response may be kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// It answers: for the shortest of its TTLs.
    Positive(u32),
    /// It says that there is no such name or type: RFC 2308 §5.
    Negative(u32),
}

impl Lifetime {
    /// In seconds.
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
    /// The offsets.
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
    /// A TTL within the bounds. RFC 8767 §4: one of more than 31 bits is a large one, not none.
    #[must_use]
    pub fn bounded(&self, ttl: u32) -> u32 {
        ttl.max(self.min).min(self.max)
    }
}

/// Brings the TTLs of a response's records within the policy, in place, notes in `offsets` where they
/// stand, and says for how long the response may be kept. `negative_ttl` is that of a negative response:
/// its records have no longer one.
///
/// # Errors
/// [`WireError`] for what is no message; `Ok(None)` for none, or for more records than can be kept, whose TTLs
/// are within the policy all the same.
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

/// Takes `age` seconds off the TTLs at these offsets; what is used up becomes `floor`.
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
    /// The parts of a response that is read, OPT being last or missing.
    #[must_use]
    pub fn of(message: &Message<'_>) -> Self {
        Self {
            len: message.bytes().len(),
            authority_at: message.section_at(Section::Authority),
            additional_at: message.section_at(Section::Additional),
        }
    }

    /// A response of a question alone.
    #[must_use]
    pub fn of_question(question: &Question<'_>) -> Self {
        Self {
            len: question.end(),
            authority_at: question.end(),
            additional_at: question.end(),
        }
    }
}
