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

use std::time::Instant;

/// The current time.
#[inline]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the clock itself")]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
