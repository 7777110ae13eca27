//! Denials without an SOA, which are worth little while another server is asked: a server that forwards may have
//! been cut off from its own, and RFC 2308 §2 has no such response of an authority.
//!
//! Such a denial is kept back until the other servers have answered or failed, or have had their time; then it is
//! what clients get.

use std::time::{Duration, Instant};

use super::exchanges::Exchange;
use super::state::WorkerState;
use crate::limits::PATIENCE_MIN;
use crate::wire::{Denial, Rcode};

impl WorkerState {
    /// Whether servers beside the one that has just answered are asked for an exchange.
    pub(super) fn awaits_others(&self, place: u32) -> bool {
        let exchange = self.exchanges.get(place);
        let known = exchange.and_then(|exchange| self.attempts.exchange(exchange.id));
        known.is_some_and(|known| known.pending != 0)
    }

    /// Keeps a server's denial back.
    pub(super) fn keep_back(
        &mut self,
        (place, server): (u32, usize),
        denial: Denial,
        now: Instant,
    ) {
        self.server_answered(place, server, now);
        let Some(exchange) = self.exchanges.get_mut(place) else {
            return;
        };
        let known = self.attempts.exchange(exchange.id);
        exchange.failed |= 1 << server;
        exchange.worst = Some(match denial {
            Denial::Name => (Rcode::NXDOMAIN, None),
            Denial::Type => (Rcode::NOERROR, None),
        });
        exchange.next_at = now + exchange.patience(known.map_or(0, |known| known.pending));
        self.attempts.set_due(exchange.id, exchange.due());
    }
}

impl Exchange {
    /// The denial that was kept back.
    pub(super) fn kept_back(&self) -> Option<Rcode> {
        let (rcode, _) = self.worst?;
        [Rcode::NOERROR, Rcode::NXDOMAIN]
            .contains(&rcode)
            .then_some(rcode)
    }

    /// How long the slowest of these servers may take.
    fn patience(&self, servers: u64) -> Duration {
        let half = self.upstream.config.timeout / 2;
        let asked = self.upstream.servers.iter().enumerate();
        let asked = asked.filter(|(index, _)| servers & (1 << index) != 0);
        let times = asked.map(|(_, server)| match server.latency().mostly() {
            Duration::ZERO => half,
            mostly => (2 * mostly).max(PATIENCE_MIN).min(half),
        });
        times.max().unwrap_or_default()
    }
}
