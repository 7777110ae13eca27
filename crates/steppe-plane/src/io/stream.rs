//! The state of a stream in the shell.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;
use steppe_mem::{Buffer, Reservation};

use super::failure::Failure;
use super::memory::Way;
use crate::connection::{Processing, StreamId};
use crate::frame::Payment;
use crate::table::Table;

/// One stream, until its call is dropped.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) opener: Opener,
    /// The body's HEADERS from the peer; `None` before they are received.
    pub(super) head: Option<BodyHead>,
    /// Media type in the HEADERS of a response.
    pub(super) content_type: Option<Box<str>>,
    pub(super) take: Take,
    /// Memory for bytes that were granted and not received.
    pub(super) charge: Option<Reservation>,
    /// Credit that was granted and not used, in bytes.
    pub(super) credit: u64,
    /// The message that is being received.
    pub(super) message: Option<Buffer>,
    pub(super) parts: VecDeque<Part>,
    /// Result of the peer's side, once it has ended.
    pub(super) peer_ended: Option<Result<(), Failure>>,
    /// The reason why the stream is closed, once it is.
    pub(super) gone: Option<Failure>,
    /// True once this side has sent HEADERS, and its END.
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
    pub(super) is_stopped: bool,
    /// True if the peer ended the stream as overloaded.
    pub(super) is_overloaded: bool,
    /// Processing of the request by a handler of this side.
    pub(super) processing: Processing,
    pub(super) wakers: Wakers,
    /// Charge of this entry and of the connection's. `None` in a spare entry.
    pub(super) table: Option<Reservation>,
    /// Bytes of this charge for the call, which may end before the entries do.
    pub(super) call_bytes: usize,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the part, charged until the last view of them is dropped.
    pub bytes: Bytes,
    /// Bytes of the same message that follow in later parts.
    pub rest: u64,
}

/// The side that opened a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    Us,
    Peer,
}

/// The form in which a call receives a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// As one message, in one buffer.
    Whole,
    /// In parts, as they are received.
    Parts,
}

/// HEADERS of the body that the peer sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyHead {
    pub(crate) length: Option<u64>,
    pub(crate) payment: Payment,
}

/// Tasks that wait for something on the stream.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) receive: Option<Waker>,
    pub(super) send: Option<Waker>,
    pub(super) gone: Option<Waker>,
}

impl Stream {
    pub(super) fn new(opener: Opener, table: Option<Reservation>) -> Self {
        Self {
            opener,
            head: None,
            content_type: None,
            take: Take::Parts,
            charge: None,
            credit: 0,
            message: None,
            parts: VecDeque::new(),
            peer_ended: None,
            gone: None,
            has_begun: opener == Opener::Us,
            has_ended: false,
            is_stopped: false,
            is_overloaded: false,
            processing: Processing::None,
            wakers: Wakers::default(),
            table,
            call_bytes: 0,
        }
    }

    /// Resets the entry to its initial state. Its contents are dropped: no lock may be held.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.opener, None);
    }

    /// Direction of the body that is received on the stream.
    pub(super) fn way(&self) -> Way {
        match self.opener {
            Opener::Us => Way::Response,
            Opener::Peer => Way::Request,
        }
    }

    /// Queues a received part, and wakes the receiving task.
    pub(super) fn deliver(&mut self, bytes: Bytes, rest: u64) {
        self.parts.push_back(Part { bytes, rest });
        wake(&mut self.wakers.receive);
    }

    /// Ends the peer's side of the stream. Unused grants are released.
    pub(super) fn end(&mut self, result: Result<(), Failure>) {
        self.peer_ended.get_or_insert(result);
        self.charge = None;
        self.message = None;
        wake(&mut self.wakers.receive);
    }

    /// Closes the stream on both sides.
    pub(super) fn kill(&mut self, failure: Failure) {
        self.end(Err(failure.clone()));
        self.gone.get_or_insert(failure);
        wake(&mut self.wakers.send);
        wake(&mut self.wakers.gone);
    }

    /// True if the stream has to be reset when its call is dropped.
    pub(super) fn is_unfinished(&self) -> bool {
        let is_finished = match self.opener {
            Opener::Us => self.peer_ended.is_some(),
            Opener::Peer => self.has_ended,
        };
        !is_finished && self.gone.is_none()
    }
}

impl Table<Stream> {
    /// Adds a stream, in a spare block if there is one.
    pub(super) fn add(&mut self, id: StreamId, stream: Stream) {
        let mut block = self.take_spare(|| Stream::new(stream.opener, None));
        *block = stream;
        self.insert(id, block);
    }
}

pub(super) fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// Stores `waker` in `slot`.
pub(super) fn wait(slot: &mut Option<Waker>, waker: &Waker) {
    match slot {
        Some(slot) => slot.clone_from(waker),
        None => *slot = Some(waker.clone()),
    }
}
