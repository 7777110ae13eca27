//! Handling of queries and responses beyond a limit.

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
    /// Drops or refuses a query above the client limit of its network. `None`: it is within the limit.
    ///
    /// A query on a datagram is dropped, as Unbound and dnsdist do: its sender may be forged, and a resolver that
    /// gets no response asks again later. A query on a connection is refused, since a client without a response
    /// would wait for it, and hold back the queries that follow.
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

    /// Counts a query that matches a rule with a rate, given with the rule's number.
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

    /// Notes that a client has proven its address.
    pub(super) fn prove(&self, client: IpAddr, now: Instant) {
        let limits = &self.current.snapshot.config.limits;
        self.shared.rate_limiter().prove(client, limits, now);
    }

    /// Counts a question that is about to be asked of servers. The reason to refuse it, if there are too many of its
    /// zone; cached responses, stale ones included, and other zones are served as before.
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

    /// Applies `unproven_bytes_per_s` to a response on a datagram, which is in `reply`. Returns its size, truncated
    /// or not; `None`: it is not sent.
    ///
    /// A network that has not proven its address gets so many bytes a second. Beyond that, one in [`SLIP`] responses
    /// is sent, without records (TC), after which a client asks again by TCP; the others are dropped. Vixie and
    /// Schryver call this response rate limiting.
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
