//! The cache beside a map without a limit: it may have forgotten, and serves nothing else than the map has.
//!
//! Four bytes are an operation: its kind, the name, the size, the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use steppe_dns::cache::{Cache, Flush, Key, Kind, Lookup, NewEntry, ServePolicy};
use steppe_dns::limits::CACHED_BODY_BYTES_MAX;
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::{Class, Name, Rtype};

const POLICY: ServePolicy = ServePolicy {
    stale_positive: 0,
    stale_negative: 0,
    prefetch_percent: 10,
};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let start = Instant::now();
    let cache = Cache::new(0, SipKey([1, 2]), start);
    let mut model: HashMap<u8, (Vec<u8>, u64, u64)> = HashMap::new();
    let (mut now, mut out) = (0_u64, vec![0; CACHED_BODY_BYTES_MAX]);
    for operation in bytes.chunks_exact(4) {
        let &[what, number, size, seconds] = operation else {
            unreachable!("pieces of four bytes");
        };
        let qname = [1, number, 1, b'x', 0];
        let key = Key {
            qname: &qname,
            qtype: Rtype::TXT,
            qclass: Class::IN,
            view: 0,
            flags: 0,
            subnet: None,
        };
        let at = start + Duration::from_secs(now);
        match what % 8 {
            0..=2 => {
                let message = message(&qname, usize::from(size) * 63, what);
                let entry = NewEntry {
                    message: &message,
                    authority_at: message.len(),
                    ttl_offsets: &[],
                    kind: if what & 8 == 0 {
                        Kind::Positive
                    } else {
                        Kind::Negative
                    },
                    lifetime: seconds.into(),
                    age: 0,
                };
                cache
                    .insert(&key, &entry, &POLICY, at)
                    .expect("below the limit");
                model.insert(folded(number), (message, now, seconds.into()));
            }
            3 => {
                let failed = (steppe_dns::wire::Rcode::SERVFAIL, 0);
                cache
                    .insert_failure(&key, failed, &POLICY, at)
                    .expect("a name");
                let stays = |(_, since, lifetime): &(Vec<u8>, u64, u64)| now < since + lifetime;
                if !model.get(&folded(number)).is_some_and(stays) {
                    model.remove(&folded(number));
                }
            }
            4 => now += u64::from(seconds),
            5 if size == 0 => {
                cache.flush(&Flush::Suffix(
                    Name::from_wire(&qname[2..]).expect("a name"),
                ));
                model.clear();
            }
            _ => {
                if let Lookup::Hit(hit) = cache.lookup(&key, &POLICY, at, &mut out) {
                    let (message, since, lifetime) = &model[&folded(number)];
                    // The case of the name is that of the last insertion.
                    assert_eq!(&out[..hit.body.len], &message[..]);
                    assert!(now < since + lifetime, "stale");
                }
            }
        }
        let stats = cache.stats();
        assert!(stats.entries <= 256 && stats.used_bytes <= cache.bytes() as u64);
    }
}

fn folded(number: u8) -> u8 {
    number.to_ascii_lowercase()
}

/// A header, a question, and bytes that stand for records.
fn message(qname: &[u8], len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(qname);
    bytes.extend([0, 16, 0, 1]);
    bytes.resize(bytes.len() + len, fill);
    bytes
}
