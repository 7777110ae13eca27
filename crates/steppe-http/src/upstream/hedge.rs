//! When a second server is asked: after so many of the answers of the last seconds have come.
//!
//! Latencies are counted in buckets a quarter of an octave wide, so a percentile is exact to a tenth. Once
//! in a while whoever counts an answer computes it anew and lets what is old fade; a request reads one word.
//!
//! Invariant: to count is one atomic operation, and takes no lock.
//! Source: Dean and Barroso, "The Tail at Scale" (2013), "Hedged requests".

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::uptime::millis;
use crate::config::HedgeAfter;

/// Four an octave, up to 2^32 microseconds.
const BUCKETS: usize = 128;

/// Milliseconds between two computations of the percentile, which changes no faster.
const EVERY_MS: u64 = 250;

/// Each time a sixteenth of what was counted fades: half of it in three seconds.
const FADES: u32 = 16;

/// Fewer answers say nothing of a tail.
const ANSWERS_MIN: u64 = 50;

/// Latencies of one upstream, of all workers.
#[derive(Debug)]
pub(super) struct Latencies {
    buckets: [AtomicU32; BUCKETS],
    computed_at: AtomicU64,
    /// Microseconds; 0: not known.
    percentile: AtomicU64,
    won: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU32::new(0)),
            computed_at: AtomicU64::new(0),
            percentile: AtomicU64::new(0),
            won: AtomicU64::new(0),
        }
    }
}

impl Latencies {
    /// Counts an answer.
    pub(super) fn count(&self, after: HedgeAfter, elapsed: Duration, now: Instant) {
        let HedgeAfter::Percentile(percent) = after else {
            return;
        };
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        let (now, last) = (millis(now), self.computed_at.load(Ordering::Relaxed));
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_due = now >= last + EVERY_MS;
        if is_due
            && (self.computed_at)
                .compare_exchange(last, now, success, failure)
                .is_ok()
        {
            self.compute(percent);
        }
    }

    #[cold]
    fn compute(&self, percent: u8) {
        let counts = self.buckets.each_ref().map(|bucket| {
            let count = bucket.load(Ordering::Relaxed);
            bucket.fetch_sub(count.div_ceil(FADES), Ordering::Relaxed);
            u64::from(count)
        });
        let total: u64 = counts.iter().sum();
        let wanted = (total * u64::from(percent)).div_ceil(100);
        let mut below = 0;
        let at = counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        let micros = at.filter(|_| total >= ANSWERS_MIN).map_or(0, upper_bound);
        self.percentile.store(micros, Ordering::Relaxed);
    }

    /// The time that a first server has; `None`: not known yet.
    pub(super) fn after(&self, after: HedgeAfter) -> Option<Duration> {
        match after {
            HedgeAfter::Time(time) => Some(time),
            HedgeAfter::Percentile(_) => match self.percentile.load(Ordering::Relaxed) {
                0 => None,
                micros => Some(Duration::from_micros(micros)),
            },
        }
    }

    /// The second server answered first.
    pub(super) fn count_won(&self) {
        self.won.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn won(&self) -> u64 {
        self.won.load(Ordering::Relaxed)
    }
}

/// The bucket of so many microseconds: their octave, and the two bits below its first.
fn bucket(micros: u64) -> usize {
    let micros = micros.max(4);
    let octave = micros.ilog2();
    let quarter = micros >> (octave - 2) & 3;
    let at = (octave - 2) as usize * 4 + usize::try_from(quarter).expect("two bits");
    at.min(BUCKETS - 1)
}

/// The least number of microseconds that is beyond a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    (4 + next % 4) << (next / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P95: HedgeAfter = HedgeAfter::Percentile(95);

    fn after(latencies: &Latencies) -> Option<u64> {
        let micros = latencies.after(P95)?.as_micros();
        Some(u64::try_from(micros).expect("small"))
    }

    #[test]
    fn buckets_are_in_order_and_end_where_the_next_begins() {
        for micros in (4..5_000_000).step_by(37) {
            let at = bucket(micros);
            assert!(micros < upper_bound(at), "{micros}");
            assert!(at == 0 || micros >= upper_bound(at - 1), "{micros}");
            // Exact to a quarter of an octave.
            assert!(upper_bound(at) * 4 <= micros * 5 + 8, "{micros}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn it_is_the_percentile_of_what_came_lately() {
        let (latencies, start) = (
            Latencies::default(),
            Instant::now() + Duration::from_secs(1),
        );
        let at = |ms| start + Duration::from_millis(ms);
        let count = |times, micros, ms| {
            let elapsed = Duration::from_micros(micros);
            (0..times).for_each(|_| latencies.count(P95, elapsed, at(ms)));
        };
        count(10, 1000, 0);
        assert_eq!(after(&latencies), None, "too few");
        count(940, 1000, 0);
        count(49, 100_000, 0);
        count(1, 1000, 300);
        let p95 = after(&latencies).expect("many");
        assert!((1000..1300).contains(&p95), "{p95}");
        // Everything becomes slow.
        for round in 2..40 {
            count(100, 50_000, round * 300);
        }
        let p95 = after(&latencies).expect("many");
        assert!((50_000..66_000).contains(&p95), "{p95}");
    }

    #[test]
    fn a_time_is_a_time() {
        let latencies = Latencies::default();
        let time = HedgeAfter::Time(Duration::from_millis(20));
        latencies.count(time, Duration::from_secs(1), Instant::now());
        assert_eq!(latencies.after(time), Some(Duration::from_millis(20)));
    }
}
