//! The part of a message that is being read: the socket fills its buffer at its offset.

use std::sync::Arc;

use bytes::Bytes;
use steppe_mem::{Buffer, Reservation};

use super::failure::Failure;
use super::memory::{Memory, Way};
use super::returns::Returns;
use super::stream::{Opener, Stream, Take};
use crate::connection::{Connection, DataPart, StreamId};
use crate::frame::Payment;
use crate::limits::MESSAGE_BYTES;
use crate::status::Status;

/// The part of a message that is being read, and where it goes.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) id: StreamId,
    room: Room,
    returns: Arc<Returns>,
    /// Bytes that are missing.
    pub(super) left: usize,
    /// Bytes of the message that follow in later parts.
    rest: u64,
}

#[derive(Debug)]
enum Room {
    /// On standing credit, a message whole.
    Small(Small, usize),
    Pooled(Buffer),
}

/// A message on standing credit, which is given back with it.
#[derive(Debug)]
struct Small {
    bytes: Box<[u8]>,
    id: StreamId,
    cost: u64,
    /// `None` while it is read.
    returns: Option<Arc<Returns>>,
    _overhead: Reservation,
}

impl AsRef<[u8]> for Small {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        if let Some(returns) = &self.returns {
            returns.give_back(self.id, self.cost);
        }
    }
}

impl Reading {
    /// Where a part goes; else why the stream is reset.
    pub(super) fn begin(
        returns: &Arc<Returns>,
        memory: &Memory,
        stream: &mut Stream,
        part: &DataPart,
    ) -> Result<Self, Option<Failure>> {
        if stream.gone.is_some() || stream.peer_ended.is_some() {
            return Err(None);
        }
        let room = match part.payment {
            Payment::Standing => Room::Small(small(memory, part).map_err(Some)?, 0),
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

    /// Where the missing bytes go.
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

    /// Nobody wants it: what it cost is given back.
    pub(super) fn abandon(self, connection: &mut Connection) {
        if let Room::Small(small, _) = self.room {
            connection.release(small.id, small.cost);
        }
    }

    /// Hands on what is whole.
    pub(super) fn deliver(self, stream: Option<&mut Stream>, connection: &mut Connection) {
        let (id, rest) = (self.id, self.rest);
        match (self.room, stream) {
            (Room::Small(mut small, _), Some(stream)) => {
                small.returns = Some(self.returns);
                stream.deliver(Bytes::from_owner(small), rest);
            }
            (Room::Small(small, _), None) => connection.release(id, small.cost),
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

fn small(memory: &Memory, part: &DataPart) -> Result<Small, Failure> {
    let overhead = memory.connections.try_reserve(MESSAGE_BYTES);
    let overhead = overhead.map_err(|error| Failure::new(Status::Overloaded, error.to_string()))?;
    Ok(Small {
        bytes: vec![0; part.len].into_boxed_slice(),
        id: part.stream,
        cost: part.cost,
        returns: None,
        _overhead: overhead,
    })
}

fn pooled(memory: &Memory, stream: &mut Stream, part: &DataPart) -> Result<Buffer, Failure> {
    stream.credit = stream.credit.saturating_sub(part.cost);
    let len = match stream.take {
        Take::Whole if part.offset > 0 => {
            let message = stream.message.take();
            return message.ok_or_else(|| Failure::new(Status::Internal, "no message"));
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
    let way = match stream.opener {
        Opener::Us => Way::Response,
        Opener::Peer => Way::Request,
    };
    let taken = match &mut stream.charge {
        Some(charge) => Buffer::take_of(charge, len),
        None => Buffer::take(memory.lease(way), len),
    };
    taken.map_err(|error| Failure::new(Status::Overloaded, error.to_string()))
}
