//! Points in time as milliseconds since the process started, which fit an atomic.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The time by which the origin precedes its first use. A test stops its clock first and gets here later: its
/// times must not lie before the origin.
const MARGIN: Duration = Duration::from_secs(60);

/// Milliseconds since the process started, never 0.
#[expect(
    clippy::disallowed_methods,
    reason = "the origin of all times that are kept as milliseconds"
)]
pub(super) fn millis(at: Instant) -> u64 {
    // The real time: tests of one process have clocks of their own, which they advance.
    static BEGAN_AT: LazyLock<Instant> = LazyLock::new(|| {
        let now = Instant::now();
        now.checked_sub(MARGIN).unwrap_or(now)
    });
    let since = at.saturating_duration_since(*BEGAN_AT).as_millis();
    u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)
}
