//! What a server takes of late: a peak-sensitive, exponentially weighted average.
//!
//! A latency above the average replaces it, one below moves it by what time has
//! passed: w = e^(-t/τ), average = average · w + latency · (1 - w). The idea is
//! that of Finagle's `p2c` with peak EWMA: slow to trust, quick to flee. Where nothing is asked
//! of a server, what is known of it fades all the same: else one that was slow for a moment would
//! never be asked again.
//!
//! Invariant: a reader sees some average that held; two writers at once may lose
//! one of two latencies, which the next makes good.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::uptime::millis;
use crate::limits::LATENCY_DECAY;

/// An average in nanoseconds, and when it was moved.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// Bits of an `f64`; 0: nothing was seen yet.
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
            let w = faded(now.saturating_sub(moved_at).max(1));
            average * w + sample * (1.0 - w)
        };
        self.average_ns.store(average.to_bits(), Ordering::Relaxed);
        self.moved_at.store(now, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> Option<Duration> {
        let average = f64::from_bits(self.average_ns.load(Ordering::Relaxed));
        (average > 0.0).then(|| Duration::from_secs_f64(average / 1e9))
    }

    /// What one more request would cost beside `active` others. A server that nothing
    /// is known of is asked once, and then avoided until it has answered.
    pub(super) fn cost(&self, active: u64, now: Instant) -> f64 {
        const UNKNOWN_NS: f64 = 1e12;
        let average = f64::from_bits(self.average_ns.load(Ordering::Relaxed));
        #[expect(clippy::cast_precision_loss, reason = "requests under way are few")]
        let waiting = active as f64;
        if average == 0.0 {
            return waiting * UNKNOWN_NS;
        }
        // While it owes answers, silence is no good sign.
        let left = if active == 0 {
            let moved_at = self.moved_at.load(Ordering::Relaxed);
            faded(millis(now).saturating_sub(moved_at))
        } else {
            1.0
        };
        average * left * (waiting + 1.0)
    }
}

/// The share of an average that is left after so many milliseconds.
fn faded(passed_ms: u64) -> f64 {
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
