//! An entry in a ring.
//!
//! ```text
//!  0 size, 4 state, 5 kind, 6 times asked for (to 3), 7 key's bits, 8 hash
//! 16 stored at, 20 lifetime, 24 quiet until, 28 view, 30 TTLs, 32 bytes of the body
//! 34 where its authority section begins, 36 extended error, 38 failures in a row
//! 40 subnet (24 bytes, if there is one), offsets of TTLs (2 bytes each), the body
//! ```
//! The body's question is the rest of the key: it is not stored twice.

use crate::wire::{Class, Rtype, Subnet};

use super::key::Key;
use super::memory::{Memory, round_up};
use super::ring::STATE_AT;

/// The kind of an entry: positive, negative, or a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A positive answer.
    Positive,
    /// A negative answer: no such name, or no record of that type.
    Negative,
    /// The servers failed. RFC 9520.
    Failure,
}

/// Bytes of an entry before its subnet.
const FIXED_BYTES: usize = 40;
/// Bytes of a subnet: the address, prefix, family, and up to a word.
const SUBNET_BYTES: usize = 24;
/// Highest hit count of an entry.
const HITS_MAX: u8 = 3;
/// Offset of the question in a body: behind the header.
const QUESTION_AT: usize = 12;

/// The fields of an entry besides its body, its subnet and its offsets of TTLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub kind: Kind,
    pub hits: u8,
    pub key_bits: u8,
    pub hash: u64,
    pub stored_at: u32,
    pub lifetime: u32,
    pub quiet_until: u32,
    pub view: u16,
    pub ttl_count: u16,
    pub body_len: u16,
    pub authority_at: u16,
    pub extended_error: u16,
    pub failures: u16,
}

/// An entry in a memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryRef<'a> {
    memory: &'a Memory,
    at: usize,
}

/// Bytes of an entry under a key.
pub(super) fn size(key: &Key<'_>, ttl_count: usize, body_len: usize) -> usize {
    let subnet = if key.subnet.is_some() {
        SUBNET_BYTES
    } else {
        0
    };
    round_up(FIXED_BYTES + subnet + 2 * ttl_count + body_len)
}

/// Writes an entry whose size and state the ring has written.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub(super) fn write(
    memory: &mut Memory,
    at: usize,
    facts: &Facts,
    subnet: Option<Subnet>,
    ttl_offsets: &[u16],
    body: &[u8],
) {
    memory.set_u8(at + 5, facts.kind as u8);
    memory.set_u8(at + 6, facts.hits);
    memory.set_u8(at + 7, facts.key_bits);
    memory.set_u64(at + 8, facts.hash);
    memory.set_seconds(at + 16, facts.stored_at);
    memory.set_seconds(at + 20, facts.lifetime);
    memory.set_seconds(at + 24, facts.quiet_until);
    memory.set_u16(at + 28, facts.view);
    memory.set_u16(at + 30, facts.ttl_count);
    memory.set_u16(at + 32, facts.body_len);
    memory.set_u16(at + 34, facts.authority_at);
    memory.set_u16(at + 36, facts.extended_error);
    memory.set_u16(at + 38, facts.failures);
    let mut next = at + FIXED_BYTES;
    if let Some(subnet) = subnet {
        memory.write(next, &subnet.address);
        memory.write(next + 16, &[subnet.prefix, subnet.family]);
        next += SUBNET_BYTES;
    }
    for &offset in ttl_offsets {
        memory.set_u16(next, offset);
        next += 2;
    }
    memory.write(next, body);
}

/// Adds a hit to the count of an entry, up to `HITS_MAX`.
pub(super) fn count_hit(memory: &mut Memory, at: usize) {
    let hits = memory.u8(at + 6).saturating_add(1).min(HITS_MAX);
    memory.set_u8(at + 6, hits);
}

/// Takes a hit off the count of an entry. False if the count was zero.
pub(super) fn uncount_hit(memory: &mut Memory, at: usize) -> bool {
    let hits = memory.u8(at + 6);
    memory.set_u8(at + 6, hits.saturating_sub(1));
    hits > 0
}

/// Sets the time until which an entry is not refreshed.
pub(super) fn set_quiet_until(memory: &mut Memory, at: usize, seconds: u32) {
    memory.set_seconds(at + 24, seconds);
}

/// Sets the state of an entry's record: `LIVE` or `DEAD`.
pub(super) fn set_state(memory: &mut Memory, at: usize, state: u8) {
    memory.set_u8(at + STATE_AT, state);
}

impl<'a> EntryRef<'a> {
    pub(super) fn new(memory: &'a Memory, at: usize) -> Self {
        Self { memory, at }
    }

    pub(super) fn facts(&self) -> Facts {
        let (memory, at) = (self.memory, self.at);
        Facts {
            kind: match memory.u8(at + 5) {
                0 => Kind::Positive,
                1 => Kind::Negative,
                _ => Kind::Failure,
            },
            hits: memory.u8(at + 6),
            key_bits: memory.u8(at + 7),
            hash: memory.u64(at + 8),
            stored_at: memory.seconds(at + 16),
            lifetime: memory.seconds(at + 20),
            quiet_until: memory.seconds(at + 24),
            view: memory.u16(at + 28),
            ttl_count: memory.u16(at + 30),
            body_len: memory.u16(at + 32),
            authority_at: memory.u16(at + 34),
            extended_error: memory.u16(at + 36),
            failures: memory.u16(at + 38),
        }
    }

    fn subnet_bytes(facts: &Facts) -> usize {
        if facts.key_bits & Key::HAS_SUBNET == 0 {
            0
        } else {
            SUBNET_BYTES
        }
    }

    /// The network that the answer is for.
    pub(super) fn subnet(&self, facts: &Facts) -> Option<Subnet> {
        let has_one = Self::subnet_bytes(facts) > 0;
        has_one.then(|| {
            let bytes = self.memory.bytes(self.at + FIXED_BYTES, 18);
            let (address, rest) = bytes.split_first_chunk::<16>().expect("18 bytes");
            Subnet {
                address: *address,
                prefix: rest[0],
                family: rest[1],
            }
        })
    }

    /// Offsets in the body of its records' TTLs.
    pub(super) fn ttl_offsets(&self, facts: &Facts) -> impl Iterator<Item = u16> + use<'a> {
        let at = self.at + FIXED_BYTES + Self::subnet_bytes(facts);
        let bytes = self.memory.bytes(at, 2 * usize::from(facts.ttl_count));
        bytes
            .chunks_exact(2)
            .map(|pair| u16::from_ne_bytes([pair[0], pair[1]]))
    }

    /// The message: a response, or the header and question of a failure.
    pub(super) fn body(&self, facts: &Facts) -> &'a [u8] {
        let before = FIXED_BYTES + Self::subnet_bytes(facts) + 2 * usize::from(facts.ttl_count);
        self.memory.bytes(self.at + before, facts.body_len.into())
    }

    /// The key under which it is kept.
    pub(super) fn key(&self, facts: &Facts) -> Key<'a> {
        let body = self.body(facts);
        let question = &body[QUESTION_AT..];
        let mut end = 0;
        while question[end] != 0 {
            end += 1 + usize::from(question[end]);
        }
        let number = |at: usize| u16::from_be_bytes([question[at], question[at + 1]]);
        Key {
            qname: &question[..=end],
            qtype: Rtype(number(end + 1)),
            qclass: Class(number(end + 3)),
            view: facts.view,
            flags: facts.key_bits & !Key::HAS_SUBNET,
            subnet: self.subnet(facts),
        }
    }

    /// True if the entry is stored under this key; their hashes are equal already.
    pub(super) fn is_of(&self, facts: &Facts, key: &Key<'_>) -> bool {
        let question = &self.body(facts)[QUESTION_AT..];
        let (len, [t0, t1]) = (key.qname.len(), key.qtype.0.to_be_bytes());
        let [c0, c1] = key.qclass.0.to_be_bytes();
        facts.view == key.view
            && facts.key_bits == key.bits()
            && question.len() >= len + 4
            && question[..len].eq_ignore_ascii_case(key.qname)
            && question[len..len + 4] == [t0, t1, c0, c1]
            && self.subnet(facts) == key.subnet
    }
}
