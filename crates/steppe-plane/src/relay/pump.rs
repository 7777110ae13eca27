//! One body on its way through a relay.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use tokio::time::timeout_at;

use crate::frame::Payment;
use crate::io::{Failure, Part, Receiver, Sender};
use crate::limits::WINDOW_BYTES;
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
    /// Until when the other side has to grant something at all.
    until: Option<Instant>,
    /// Bytes that it may still have.
    bytes_left: u64,
    was_stopped: bool,
}

enum Next {
    Part(Option<Part>),
    /// So much may be granted.
    Room(u64),
}

impl<'a> Pump<'a> {
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn new(
        from: &'a mut Receiver,
        to: &'a mut Sender,
        payment: Payment,
        until: Option<Instant>,
        bytes_max: u64,
    ) -> Self {
        Self {
            from,
            to,
            payment,
            granted: 0,
            until,
            bytes_left: bytes_max,
            was_stopped: false,
        }
    }

    /// Moves all of it but its end.
    pub(super) async fn run(mut self) -> Result<(), Stuck> {
        loop {
            let next = match self.until {
                Some(until) if self.granted == 0 && self.payment == Payment::Granted => {
                    let next = timeout_at(until.into(), self.next()).await;
                    next.map_err(|_| Stuck::Here(no_credit()))??
                }
                _ => self.next().await?,
            };
            match next {
                Next::Room(bytes) => self.grant(bytes).await?,
                Next::Part(None) => return Ok(()),
                Next::Part(Some(part)) => {
                    let len = part.bytes.len() as u64;
                    self.bytes_left = self
                        .bytes_left
                        .checked_sub(len)
                        .ok_or_else(|| Stuck::Here(too_large()))?;
                    let sent = self.to.send_part(&part.bytes, part.rest).await;
                    sent.map_err(|_| Stuck::Sink)?;
                }
            }
        }
    }

    /// What can be done next.
    async fn next(&mut self) -> Result<Next, Stuck> {
        poll_fn(|cx| {
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
        })
        .await
    }

    /// Reserves memory for `bytes`, and grants them; meanwhile it hears of either side's end.
    async fn grant(&mut self, bytes: u64) -> Result<(), Stuck> {
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
                room.as_mut().poll(cx).map_err(Stuck::Here)
            })
            .await?
        };
        self.from.grant(charge, bytes);
        self.granted += bytes;
        Ok(())
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
