//! Chooses the server of a request.
//!
//! Invariant: a choice allocates nothing and takes no lock; a server that was
//! tried already is chosen only where there is no other.
//!
//! Smooth weighted round-robin is nginx's (commit 52327e0, 2012). Least-request
//! and the two choices compare requests under way of the whole node. `ring-hash`
//! is weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and
//! Schomaker 2005): a server that leaves takes only its own keys along, and the
//! shares follow the weights exactly, for the price of looking at every server.

use std::sync::Arc;
use std::time::Instant;

use super::random::{Random, hash, mix};
use super::target::TargetState;
use crate::config::Balance;
use crate::limits::{LEAST_OF_ALL_MAX, WEIGHT_STEPS};

/// Servers that may be chosen, as one worker sees them.
#[derive(Debug)]
pub(super) struct Picker {
    balance: Balance,
    candidates: Vec<Candidate>,
    weight_total: u64,
    random: Random,
    turn: usize,
}

/// A server at one of its addresses, and its share.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) state: Arc<TargetState>,
    /// Index of its server.
    pub(super) server: usize,
    /// In [`WEIGHT_STEPS`] of a weight of 1.
    weight: u64,
    /// What smooth round-robin owes it.
    owed: i64,
    /// Which keys are its own.
    hash: u64,
    /// The sticky cookie that stands for it.
    pub(super) token: u64,
}

impl Candidate {
    pub(super) fn new(state: Arc<TargetState>, server: usize, weight: u64) -> Self {
        let name = format!("{} {}", state.server, state.ip);
        Self {
            state,
            server,
            weight,
            owed: 0,
            hash: hash(name.as_bytes()),
            token: 0,
        }
    }
}

/// What a choice goes by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted<'a> {
    /// Hash of what `hash_on` names.
    pub(super) key: Option<u64>,
    /// What the client's sticky cookie says.
    pub(super) token: Option<u64>,
    /// Servers that were tried already.
    pub(super) tried: &'a [Arc<TargetState>],
}

impl Wanted<'_> {
    fn is_tried(&self, candidate: &Candidate) -> bool {
        let is_same = |tried: &Arc<TargetState>| Arc::ptr_eq(tried, &candidate.state);
        self.tried.iter().any(is_same)
    }
}

impl Picker {
    /// `first` has the first turn, so that workers start at different servers.
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

    /// Takes over who may be chosen; those that stay keep what they are owed.
    pub(super) fn replace(&mut self, mut candidates: Vec<Candidate>) {
        let is_first = self.candidates.is_empty();
        for candidate in &mut candidates {
            let mut known = self.candidates.iter();
            let known = known.find(|known| Arc::ptr_eq(&known.state, &candidate.state));
            candidate.owed = known.map_or(0, |known| known.owed);
        }
        self.weight_total = candidates.iter().map(|candidate| candidate.weight).sum();
        self.candidates = candidates;
        if is_first && !self.candidates.is_empty() {
            for _ in 0..self.turn % self.candidates.len() {
                self.in_turn();
            }
        }
    }

    /// Whether there is a server that was not tried.
    pub(super) fn has_untried(&self, wanted: Wanted<'_>) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(|candidate| !wanted.is_tried(candidate))
    }

    /// Index of the server to ask; `None` where there is none, or all were tried.
    pub(super) fn pick(&mut self, wanted: Wanted<'_>) -> Option<usize> {
        if let Some(at) = self.by_token(wanted) {
            return Some(at);
        }
        let count = self.candidates.len();
        let picked = match (&self.balance, count) {
            (_, 0) => return None,
            (_, 1) => 0,
            (Balance::RoundRobin, _) if !wanted.tried.is_empty() => {
                return self.next_in_turn(wanted);
            }
            (Balance::RoundRobin, _) => self.in_turn(),
            (Balance::LeastRequest, ..=LEAST_OF_ALL_MAX) => self.least_of_all(),
            (Balance::LeastRequest, _) => self.better_of_two(|candidate| {
                #[expect(clippy::cast_precision_loss, reason = "requests under way are few")]
                let active = candidate.state.active() as f64;
                active + 1.0
            }),
            (Balance::P2cEwma, _) => {
                let now = Instant::now();
                self.better_of_two(|candidate| candidate.state.cost(now))
            }
            (Balance::Random, _) => self.at_random(),
            (Balance::RingHash(_), _) => match wanted.key {
                Some(key) => return self.by_hash(key, wanted),
                None => self.at_random(),
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

    /// Each in turn adds its weight to what it is owed; who is owed most pays for all.
    fn in_turn(&mut self) -> usize {
        let (mut most, mut at) = (i64::MIN, 0);
        for (index, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.owed += signed(candidate.weight);
            if candidate.owed > most {
                (most, at) = (candidate.owed, index);
            }
        }
        self.candidates[at].owed -= signed(self.weight_total);
        at
    }

    /// Who would be next of those that were not tried. It pays nothing: otherwise a server
    /// that fails would be first again as soon as another one stood in for it.
    fn next_in_turn(&self, wanted: Wanted<'_>) -> Option<usize> {
        let candidates = self.candidates.iter().enumerate();
        let untried = candidates.filter(|(_, candidate)| !wanted.is_tried(candidate));
        let next = untried.min_by_key(|(_, candidate)| std::cmp::Reverse(candidate.owed));
        next.map(|(at, _)| at)
    }

    /// Among equals, each has its turn.
    fn least_of_all(&mut self) -> usize {
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

    /// By requests under way with this one, for each share.
    fn is_less_busy(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.candidates[one], &self.candidates[other]);
        let load = |of: &Candidate, by: &Candidate| {
            u128::from(of.state.active() + 1) * u128::from(by.weight)
        };
        load(one, other) < load(other, one)
    }

    fn better_of_two(&self, cost: impl Fn(&Candidate) -> f64) -> usize {
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

    fn at_random(&self) -> usize {
        let mut left = self.random.below(self.weight_total);
        let mut candidates = self.candidates.iter();
        let found = candidates.position(|candidate| {
            let is_it = left < candidate.weight;
            left = left.saturating_sub(candidate.weight);
            is_it
        });
        found.expect("the weights sum up to the bound")
    }

    /// The server with the highest score: -weight / ln(u), u of server and key in (0, 1).
    fn by_hash(&self, key: u64, wanted: Wanted<'_>) -> Option<usize> {
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

fn signed(weight: u64) -> i64 {
    i64::try_from(weight).expect("weights are small")
}

const _: () = assert!(WEIGHT_STEPS * 1000 < 1 << 20);

#[cfg(test)]
mod tests;
