//! Calls that wait for room while others hold it and send nothing.
//!
//! Invariant: a call that moves, or holds credit that nobody else waits for, is left alone.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::sleep_until;

/// The number of calls that have waited for long, and news of them for the others.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    pressing: AtomicUsize,
    changed: Notify,
}

/// A call that has waited for long, until this is dropped.
#[derive(Debug)]
pub struct Pressing<'a>(&'a Pressure);

impl Pressure {
    /// Says that a call has waited for long.
    pub(super) fn press(&self) -> Pressing<'_> {
        self.pressing.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
        Pressing(self)
    }

    /// Presses from `at` on, until this is dropped. Never ready.
    pub(super) async fn press_at<T>(&self, at: Instant) -> T {
        sleep_until(at.into()).await;
        let _pressing = self.press();
        pending().await
    }

    /// Waits until a call has waited for long.
    pub(super) async fn pressed(&self) {
        let mut changed = pin!(self.changed());
        poll_fn(|cx| self.poll_pressed(cx, changed.as_mut())).await;
    }

    /// News to poll [`Pressure::poll_pressed`] with.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Ready while calls have waited for long; it takes a lock.
    pub(super) fn poll_pressed<'a>(
        &'a self,
        cx: &mut Context<'_>,
        mut changed: Pin<&mut Notified<'a>>,
    ) -> Poll<()> {
        loop {
            let is_pressed = || self.pressing.load(Ordering::SeqCst) > 0;
            if is_pressed() {
                return Poll::Ready(());
            }
            // In this order: who presses counts first, and tells those who were told to wait then.
            if changed.as_mut().poll(cx).is_pending() {
                return if is_pressed() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            }
            changed.set(self.changed.notified());
        }
    }
}

impl Drop for Pressing<'_> {
    fn drop(&mut self) {
        self.0.pressing.fetch_sub(1, Ordering::SeqCst);
    }
}
