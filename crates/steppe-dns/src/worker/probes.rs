//! Probes: questions to servers that are down, so that their recovery is detected without a client that waits.
//!
//! Invariant: a worker has one probe out for a server at most, and sends one in three quarters of
//! [`PROBE_EVERY`] at most. Any response to a probe counts, whatever its response code.

use std::rc::Rc;
use std::time::Instant;

use rand::Rng;

use super::exchanges::{Current, Exchange, Purpose};
use super::state::WorkerState;
use super::upstream::Upstream;
use crate::limits::PROBE_TIME_MAX;
use crate::wire::{Class, Question, Rtype};

/// The name servers of the root, which every resolver knows.
const QUESTION: Question<'static> = Question {
    qname: &[0],
    qtype: Rtype::NS,
    qclass: Class::IN,
};

impl WorkerState {
    /// Sends the probes that are due. Returns the time of the next one.
    pub(super) fn probe(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let current = Rc::clone(&self.current);
        for upstream in &current.upstreams {
            for (index, server) in upstream.servers.iter().enumerate() {
                if server.probe_at().is_some_and(|at| now >= at) {
                    server.probed(now, self.rng.next_u32());
                    self.probe_server((&current, upstream), index, now);
                }
                let at = server.probe_at();
                next = at.map(|at| next.map_or(at, |next| next.min(at))).or(next);
            }
        }
        next
    }

    fn probe_server(
        &mut self,
        (current, upstream): (&Rc<Current>, &Rc<Upstream>),
        server: usize,
        now: Instant,
    ) {
        let deadline = now + PROBE_TIME_MAX;
        let opened = self.exchanges.vacant().and_then(|place| {
            let id = self.attempts.open(&QUESTION, u64::from(place), deadline)?;
            Some((place, id))
        });
        // Without room for an exchange, the probe is left out.
        let Some((place, id)) = opened else { return };
        let exchange = Exchange {
            purpose: Purpose::Probe,
            // The other servers are not asked.
            failed: !(1 << server),
            ..Exchange::new(id, (current, upstream), deadline)
        };
        self.exchanges.insert(place, exchange);
        self.metrics.upstream_probes.increment();
        if self.ask(place, server, now).is_err() {
            self.end_probe(place);
        }
    }

    /// Ends a probe that was answered: its server is back.
    pub(super) fn probe_answered(&mut self, place: u32, server: usize, now: Instant) {
        self.server_answered(place, server, now);
        self.end_probe(place);
    }

    pub(super) fn end_probe(&mut self, place: u32) {
        if let Some(exchange) = self.exchanges.remove(place) {
            self.attempts.close(exchange.id);
        }
    }
}
