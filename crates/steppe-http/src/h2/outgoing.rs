//! Content of a stream, on its way to the connection.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_h2::{EndStream, SendError, StreamId};
use steppe_mem::{Chunk, Waiter};

use super::head;
use super::link::Link;
use super::send_head::{SendHead, StreamClosed};
use super::turns::Turn;
use crate::exchange::Part;
use crate::field::FieldBlock;

pub(super) struct Outgoing {
    link: Rc<Link>,
    id: StreamId,
    pub(super) turn: Turn,
    waiter: Waiter,
    /// Put, and not handed over yet; a second one, so that the end goes out with the last chunk.
    first: Option<Chunk>,
    second: Option<Chunk>,
    end: SendEnd,
    /// The peer gives no window, or the connection no room, for what is first in the queue.
    is_blocked: bool,
    written: u64,
}

#[derive(Debug)]
enum SendEnd {
    /// More may be put.
    Open,
    /// Trailers or the end, behind the queue.
    Put(Option<FieldBlock>),
    Sent,
}

impl Outgoing {
    /// Content behind a head that was sent.
    pub(super) fn new(link: &Rc<Link>, id: StreamId, turn: Turn) -> Self {
        Self {
            link: Rc::clone(link),
            id,
            turn,
            waiter: Waiter::default(),
            first: None,
            second: None,
            end: SendEnd::Open,
            is_blocked: false,
            written: 0,
        }
    }

    /// The head has ended the stream.
    pub(super) fn ended(mut self) -> Self {
        self.end = SendEnd::Sent;
        self
    }

    /// True while what was put waits for memory.
    pub(super) fn is_starved(&self) -> bool {
        self.waiter.is_waiting()
    }

    pub(super) fn can_put(&self) -> bool {
        !self.is_blocked && self.second.is_none()
    }

    /// True when all was handed over, the end included.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.end, SendEnd::Sent)
    }

    pub(super) fn put(&mut self, part: Part) {
        match (part, &self.end) {
            // The head announced no content.
            (_, SendEnd::Sent) => {}
            (Part::Chunk(mut chunk), _) => {
                // The connection's task frees it.
                chunk.bind();
                debug_assert!(self.second.is_none(), "see `can_put`");
                let place = match self.first {
                    None => &mut self.first,
                    Some(_) => &mut self.second,
                };
                *place = Some(chunk);
            }
            (Part::End(trailers), _) => self.end = SendEnd::Put(trailers),
        }
    }

    /// Moves with what is handed over, and while others have their turns: the peer takes those.
    pub(super) fn written(&self) -> u64 {
        self.written + self.turn.passed()
    }

    /// Ready when all that was put is handed over.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamClosed>> {
        while let Some(first) = self.first.take() {
            self.is_blocked = true;
            let bytes = first.len();
            let mut chunk = Some(first);
            let sent = self.poll_send(cx, &mut chunk);
            let rest = chunk.as_ref().map_or(0, Chunk::len);
            self.written += (bytes - rest) as u64;
            self.first = chunk;
            ready!(sent)?;
            self.is_blocked = rest > 0;
            if self.first.is_none() {
                self.first = self.second.take();
            }
        }
        match &self.end {
            SendEnd::Open | SendEnd::Sent => return Poll::Ready(Ok(())),
            SendEnd::Put(None) => ready!(self.poll_send(cx, &mut None))?,
            SendEnd::Put(Some(_)) => ready!(self.poll_trailers(cx))?,
        }
        self.end = SendEnd::Sent;
        Poll::Ready(Ok(()))
    }

    /// Hands over what windows and the connection have room for. Ready when that was some of it.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Option<Chunk>,
    ) -> Poll<Result<(), StreamClosed>> {
        let is_last = self.second.is_none() && matches!(self.end, SendEnd::Put(None));
        let end = if is_last {
            EndStream::Yes
        } else {
            EndStream::No
        };
        loop {
            if self.turn.poll(cx).is_pending() {
                return self.pend(cx);
            }
            let is_empty = chunk.is_none();
            let mut connection = self.link.connection.borrow_mut();
            match connection.send_content(self.id, chunk, end) {
                Ok(0) if !is_empty && connection.stream_send_window(self.id) > 0 => {
                    drop(connection);
                    self.turn.wait_for_window(cx);
                    return self.pend(cx);
                }
                Ok(0) if !is_empty => {
                    drop(connection);
                    // Others may wait for the window of the connection.
                    self.turn.pass();
                    self.link.wake();
                    return self.pend(cx);
                }
                Ok(sent) => {
                    drop(connection);
                    self.waiter = Waiter::default();
                    self.turn.take(sent);
                    self.link.wake();
                    if is_last && chunk.is_none() {
                        self.end = SendEnd::Sent;
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(SendError::OverBudget(bytes)) => {
                    drop(connection);
                    self.turn.pass();
                    if (self.link.poll_room(cx, bytes, &mut self.waiter)).is_pending() {
                        return self.pend(cx);
                    }
                }
                Err(SendError::Full) => {
                    drop(connection);
                    self.turn.wait(cx);
                    return self.pend(cx);
                }
                Err(SendError::Closed | SendError::StreamLimit) => {
                    return Poll::Ready(Err(StreamClosed));
                }
            }
        }
    }

    /// Waits; a reset and the stream's own window wake it, too.
    fn pend<T>(&self, cx: &Context<'_>) -> Poll<T> {
        let mut connection = self.link.connection.borrow_mut();
        if let Some(inbox) = connection.stream_mut(self.id) {
            inbox.register(cx.waker());
        }
        Poll::Pending
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamClosed>> {
        let SendEnd::Put(Some(trailers)) = &self.end else {
            return Poll::Ready(Ok(()));
        };
        let send = SendHead {
            link: &self.link,
            id: self.id,
            turn: &mut self.turn,
            waiter: &mut self.waiter,
        };
        send.poll(cx, head::trailer_lines(trailers), EndStream::Yes)
    }
}
