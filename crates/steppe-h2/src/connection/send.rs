//! Heads and content to send. Spec: RFC 9113 §6.1, §6.2, §6.10.

use steppe_mem::Chunk;

use super::block::Section;
use super::machine::Connection;
use super::streams::{Asked, Stream};
use crate::error::SendError;
use crate::frame::{FrameHeader, FrameType, flag};
use crate::hpack::{Encoder, FieldLine, Out};
use crate::limits::{FRAME_HEADER_BYTES, SENT_FRAME_BYTES_MAX};
use crate::role::Role;
use crate::stream_id::StreamId;

/// The stream ends with a frame, or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStream {
    /// END_STREAM is set.
    Yes,
    /// More follows.
    No,
}

impl<B: Section, T: Default> Connection<B, T> {
    /// Sends a head, or trailers. The pseudo-header fields come first.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn send_head<'a>(
        &mut self,
        id: StreamId,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        end: EndStream,
    ) -> Result<(), SendError> {
        if !self.can_send(id) {
            return Err(SendError::Closed);
        }
        self.put_head(id, lines, end)?;
        if end == EndStream::Yes {
            self.end_locally(id);
        }
        Ok(())
    }

    /// Opens a stream by a request's head. Its `:method` tells what content the response may have: none to HEAD, and
    /// of a successful one to CONNECT whatever comes.
    ///
    /// # Errors
    /// Nothing was sent, and no stream opened.
    pub fn open<'a>(
        &mut self,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        end: EndStream,
        data: T,
    ) -> Result<StreamId, SendError> {
        self.can_open()?;
        let id = StreamId(self.next_local);
        let pseudo = (lines.clone()).take_while(|line| line.name.starts_with(b":"));
        let method = pseudo.into_iter().find(|line| line.name == b":method");
        let asked = Asked::by(method.map(|line| line.value));
        self.put_head(id, lines, end)?;
        self.next_local += 2;
        let mut stream = Stream::new(id, self.new_windows(), data);
        stream.asked = asked;
        self.streams.add(stream);
        self.work.request_sent();
        self.owe_window(id);
        if end == EndStream::Yes {
            self.end_locally(id);
        }
        Ok(id)
    }

    /// The reason why [`open`](Self::open) refuses a stream, whatever its request is.
    ///
    /// # Errors
    /// [`SendError::Closed`] for good: of a server, after GOAWAY of either side, after an error, and without a further
    /// stream identifier. [`SendError::StreamLimit`] until a stream closes or the peer's settings change.
    pub fn can_open(&self) -> Result<(), SendError> {
        let is_over = self.role == Role::Server
            || self.goaway.is_some()
            || self.is_shutting_down()
            || self.failed.is_some();
        if is_over || self.next_local > StreamId::MAX.0 {
            return Err(SendError::Closed);
        }
        // The peer counts a stream until it reads of its reset.
        let counted = self.streams.active() + self.owed_resets.len();
        let most = self.peer.concurrent_streams_max;
        match most.is_some_and(|most| counted >= most as usize) {
            true => Err(SendError::StreamLimit),
            false => Ok(()),
        }
    }

    fn put_head<'a>(
        &mut self,
        id: StreamId,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        end: EndStream,
    ) -> Result<(), SendError> {
        let bound: usize = (lines.clone())
            .map(|line| Encoder::field_bytes_max(line.name.len(), line.value.len()))
            .sum();
        let block_max = bound + Encoder::BEGIN_BYTES_MAX;
        let frames_max = block_max.div_ceil(SENT_FRAME_BYTES_MAX).max(1);
        let room = self
            .output
            .room(block_max + frames_max * FRAME_HEADER_BYTES)?;
        let mut out = Out::new(&mut room[FRAME_HEADER_BYTES..]);
        let fits = "the room is that of the longest form";
        self.encoder.begin(&mut out).expect(fits);
        // `for_each` runs each part of a chain in a loop of its own; `next` looks for the part each time.
        lines.for_each(|line| self.encoder.field(&line, &mut out).expect(fits));
        let block = out.written().len();
        let bytes = cut(room, block, (id, end));
        self.output.advance(bytes);
        Ok(())
    }

    /// Sends the first octets of `chunk`, as many as windows and the output have room for, and takes them off it;
    /// `end` counts once all of it is sent. Returns the octets that were sent.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn send_content(
        &mut self,
        id: StreamId,
        chunk: &mut Option<Chunk>,
        end: EndStream,
    ) -> Result<usize, SendError> {
        let Some(stream) = self
            .streams
            .get(id)
            .filter(|stream| stream.state().can_send())
        else {
            return Err(SendError::Closed);
        };
        if self.failed.is_some() {
            return Err(SendError::Closed);
        }
        let wanted = chunk.as_ref().map_or(0, Chunk::len);
        let windows = stream
            .send_window
            .available()
            .min(self.send_window.available());
        let mut left = self.output.content_room(wanted.min(windows));
        if left == 0 && wanted > 0 && windows > 0 {
            return Err(SendError::Full);
        }
        let mut sent = 0;
        while left > 0 || (wanted == 0 && end == EndStream::Yes) {
            let bytes = left.min(SENT_FRAME_BYTES_MAX);
            let is_last = end == EndStream::Yes && sent + bytes == wanted;
            let header = FrameHeader {
                length: u32::try_from(bytes).expect("at most a frame"),
                frame_type: FrameType::Data,
                flags: if is_last { flag::END_STREAM } else { 0 },
                stream: id.0,
            };
            match self.output.put_data(header.octets(), chunk, bytes) {
                Ok(()) => {}
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
            self.take_send_windows(id, bytes);
            sent += bytes;
            left -= bytes;
            if is_last {
                self.end_locally(id);
                break;
            }
        }
        Ok(sent)
    }

    fn take_send_windows(&mut self, id: StreamId, bytes: usize) {
        self.send_window.take(bytes);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send_window.take(bytes);
        }
    }

    /// Octets of content that the window of the connection lets through now.
    #[must_use]
    pub fn connection_send_window(&self) -> usize {
        self.send_window.available()
    }

    /// Octets of content that the window of the stream lets through now.
    #[must_use]
    pub fn stream_send_window(&self, id: StreamId) -> usize {
        let stream = self.streams.get(id);
        stream.map_or(0, |stream| stream.send_window.available())
    }

    fn end_locally(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(id) {
            let ended = stream.state().after_local_end();
            self.streams.set_state(id, ended);
        }
    }
}

/// Writes the headers of HEADERS and CONTINUATION frames around a field block of `block` octets, which lies in `room`
/// behind the place of the first one. Returns the octets of all frames.
fn cut(room: &mut [u8], block: usize, (id, end): (StreamId, EndStream)) -> usize {
    let frames = block.div_ceil(SENT_FRAME_BYTES_MAX).max(1);
    // From the last one on, so that each piece moves once.
    for index in (0..frames).rev() {
        let start = index * SENT_FRAME_BYTES_MAX;
        let length = (block - start).min(SENT_FRAME_BYTES_MAX);
        let place = start + index * FRAME_HEADER_BYTES;
        let from = FRAME_HEADER_BYTES + start;
        room.copy_within(from..from + length, place + FRAME_HEADER_BYTES);
        let is_last = index + 1 == frames;
        let mut flags = if is_last { flag::END_HEADERS } else { 0 };
        if index == 0 && end == EndStream::Yes {
            flags |= flag::END_STREAM;
        }
        let header = FrameHeader {
            length: u32::try_from(length).expect("at most a frame"),
            frame_type: match index {
                0 => FrameType::Headers,
                _ => FrameType::Continuation,
            },
            flags,
            stream: id.0,
        };
        room[place..place + FRAME_HEADER_BYTES].copy_from_slice(&header.octets());
    }
    block + frames * FRAME_HEADER_BYTES
}
