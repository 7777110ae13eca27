//! Load balancing: chooses the server of a request.
//!
//! Invariant: a choice allocates nothing and takes no lock; a server in [`Wanted::tried`] is
//! never chosen.
//!
//! Smooth weighted round-robin is nginx's (commit 52327e0, 2012). Least-request and the
//! power of two choices compare requests in flight of the whole node. `ring-hash` is
//! weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker
//! 2005): when a server leaves, only its own keys move, and shares follow the weights
//! exactly, at the cost of O(servers) for each choice.

use std::sync::Arc;

use steppe_net::clock;

use super::random::{Random, hash, mix};
use super::target::TargetState;
use crate::config::Balance;
use crate::limits::{LEAST_OF_ALL_MAX, WEIGHT_STEPS};

/// The load balancer of one worker for one upstream.
#[derive(Debug)]
pub(super) struct Picker {
    balance: Balance,
    candidates: Vec<Candidate>,
    weight_total: u64,
    random: Random,
    turn: usize,
}

/// A server at one of its addresses, and its weight.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) state: Arc<TargetState>,
    /// Index of its server.
    pub(super) server: usize,
    /// In [`WEIGHT_STEPS`] of a weight of 1.
    weight: u64,
    /// Current weight of smooth weighted round-robin.
    current_weight: i64,
    /// Hash of its address, for rendezvous hashing.
    hash: u64,
    /// The token in the sticky cookie.
    pub(super) token: u64,
}

impl Candidate {
    pub(super) fn new(state: Arc<TargetState>, server: usize, weight: u64) -> Self {
        let name = format!("{} {}", state.server, state.ip);
        Self {
            state,
            server,
            weight,
            current_weight: 0,
            hash: hash(name.as_bytes()),
            token: 0,
        }
    }
}

/// The input of a choice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted<'a> {
    /// Hash of what `hash_on` names.
    pub(super) key: Option<u64>,
    /// The token of the client's sticky cookie.
    pub(super) token: Option<u64>,
    /// Servers that were tried for this request.
    pub(super) tried: &'a [Arc<TargetState>],
}

impl Wanted<'_> {
    fn is_tried(&self, candidate: &Candidate) -> bool {
        let is_same = |tried: &Arc<TargetState>| Arc::ptr_eq(tried, &candidate.state);
        self.tried.iter().any(is_same)
    }
}

impl Picker {
    /// Round-robin starts at `first`, so that workers start at different servers.
    pub(super) fn new(balance: Balance, first: usize, seed: u64) -> Self {
        Self {
            balance,
            candidates: Vec::new(),
            weight_total: 0,
            random: Random::new(seed),
            turn: first,
        }
    }

    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub(super) fn has(&self, state: &Arc<TargetState>) -> bool {
        let mut states = self.candidates.iter().map(|candidate| &candidate.state);
        states.any(|known| Arc::ptr_eq(known, state))
    }

    /// Replaces the candidates; those that stay keep their current weight.
    pub(super) fn replace(&mut self, mut candidates: Vec<Candidate>) {
        let is_first = self.candidates.is_empty();
        for candidate in &mut candidates {
            let mut known = self.candidates.iter();
            let known = known.find(|known| Arc::ptr_eq(&known.state, &candidate.state));
            candidate.current_weight = known.map_or(0, |known| known.current_weight);
        }
        self.weight_total = candidates.iter().map(|candidate| candidate.weight).sum();
        self.candidates = candidates;
        if is_first && !self.candidates.is_empty() {
            for _ in 0..self.turn % self.candidates.len() {
                self.round_robin();
            }
        }
    }

    /// True when some server was not tried.
    pub(super) fn has_untried(&self, wanted: Wanted<'_>) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(|candidate| !wanted.is_tried(candidate))
    }

    /// Index of the chosen server; `None` if there is none, or all were tried.
    #[expect(
        clippy::disallowed_methods,
        reason = "latencies decay with time, where the balance goes by them"
    )]
    pub(super) fn pick(&mut self, wanted: Wanted<'_>) -> Option<usize> {
        if let Some(at) = self.by_token(wanted) {
            return Some(at);
        }
        let count = self.candidates.len();
        let picked = match (&self.balance, count) {
            (_, 0) => return None,
            (_, 1) => 0,
            (Balance::RoundRobin, _) if !wanted.tried.is_empty() => {
                return self.next_untried(wanted);
            }
            (Balance::RoundRobin, _) => self.round_robin(),
            (Balance::LeastRequest, ..=LEAST_OF_ALL_MAX) => self.least_requests(),
            (Balance::LeastRequest, _) => self.better_of_two_random(|candidate| {
                #[expect(clippy::cast_precision_loss, reason = "requests in flight are few")]
                let active = candidate.state.active() as f64;
                active + 1.0
            }),
            (Balance::P2cEwma, _) => {
                let now = clock::now();
                self.better_of_two_random(|candidate| candidate.state.cost(now))
            }
            (Balance::Random, _) => self.weighted_random(),
            (Balance::RingHash(_), _) => match wanted.key {
                Some(key) => return self.rendezvous(key, wanted),
                None => self.weighted_random(),
            },
        };
        let mut others = (picked..count).chain(0..picked);
        others.find(|&at| !wanted.is_tried(&self.candidates[at]))
    }

    fn by_token(&self, wanted: Wanted<'_>) -> Option<usize> {
        let token = wanted.token?;
        let mut candidates = self.candidates.iter();
        candidates.position(|known| known.token == token && !wanted.is_tried(known))
    }

    /// Smooth weighted round-robin: each candidate's current weight grows by its weight; the
    /// largest is chosen, and reduced by the sum of all weights.
    fn round_robin(&mut self) -> usize {
        let (mut most, mut at) = (i64::MIN, 0);
        for (index, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.current_weight += signed(candidate.weight);
            if candidate.current_weight > most {
                (most, at) = (candidate.current_weight, index);
            }
        }
        self.candidates[at].current_weight -= signed(self.weight_total);
        at
    }

    /// The untried candidate with the largest current weight, for a retry. Weights stay as they
    /// are: otherwise a failing server would be chosen again right after the retry.
    fn next_untried(&self, wanted: Wanted<'_>) -> Option<usize> {
        let candidates = self.candidates.iter().enumerate();
        let untried = candidates.filter(|(_, candidate)| !wanted.is_tried(candidate));
        let next = untried.min_by_key(|(_, candidate)| std::cmp::Reverse(candidate.current_weight));
        next.map(|(at, _)| at)
    }

    /// The candidate with the fewest requests in flight; ties are broken in rotation.
    fn least_requests(&mut self) -> usize {
        let count = self.candidates.len();
        let start = self.turn % count;
        self.turn = self.turn.wrapping_add(1);
        let mut best = start;
        for at in (start + 1..count).chain(0..start) {
            if self.is_less_busy(at, best) {
                best = at;
            }
        }
        best
    }

    /// Compares requests in flight, this one included, per weight.
    fn is_less_busy(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.candidates[one], &self.candidates[other]);
        let load = |of: &Candidate, by: &Candidate| {
            u128::from(of.state.active() + 1) * u128::from(by.weight)
        };
        load(one, other) < load(other, one)
    }

    /// The power of two choices: the cheaper of two random candidates.
    fn better_of_two_random(&self, cost: impl Fn(&Candidate) -> f64) -> usize {
        let one = self.random.index(self.candidates.len());
        let further = 1 + self.random.index(self.candidates.len() - 1);
        let other = (one + further) % self.candidates.len();
        let share = |at: usize| {
            let candidate = &self.candidates[at];
            #[expect(clippy::cast_precision_loss, reason = "a weight is below 2^20")]
            let weight = candidate.weight as f64;
            cost(candidate) / weight
        };
        if share(other) < share(one) {
            other
        } else {
            one
        }
    }

    fn weighted_random(&self) -> usize {
        let mut left = self.random.below(self.weight_total);
        let mut candidates = self.candidates.iter();
        let found = candidates.position(|candidate| {
            let is_it = left < candidate.weight;
            left = left.saturating_sub(candidate.weight);
            is_it
        });
        found.expect("the weights sum up to the bound")
    }

    /// The candidate with the highest score -weight / ln(u), where u in (0, 1) is the hash of
    /// server and key.
    fn rendezvous(&self, key: u64, wanted: Wanted<'_>) -> Option<usize> {
        let score = |candidate: &Candidate| {
            #[expect(clippy::cast_precision_loss, reason = "53 bits of the hash are used")]
            let unit = ((mix(candidate.hash ^ key) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            #[expect(clippy::cast_precision_loss, reason = "a weight is below 2^20")]
            let weight = candidate.weight as f64;
            -weight / unit.ln()
        };
        let candidates = self.candidates.iter().enumerate();
        let untried = candidates.filter(|(_, candidate)| !wanted.is_tried(candidate));
        let best = untried.max_by(|(_, one), (_, other)| score(one).total_cmp(&score(other)));
        best.map(|(at, _)| at)
    }
}

/// A weight as a summand of current weights.
fn signed(weight: u64) -> i64 {
    i64::try_from(weight).expect("weights are small")
}

const _: () = assert!(WEIGHT_STEPS * 1000 < 1 << 20);

#[cfg(test)]
mod tests;
