//! What the shell knows of a stream.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;
use steppe_mem::{Buffer, Reservation};

use super::failure::Failure;
use super::memory::Way;
use crate::connection::{Processing, StreamId};
use crate::frame::Payment;
use crate::table::Table;

/// One stream, until whoever holds its call drops it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) opener: Opener,
    /// Of the peer's HEADERS; none before they came.
    pub(super) head: Option<BodyHead>,
    /// The media type that a response's HEADERS named.
    pub(super) content_type: Option<Box<str>>,
    pub(super) take: Take,
    /// Granted, and not used.
    pub(super) charge: Option<Reservation>,
    /// Credit that was granted and not used.
    pub(super) credit: u64,
    /// The message that is being received.
    pub(super) message: Option<Buffer>,
    pub(super) parts: VecDeque<Part>,
    /// How the peer's side ended.
    pub(super) peer_ended: Option<Result<(), Failure>>,
    /// Whether the stream is gone, and why.
    pub(super) gone: Option<Failure>,
    /// Whether this side has sent HEADERS, and its END.
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
    pub(super) is_stopped: bool,
    /// True where the peer ended it as overloaded.
    pub(super) is_overloaded: bool,
    /// Whether a handler has begun with it.
    pub(super) processing: Processing,
    pub(super) wakers: Wakers,
    /// Charge of this entry and the connection's. `None` of a spare one.
    pub(super) table: Option<Reservation>,
    /// Bytes of this that are for its call, which is over before the entries may be.
    pub(super) call_bytes: usize,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its bytes, which are charged until the last view of them is dropped.
    pub bytes: Bytes,
    /// Bytes of the same message that follow in later parts.
    pub rest: u64,
}

/// Who opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    Us,
    Peer,
}

/// How the call wants the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// As one message, in one buffer.
    Whole,
    /// As it comes.
    Parts,
}

/// What the peer said of its body.
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

    /// As new. What it held is dropped: nothing may be locked.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.opener, None);
    }

    /// Which way the body goes that is received of it.
    pub(super) fn way(&self) -> Way {
        match self.opener {
            Opener::Us => Way::Response,
            Opener::Peer => Way::Request,
        }
    }

    /// Takes what is received of it, whole.
    pub(super) fn deliver(&mut self, bytes: Bytes, rest: u64) {
        self.parts.push_back(Part { bytes, rest });
        wake(&mut self.wakers.receive);
    }

    /// Nothing more comes; what was granted is free.
    pub(super) fn end(&mut self, result: Result<(), Failure>) {
        self.peer_ended.get_or_insert(result);
        self.charge = None;
        self.message = None;
        wake(&mut self.wakers.receive);
    }

    /// The stream is gone.
    pub(super) fn kill(&mut self, failure: Failure) {
        self.end(Err(failure.clone()));
        self.gone.get_or_insert(failure);
        wake(&mut self.wakers.send);
        wake(&mut self.wakers.gone);
    }

    /// Whether to reset it when its call is dropped.
    pub(super) fn is_unfinished(&self) -> bool {
        let is_finished = match self.opener {
            Opener::Us => self.peer_ended.is_some(),
            Opener::Peer => self.has_ended,
        };
        !is_finished && self.gone.is_none()
    }
}

impl Table<Stream> {
    /// Adds a stream, in a spare block where there is one.
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

/// Has `slot` wake the task.
pub(super) fn wait(slot: &mut Option<Waker>, waker: &Waker) {
    match slot {
        Some(slot) => slot.clone_from(waker),
        None => *slot = Some(waker.clone()),
    }
}
