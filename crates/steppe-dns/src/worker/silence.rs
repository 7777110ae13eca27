//! The idle timeout of a connection to a server: short with queries out, longer without.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep_until};

use crate::limits::UPSTREAM_STALL_TIME;

/// The time for which one connection has brought no response.
#[derive(Debug)]
pub(super) struct Silence {
    idle_time: Duration,
    since: Instant,
    /// Time since which a query waits without any response.
    waits_since: Option<Instant>,
    look_at: Pin<Box<Sleep>>,
}

impl Silence {
    /// The silence of a connection that may idle for `idle_time`.
    pub(super) fn new(idle_time: Duration, now: Instant) -> Self {
        Self {
            idle_time,
            since: now,
            waits_since: None,
            look_at: Box::pin(sleep_until((now + UPSTREAM_STALL_TIME).into())),
        }
    }

    /// Notes that a query goes out.
    pub(super) fn asked(&mut self, now: Instant) {
        self.waits_since.get_or_insert(now);
    }

    /// Notes that a response has come.
    pub(super) fn heard(&mut self, now: Instant) {
        (self.since, self.waits_since) = (now, None);
    }

    /// Ready when the silence has lasted too long.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        while self.look_at.as_mut().poll(cx).is_ready() {
            let end = self.end();
            if now >= end {
                return Poll::Ready(());
            }
            // A query may go out meanwhile, whose silence ends sooner.
            let look_at = end.min(now + UPSTREAM_STALL_TIME);
            self.look_at.as_mut().reset(look_at.into());
        }
        Poll::Pending
    }

    fn end(&self) -> Instant {
        match self.waits_since {
            Some(since) => since + UPSTREAM_STALL_TIME,
            None => self.since + self.idle_time,
        }
    }
}
