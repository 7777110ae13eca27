//! Pressure: calls wait for room, while other calls hold credit and send nothing.
//!
//! Invariant: a call that makes progress, or whose credit no other call waits for, is not reset.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::sleep_until;

/// The number of calls that have waited for long, and a notification for the others.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    pressing: AtomicUsize,
    changed: Notify,
}

/// A call that has waited for long, counted until this is dropped.
#[derive(Debug)]
pub struct Pressing<'a>(&'a Pressure);

impl Pressure {
    /// Counts a call that has waited for long, and notifies the others.
    pub(super) fn press(&self) -> Pressing<'_> {
        self.pressing.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
        Pressing(self)
    }

    /// Presses from `at` on, until the future is dropped. The future never completes.
    pub(super) async fn press_at<T>(&self, at: Instant) -> T {
        sleep_until(at.into()).await;
        let _pressing = self.press();
        pending().await
    }

    /// Waits until any call has waited for long.
    pub(super) async fn pressed(&self) {
        let mut changed = pin!(self.changed());
        poll_fn(|cx| self.poll_pressed(cx, changed.as_mut())).await;
    }

    /// The notification to poll [`Pressure::poll_pressed`] with.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Ready while any call has waited for long; takes a lock.
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
            // In this order: `press` counts first, and then notifies those that are registered.
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
