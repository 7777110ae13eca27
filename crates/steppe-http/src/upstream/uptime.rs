//! Points in time as milliseconds since the process started, which fit an atomic.

use std::sync::LazyLock;
use std::time::Instant;

/// Milliseconds since the process started, never 0.
pub(super) fn millis(at: Instant) -> u64 {
    static BEGAN_AT: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = at.saturating_duration_since(*BEGAN_AT).as_millis();
    u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)
}
