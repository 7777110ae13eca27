//! One worker's state of an upstream: the order in which its servers are asked, and the pauses between them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::server::Server;
use crate::config::{self, CaseRandomization, Policy};
use crate::in_flight::Case;
use crate::limits::{ASKED_AGAIN_AFTER_MIN, EXPLORE_EVERY, HEDGE_AFTER_MIN, PATIENCE_MIN};
use crate::servers::ServerBoard;
use crate::snapshot::Plan;
use crate::tls::Sessions;

/// An upstream of a snapshot.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) config: config::Upstream,
    pub(super) plan: Plan,
    pub(super) servers: Vec<Rc<Server>>,
    /// Turn of [`Policy::RoundRobin`]; the count wraps.
    turn: Cell<usize>,
}

impl Upstream {
    /// An upstream of a new snapshot. `known` are servers of the last one, whose state is kept.
    pub(super) fn new(
        config: &config::Upstream,
        (plan, sessions): (Plan, &Sessions),
        (known, board): (&[Rc<Server>], &ServerBoard),
    ) -> Self {
        let server = |server: &config::Server| {
            let known = known.iter().find(|known| known.is(server, config));
            let new = || Rc::new(Server::new(server.clone(), config, board));
            let known = known.map_or_else(new, Rc::clone);
            known.set_tls(sessions.of(server.transport));
            known
        };
        Self {
            servers: config.servers.iter().map(server).collect(),
            config: config.clone(),
            plan,
            turn: Cell::new(0),
        }
    }

    /// Writes the order in which servers are asked: those that rest come last. `random` draws a server that is
    /// asked first now and then, since the latency of a server that is not asked is unknown.
    pub(super) fn order(&self, now: Instant, random: u32, order: &mut [u8]) {
        for (place, index) in order.iter_mut().zip(0..) {
            *place = index;
        }
        let server = |index: u8| &self.servers[usize::from(index)];
        match self.config.policy {
            Policy::Failover => {}
            Policy::RoundRobin => {
                let turn = self.turn.get();
                self.turn.set(turn.wrapping_add(1));
                order.rotate_left(turn % self.servers.len());
            }
            Policy::Hedge | Policy::Race | Policy::Fastest => {
                // The latency of a server that was never asked is zero: it is asked first, and measured by that.
                sort_by(order, |index| server(index).latency().smoothed);
                let drawn = usize::try_from(random / EXPLORE_EVERY).unwrap_or_default();
                if random.is_multiple_of(EXPLORE_EVERY) {
                    order[..=drawn % self.servers.len()].rotate_right(1);
                }
            }
        }
        sort_by(order, |index| server(index).rests(now));
    }

    /// The time for which a server is waited for before the next one is asked too.
    pub(super) fn patience(&self, server: usize) -> Duration {
        let half = self.config.timeout / 2;
        let mostly = self.servers[server].latency().mostly();
        let patience = match self.config.policy {
            Policy::Hedge if mostly.is_zero() => self.config.timeout / 10,
            Policy::Hedge => mostly.max(HEDGE_AFTER_MIN),
            Policy::Race => half,
            Policy::Fastest | Policy::RoundRobin | Policy::Failover if mostly.is_zero() => half / 2,
            Policy::Fastest | Policy::RoundRobin | Policy::Failover => {
                (2 * mostly).max(PATIENCE_MIN)
            }
        };
        patience.min(half)
    }

    /// The pause between a query to a server and the next query, after `sent` queries to any server before. It
    /// doubles with each round of all servers. Before a server is asked again, the pause is long enough for one
    /// that is only slow to answer.
    pub(super) fn pause(&self, server: usize, sent: u16) -> Duration {
        let (sent, servers) = (usize::from(sent), self.servers.len());
        let longer: u32 = 1 << (sent / servers).min(4);
        let patience = self.patience(server);
        let are_all_asked = (sent + 1).is_multiple_of(servers);
        let pause = match are_all_asked {
            true => patience.max(ASKED_AGAIN_AFTER_MIN.min(self.config.timeout / 8)),
            false => patience,
        };
        pause * longer
    }

    /// The case of names in queries.
    pub(super) fn case(&self) -> Case {
        match self.config.case {
            CaseRandomization::On => Case::Randomized,
            CaseRandomization::Off => Case::Lower,
        }
    }
}

/// Sorts stably, without allocation (insertion sort): there are 64 servers at most.
fn sort_by<K: Ord>(order: &mut [u8], key: impl Fn(u8) -> K) {
    for sorted in 1..order.len() {
        let mut at = sorted;
        while at > 0 && key(order[at]) < key(order[at - 1]) {
            order.swap(at, at - 1);
            at -= 1;
        }
    }
}
