//! Liveness of the peer: HELLO in time, and PING after silence.

use std::time::{Duration, Instant};

use super::violation::Violation;
use crate::limits::HELLO_TIMEOUT;

/// Liveness of the peer.
#[derive(Debug)]
pub(super) struct Keepalive {
    began: Instant,
    heard: Instant,
    /// Time of the last PING, while nothing was received since.
    asked: Option<Instant>,
    is_connected: bool,
    /// Silence before a PING.
    quiet: Duration,
    /// Time limit of the reaction to a PING.
    patience: Duration,
}

impl Keepalive {
    pub(super) fn new(now: Instant, quiet: Duration, patience: Duration) -> Self {
        Self {
            began: now,
            heard: now,
            asked: None,
            is_connected: false,
            quiet,
            patience,
        }
    }

    /// Notes the peer's HELLO.
    pub(super) fn connected(&mut self) {
        self.is_connected = true;
    }

    /// Notes that bytes were received.
    pub(super) fn heard(&mut self, now: Instant) {
        (self.heard, self.asked) = (now, None);
    }

    /// True if a PING is due; it counts as sent.
    ///
    /// # Errors
    /// [`Violation::HelloTimeout`], [`Violation::Silent`].
    pub(super) fn is_ping_due(&mut self, now: Instant) -> Result<bool, Violation> {
        if now < self.next() {
            return Ok(false);
        }
        if !self.is_connected {
            return Err(Violation::HelloTimeout);
        }
        if self.asked.is_some() {
            return Err(Violation::Silent);
        }
        self.asked = Some(now);
        Ok(true)
    }

    /// The time of the next call of [`Keepalive::is_ping_due`].
    pub(super) fn next(&self) -> Instant {
        match self.asked {
            _ if !self.is_connected => self.began + HELLO_TIMEOUT,
            Some(asked) => asked + self.patience,
            None => self.heard + self.quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_says_hello_in_time() {
        let now = Instant::now();
        let mut keepalive = Keepalive::new(now, 60 * SECOND, SECOND);
        assert_eq!(keepalive.next(), now + HELLO_TIMEOUT);
        keepalive.heard(now + SECOND);
        let late = keepalive.is_ping_due(now + HELLO_TIMEOUT);
        assert_eq!(
            late,
            Err(Violation::HelloTimeout),
            "other bytes are no HELLO"
        );
    }

    #[test]
    fn a_silent_peer_is_asked_once() {
        let now = Instant::now();
        let mut keepalive = Keepalive::new(now, 5 * SECOND, 2 * SECOND);
        keepalive.connected();
        keepalive.heard(now + SECOND);
        assert_eq!(keepalive.is_ping_due(now + 5 * SECOND), Ok(false));
        assert_eq!(keepalive.is_ping_due(now + 6 * SECOND), Ok(true));
        assert_eq!(keepalive.is_ping_due(now + 7 * SECOND), Ok(false));
        assert_eq!(keepalive.next(), now + 8 * SECOND);
        let lost = keepalive.is_ping_due(now + 8 * SECOND);
        assert_eq!(lost, Err(Violation::Silent));
        keepalive.heard(now + 8 * SECOND);
        assert_eq!(keepalive.is_ping_due(now + 8 * SECOND), Ok(false));
    }
}
