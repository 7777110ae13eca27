//! Rate limits of clients' networks, of zones, and of rules.
//!
//! Invariant: the tables have a fixed size, each query costs the same few steps, and nothing allocates,
//! whatever clients ask. All workers count together: a client whose sockets are spread over them gets no
//! multiple of its rate.

mod buckets;
mod zone;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Instant;

use crate::config::{Limits, RateOf, RuleRate};
use crate::limits::{ENCODED_MISSES_SHARE, PROVEN_FOR, ZONE_REPORT_QUIET, ZONE_REPORTS_PER_S_MAX};
use crate::siphash::{SipHash13, SipKey};
use crate::wire::Name;

pub use buckets::{Buckets, Rate, Verdict};
pub use zone::{Cut, cut};

/// The tables, for all workers.
#[derive(Debug)]
pub struct RateLimiter {
    hash_key: SipKey,
    start: Instant,
    /// Queries, by network.
    clients: Buckets,
    /// Bytes of responses on datagrams, by network.
    bytes: Buckets,
    /// Networks that have proven their address.
    proven: Buckets,
    /// Questions that were asked of servers, by zone.
    misses: Buckets,
    /// Questions that were asked of servers for names that look like data, by zone.
    encoded: Buckets,
    /// Zones that were logged.
    reported: Buckets,
    /// Queries that match a rule with a limit: by rule, or by rule and network.
    rules: Buckets,
}

/// The decision about a question that is to be asked of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// The question may be asked.
    Within,
    /// Too many questions of its zone in this second: a flood of random subdomains.
    Flood(Report),
    /// Too many questions of its zone whose names look like data: a tunnel.
    Tunnel(Report),
}

/// The need to log a zone that is beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The zone was not logged for some time, and is to be.
    Due,
    /// The zone was logged already, or too many zones were.
    NotDue,
}

impl RateLimiter {
    /// Bytes of the tables.
    pub const BYTES: usize = 7 * Buckets::BYTES;

    /// Empty tables. `hash_key` has to be random and secret, so that no client can choose another one to share
    /// its bucket with.
    #[must_use]
    pub fn new(hash_key: SipKey, start: Instant) -> Self {
        Self {
            hash_key,
            start,
            clients: Buckets::new(),
            bytes: Buckets::new(),
            proven: Buckets::new(),
            misses: Buckets::new(),
            encoded: Buckets::new(),
            reported: Buckets::new(),
            rules: Buckets::new(),
        }
    }

    /// Counts a query of a client. [`Verdict::Beyond`]: above `client_qps` of its network.
    pub fn query(&self, client: IpAddr, limits: &Limits, now: Instant) -> Verdict {
        let Some(per_second) = limits.client_qps.map(NonZeroU32::get) else {
            return Verdict::Within;
        };
        let hash = self.network(client);
        self.clients
            .take(hash, Rate { per_second }, 1, self.us(now))
    }

    /// Counts a client's query that matches the rule of this number. [`Verdict::Beyond`]: above the rule's rate.
    /// Rules that have changed places by a reload go on with each other's counts.
    pub fn rule(&self, (number, rate): (usize, RuleRate), client: IpAddr, now: Instant) -> Verdict {
        let mut hash = SipHash13::new(&self.hash_key);
        hash.write(&number.to_le_bytes());
        match rate.of {
            RateOf::Client => hash_network(&mut hash, client),
            RateOf::All => {}
        }
        let per_second = rate.queries_per_second.get();
        self.rules
            .take(hash.finish(), Rate { per_second }, 1, self.us(now))
    }

    /// Notes that a client has proven its address: by a cookie, or by a connection.
    pub fn prove(&self, client: IpAddr, limits: &Limits, now: Instant) {
        if limits.unproven_bytes_per_s.is_some() {
            let us = us(PROVEN_FOR);
            self.proven.mark(self.network(client), us, self.us(now));
        }
    }

    /// Counts a datagram of `len` bytes to a client. [`Verdict::Beyond`]: above `unproven_bytes_per_s` of a network
    /// that has not proven its address.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn response(&self, client: IpAddr, len: usize, limits: &Limits, now: Instant) -> Verdict {
        let Some(per_second) = limits.unproven_bytes_per_s.map(NonZeroU32::get) else {
            return Verdict::Within;
        };
        let (hash, now_us) = (self.network(client), self.us(now));
        if self.proven.is_marked(hash, us(PROVEN_FOR), now_us) {
            return Verdict::Within;
        }
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.bytes.take(hash, Rate { per_second }, len, now_us)
    }

    /// Counts a question that is about to be asked of servers, for the zone of its name.
    pub fn miss(&self, name: &Name, limits: &Limits, now: Instant) -> (Miss, Looks) {
        let cut = cut(name);
        let looks = match cut.looks_encoded() {
            true => Looks::Encoded,
            false => Looks::Plain,
        };
        let Some(per_second) = limits.zone_misses_per_s.map(NonZeroU32::get) else {
            return (Miss::Within, looks);
        };
        let (hash, now_us) = (self.zone(cut.zone), self.us(now));
        let (buckets, per_second) = match looks {
            Looks::Plain => (&self.misses, per_second),
            Looks::Encoded => (&self.encoded, per_second.div_ceil(ENCODED_MISSES_SHARE)),
        };
        let miss = match (buckets.take(hash, Rate { per_second }, 1, now_us), looks) {
            (Verdict::Within, _) => Miss::Within,
            (Verdict::Beyond, Looks::Plain) => Miss::Flood(self.report(hash, now_us)),
            (Verdict::Beyond, Looks::Encoded) => Miss::Tunnel(self.report(!hash, now_us)),
        };
        (miss, looks)
    }

    fn report(&self, hash: u64, now_us: u64) -> Report {
        let quiet = us(ZONE_REPORT_QUIET);
        if self.reported.is_marked(hash, quiet, now_us) {
            return Report::NotDue;
        }
        // A flood of many zones must not fill the log.
        let rate = Rate {
            per_second: ZONE_REPORTS_PER_S_MAX,
        };
        match self.misses.take(self.zone(b"reports"), rate, 1, now_us) {
            Verdict::Beyond => Report::NotDue,
            Verdict::Within => {
                self.reported.mark(hash, quiet, now_us);
                Report::Due
            }
        }
    }

    /// The hash of a client's network (/24, /56): one customer of a provider has at least that, and forged source
    /// addresses within it would serve an attacker equally.
    fn network(&self, client: IpAddr) -> u64 {
        let mut hash = SipHash13::new(&self.hash_key);
        hash_network(&mut hash, client);
        hash.finish()
    }

    fn zone(&self, zone: &[u8]) -> u64 {
        let mut hash = SipHash13::new(&self.hash_key);
        zone.iter()
            .for_each(|byte| hash.write_byte(byte.to_ascii_lowercase()));
        hash.finish()
    }

    fn us(&self, now: Instant) -> u64 {
        us(now.saturating_duration_since(self.start))
    }
}

fn hash_network(hash: &mut SipHash13, client: IpAddr) {
    match client {
        IpAddr::V4(client) => hash.write(&client.octets()[..3]),
        IpAddr::V6(client) => hash.write(&client.octets()[..7]),
    }
}

/// The look of a name: plain, or like encoded data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// A plain name.
    Plain,
    /// Data that is carried in a name.
    Encoded,
}

fn us(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
