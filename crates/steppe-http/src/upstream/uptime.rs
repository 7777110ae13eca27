//! Points in time as milliseconds since the process started, which fit an atomic.

use std::time::Instant;

use steppe_net::clock;

/// Milliseconds since the process started, never 0.
pub(super) fn millis(at: Instant) -> u64 {
    let since = at.saturating_duration_since(clock::origin()).as_millis();
    u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)
}
