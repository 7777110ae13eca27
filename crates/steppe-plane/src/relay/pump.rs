//! One body on its way through a relay.

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

/// Where a body could not go on.
pub(super) enum Stuck {
    /// The side that sends it failed.
    Source(Failure),
    /// The side that receives it is gone, or has ended.
    Sink,
    /// There was no room for it here.
    Here(Failure),
}

/// A body that goes from one side to the other.
pub(super) struct Pump<'a> {
    from: &'a mut Receiver,
    to: &'a mut Sender,
    payment: Payment,
    /// What was granted to the side that sends: at most as much as the other side granted.
    granted: u64,
    /// Bytes that came, and that may.
    received: u64,
    bytes_max: u64,
    was_stopped: bool,
}

/// The bounds of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit<'a> {
    /// Bytes of it, where they are known.
    pub(super) length: Option<u64>,
    /// Bytes that it may have.
    pub(super) bytes_max: u64,
    /// Until when the other side has to grant something at all.
    pub(super) until: Instant,
    /// The longest wait for that, and the longest that credit may lie unused while others wait.
    pub(super) wait: Duration,
    pub(super) pressure: &'a Pressure,
}

/// The wait of an announced request: for its first credit, then for its sender to use it.
struct Watch<'a> {
    limit: Limit<'a>,
    /// Of a request that has waited for half of its time.
    pressing: Option<Pressing<'a>>,
    /// When credit was granted first, or seen to be used last.
    used_at: Option<Instant>,
    /// Bytes that had come by then.
    received: u64,
}

/// Bytes of a body that were granted, and that came.
#[derive(Clone, Copy)]
struct Credit {
    granted: u64,
    received: u64,
}

/// A timer, and the news that calls have waited for long.
struct Wakes<'w, 'a> {
    timer: Pin<&'w mut Sleep>,
    changed: Pin<&'w mut Notified<'a>>,
}

enum Next {
    Part(Option<Part>),
    /// So much may be granted.
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

    /// Moves all of it but its end.
    pub(super) async fn run(mut self) -> Result<(), Stuck> {
        loop {
            match poll_fn(|cx| self.poll_next(cx)).await? {
                Next::Room(bytes) => self.grant(bytes, |_| {}).await?,
                Next::Part(None) => return Ok(()),
                Next::Part(Some(part)) => self.pass(&part).await?,
            }
        }
    }

    /// The same of a request: the side that receives it grants credit in time, and the side that sends it uses it.
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

    /// The next thing to do.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Next, Stuck>> {
        if let Poll::Ready(part) = self.from.poll_part(cx) {
            return Poll::Ready(part.map(Next::Part).map_err(Stuck::Source));
        }
        if !self.was_stopped && self.to.is_stopped() {
            self.was_stopped = true;
            self.from.stop();
        }
        // Also where nothing is to be granted: it is woken where that side asks to stop, or is gone.
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

    /// Reserves memory for `bytes`, and grants them; meanwhile it hears of either side's end, and `waits` is called.
    async fn grant(
        &mut self,
        bytes: u64,
        mut waits: impl FnMut(&mut Context<'_>),
    ) -> Result<(), Stuck> {
        let charge = {
            let mut room = pin!(self.from.reserve(bytes));
            poll_fn(|cx| {
                // It wakes the task where that side is gone; more credit only makes it look.
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

    /// When it has waited for half of its time.
    fn half(&self) -> Instant {
        let Limit { until, wait, .. } = self.limit;
        until.checked_sub(wait / 2).unwrap_or(until)
    }

    /// The request waits for memory here.
    fn poll_room(&mut self, cx: &mut Context<'_>, timer: Pin<&mut Sleep>) {
        if self.pressing.is_none() && timer.poll(cx).is_ready() {
            self.pressing = Some(self.limit.pressure.press());
        }
    }

    /// Credit was granted.
    #[expect(clippy::disallowed_methods, reason = "the time to use it begins")]
    fn granted(&mut self) {
        self.pressing = None;
        self.used_at.get_or_insert_with(Instant::now);
    }

    /// Ready where the request is over: it was granted nothing in time, or uses nothing while others wait. A timer
    /// that fires looks at what has come since: none is set for a part.
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

    /// True where its sender has credit enough to send, without waiting for more.
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
