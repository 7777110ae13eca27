//! A server's latency: a peak-sensitive, exponentially weighted moving average (peak EWMA).
//!
//! A sample above the average replaces it; one below is weighted by the time that passed:
//! w = e^(-t/τ), average = average · w + sample · (1 - w). This is the peak EWMA of Finagle's
//! `p2c`: it reacts to a rise at once and to a fall slowly. The average of a server without
//! requests decays too: otherwise a server that was slow once would never be chosen again.
//!
//! Invariant: a reader sees an average that was stored; of two concurrent samples one may be
//! lost, which the next sample corrects.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::uptime::millis;
use crate::limits::LATENCY_DECAY;

/// An average in nanoseconds, and the time of its last sample.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// Bits of an `f64`; 0: no sample yet.
    average_ns: AtomicU64,
    moved_at: AtomicU64,
}

impl Latency {
    pub(super) fn observe(&self, elapsed: Duration, now: Instant) {
        let sample = elapsed.as_secs_f64() * 1e9;
        let now = millis(now);
        let average = f64::from_bits(self.average_ns.load(Ordering::Relaxed));
        let moved_at = self.moved_at.load(Ordering::Relaxed);
        let average = if average == 0.0 || sample >= average {
            sample.max(1.0)
        } else {
            let w = decay(now.saturating_sub(moved_at).max(1));
            average * w + sample * (1.0 - w)
        };
        self.average_ns.store(average.to_bits(), Ordering::Relaxed);
        self.moved_at.store(now, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> Option<Duration> {
        let average = f64::from_bits(self.average_ns.load(Ordering::Relaxed));
        (average > 0.0).then(|| Duration::from_secs_f64(average / 1e9))
    }

    /// The cost of one more request beside `active` others. A server without a sample is sent one
    /// request, and avoided until it has responded.
    pub(super) fn cost(&self, active: u64, now: Instant) -> f64 {
        const UNKNOWN_NS: f64 = 1e12;
        let average = f64::from_bits(self.average_ns.load(Ordering::Relaxed));
        #[expect(clippy::cast_precision_loss, reason = "requests in flight are few")]
        let waiting = active as f64;
        if average == 0.0 {
            return waiting * UNKNOWN_NS;
        }
        // No decay while responses are outstanding: the server may be stuck.
        let left = if active == 0 {
            let moved_at = self.moved_at.load(Ordering::Relaxed);
            decay(millis(now).saturating_sub(moved_at))
        } else {
            1.0
        };
        average * left * (waiting + 1.0)
    }
}

/// The factor by which an average decays in so many milliseconds.
fn decay(passed_ms: u64) -> f64 {
    let passed = Duration::from_millis(passed_ms);
    (-passed.as_secs_f64() / LATENCY_DECAY.as_secs_f64()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_at_once_and_falls_with_time() {
        let latency = Latency::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let ms = || latency.value().expect("it was seen").as_millis();
        latency.observe(Duration::from_millis(10), at(0));
        assert_eq!(ms(), 10);
        latency.observe(Duration::from_millis(500), at(1));
        assert_eq!(ms(), 500);
        latency.observe(Duration::from_millis(10), at(2));
        assert!((300..480).contains(&ms()), "{}", ms());
        latency.observe(Duration::from_millis(10), at(60));
        assert!((10..15).contains(&ms()), "{}", ms());
    }

    #[test]
    fn what_is_not_known_is_asked_once() {
        let latency = Latency::default();
        let now = Instant::now();
        assert!(latency.cost(0, now) < 1.0 && latency.cost(1, now) > 1e9);
        latency.observe(Duration::from_millis(1), now);
        assert!(latency.cost(1, now) < 1e9 && latency.cost(1, now) > latency.cost(0, now));
    }

    #[test]
    fn a_server_that_was_slow_is_asked_again() {
        let [slow, quick] = [300_000, 200].map(|us| {
            let latency = Latency::default();
            latency.observe(Duration::from_micros(us), Instant::now());
            latency
        });
        let after = |seconds| {
            let at = Instant::now() + Duration::from_secs(seconds);
            quick.observe(Duration::from_micros(200), at);
            slow.cost(0, at) < quick.cost(0, at)
        };
        assert!(!after(5));
        assert!(after(30));
        // One that has hung with a request is not.
        let at = Instant::now() + Duration::from_secs(60);
        quick.observe(Duration::from_micros(200), at);
        assert!(slow.cost(1, at) > quick.cost(5, at));
    }
}
