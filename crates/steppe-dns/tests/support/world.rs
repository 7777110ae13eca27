//! A cache with a clock, and numbered names.

use std::time::{Duration, Instant};

use steppe_dns::cache::{Cache, Hit, Lookup, ServePolicy};
use steppe_dns::limits::CACHED_BODY_BYTES_MAX;
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::{Message, Rcode, Section};

use crate::questions::{key, made, nth};

pub const STRICT: ServePolicy = ServePolicy {
    stale_positive: 0,
    stale_negative: 0,
    prefetch_percent: 0,
};
pub const STALE: ServePolicy = ServePolicy {
    stale_positive: 1000,
    ..STRICT
};

/// A cache whose clock the test controls.
pub struct World {
    pub cache: Cache,
    pub start: Instant,
    pub out: Vec<u8>,
}

impl World {
    pub fn new(bytes: usize) -> Self {
        let start = Instant::now();
        Self {
            cache: Cache::new(bytes, SipKey([3, 5]), start),
            start,
            out: vec![0; CACHED_BODY_BYTES_MAX],
        }
    }

    pub fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn put(&self, number: usize, ttl: u32, address: Option<[u8; 4]>, seconds: u64) {
        let (text, wire) = nth(number);
        let made = made(&text, ttl, address);
        let put = self
            .cache
            .insert(&key(&wire), &made.entry(), &STALE, self.at(seconds));
        put.expect("small");
    }

    pub fn get(&mut self, number: usize, policy: &ServePolicy, seconds: u64) -> Lookup {
        let (_, wire) = nth(number);
        let now = self.at(seconds);
        self.cache.lookup(&key(&wire), policy, now, &mut self.out)
    }

    pub fn hit(&mut self, number: usize, policy: &ServePolicy, seconds: u64) -> Option<Hit> {
        match self.get(number, policy, seconds) {
            Lookup::Hit(hit) => Some(hit),
            _ => None,
        }
    }

    /// The TTL of the first record in the response of the last hit.
    pub fn ttl(&self, hit: &Hit) -> u32 {
        let message = Message::parse(&self.out[..hit.body.len]).expect("a message");
        let mut records = Section::ALL
            .into_iter()
            .flat_map(|section| message.records(section));
        records.next().expect("a record").ttl
    }

    pub fn fail(&self, number: usize, seconds: u64) {
        let (_, wire) = nth(number);
        let failed =
            self.cache
                .insert_failure(&key(&wire), (Rcode::SERVFAIL, 22), &STALE, self.at(seconds));
        failed.expect("a name");
    }
}

pub const SOME: Option<[u8; 4]> = Some([192, 0, 2, 1]);
