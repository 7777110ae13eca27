//! The incoming body of a call.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use steppe_mem::Reservation;

use super::failure::Failure;
use super::link::{Handle, Kept, Link};
use super::memory::Way;
use super::room::Room;
use super::stream::{BodyHead, Part, Take, wait};
use crate::frame::{HEADER_BYTES, Payment, Queueing};
use crate::limits::WINDOW_BYTES;
use crate::status::Status;

/// The body that the peer sends.
///
/// An announced body is granted credit only after a call of [`Receiver::whole`] or [`Receiver::next`].
#[derive(Debug)]
pub struct Receiver {
    handle: Arc<Handle>,
    way: Way,
    has_begun: bool,
}

impl Receiver {
    pub(crate) fn new(handle: Arc<Handle>, way: Way) -> Self {
        Self {
            handle,
            way,
            has_begun: false,
        }
    }

    /// Receives a body of one message into one buffer; waits for room in the budget first. A body
    /// without a message is empty.
    ///
    /// # Errors
    /// [`Failure`]: [`Status::TooLarge`] if the budget never has room; [`Status::Overloaded`] if it
    /// has none now and the request does not wait; [`Status::Invalid`] for a body of several
    /// messages, or of unknown length, which [`Receiver::next`] can receive.
    ///
    /// # Cancel safety
    /// None: the receiver has to be dropped too.
    pub async fn whole(&mut self) -> Result<Bytes, Failure> {
        let head = poll_fn(|cx| self.poll_head(cx)).await?;
        if let Some(head) = head
            && head.payment == Payment::Granted
        {
            self.make_room(head, |_| 0).await?;
        }
        poll_fn(|cx| self.poll_message(cx)).await
    }

    /// Receives a body as [`Receiver::whole`] does, with room for the work on it. `room` returns the bytes for it, by
    /// the body's length. For an announced body, they are reserved together with the buffer, before any of the
    /// body is sent: handlers that hold a body and wait for memory would wait for each other. Request the
    /// possible need here; later, [`Room::fit`] sets the actual need and waits only for the missing part.
    ///
    /// If `room` exceeds the memory that there ever is, less is reserved.
    ///
    /// # Errors
    /// The errors of [`Receiver::whole`].
    ///
    /// # Cancel safety
    /// None: the receiver has to be dropped too.
    pub async fn whole_with(
        &mut self,
        room: impl Fn(u64) -> usize,
    ) -> Result<(Bytes, Room), Failure> {
        let head = poll_fn(|cx| self.poll_head(cx)).await?;
        let memory = Arc::clone(&self.handle.link.memory);
        let queueing = self.queueing();
        if let Some(head) = head
            && head.payment == Payment::Granted
        {
            let beside = self.make_room(head, room).await?;
            let body = poll_fn(|cx| self.poll_message(cx)).await?;
            return Ok((body, Room::new(beside, &memory, queueing)));
        }
        // This body and others are received already: no handler may wait for memory that they hold.
        let body = poll_fn(|cx| self.poll_message(cx)).await?;
        let none = memory.lease(self.way).try_reserve(0);
        let none = none.map_err(|error| Failure::new(Status::Overloaded, error.to_string()))?;
        let mut beside = Room::new(none, &memory, queueing);
        let share = usize::try_from(memory.response_share_bytes()).unwrap_or(usize::MAX);
        beside.fit(room(body.len() as u64).min(share)).await?;
        Ok((body, beside))
    }

    /// The next part of the body; `None` at its end. Messages of an announced body come in parts of at
    /// most [`DATA_BYTES_MAX`](crate::limits::DATA_BYTES_MAX) bytes, so the body may be larger than the budget.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// No part is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Part>, Failure> {
        let head = poll_fn(|cx| self.poll_head(cx)).await?;
        if head.is_some_and(|head| head.payment == Payment::Granted) {
            let missing = self.missing_window();
            if missing > 0 {
                let handle = Arc::clone(&self.handle);
                let room = handle
                    .link
                    .memory
                    .reserve_for(self.way, missing, self.queueing());
                let mut room = pin!(room);
                let first = poll_fn(|cx| match self.poll_part(cx) {
                    Poll::Ready(part) => Poll::Ready(Ok(part)),
                    Poll::Pending => room.as_mut().poll(cx).map(Err),
                });
                match first.await {
                    Ok(part) => return part,
                    Err(Ok(charge)) => self.grant(charge, WINDOW_BYTES as u64),
                    Err(Err(failure)) => {
                        self.handle.reset(&failure);
                        return Err(failure);
                    }
                }
            }
        }
        poll_fn(|cx| self.poll_part(cx)).await
    }

    /// Keeps `what` until the stream's call is dropped. To be called once.
    pub(crate) fn keep(&self, what: Box<dyn Kept>) {
        self.handle.keep(what);
    }

    /// Asks the peer to end early. Messages that it has sent until then are still received.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// True if the peer has ended its side, or the stream is closed.
    pub(crate) fn has_ended(&self) -> bool {
        let state = self.handle.link.lock();
        let stream = state.streams.get(self.handle.id);
        stream.is_none_or(|stream| stream.peer_ended.is_some())
    }

    /// True if the body can use more credit: at most half of a window is left, and the peer has not ended.
    pub(crate) fn wants_credit(&self) -> bool {
        let state = self.handle.link.lock();
        let stream = state.streams.get(self.handle.id);
        stream.is_some_and(|stream| {
            stream.peer_ended.is_none() && stream.credit <= (WINDOW_BYTES / 2) as u64
        })
    }

    /// Waits for memory for `credit` bytes, to be granted next.
    pub(crate) async fn reserve(&self, credit: u64) -> Result<Reservation, Failure> {
        let (held, left) = {
            let state = self.handle.link.lock();
            let stream = state.streams.get(self.handle.id);
            stream.map_or((0, 0), |stream| {
                let held = stream.charge.as_ref().map_or(0, Reservation::bytes);
                (held, stream.credit)
            })
        };
        // The buffer of a frame may be twice its length. Memory left over from earlier frames is used first.
        let credit = usize::try_from(credit + left).unwrap_or(WINDOW_BYTES);
        let bytes = (2 * credit).saturating_sub(held);
        let memory = &self.handle.link.memory;
        memory.reserve_for(self.way, bytes, self.queueing()).await
    }

    /// Waits until the peer has begun its body, or has ended without one.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn begun(&mut self) -> Result<(), Failure> {
        poll_fn(|cx| self.poll_head(cx)).await.map(|_| ())
    }

    /// The connection of the body.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.handle.link
    }

    /// True once a part of the body was taken.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The media type of a response; `None` before its HEADERS, or if they name none.
    #[must_use]
    pub fn content_type(&self) -> Option<Box<str>> {
        let state = self.handle.link.lock();
        let stream = state.streams.get(self.handle.id)?;
        stream.content_type.clone()
    }

    /// The reason why the stream is closed; `None` while it is not.
    pub(crate) fn gone(&self) -> Option<Failure> {
        self.handle.link.lock().failure_of(self.handle.id)
    }

    fn queueing(&self) -> Queueing {
        match self.way {
            Way::Request => self.handle.queueing,
            Way::Response => Queueing::Allowed,
        }
    }

    /// Reserves the buffer of an announced message together with `beside` bytes, and grants the message. Returns the
    /// reservation of the latter. If there is no room, the stream is reset.
    async fn make_room(
        &mut self,
        head: BodyHead,
        beside: impl Fn(u64) -> usize,
    ) -> Result<Reservation, Failure> {
        let reserved = self.reserve_whole(head, beside).await;
        let [message, beside] = reserved.inspect_err(|failure| self.handle.reset(failure))?;
        if let Some(stream) = self.handle.link.lock().streams.get_mut(self.handle.id) {
            stream.take = Take::Whole;
        }
        self.grant(message, head.length.unwrap_or_default());
        Ok(beside)
    }

    async fn reserve_whole(
        &self,
        head: BodyHead,
        beside: impl Fn(u64) -> usize,
    ) -> Result<[Reservation; 2], Failure> {
        let Some(len) = head.length else {
            let detail = "a body of unknown length, where one message is required";
            return Err(Failure::unprocessed(Status::Invalid, detail));
        };
        let memory = &self.handle.link.memory;
        let room = memory.reserve_message(self.way, (len, beside(len)), self.queueing());
        let mut room = pin!(room);
        // The wait ends when the stream is closed.
        poll_fn(|cx| match self.poll_gone(cx) {
            Poll::Ready(failure) => Poll::Ready(Err(failure)),
            Poll::Pending => room.as_mut().poll(cx),
        })
        .await
    }

    pub(crate) fn grant(&mut self, charge: Reservation, payload: u64) {
        // For an empty message, which costs a header.
        let bytes = payload + HEADER_BYTES as u64;
        let mut state = self.handle.link.lock();
        let state = &mut *state;
        if state.connection.grant(self.handle.id, bytes).is_ok()
            && let Some(stream) = state.streams.get_mut(self.handle.id)
        {
            stream.credit += bytes;
            match &mut stream.charge {
                Some(before) => before.join(charge),
                None => stream.charge = Some(charge),
            }
        }
        self.handle.link.wake();
    }

    /// Bytes to reserve before more credit is granted; 0 while enough credit is left. The buffer of a frame may be
    /// twice its length.
    fn missing_window(&self) -> usize {
        let state = self.handle.link.lock();
        let Some(stream) = state.streams.get(self.handle.id) else {
            return 0;
        };
        if stream.peer_ended.is_some() || stream.credit > (WINDOW_BYTES / 2) as u64 {
            return 0;
        }
        let held = stream.charge.as_ref().map_or(0, Reservation::bytes);
        let credit = usize::try_from(stream.credit).unwrap_or(WINDOW_BYTES);
        (2 * (WINDOW_BYTES + credit)).saturating_sub(held)
    }

    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Failure> {
        let mut state = self.handle.link.lock();
        let Some(stream) = state.streams.get_mut(self.handle.id) else {
            return Poll::Pending;
        };
        if let Some(failure) = &stream.gone {
            return Poll::Ready(failure.clone());
        }
        wait(&mut stream.wakers.receive, cx.waker());
        Poll::Pending
    }

    /// HEADERS of the peer's body; `None` if there is no body.
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<BodyHead>, Failure>> {
        let mut state = self.handle.link.lock();
        let Some(stream) = state.streams.get_mut(self.handle.id) else {
            return Poll::Ready(Ok(None));
        };
        if let Some(head) = stream.head {
            return Poll::Ready(Ok(Some(head)));
        }
        if let Some(ended) = &stream.peer_ended {
            return Poll::Ready(ended.clone().map(|()| None));
        }
        wait(&mut stream.wakers.receive, cx.waker());
        Poll::Pending
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        let mut state = self.handle.link.lock();
        let Some(stream) = state.streams.get_mut(self.handle.id) else {
            return Poll::Ready(Ok(Bytes::new()));
        };
        let is_one = !self.has_begun && stream.parts.len() <= 1;
        if is_one && stream.peer_ended.is_none() {
            wait(&mut stream.wakers.receive, cx.waker());
            return Poll::Pending;
        }
        if let Some(Err(failure)) = &stream.peer_ended {
            return Poll::Ready(Err(failure.clone()));
        }
        if is_one {
            let part = stream.parts.pop_front();
            return Poll::Ready(Ok(part.map(|part| part.bytes).unwrap_or_default()));
        }
        let failure = Failure::new(Status::Invalid, "more than one message");
        state.reset(self.handle.id, &failure);
        drop(state);
        self.handle.link.wake();
        Poll::Ready(Err(failure))
    }

    pub(crate) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Part>, Failure>> {
        let mut state = self.handle.link.lock();
        let Some(stream) = state.streams.get_mut(self.handle.id) else {
            return Poll::Ready(Ok(None));
        };
        if let Some(part) = stream.parts.pop_front() {
            self.has_begun = true;
            return Poll::Ready(Ok(Some(part)));
        }
        if let Some(ended) = &stream.peer_ended {
            return Poll::Ready(ended.clone().map(|()| None));
        }
        wait(&mut stream.wakers.receive, cx.waker());
        Poll::Pending
    }
}
