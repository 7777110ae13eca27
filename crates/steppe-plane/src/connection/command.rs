//! Commands of the shell to a connection.

#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::Bytes;

use super::event::StreamId;
use super::half::{End, Part, Phase, SendHalf};
use super::machine::{Connection, Leaving};
use super::streams::Opener;
use crate::frame::{
    Direction, FieldError, FrameHeader, FrameType, Head, Payment, Service, flag, write_services,
};
use crate::limits::{
    CREDIT_BYTES_MAX, DEADLINE_MAX, EAGER_BYTES_MAX, HEADS_WAITING_BYTES_MAX, STREAM_ID_MAX,
};
use crate::status::{Reason, Status};

/// The reason why no stream was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The peer has not sent HELLO.
    #[error("the peer has not sent HELLO")]
    NotConnected,
    /// Either side drains, or the numbers of streams are used up: use another connection.
    #[error("the connection is going away")]
    GoingAway,
    /// The peer allows no more open streams: use another connection, or wait for a stream to end.
    #[error("the peer allows at most {0} streams")]
    Streams(u32),
    /// The write queue of the connection is full: write first.
    #[error("the write queue of the connection is full")]
    Busy,
    /// A field of the request is invalid.
    #[error(transparent)]
    Fields(#[from] FieldError),
}

/// The reason why a command on a stream had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The stream is closed; an event reports it.
    #[error("the stream is closed")]
    Gone,
    /// The write queue of the stream is full: [`Event::Writable`](super::Event::Writable) follows.
    #[error("the write queue of the stream is full")]
    Full,
    /// The write queue of the connection is full: write first.
    #[error("the write queue of the connection is full")]
    Busy,
    /// The command is not allowed in this state: before the response's head, or after the end.
    #[error("the stream is not in a state for this")]
    State,
    /// A message on standing credit is split, or longer than [`EAGER_BYTES_MAX`].
    #[error("a message of {0} bytes on standing credit, at most {EAGER_BYTES_MAX} are allowed")]
    Standing(u64),
    /// The length contradicts the announced length of the message or of the body.
    #[error("contradicts the announced length")]
    Length,
    /// A field of the response is invalid.
    #[error(transparent)]
    Fields(#[from] FieldError),
}

/// The processing that a failed request has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processing {
    /// Not processed: the peer may send any such request again.
    None,
    /// Possibly processed, at least in part.
    Begun,
}

impl Connection {
    /// Opens a stream. This side enforces its deadline too, from `now` on.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, head: &Head<'_>, now: Instant) -> Result<StreamId, OpenError> {
        let Some(peer) = self.peer else {
            return Err(OpenError::NotConnected);
        };
        let is_leaving = self.leaving != Leaving::No || self.is_peer_leaving;
        if is_leaving || self.violation.is_some() || self.is_used_up() {
            return Err(OpenError::GoingAway);
        }
        if self.streams.ours >= peer.streams_max {
            return Err(OpenError::Streams(peer.streams_max));
        }
        if self.output.waiting_bytes() > HEADS_WAITING_BYTES_MAX {
            return Err(OpenError::Busy);
        }
        head.check(Direction::Request)?;
        let id = StreamId(self.next_id);
        self.next_id += 2;
        self.push_head(id, head);
        self.streams.open(id, Opener::Us).send.begin(head);
        if let Some(deadline) = head.deadline {
            self.deadlines.push(now + deadline.min(DEADLINE_MAX), id);
        }
        if self.is_used_up() {
            // The peer is told to use another connection; open streams go on.
            self.drain();
        }
        Ok(id)
    }

    /// True once this side has used its last stream number.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.next_id > STREAM_ID_MAX
    }

    /// Begins the response to a stream that the peer opened.
    ///
    /// # Errors
    /// [`SendError`]; never `Full`.
    pub fn respond(&mut self, id: StreamId, head: &Head<'_>) -> Result<(), SendError> {
        head.check(Direction::Response)?;
        if self.output.waiting_bytes() > HEADS_WAITING_BYTES_MAX {
            return Err(SendError::Busy);
        }
        let stream = self.streams.find(id).ok_or(SendError::Gone)?;
        let is_first = stream.send.phase == Phase::Idle && stream.send.end.is_none();
        if stream.opener != Opener::Peer || !is_first {
            return Err(SendError::State);
        }
        stream.send.begin(head);
        self.push_head(id, head);
        Ok(())
    }

    fn push_head(&mut self, id: StreamId, head: &Head<'_>) {
        let mut header = FrameHeader::new(FrameType::HEADERS, id.0);
        header.flags = head.flags();
        let pushed = self.output.push_with(&header, |out| {
            head.write(out);
            Ok::<(), FieldError>(())
        });
        pushed.expect("a head that was checked is written");
    }

    /// Sends a message, or a part of one of which `rest` bytes follow in later parts. On an error, nothing
    /// was queued.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&mut self, id: StreamId, bytes: &Bytes, rest: u64) -> Result<(), SendError> {
        let stream = self.streams.find(id).ok_or(SendError::Gone)?;
        let send = &mut stream.send;
        if send.phase != Phase::Open || send.end.is_some() {
            return Err(SendError::State);
        }
        if send.is_full() {
            send.is_wanted = true;
            return Err(SendError::Full);
        }
        take_length(send, bytes.len() as u64, rest)?;
        send.parts.push_back(Part {
            bytes: bytes.clone(),
            rest,
        });
        self.schedule(id);
        Ok(())
    }

    /// Ends this side of a stream, after the parts that are queued.
    ///
    /// # Errors
    /// [`SendError::Gone`]; [`SendError::State`] if this side has ended; [`SendError::Length`] if the body
    /// is incomplete and the status is *ok*.
    pub fn end(&mut self, id: StreamId, reason: &Reason<'_>) -> Result<(), SendError> {
        let stream = self.streams.find(id).ok_or(SendError::Gone)?;
        let send = &mut stream.send;
        if send.phase == Phase::Ended || send.end.is_some() {
            return Err(SendError::State);
        }
        let is_whole = send.message_left == 0 && send.length_left.unwrap_or(0) == 0;
        if reason.status == Status::Ok && !is_whole {
            return Err(SendError::Length);
        }
        send.end = Some(End {
            status: reason.status,
            retry_micros: reason.retry_micros(),
            detail: Bytes::copy_from_slice(reason.detail_sent().as_bytes()),
        });
        self.schedule(id);
        Ok(())
    }

    /// Asks the peer to end a stream early (RESET with STOP). The stream goes on until the peer ends it.
    ///
    /// # Errors
    /// [`SendError::Gone`].
    pub fn stop(&mut self, id: StreamId, reason: &Reason<'_>) -> Result<(), SendError> {
        if !self.streams.has(id) {
            return Err(SendError::Gone);
        }
        self.push_reset(id, reason, flag::STOP);
        Ok(())
    }

    /// Closes a stream in both directions at once, and drops its queued parts. Returns the granted credit
    /// that the peer will not use; `None` if the stream was closed before.
    pub fn reset(
        &mut self,
        id: StreamId,
        reason: &Reason<'_>,
        processing: Processing,
    ) -> Option<u64> {
        if !self.streams.has(id) {
            return None;
        }
        let flags = match processing {
            Processing::None => flag::UNPROCESSED,
            Processing::Begun => 0,
        };
        self.push_reset(id, reason, flags);
        Some(self.close(id))
    }

    pub(super) fn push_reset(&mut self, id: StreamId, reason: &Reason<'_>, flags: u8) {
        let mut header = FrameHeader::new(FrameType::RESET, id.0);
        header.flags = flags;
        header.code = reason.status.code();
        header.aux = reason.retry_micros();
        // For a peer that opens streams and reads nothing, each RESET keeps its status only.
        let has_room = self.output.waiting_bytes() < HEADS_WAITING_BYTES_MAX;
        let detail = if has_room { reason.detail_sent() } else { "" };
        self.output.push(&header, detail.as_bytes());
    }

    /// The sum of credit that the peer has granted to an announced body of this side; `None` if the stream is
    /// closed.
    #[must_use]
    pub fn granted_to_send(&mut self, id: StreamId) -> Option<u64> {
        self.streams.find(id).map(|stream| stream.send.granted)
    }

    /// Grants the peer `bytes` more credit for an announced body; the shell has reserved them. A response
    /// that has not begun may be granted credit too: if it uses standing credit, the grant is unspent.
    ///
    /// A body costs its length, and [`HEADER_BYTES`](crate::frame::HEADER_BYTES) for each empty message. A peer
    /// need not send before it has [`SPLIT_BYTES_MIN`](crate::limits::SPLIT_BYTES_MIN), or the rest.
    ///
    /// # Errors
    /// [`SendError::Gone`] if the peer's side has ended, [`SendError::State`] if its body is on standing
    /// credit. Nothing was granted then.
    pub fn grant(&mut self, id: StreamId, bytes: u64) -> Result<(), SendError> {
        let stream = self.streams.find(id).ok_or(SendError::Gone)?;
        match (stream.receive.phase, stream.receive.payment) {
            (Phase::Ended, _) => return Err(SendError::Gone),
            (_, Payment::Standing) => return Err(SendError::State),
            _ => {}
        }
        stream.receive.grant(bytes.min(CREDIT_BYTES_MAX));
        self.queue_credit(id);
        Ok(())
    }

    /// Returns the standing credit of a DATA frame, once the memory of its bytes is free. The stream may be
    /// closed by then.
    ///
    /// # Panics
    /// If more is released than was received.
    pub fn release(&mut self, id: StreamId, cost: u64) {
        self.release_connection(cost);
        self.release_stream(id, cost);
    }

    /// Returns the connection's part of the credit, as [`Connection::release`] does for both: from now on,
    /// the bytes are charged elsewhere.
    ///
    /// # Panics
    /// If more is released than was received.
    pub fn release_connection(&mut self, cost: u64) {
        self.released += cost;
        assert!(self.released <= self.received, "released twice");
    }

    /// Returns the stream's part of the credit, as [`Connection::release`] does for both.
    pub fn release_stream(&mut self, id: StreamId, cost: u64) {
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let is_standing = stream.receive.payment == Payment::Standing;
        if is_standing && stream.receive.phase == Phase::Open {
            stream.receive.grant(cost);
            self.queue_credit(id);
        }
    }

    fn queue_credit(&mut self, id: StreamId) {
        let standing = u64::from(self.config.stream_credit);
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let receive = &mut stream.receive;
        if !receive.is_queued && receive.is_worth_telling(standing) {
            receive.is_queued = true;
            self.untold.push(id);
        }
    }

    /// Sends SERVICES: `services` replace those that this side named before. An empty list withdraws all.
    ///
    /// [`Event::Registered`](super::Event::Registered) follows once the peer has read the frame.
    ///
    /// # Errors
    /// [`OpenError::Busy`], [`OpenError::Fields`].
    pub fn register(&mut self, services: &[Service<'_>]) -> Result<(), OpenError> {
        if self.output.waiting_bytes() > HEADS_WAITING_BYTES_MAX {
            return Err(OpenError::Busy);
        }
        let header = FrameHeader::new(FrameType::SERVICES, 0);
        self.output
            .push_with(&header, |out| write_services(services, out))?;
        self.registrations += 1;
        self.ping();
        Ok(())
    }

    /// Sends a PING with the number of SERVICES frames so far: its ACK tells that the peer has read them.
    pub(super) fn ping(&mut self) {
        let mut header = FrameHeader::new(FrameType::PING, 0);
        header.aux = self.registrations;
        self.output.push(&header, b"");
    }
}

/// Checks a part against the announced lengths of its message and body, and counts it.
fn take_length(send: &mut SendHalf, len: u64, rest: u64) -> Result<(), SendError> {
    let message = len.checked_add(rest).ok_or(SendError::Length)?;
    if send.payment == Payment::Standing && (rest > 0 || len > EAGER_BYTES_MAX as u64) {
        return Err(SendError::Standing(message));
    }
    let is_next = send.message_left == 0 || send.message_left == message;
    let is_part = rest > 0 || send.message_left > 0;
    let is_possible = is_next && u32::try_from(message).is_ok() && !(is_part && len == 0);
    if !is_possible {
        return Err(SendError::Length);
    }
    if let Some(left) = send.length_left {
        if message > left {
            return Err(SendError::Length);
        }
        send.length_left = Some(left - len);
    }
    send.message_left = rest;
    Ok(())
}
