//! The clock of this crate and of the HTTP gateway.
//!
//! [`now`] is the time of the runtime's timers: a test that pauses or advances the runtime's clock
//! (`tokio::time::pause`, feature `test-util`) moves deadlines, sweeps, breakers, ejections, health
//! checks, rate limits and the timers of tokio together. Without that feature, which only the tests'
//! packages ask for, `now` is `Instant::now` and nothing else: no branch, no lock, no handle to carry.
//!
//! Invariant: what is compared with a deadline, or given to code that takes `now`, comes from here and not
//! from `Instant::now`, or a test that advances the clock would move one side of the comparison only.
//!
//! Non-goals: the wall clock (`SystemTime`), and threads outside of a runtime, where this is the real time.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The time by which the origin precedes its first use. A test stops its clock first and gets here later: its
/// times must not lie before the origin.
const MARGIN: Duration = Duration::from_secs(60);

/// The current time.
#[inline]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the clock itself")]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The origin of times that are kept as numbers: somewhat before its first use, the same for the whole process.
#[inline]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the clock itself")]
pub fn origin() -> Instant {
    // The real time: tests of one process have clocks of their own, which they advance.
    static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
        let now = Instant::now();
        now.checked_sub(MARGIN).unwrap_or(now)
    });
    *ORIGIN
}

#[cfg(test)]
mod tests {
    use steppe_testkit::virtual_time;

    use super::*;

    #[test]
    fn it_stands_still_until_a_test_moves_it_and_moves_the_timers_too() {
        virtual_time::run(async {
            let began_at = now();
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(now(), began_at);
            let minute = Duration::from_secs(60);
            let sleeping = tokio::spawn(tokio::time::sleep(minute));
            virtual_time::pass(minute - Duration::from_millis(1)).await;
            assert!(!sleeping.is_finished());
            virtual_time::pass(Duration::from_millis(2)).await;
            assert!(sleeping.is_finished());
            assert_eq!(now() - began_at, minute + Duration::from_millis(1));
        });
    }

    #[test]
    fn outside_of_a_runtime_it_is_the_real_time() {
        virtual_time::run(async { virtual_time::pass(Duration::from_secs(60)).await });
        let before = Instant::now();
        let read = now();
        assert!((before..=Instant::now()).contains(&read));
    }
}
