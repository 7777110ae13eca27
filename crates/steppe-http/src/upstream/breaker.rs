//! The circuit breaker: an upstream whose servers fail is left alone for a while, by the whole node.
//!
//! Invariant: a request counts by one atomic operation, and takes no lock. While the circuit is open no
//! request passes; when its time is over one at a time does (half-open), until one is answered well. One
//! that takes as long as the circuit was open holds up nobody any more: its client may be what is slow.
//!
//! Source: Nygard, "Release It!" (2007), "Circuit Breaker".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::uptime::millis;
use crate::config::CircuitBreaker;

/// Parts of the window that are counted apart, so that it slides.
const SLOTS: usize = 10;

/// Bits of a count in a slot: what comes after a million in a tenth of the window is not counted.
const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// Outcomes of one upstream's requests, of all workers.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Above twice [`COUNT_BITS`] the tick that a slot counts, then its requests, then those that failed.
    slots: [AtomicU64; SLOTS],
    /// Milliseconds of uptime until which it is open; 0: it is closed.
    open_until: AtomicU64,
    /// Milliseconds of uptime at which a request was let through that is to tell whether the servers are
    /// well again; 0: there is none.
    probing_since: AtomicU64,
    opened: AtomicU64,
}

/// True when a request may be sent.
#[derive(Debug)]
pub enum Admission {
    /// The request may be sent.
    Pass,
    /// The request may be sent, and its answer closes the circuit.
    Trial(Trial),
    /// The request may not be sent.
    Open,
}

/// A request that is let through a half-open circuit. Dropped, it lets another one through.
#[derive(Debug)]
pub struct Trial {
    breaker: Arc<Breaker>,
    since: u64,
}

/// The state of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// Requests pass.
    Closed,
    /// None passes.
    Open,
    /// One at a time passes.
    HalfOpen,
}

impl Circuit {
    /// As admin names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

impl Breaker {
    /// Counts an outcome; says whether it opens the circuit.
    pub(super) fn count(
        &self,
        settings: &CircuitBreaker,
        outcome: RequestOutcome,
        now: Instant,
    ) -> bool {
        let tick = tick(settings.window, now);
        let at = usize::try_from(tick % SLOTS as u64).expect("below the number of slots");
        let failed = u64::from(outcome == RequestOutcome::Failure);
        let _ = self.slots[at].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let word = if WindowSlot::of(word).tick == tick {
                word
            } else {
                tick << (2 * COUNT_BITS)
            };
            let is_full = WindowSlot::of(word).requests == COUNT_MAX;
            Some(if is_full {
                word
            } else {
                word + (1 << COUNT_BITS) + failed
            })
        });
        if outcome == RequestOutcome::Success {
            return false;
        }
        let open_until = self.open_until.load(Ordering::Acquire);
        let opens = match circuit(open_until, now) {
            Circuit::Closed => self.fails_too_often(settings, tick),
            // One more failure is enough.
            Circuit::HalfOpen => self.probing_since.load(Ordering::Relaxed) != 0,
            Circuit::Open => false,
        };
        let until = millis(now) + open_for(settings);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let has_opened = opens
            && (self.open_until)
                .compare_exchange(open_until, until, success, failure)
                .is_ok();
        self.opened
            .fetch_add(u64::from(has_opened), Ordering::Relaxed);
        has_opened
    }

    fn fails_too_often(&self, settings: &CircuitBreaker, tick: u64) -> bool {
        let words = self
            .slots
            .iter()
            .map(|slot| WindowSlot::of(slot.load(Ordering::Relaxed)));
        let recent = words.filter(|slot| slot.tick + SLOTS as u64 > tick && slot.tick <= tick);
        let (requests, failed) = recent.fold((0, 0), |(requests, failed), slot| {
            (requests + slot.requests, failed + slot.failed)
        });
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        let is_above = failed as f64 >= settings.failure_ratio * requests as f64;
        requests >= u64::from(settings.min_requests) && is_above
    }

    /// The state now.
    pub(super) fn circuit(&self, now: Instant) -> Circuit {
        circuit(self.open_until.load(Ordering::Acquire), now)
    }

    /// True when a request may be sent now.
    pub(super) fn admit(self: &Arc<Self>, settings: &CircuitBreaker, now: Instant) -> Admission {
        match self.circuit(now) {
            Circuit::Closed => Admission::Pass,
            Circuit::Open => Admission::Open,
            Circuit::HalfOpen => self
                .trial(settings, now)
                .map_or(Admission::Open, Admission::Trial),
        }
    }

    /// A trial, where there is none that began a short time ago.
    fn trial(self: &Arc<Self>, settings: &CircuitBreaker, now: Instant) -> Option<Trial> {
        let since = millis(now).max(1);
        let last = self.probing_since.load(Ordering::Acquire);
        let is_held = last != 0 && since < last.saturating_add(open_for(settings));
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_taken = !is_held
            && (self.probing_since)
                .compare_exchange(last, since, success, failure)
                .is_ok();
        is_taken.then(|| Trial {
            breaker: Arc::clone(self),
            since,
        })
    }

    /// Times that it opened.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    fn close(&self) {
        for slot in &self.slots {
            slot.store(0, Ordering::Relaxed);
        }
        self.open_until.store(0, Ordering::Release);
    }
}

impl Trial {
    /// True while the circuit waits for this request alone.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.breaker.circuit(now) == Circuit::HalfOpen
            && self.breaker.probing_since.load(Ordering::Acquire) == self.since
    }

    /// A server has answered well: the circuit is closed.
    pub(super) fn succeeded(self) {
        self.breaker.close();
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Another one may have begun when this one had taken too long.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let _ = (self.breaker.probing_since).compare_exchange(self.since, 0, success, failure);
    }
}

/// Milliseconds.
fn open_for(settings: &CircuitBreaker) -> u64 {
    u64::try_from(settings.open_for.as_millis()).unwrap_or(u64::MAX / 2)
}

fn circuit(open_until: u64, now: Instant) -> Circuit {
    match open_until {
        0 => Circuit::Closed,
        until if until > millis(now) => Circuit::Open,
        _ => Circuit::HalfOpen,
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// The server answered, by something else than 502, 503 and 504.
    Success,
    /// The server did not answer, or by one of these.
    Failure,
}

/// A word of [`Breaker::slots`].
struct WindowSlot {
    tick: u64,
    requests: u64,
    failed: u64,
}

impl WindowSlot {
    fn of(word: u64) -> Self {
        Self {
            tick: word >> (2 * COUNT_BITS),
            requests: word >> COUNT_BITS & COUNT_MAX,
            failed: word & COUNT_MAX,
        }
    }
}

/// Tenths of the window since the process began, never 0: an empty slot has tick 0. It begins anew after
/// two weeks of the shortest window, where the counts of one tenth may be lost.
fn tick(window: Duration, now: Instant) -> u64 {
    let tenth = u64::try_from(window.as_millis())
        .unwrap_or(u64::MAX)
        .div_ceil(SLOTS as u64)
        .max(1);
    let ticks = millis(now) / tenth + SLOTS as u64;
    ticks & ((1 << (u64::BITS - 2 * COUNT_BITS)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: CircuitBreaker = CircuitBreaker {
        window: Duration::from_secs(10),
        min_requests: 20,
        failure_ratio: 0.5,
        open_for: Duration::from_secs(5),
        fallback: None,
    };

    /// A breaker, and a time after the beginning of uptime.
    fn fresh() -> (Breaker, Instant) {
        (Breaker::default(), Instant::now() + Duration::from_secs(1))
    }

    fn count(breaker: &Breaker, outcome: RequestOutcome, times: usize, now: Instant) -> usize {
        (0..times)
            .filter(|_| breaker.count(&SETTINGS, outcome, now))
            .count()
    }

    #[test]
    fn it_opens_at_the_ratio_of_the_least_volume() {
        let (breaker, now) = fresh();
        count(&breaker, RequestOutcome::Success, 10, now);
        assert_eq!(count(&breaker, RequestOutcome::Failure, 9, now), 0);
        assert_eq!(breaker.circuit(now), Circuit::Closed);
        assert_eq!(count(&breaker, RequestOutcome::Failure, 1, now), 1);
        assert_eq!(breaker.circuit(now), Circuit::Open);
        // What was in flight opens it no further.
        assert_eq!(count(&breaker, RequestOutcome::Failure, 50, now), 0);
        assert_eq!(breaker.circuit(now + SETTINGS.open_for), Circuit::HalfOpen);
        assert_eq!(breaker.opened(), 1);
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let (breaker, now) = fresh();
        count(&breaker, RequestOutcome::Failure, 19, now);
        let later = now + SETTINGS.window + Duration::from_secs(1);
        assert_eq!(count(&breaker, RequestOutcome::Failure, 19, later), 0);
        assert_eq!(count(&breaker, RequestOutcome::Failure, 1, later), 1);
    }

    #[test]
    fn a_failed_probe_opens_it_again_and_a_good_one_closes_it() {
        let (breaker, now) = fresh();
        count(&breaker, RequestOutcome::Failure, 20, now);
        let later = now + SETTINGS.open_for;
        // A straggler says nothing of the servers of now.
        assert_eq!(count(&breaker, RequestOutcome::Failure, 1, later), 0);
        let breaker = Arc::new(breaker);
        let Admission::Trial(trial) = breaker.admit(&SETTINGS, later) else {
            panic!("one passes");
        };
        assert_eq!(count(&breaker, RequestOutcome::Failure, 1, later), 1);
        drop(trial);
        assert_eq!(breaker.circuit(later), Circuit::Open);
        breaker.close();
        assert_eq!(breaker.circuit(later), Circuit::Closed);
        assert_eq!(count(&breaker, RequestOutcome::Failure, 19, later), 0);
    }

    #[test]
    fn one_request_at_a_time_probes_but_none_for_ever() {
        let (breaker, now) = fresh();
        let breaker = Arc::new(breaker);
        count(&breaker, RequestOutcome::Failure, 20, now);
        let later = now + SETTINGS.open_for;
        let trial = |at| match breaker.admit(&SETTINGS, at) {
            Admission::Trial(trial) => Some(trial),
            Admission::Pass => panic!("the circuit is half-open"),
            Admission::Open => None,
        };
        let slow = trial(later).expect("nobody tries");
        let soon = later + SETTINGS.open_for - Duration::from_millis(1);
        assert!(trial(soon).is_none());
        let next = trial(later + SETTINGS.open_for).expect("the first takes too long");
        // Its end is not that of the next.
        drop(slow);
        assert!(trial(later + SETTINGS.open_for).is_none());
        drop(next);
        assert!(trial(later + SETTINGS.open_for).is_some());
    }
}
