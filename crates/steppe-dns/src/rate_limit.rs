//! What one client's network, or one zone, may have of the forwarder in a second.
//!
//! Invariant: the tables have a fixed size, each question costs the same few steps, and nothing allocates,
//! whatever is asked. All workers count together: a client whose sockets are spread over them gets no
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
    /// Networks that have shown that their address is theirs.
    proven: Buckets,
    /// Questions that were asked of servers, by zone.
    misses: Buckets,
    /// The same for names that look like data.
    encoded: Buckets,
    /// Zones of which the log has told.
    reported: Buckets,
    /// Queries that a rule is for, by rule, and by network where it says so.
    rules: Buckets,
}

/// Whether a question may be asked of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// It may.
    Within,
    /// Too many of its zone were asked in this second: a flood of random subdomains.
    Flood(Report),
    /// Too many of its zone that look like data: a tunnel.
    Tunnel(Report),
}

/// Whether the log is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It is the first of its zone for some time.
    Due,
    /// It was told.
    NotDue,
}

impl RateLimiter {
    /// Bytes of the tables.
    pub const BYTES: usize = 7 * Buckets::BYTES;

    /// Empty tables. `hash_key` is to be random and secret, so that nobody chooses whom they share a
    /// bucket with.
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

    /// A client asks. [`Verdict::Beyond`] its network's queries of this second.
    pub fn query(&self, client: IpAddr, limits: &Limits, now: Instant) -> Verdict {
        let Some(per_second) = limits.client_qps.map(NonZeroU32::get) else {
            return Verdict::Within;
        };
        let hash = self.network(client);
        self.clients
            .take(hash, Rate { per_second }, 1, self.us(now))
    }

    /// A client asks what a rule is for, of this number. [`Verdict::Beyond`] what the rule lets pass in this
    /// second. Rules that have changed places by a reload go on with each other's second.
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

    /// A client's address is its own: it has repeated a cookie, or what came over a connection.
    pub fn prove(&self, client: IpAddr, limits: &Limits, now: Instant) {
        if limits.unproven_bytes_per_s.is_some() {
            let us = us(PROVEN_FOR);
            self.proven.mark(self.network(client), us, self.us(now));
        }
    }

    /// A datagram of `len` bytes is about to go to a client. [`Verdict::Beyond`] what a network may get
    /// that may not have asked for it.
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

    /// A question is about to be asked of servers.
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
        // Who floods many zones fills no log.
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

    /// The hash of a client's network: what one customer of a provider has at least, and where a sender
    /// of forged addresses finds others that are as good as one.
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

/// What a name looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// A name.
    Plain,
    /// Data in a name.
    Encoded,
}

fn us(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
