//! The forwarding of one body.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::futures::Notified;
use tokio::time::{Sleep, sleep_until};

use super::pressure::{Pressing, Pressure};
use crate::frame::Payment;
use crate::io::{Failure, Part, Receiver, Sender};
use crate::limits::{SPLIT_BYTES_MIN, WINDOW_BYTES};
use crate::status::Status;

/// The reason why a body could not be forwarded to its end.
pub(super) enum Stuck {
    /// The sender of the body failed.
    Source(Failure),
    /// The receiver of the body is gone, or has ended.
    Sink,
    /// This relay failed: no memory, a limit, or a timeout.
    Here(Failure),
}

/// A body that is forwarded from one stream to another.
pub(super) struct Pump<'a> {
    from: &'a mut Receiver,
    to: &'a mut Sender,
    payment: Payment,
    /// Credit granted to the sender; at most the credit that the receiver has granted.
    granted: u64,
    /// Bytes that were received, and their limit.
    received: u64,
    bytes_max: u64,
    was_stopped: bool,
}

/// The limits of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit<'a> {
    /// Length of the body in bytes, if known.
    pub(super) length: Option<u64>,
    /// Maximum of the body in bytes.
    pub(super) bytes_max: u64,
    /// Deadline for the receiver's first credit.
    pub(super) until: Instant,
    /// Time until that deadline, and the longest that credit may lie unused while other calls wait.
    pub(super) wait: Duration,
    pub(super) pressure: &'a Pressure,
}

/// Timeouts of an announced request: first for its first credit, then for the use of credit by its sender.
struct Watch<'a> {
    limit: Limit<'a>,
    /// Held by a request that has waited for half of its time.
    pressing: Option<Pressing<'a>>,
    /// Time of the first grant, or of the last check that found credit used.
    used_at: Option<Instant>,
    /// Bytes that had been received at that time.
    received: u64,
}

/// Bytes of a body that were granted, and that were received.
#[derive(Clone, Copy)]
struct Credit {
    granted: u64,
    received: u64,
}

/// A timer, and the notification that calls have waited for long.
struct Wakes<'w, 'a> {
    timer: Pin<&'w mut Sleep>,
    changed: Pin<&'w mut Notified<'a>>,
}

enum Next {
    Part(Option<Part>),
    /// Credit that may be granted, in bytes.
    Room(u64),
}

impl<'a> Pump<'a> {
    pub(super) fn new(from: &'a mut Receiver, to: &'a mut Sender, payment: Payment) -> Self {
        Self {
            from,
            to,
            payment,
            granted: 0,
            received: 0,
            bytes_max: u64::MAX,
            was_stopped: false,
        }
    }

    /// Forwards all parts of the body, without its end.
    pub(super) async fn run(mut self) -> Result<(), Stuck> {
        loop {
            match poll_fn(|cx| self.poll_next(cx)).await? {
                Next::Room(bytes) => self.grant(bytes, |_| {}).await?,
                Next::Part(None) => return Ok(()),
                Next::Part(Some(part)) => self.pass(&part).await?,
            }
        }
    }

    /// Forwards a request within its limits: its receiver grants credit in time, and its sender uses it.
    pub(super) async fn run_within(mut self, limit: Limit<'_>) -> Result<(), Stuck> {
        self.bytes_max = limit.bytes_max;
        if self.payment == Payment::Standing {
            return self.run().await;
        }
        let mut watch = Watch::new(limit);
        let mut timer = pin!(sleep_until(watch.half().into()));
        let mut changed = pin!(limit.pressure.changed());
        loop {
            let next = poll_fn(|cx| {
                if let Poll::Ready(next) = self.poll_next(cx) {
                    return Poll::Ready(next);
                }
                let credit = Credit {
                    granted: self.granted,
                    received: self.received,
                };
                let wakes = Wakes {
                    timer: timer.as_mut(),
                    changed: changed.as_mut(),
                };
                let over = watch.poll(cx, credit, wakes);
                over.map(|failure| Err(Stuck::Here(failure)))
            });
            match next.await? {
                Next::Room(bytes) => {
                    self.grant(bytes, |cx| watch.poll_room(cx, timer.as_mut()))
                        .await?;
                    watch.granted();
                }
                Next::Part(None) => return Ok(()),
                Next::Part(Some(part)) => self.pass(&part).await?,
            }
        }
    }

    async fn pass(&mut self, part: &Part) -> Result<(), Stuck> {
        self.received += part.bytes.len() as u64;
        if self.received > self.bytes_max {
            return Err(Stuck::Here(too_large()));
        }
        let sent = self.to.send_part(&part.bytes, part.rest).await;
        sent.map_err(|_| Stuck::Sink)
    }

    /// The next part, or credit to grant.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Next, Stuck>> {
        if let Poll::Ready(part) = self.from.poll_part(cx) {
            return Poll::Ready(part.map(Next::Part).map_err(Stuck::Source));
        }
        if !self.was_stopped && self.to.is_stopped() {
            self.was_stopped = true;
            self.from.stop();
        }
        // Polled even if no credit is to be granted: the task is woken when the receiver asks to stop, or is gone.
        let granted = self.to.poll_granted(cx, self.granted);
        if self.to.gone().is_some() {
            return Poll::Ready(Err(Stuck::Sink));
        }
        match granted {
            Poll::Ready(granted)
                if self.payment == Payment::Granted && self.from.wants_credit() =>
            {
                let bytes = (granted - self.granted).min(WINDOW_BYTES as u64);
                Poll::Ready(Ok(Next::Room(bytes)))
            }
            _ => Poll::Pending,
        }
    }

    /// Reserves memory for `bytes`, and grants them. Calls `waits` while it waits, which the end of either stream ends.
    async fn grant(
        &mut self,
        bytes: u64,
        mut waits: impl FnMut(&mut Context<'_>),
    ) -> Result<(), Stuck> {
        let charge = {
            let mut room = pin!(self.from.reserve(bytes));
            poll_fn(|cx| {
                // Registers the waker for a closed stream; more credit only causes another poll.
                let _ = self.to.poll_granted(cx, u64::MAX);
                if self.to.gone().is_some() {
                    return Poll::Ready(Err(Stuck::Sink));
                }
                if let Poll::Ready(failure) = self.from.poll_gone(cx) {
                    return Poll::Ready(Err(Stuck::Source(failure)));
                }
                let room = room.as_mut().poll(cx).map_err(Stuck::Here);
                if room.is_pending() {
                    waits(cx);
                }
                room
            })
            .await?
        };
        self.from.grant(charge, bytes);
        self.granted += bytes;
        Ok(())
    }
}

impl<'a> Watch<'a> {
    fn new(limit: Limit<'a>) -> Self {
        Self {
            limit,
            pressing: None,
            used_at: None,
            received: 0,
        }
    }

    /// The time at which half of the wait is over.
    fn half(&self) -> Instant {
        let Limit { until, wait, .. } = self.limit;
        until.checked_sub(wait / 2).unwrap_or(until)
    }

    /// Presses once the request has waited for memory for half of its time.
    fn poll_room(&mut self, cx: &mut Context<'_>, timer: Pin<&mut Sleep>) {
        if self.pressing.is_none() && timer.poll(cx).is_ready() {
            self.pressing = Some(self.limit.pressure.press());
        }
    }

    /// Notes that credit was granted.
    #[expect(clippy::disallowed_methods, reason = "the time to use it begins")]
    fn granted(&mut self) {
        self.pressing = None;
        self.used_at.get_or_insert_with(Instant::now);
    }

    /// Ready if the request fails: it got no credit in time, or does not use its credit while other calls wait. Parts
    /// set no timer: when one fires, the bytes since the last check are compared.
    #[expect(clippy::disallowed_methods, reason = "once a timer has fired")]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        credit: Credit,
        wakes: Wakes<'_, 'a>,
    ) -> Poll<Failure> {
        let Wakes { mut timer, changed } = wakes;
        let Credit { granted, received } = credit;
        loop {
            ready!(timer.as_mut().poll(cx));
            let (now, wait) = (Instant::now(), self.limit.wait);
            let Some(used_at) = self.used_at else {
                if now >= self.limit.until {
                    return Poll::Ready(no_credit());
                }
                self.pressing = Some(self.limit.pressure.press());
                timer.as_mut().reset(self.limit.until.into());
                continue;
            };
            let is_used = std::mem::replace(&mut self.received, received) < received;
            if is_used || !self.could_send(granted, received) {
                self.used_at = Some(now);
                timer.as_mut().reset((now + wait).into());
            } else if now < used_at + wait {
                timer.as_mut().reset((used_at + wait).into());
            } else {
                return self
                    .limit
                    .pressure
                    .poll_pressed(cx, changed)
                    .map(|()| unused());
            }
        }
    }

    /// True if the sender has enough credit to send without waiting for more.
    fn could_send(&self, granted: u64, received: u64) -> bool {
        let left = self
            .limit
            .length
            .map(|length| length.saturating_sub(received));
        let enough = left.map_or(SPLIT_BYTES_MIN as u64, |left| {
            left.min(SPLIT_BYTES_MIN as u64)
        });
        granted.saturating_sub(received) >= enough
    }
}

fn unused() -> Failure {
    let detail = "credit was granted and not used while other calls waited";
    Failure {
        retry_after: Some(Duration::from_secs(1)),
        ..Failure::new(Status::Overloaded, detail)
    }
}

fn no_credit() -> Failure {
    let detail = "no worker had room for the body in time";
    Failure::unprocessed(Status::Overloaded, detail)
}

fn too_large() -> Failure {
    let detail = "a body of unannounced length exceeds the payload limit";
    Failure::new(Status::TooLarge, detail)
}
