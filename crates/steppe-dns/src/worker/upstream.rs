//! Servers as one worker knows them: how fast they are, and whether they work.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::config::{self, CaseRandomization, Policy};
use crate::in_flight::Case;
use crate::limits::{
    EXPLORE_EVERY, HEDGE_AFTER_MIN, PATIENCE_MIN, SERVER_FAILURES_MAX, SERVER_REST,
};
use crate::snapshot::Plan;

/// An upstream of a snapshot.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) config: config::Upstream,
    pub(super) plan: Plan,
    pub(super) servers: Vec<Rc<Server>>,
    /// Whose turn it is.
    turn: Cell<usize>,
}

/// A server, whatever the snapshot.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: config::Server,
    latency: Cell<Latency>,
    /// Failures in a row.
    failures: Cell<u32>,
    /// Until when it is asked last.
    rests_until: Cell<Option<Instant>>,
    /// It does not repeat the case of names.
    loses_case: Cell<bool>,
    /// Numbers of its sockets.
    pub(super) sockets: RefCell<Vec<u32>>,
    /// The number of its connection.
    pub(super) stream: Cell<Option<u32>>,
}

/// How long responses take, as RFC 6298 has it for TCP.
#[derive(Debug, Clone, Copy, Default)]
struct Latency {
    smoothed: Duration,
    deviation: Duration,
}

/// What became of a server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// As before.
    Same,
    /// It has failed too often.
    Down,
    /// It works again.
    Up,
}

impl Latency {
    fn add(self, sample: Duration) -> Self {
        if self.smoothed.is_zero() {
            return Self {
                smoothed: sample,
                deviation: sample / 2,
            };
        }
        Self {
            smoothed: self.smoothed * 7 / 8 + sample / 8,
            deviation: self.deviation * 3 / 4 + self.smoothed.abs_diff(sample) / 4,
        }
    }

    /// About the 95th percentile of what was seen lately.
    fn mostly(self) -> Duration {
        self.smoothed + 2 * self.deviation
    }
}

impl Upstream {
    /// `known`: servers of the last snapshot, whose state goes on.
    pub(super) fn new(config: &config::Upstream, plan: Plan, known: &[Rc<Server>]) -> Self {
        let server = |config: &config::Server| {
            let known = known.iter().find(|known| known.config == *config);
            known.map_or_else(|| Rc::new(Server::new(config.clone())), Rc::clone)
        };
        Self {
            servers: config.servers.iter().map(server).collect(),
            config: config.clone(),
            plan,
            turn: Cell::new(0),
        }
    }

    /// Writes the order in which servers are asked: those that rest come last. `random` draws one that is
    /// asked first now and then, since who is not asked is not known.
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
                // Nothing is known of a server that was never asked: it is asked first, and known then.
                sort_by(order, |index| server(index).latency.get().smoothed);
                let drawn = usize::try_from(random / EXPLORE_EVERY).unwrap_or_default();
                if random.is_multiple_of(EXPLORE_EVERY) {
                    order[..=drawn % self.servers.len()].rotate_right(1);
                }
            }
        }
        sort_by(order, |index| server(index).rests(now));
    }

    /// How long a server is waited for before the next one is asked too.
    pub(super) fn patience(&self, server: usize) -> Duration {
        let half = self.config.timeout / 2;
        let mostly = self.servers[server].latency.get().mostly();
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

    /// How a server's names are cased.
    pub(super) fn case(&self, server: usize) -> Case {
        let is_on = self.config.case == CaseRandomization::On;
        if is_on && !self.servers[server].loses_case.get() {
            Case::Randomized
        } else {
            Case::Lower
        }
    }
}

/// Sorts without a change of order among equals, and without memory: there are 64 at most.
fn sort_by<K: Ord>(order: &mut [u8], key: impl Fn(u8) -> K) {
    for sorted in 1..order.len() {
        let mut at = sorted;
        while at > 0 && key(order[at]) < key(order[at - 1]) {
            order.swap(at, at - 1);
            at -= 1;
        }
    }
}

impl Server {
    fn new(config: config::Server) -> Self {
        Self {
            config,
            latency: Cell::default(),
            failures: Cell::new(0),
            rests_until: Cell::new(None),
            loses_case: Cell::new(false),
            sockets: RefCell::default(),
            stream: Cell::new(None),
        }
    }

    fn rests(&self, now: Instant) -> bool {
        self.rests_until.get().is_some_and(|until| now < until)
    }

    /// It has answered.
    pub(super) fn succeeded(&self, took: Duration) -> Health {
        let took = took.max(Duration::from_micros(1));
        self.latency.set(self.latency.get().add(took));
        self.failures.set(0);
        match self.rests_until.take() {
            Some(_) => Health::Up,
            None => Health::Same,
        }
    }

    /// It has not answered for so long, and may still do so.
    pub(super) fn takes_longer_than(&self, waited: Duration) {
        let latency = self.latency.get();
        if waited > latency.smoothed {
            self.latency.set(latency.add(waited));
        }
    }

    /// It has not, or with a failure.
    pub(super) fn failed(&self, now: Instant) -> Health {
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        if failures < SERVER_FAILURES_MAX {
            return Health::Same;
        }
        let was_up = self.rests_until.replace(Some(now + SERVER_REST)).is_none();
        if was_up { Health::Down } else { Health::Same }
    }

    /// It is asked in lower case from now on. Says whether that is new.
    pub(super) fn lost_case(&self) -> bool {
        !self.loses_case.replace(true)
    }
}
