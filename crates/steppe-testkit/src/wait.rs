//! Waiting for conditions that come true by themselves.

use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit, for a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `holds` returns true.
///
/// # Panics
/// When it does not in time.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    observe_until(what, &mut holds, |holds| *holds);
}

/// Waits until `holds` is true of the value that `observe` returns, and returns that value.
///
/// # Panics
/// When it does not in time, with the last value.
#[track_caller]
pub fn observe_until<T: Debug>(
    what: &str,
    mut observe: impl FnMut() -> T,
    holds: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = observe();
        if holds(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "not in time: {what}: {seen:?}");
        std::thread::sleep(PAUSE);
    }
}

/// A gate that a test opens once, and that scripts of servers wait at.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets all pass, those that come later too.
    pub fn open(&self) {
        let (is_open, opened) = &*self.0;
        *is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        opened.notify_all();
    }

    /// True if the gate is open.
    pub fn is_open(&self) -> bool {
        self.opens_within(Duration::ZERO)
    }

    /// Waits until the gate is open.
    ///
    /// # Panics
    /// When it isn't in time.
    #[track_caller]
    pub fn wait(&self) {
        assert!(
            self.opens_within(2 * PATIENCE),
            "the gate stays closed: its test has ended or hangs"
        );
    }

    /// True if the gate is open, or is opened within `timeout`.
    pub fn opens_within(&self, timeout: Duration) -> bool {
        let (is_open, opened) = &*self.0;
        let lock = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = opened.wait_timeout_while(lock, timeout, |is_open| !*is_open);
        let (is_open, _) = outcome.unwrap_or_else(PoisonError::into_inner);
        *is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_all_pass_once_it_is_open() {
        let gate = Gate::new();
        assert!(!gate.opens_within(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| gate.clone().wait())));
            gate.open();
        });
        assert!(gate.is_open());
    }

    #[test]
    fn what_is_seen_last_is_returned() {
        let mut looks = 0..;
        let seen = observe_until("three looks", || looks.next(), |look| *look == Some(3));
        assert_eq!(seen, Some(3));
    }
}
