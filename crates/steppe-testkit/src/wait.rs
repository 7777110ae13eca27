//! Waiting for what comes about by itself.

use std::time::{Duration, Instant};

/// How long it may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it `holds`.
///
/// # Panics
/// When it does not in time.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
