//! What becomes of queries and responses beyond a limit.

use std::net::IpAddr;
use std::time::Instant;

use rand::RngExt;

use super::clients::Destination;
use super::decide::Answered;
use super::exchanges::Current;
use super::state::WorkerState;
use crate::answer::Reason;
use crate::config::RuleRate;
use crate::limits::SLIP;
use crate::metrics::Limit;
use crate::rate_limit::{Looks, Miss, Report, Verdict, cut};
use crate::wire::{ExtendedError, Name, Rcode, truncate, write_rejection};

impl WorkerState {
    /// What becomes of a query that is one too many of its client's network. `None`: it is not.
    ///
    /// On a datagram it is dropped, as Unbound and dnsdist do: its sender may be forged, and a resolver
    /// that waits asks later. On a connection it is refused, since a client that has no response there
    /// would wait for it, and hold back those that follow.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn beyond_rate(
        &mut self,
        bytes: &[u8],
        destination: Destination,
        client: IpAddr,
        now: Instant,
    ) -> Option<Answered> {
        let is_datagram = matches!(destination, Destination::Datagram { .. });
        if !is_datagram {
            self.prove(client, now);
        }
        let limits = &self.current.snapshot.config.limits;
        let limiter = self.shared.rate_limiter();
        if limiter.query(client, limits, now) == Verdict::Within {
            return None;
        }
        self.metrics.limited.of(Limit::Client).increment();
        let written = match is_datagram {
            true => None,
            false => write_rejection(bytes, Rcode::REFUSED, &mut self.reply).ok(),
        };
        Some(match written {
            Some(len) => {
                self.metrics.response(Rcode::REFUSED);
                Answered::Now(len)
            }
            None => {
                self.metrics.dropped.increment();
                Answered::Never
            }
        })
    }

    /// Counts a query of those that a rule is for, by its number, and limits.
    pub(super) fn of_rule(
        &self,
        (number, rate): (usize, RuleRate),
        client: IpAddr,
        now: Instant,
    ) -> Verdict {
        let verdict = self.shared.rate_limiter().rule((number, rate), client, now);
        if verdict == Verdict::Beyond {
            self.metrics.limited.of(Limit::Rule).increment();
        }
        verdict
    }

    /// A client's address is its own.
    pub(super) fn prove(&self, client: IpAddr, now: Instant) {
        let limits = &self.current.snapshot.config.limits;
        self.shared.rate_limiter().prove(client, limits, now);
    }

    /// Why a question is not asked of servers: it is one too many of its zone. Answers of the cache, old
    /// ones too, are given all the same, and so are other zones'.
    pub(super) fn too_many_misses(
        &self,
        name: &Name,
        current: &Current,
        now: Instant,
    ) -> Option<Reason> {
        let limits = &current.snapshot.config.limits;
        let (miss, looks) = self.shared.rate_limiter().miss(name, limits, now);
        if looks == Looks::Encoded {
            self.metrics.encoded.increment();
        }
        let (limit, report, what, text) = match miss {
            Miss::Within => return None,
            Miss::Flood(report) => (Limit::Zone, report, "random subdomains", FLOOD),
            Miss::Tunnel(report) => (Limit::Tunnel, report, "DNS tunneling", TUNNEL),
        };
        self.metrics.limited.of(limit).increment();
        if report == Report::Due {
            let zone = Name::from_wire(cut(name).zone).unwrap_or(Name::ROOT);
            tracing::warn!(%zone, what, "too many cache misses in a zone: SERVFAIL for names that are not cached");
        }
        Some(Some((ExtendedError::CACHED_ERROR, text)))
    }

    /// Restrains a response on a datagram, which lies in `reply`. Returns what is left of its size;
    /// `None`: it is not sent.
    ///
    /// A network that has not shown that it asked gets so many bytes, and then responses without records
    /// (TC), which a client asks for again by TCP; and of those, one of some only. Vixie and Schryver call
    /// this response rate limiting.
    pub(super) fn restrain(&mut self, client: IpAddr, len: usize) -> Option<usize> {
        let limits = &self.current.snapshot.config.limits;
        if limits.unproven_bytes_per_s.is_none() {
            return Some(len);
        }
        let limiter = self.shared.rate_limiter();
        let verdict = limiter.response(client.to_canonical(), len, limits, self.turn_at);
        if verdict == Verdict::Within {
            return Some(len);
        }
        self.metrics.limited.of(Limit::Unproven).increment();
        if self.rng.random_range(0..SLIP) > 0 {
            return None;
        }
        truncate(&mut self.reply[..len])
    }
}

const FLOOD: &str = "too many cache misses in this zone";
const TUNNEL: &str = "too many names that look like data in this zone";
