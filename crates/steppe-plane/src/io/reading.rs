//! The part of a message that is being read into its buffer.

use std::sync::Arc;

use bytes::Bytes;
use steppe_mem::{Buffer, Reservation};

use super::failure::Failure;
use super::memory::Memory;
use super::returns::{Owed, Returns};
use super::stream::{Stream, Take};
use crate::connection::{Connection, DataPart, StreamId};
use crate::frame::Payment;
use crate::limits::{MESSAGE_BYTES, POOLED_BYTES_MIN};
use crate::status::Status;

/// The part of a message that is being read, with its buffer.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) id: StreamId,
    room: Room,
    returns: Arc<Returns>,
    /// Bytes that are not read yet.
    pub(super) left: usize,
    /// Bytes of the message that follow in later parts.
    rest: u64,
}

#[derive(Debug)]
enum Room {
    /// A whole message on standing credit, and the number of bytes read.
    Small(Small, usize),
    Pooled(Buffer),
}

/// A message on standing credit. If the budget has room, the message is charged to it, and the connection's credit
/// is returned at once; otherwise the message holds that credit until it is dropped.
#[derive(Debug)]
struct Small {
    bytes: Box<[u8]>,
    owed: Owed,
    /// `None` while the message is read, and if no credit is owed for it.
    returns: Option<Arc<Returns>>,
    _charge: Reservation,
}

impl AsRef<[u8]> for Small {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        if let Some(returns) = &self.returns {
            returns.give_back(self.owed);
        }
    }
}

impl Reading {
    /// Finds a buffer for a part. The error is the reason to reset the stream; `None` only drops the part.
    pub(super) fn begin(
        (returns, memory): (&Arc<Returns>, &Memory),
        connection: &mut Connection,
        stream: &mut Stream,
        part: &DataPart,
    ) -> Result<Self, Option<Failure>> {
        if stream.gone.is_some() || stream.peer_ended.is_some() {
            return Err(None);
        }
        let room = match part.payment {
            Payment::Standing => match lone(memory, stream, part) {
                Some(buffer) => {
                    connection.release_connection(part.cost);
                    Room::Pooled(buffer)
                }
                None => {
                    let small = small(memory, connection, stream, part);
                    Room::Small(small.map_err(Some)?, 0)
                }
            },
            Payment::Granted => Room::Pooled(pooled(memory, stream, part).map_err(Some)?),
        };
        Ok(Self {
            id: part.stream,
            room,
            returns: Arc::clone(returns),
            left: part.len,
            rest: part.message_len - part.offset - part.len as u64,
        })
    }

    /// The unfilled bytes of the buffer.
    pub(super) fn room(&mut self) -> &mut [u8] {
        match &mut self.room {
            Room::Small(small, at) => &mut small.bytes[*at..],
            Room::Pooled(buffer) => &mut buffer.spare_mut()[..self.left],
        }
    }

    pub(super) fn filled(&mut self, count: usize) {
        self.left -= count;
        match &mut self.room {
            Room::Small(_, at) => *at += count,
            Room::Pooled(buffer) => buffer.advance(count),
        }
    }

    /// Drops the part and returns its credit.
    pub(super) fn abandon(self, connection: &mut Connection) {
        if let Room::Small(small, _) = self.room {
            small.owed.release(connection);
        }
    }

    /// Delivers the complete part to its stream.
    pub(super) fn deliver(self, stream: Option<&mut Stream>, connection: &mut Connection) {
        let rest = self.rest;
        match (self.room, stream) {
            (Room::Small(mut small, _), Some(stream)) => {
                small.returns = small.owed.is_some().then_some(self.returns);
                stream.deliver(Bytes::from_owner(small), rest);
            }
            (Room::Small(small, _), None) => small.owed.release(connection),
            (Room::Pooled(buffer), Some(stream)) => {
                if stream.take == Take::Whole && rest > 0 {
                    stream.message = Some(buffer);
                } else {
                    stream.deliver(buffer.freeze(), rest);
                }
            }
            (Room::Pooled(_), None) => {}
        }
    }
}

/// A buffer of the pool for a message on standing credit that is long enough for one and is the whole body, if
/// the budget has room. No credit is owed for it.
fn lone(memory: &Memory, stream: &Stream, part: &DataPart) -> Option<Buffer> {
    let length = stream.head.and_then(|head| head.length);
    if part.len < POOLED_BYTES_MIN || length != Some(part.message_len) {
        return None;
    }
    Buffer::take(memory.lease(stream.way()), part.len).ok()
}

fn small(
    memory: &Memory,
    connection: &mut Connection,
    stream: &Stream,
    part: &DataPart,
) -> Result<Small, Failure> {
    let mut owed = Owed {
        stream: part.stream,
        of_stream: part.cost,
        of_connection: part.cost,
    };
    let length = stream.head.and_then(|head| head.length);
    if length == Some(part.message_len) {
        // No further message needs the stream's credit.
        owed.of_stream = 0;
    }
    // The allocator's block may be a quarter larger.
    let beside = MESSAGE_BYTES + part.len / 4;
    let charge = if let Ok(charge) = memory.lease(stream.way()).try_reserve(part.len + beside) {
        connection.release_connection(owed.of_connection);
        owed.of_connection = 0;
        charge
    } else {
        let overhead = memory.reserve_entry(beside);
        overhead.map_err(|error| Failure::new(Status::Overloaded, error.to_string()))?
    };
    Ok(Small {
        bytes: vec![0; part.len].into_boxed_slice(),
        owed,
        returns: None,
        _charge: charge,
    })
}

fn pooled(memory: &Memory, stream: &mut Stream, part: &DataPart) -> Result<Buffer, Failure> {
    stream.credit = stream.credit.saturating_sub(part.cost);
    let len = match stream.take {
        Take::Whole if part.offset > 0 => {
            let message = stream.message.take();
            return message.ok_or_else(|| Failure::new(Status::Internal, "message missing"));
        }
        Take::Whole => {
            let length = stream.head.and_then(|head| head.length);
            if length != Some(part.message_len) {
                return Err(Failure::new(Status::Invalid, "more than one message"));
            }
            usize::try_from(part.message_len).unwrap_or(usize::MAX)
        }
        Take::Parts => part.len,
    };
    let taken = match &mut stream.charge {
        Some(charge) => Buffer::take_of(charge, len),
        None => Buffer::take(memory.lease(stream.way()), len),
    };
    taken.map_err(|error| Failure::new(Status::Overloaded, error.to_string()))
}
