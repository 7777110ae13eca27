//! Liveness of a silent server, checked by PING (RFC 9113 §6.7).
//!
//! A server is checked only while it owes a response, and seldom: servers of gRPC end connections that ping more often
//! than every five minutes.

use std::time::Instant;

use crate::limits::{PING_AFTER, PING_EVERY, PING_TIMEOUT};

/// The state of the check.
#[derive(Debug)]
pub(super) struct Silence {
    /// Bytes that had come when it was looked at last.
    read: u64,
    /// When it was asked last.
    asked_at: Option<Instant>,
    is_answer_due: bool,
}

/// The next step of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Look again then.
    Again(Instant),
    /// Send a PING, and look again then.
    Ask(Instant),
    /// The peer is gone.
    Gone,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self {
            read: 0,
            asked_at: None,
            is_answer_due: false,
        }
    }

    /// Looks at how many bytes have come in all, at the times that it asks for.
    pub(super) fn look(&mut self, read: u64, owes: Owes, now: Instant) -> Look {
        let is_silent = std::mem::replace(&mut self.read, read) == read;
        // What it says is not read at the moment.
        let is_heard = owes != Owes::Unread;
        if is_silent && is_heard && self.is_answer_due {
            return Look::Gone;
        }
        self.is_answer_due = false;
        let was_asked = |at: Instant| now.saturating_duration_since(at) < PING_EVERY;
        if !is_silent || owes != Owes::Response || self.asked_at.is_some_and(was_asked) {
            return Look::Again(now + PING_AFTER);
        }
        self.asked_at = Some(now);
        self.is_answer_due = true;
        Look::Ask(now + PING_TIMEOUT)
    }
}

/// The server's debt of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owes {
    Nothing,
    Response,
    /// Unknown: received bytes have to be read first.
    Unread,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_asked_once_and_then_gone() {
        let start = Instant::now();
        let mut silence = Silence::new();
        let now = start + PING_AFTER;
        assert_eq!(
            silence.look(9, Owes::Response, now),
            Look::Again(now + PING_AFTER)
        );
        let now = now + PING_AFTER;
        assert_eq!(
            silence.look(9, Owes::Response, now),
            Look::Ask(now + PING_TIMEOUT)
        );
        assert_eq!(
            silence.look(9, Owes::Response, now + PING_TIMEOUT),
            Look::Gone
        );
    }

    #[test]
    fn whoever_answers_is_left_in_peace_for_a_while() {
        let mut now = Instant::now();
        let mut silence = Silence::new();
        let mut asked = Vec::new();
        // It answers each PING and sends nothing else, for half an hour.
        let mut read = 0;
        while asked.len() < 5 {
            match silence.look(read, Owes::Response, now) {
                Look::Again(at) => now = at,
                Look::Ask(at) => {
                    asked.push(now);
                    read += 17;
                    now = at;
                }
                Look::Gone => panic!("it answered"),
            }
        }
        let pauses = asked.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(pauses.into_iter().all(|pause| pause >= PING_EVERY));
    }

    /// A PING's answer waits behind content that slow clients have not taken.
    #[test]
    fn a_server_that_is_not_read_from_is_not_gone() {
        let mut now = Instant::now();
        let mut silence = Silence::new();
        let asked = silence.look(0, Owes::Response, now);
        assert_eq!(asked, Look::Ask(now + PING_TIMEOUT));
        for _ in 0..10 {
            now += PING_AFTER;
            let look = silence.look(0, Owes::Unread, now);
            assert_eq!(look, Look::Again(now + PING_AFTER));
        }
        now += PING_EVERY;
        let asked = silence.look(0, Owes::Response, now);
        assert_eq!(asked, Look::Ask(now + PING_TIMEOUT));
    }

    #[test]
    fn a_server_that_owes_nothing_is_not_asked() {
        let mut now = Instant::now();
        let mut silence = Silence::new();
        for _ in 0..10 {
            assert_eq!(
                silence.look(0, Owes::Nothing, now),
                Look::Again(now + PING_AFTER)
            );
            now += PING_AFTER;
        }
    }
}
