//! Content of a stream, in and out, on either side.
//!
//! Invariant: what goes out carries its charge until it is written; what comes in is charged to
//! the exchange when it is taken, and its window opened again then, so that a peer sends no more
//! than windows allow for. Where the budget has no room, it goes on with the charge of its window,
//! which opens again when there is some.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use h2::{Reason, RecvStream, SendStream};
use steppe_mem::{Chunk, Lease, Waiter};

use super::backlog::Backlog;
use super::head;
use super::turns::{HandedList, Turn};
use super::windows::{Window, charged_bytes};
use crate::exchange::Part;
use crate::field::FieldBlock;
use crate::head::ContentLength;
use crate::limits::{TRAILER_BYTES_MAX, TRAILER_FIELDS_MAX};

/// Content that the `h2` crate holds until it is written.
#[derive(Debug)]
pub(super) struct Piece(Option<Chunk>);

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.0.as_ref().map_or(0, Chunk::len)
    }

    fn chunk(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Chunk::filled)
    }

    fn advance(&mut self, count: usize) {
        if let Some(chunk) = &mut self.0 {
            chunk.consume(count);
        }
    }
}

/// Why content can't be read to its end.
#[derive(Debug)]
pub(super) enum IncomingError {
    /// The peer reset the stream, or the connection ended.
    Cut(h2::Error),
    /// More of it than allowed.
    TooLarge,
    /// The trailers are malformed.
    Malformed,
    /// The trailers are larger than allowed.
    TrailersTooLarge,
    /// There is no memory for its trailers.
    OverBudget,
}

/// Content that comes.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: RecvStream,
    number: u32,
    backlog: Backlog,
    /// `None`: nothing is announced.
    window: Option<Window>,
    /// Bytes that may still come.
    left: u64,
    /// Waits for budget, for content and for the window.
    waiter: Waiter,
    window_waiter: Waiter,
    /// Came, and is not charged yet.
    uncharged: Option<bytes::Bytes>,
    is_starved: bool,
}

impl Incoming {
    pub(super) fn new(
        (stream, window): (RecvStream, Option<Window>),
        allowed: u64,
        backlog: Backlog,
    ) -> Self {
        let number = stream.stream_id().as_u32();
        Self {
            stream,
            number,
            backlog,
            window,
            left: allowed,
            waiter: Waiter::default(),
            window_waiter: Waiter::default(),
            uncharged: None,
            is_starved: false,
        }
    }

    pub(super) fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// Ready at the end of a message that is defined to have no content; its trailers are dropped.
    ///
    /// # Errors
    /// It has content, or its stream is cut.
    pub(super) fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), IncomingError>> {
        let is_malformed = loop {
            match ready!(self.stream.poll_data(cx)) {
                None => break false,
                Some(Ok(data)) if data.is_empty() => self.backlog.take_frame(self.number),
                Some(Ok(_)) => break true,
                // RFC 9113 §8.1.1 lets it announce the length that its content would have; the crate (0.4.20)
                // takes the content for missing where an empty DATA frame ends the stream.
                Some(Err(error)) if is_missing_content(&error) && self.is_empty() => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(IncomingError::Cut(error))),
            }
        };
        if is_malformed {
            return Poll::Ready(Err(IncomingError::Malformed));
        }
        let trailers = ready!(self.stream.poll_trailers(cx)).map_err(IncomingError::Cut)?;
        if trailers.is_some() {
            self.backlog.take_list(self.number);
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing but empty DATA frames came behind the head.
    fn is_empty(&self) -> bool {
        !self.backlog.has_content(self.number) && !self.backlog.has_list(self.number)
    }

    pub(super) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Part, IncomingError>> {
        if let Some(part) = ready!(self.poll_chunk(cx, lease))? {
            return Poll::Ready(Ok(Part::Chunk(part)));
        }
        let trailers = ready!(self.stream.poll_trailers(cx)).map_err(IncomingError::Cut)?;
        let Some(trailers) = trailers else {
            return Poll::Ready(Ok(Part::End(None)));
        };
        self.backlog.take_list(self.number);
        let bytes: usize = head::map_bytes(&trailers);
        if trailers.len() > TRAILER_FIELDS_MAX || bytes > TRAILER_BYTES_MAX {
            return Poll::Ready(Err(IncomingError::TrailersTooLarge));
        }
        let trailers = head::trailers(&trailers, lease).map_err(|error| match error {
            head::FieldError::Malformed => IncomingError::Malformed,
            head::FieldError::OverBudget => IncomingError::OverBudget,
        })?;
        Poll::Ready(Ok(Part::End(Some(trailers))))
    }

    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Option<Chunk>, IncomingError>> {
        self.poll_reopen(cx);
        self.is_starved = false;
        if self.uncharged.is_none() {
            loop {
                let Poll::Ready(data) = self.stream.poll_data(cx) else {
                    self.is_starved = self.window.as_ref().is_some_and(Window::is_short);
                    return Poll::Pending;
                };
                let Some(data) = data else {
                    // Nothing more comes: the window is of no use.
                    self.window = None;
                    self.window_waiter = Waiter::default();
                    return Poll::Ready(Ok(None));
                };
                let data = data.map_err(IncomingError::Cut)?;
                self.backlog.take_frame(self.number);
                if data.is_empty() {
                    continue;
                }
                self.left = (self.left)
                    .checked_sub(data.len() as u64)
                    .ok_or(IncomingError::TooLarge)?;
                self.uncharged = Some(data);
                break;
            }
        }
        let bytes = self.uncharged.as_ref().map_or(0, bytes::Bytes::len);
        let charge = match lease.poll_reserve(cx, charged_bytes(bytes), &mut self.waiter) {
            Poll::Ready(charge) => {
                // As much may come as was taken.
                let _ = self.stream.flow_control().release_capacity(bytes);
                charge
            }
            Poll::Pending => match self.window.as_mut().and_then(|window| window.lend(bytes)) {
                Some(charge) => {
                    self.waiter = Waiter::default();
                    self.poll_reopen(cx);
                    charge
                }
                None => {
                    self.is_starved = true;
                    return Poll::Pending;
                }
            },
        };
        let data = self.uncharged.take().expect("it is there");
        Poll::Ready(Ok(Some(Chunk::charged(data, charge))))
    }

    /// Opens the window again by what went on with its charge, or waits for that.
    fn poll_reopen(&mut self, cx: &mut Context<'_>) {
        if let Some(window) = self.window.as_mut().filter(|window| window.has_lent())
            && !self.stream.is_end_stream()
            && let Poll::Ready(bytes) = window.poll_charge(cx, &mut self.window_waiter)
        {
            let _ = self.stream.flow_control().release_capacity(bytes);
        }
    }
}

/// The crate has found less content than the head announced, or something else that is malformed.
fn is_missing_content(error: &h2::Error) -> bool {
    error.is_reset() && error.is_library() && error.reason() == Some(Reason::PROTOCOL_ERROR)
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.backlog.close(self.number);
    }
}

/// The frames that follow a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// The stream ends with it.
    Nothing,
    /// Content, or trailers.
    Content,
}

impl From<ContentLength> for Follows {
    fn from(length: ContentLength) -> Self {
        match length {
            ContentLength::Empty => Self::Nothing,
            ContentLength::Known(_) | ContentLength::Unknown => Self::Content,
        }
    }
}

impl Follows {
    /// True when the head ends the stream.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::Nothing
    }
}

/// Content that goes out.
#[derive(Debug)]
pub(super) struct Outgoing {
    stream: SendStream<Piece>,
    turn: Turn,
    lease: Lease,
    /// Trailers wait for memory.
    waiter: Waiter,
    /// Put, and not handed over yet.
    queue: VecDeque<Chunk>,
    end: End,
    /// The peer gives no window, or the connection no room, for what is first in the queue.
    is_blocked: bool,
    written: u64,
}

#[derive(Debug)]
enum End {
    /// More may be put.
    Open,
    /// Trailers or the end, behind the queue.
    Put(Option<FieldBlock>),
    Sent,
}

/// Parts that wait to be handed over: a second one, so that the end goes out with the last chunk.
const QUEUE_MAX: usize = 2;

impl Outgoing {
    /// `lease` is for its trailers, as the crate has them.
    pub(super) fn new(
        stream: SendStream<Piece>,
        turn: Turn,
        (follows, lease): (Follows, Lease),
    ) -> Self {
        Self {
            stream,
            turn,
            lease,
            waiter: Waiter::default(),
            queue: VecDeque::new(),
            end: match follows {
                Follows::Nothing => End::Sent,
                Follows::Content => End::Open,
            },
            is_blocked: false,
            written: 0,
        }
    }

    pub(super) fn can_put(&self) -> bool {
        !self.is_blocked && self.queue.len() < QUEUE_MAX
    }

    pub(super) fn put(&mut self, part: Part) {
        match (part, &self.end) {
            // The head announced no content.
            (_, End::Sent) => {}
            (Part::Chunk(mut chunk), _) => {
                // The connection's task frees it.
                chunk.bind();
                self.queue.push_back(chunk);
            }
            (Part::End(trailers), _) => self.end = End::Put(trailers),
        }
    }

    /// Moves with what is handed over, and while others have their turns: the peer takes those.
    pub(super) fn written(&self) -> u64 {
        self.written + self.turn.passed()
    }

    /// Ready when all that was put is handed over.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while let Some(first) = self.queue.front() {
            self.is_blocked = true;
            ready!(self.turn.poll(cx));
            self.stream.reserve_capacity(first.len());
            let mut capacity = self.stream.capacity();
            if capacity == 0 {
                let Poll::Ready(more) = self.stream.poll_capacity(cx) else {
                    self.turn.pass();
                    return Poll::Pending;
                };
                capacity = match more {
                    Some(capacity) => capacity?,
                    None => return Poll::Ready(Err(Reason::CANCEL.into())),
                };
                if capacity == 0 {
                    continue;
                }
            }
            self.is_blocked = false;
            let mut chunk = self.queue.pop_front().expect("it was there");
            if capacity < chunk.len() {
                let part = chunk.split_to(capacity);
                self.queue.push_front(chunk);
                chunk = part;
            }
            self.written += chunk.len() as u64;
            self.turn.take(chunk.len());
            let is_last = self.queue.is_empty() && matches!(self.end, End::Put(None));
            if is_last {
                self.end = End::Sent;
            }
            self.stream.send_data(Piece(Some(chunk)), is_last)?;
        }
        if let End::Put(Some(trailers)) = &self.end {
            let list = HandedList {
                lease: &self.lease,
                bytes: head::handed_bytes(trailers),
                waiter: &mut self.waiter,
            };
            ready!(self.turn.poll_list(cx, list));
        }
        match std::mem::replace(&mut self.end, End::Sent) {
            End::Open => self.end = End::Open,
            End::Sent => {}
            End::Put(None) => self.stream.send_data(Piece(None), true)?,
            End::Put(Some(trailers)) => self.stream.send_trailers(head::map_of(&trailers))?,
        }
        Poll::Ready(Ok(()))
    }
}
