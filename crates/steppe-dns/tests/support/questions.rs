//! Keys and responses for the cache.

use steppe_dns::cache::{Key, Kind, NewEntry};
use steppe_dns::wire::{
    Class, Lifetime, Message, Rtype, Section, TtlOffsets, TtlPolicy, apply_policy,
};

use crate::messages::{Rr, message, name, soa};

pub const TTL: TtlPolicy = TtlPolicy {
    min: 0,
    max: 86_400,
    negative_max: 86_400,
};

/// A response for the cache.
pub struct Made {
    pub bytes: Vec<u8>,
    pub offsets: TtlOffsets,
    pub lifetime: Lifetime,
}

pub fn key(qname: &[u8]) -> Key<'_> {
    Key {
        qname,
        qtype: Rtype::A,
        qclass: Class::IN,
        view: 0,
        flags: 0,
        subnet: None,
    }
}

/// A response with one address, or, without an address, a denial.
pub fn made(qname: &str, ttl: u32, address: Option<[u8; 4]>) -> Made {
    let (answer, authority);
    let sections: [&[Rr<'_>]; 3] = match address {
        Some(address) => {
            answer = [Rr(qname, 1, ttl, address.to_vec())];
            [&answer, &[], &[]]
        }
        None => {
            authority = [Rr("example", 6, ttl, soa(ttl))];
            [&[], &authority, &[]]
        }
    };
    let mut bytes = message(0, 0x8180, (qname, 1), sections);
    let mut offsets = TtlOffsets::default();
    let negative_ttl = address.is_none().then_some(ttl);
    let lifetime = apply_policy(&mut bytes, &TTL, negative_ttl, &mut offsets);
    Made {
        bytes,
        offsets,
        lifetime: lifetime.expect("a message").expect("with records"),
    }
}

impl Made {
    pub fn entry(&self) -> NewEntry<'_> {
        let message = Message::parse(&self.bytes).expect("a message");
        NewEntry {
            message: &self.bytes,
            authority_at: message.section_at(Section::Authority),
            ttl_offsets: self.offsets.as_slice(),
            kind: match self.lifetime {
                Lifetime::Positive(_) => Kind::Positive,
                Lifetime::Negative(_) => Kind::Negative,
            },
            lifetime: self.lifetime.seconds(),
            age: 0,
        }
    }
}

/// The n-th name, as text and in wire form.
pub fn nth(number: usize) -> (String, Vec<u8>) {
    let text = format!("n{number}.example");
    let wire = name(&text);
    (text, wire)
}
