//! Negative responses (denials) without an SOA, which count for little while another server is asked: a server that
//! forwards may be cut off from its own servers, and RFC 2308 §2 has no such response of an authoritative server.
//!
//! Such a denial is kept back until the other servers have answered or failed, or have had their time; then clients
//! get it.

use std::time::{Duration, Instant};

use super::exchanges::Exchange;
use crate::in_flight::Attempts;
use crate::limits::PATIENCE_MIN;
use crate::wire::{Denial, Rcode};

/// The time from which other servers are waited for, and the table of their attempts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) attempts: &'a Attempts,
    pub(super) now: Instant,
}

impl Exchange {
    /// Keeps a server's denial back, as long as other servers are asked and take their usual time.
    pub(super) fn keep_back(&mut self, server: usize, denial: Denial, wait: Wait<'_>) {
        self.failed |= 1 << server;
        self.worst = Some(match denial {
            Denial::Name => (Rcode::NXDOMAIN, None),
            Denial::Type => (Rcode::NOERROR, None),
        });
        self.next_at = wait.now + self.patience(self.pending(wait.attempts));
    }

    /// The denial that was kept back.
    pub(super) fn kept_back(&self) -> Option<Rcode> {
        let (rcode, _) = self.worst?;
        [Rcode::NOERROR, Rcode::NXDOMAIN]
            .contains(&rcode)
            .then_some(rcode)
    }

    /// The time that the slowest of these servers may take.
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
