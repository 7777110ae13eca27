//! DATA: content. Spec: RFC 9113 §6.1.

use std::time::Instant;

use steppe_mem::Chunk;

use crate::connection::block::Section;
use crate::connection::event::{DataFrame, Event, Next};
use crate::connection::machine::Connection;
use crate::connection::state::{Received, Reception};
use crate::error::{ErrorCode, Violation};
use crate::frame::{FrameHeader, flag};
use crate::limits::SMALL_DATA_BYTES;
use crate::stream_id::StreamId;

impl<B: Section, T: Default> Connection<B, T> {
    pub(super) fn begin_data(&mut self, header: FrameHeader) -> Next {
        let id = StreamId(header.stream);
        if self.receive_window.receive(header.length).is_err() {
            let reason = "more content than the window of the connection";
            return Err(Violation::connection(ErrorCode::FLOW_CONTROL_ERROR, reason));
        }
        // The peer may have less left now than is owed for other streams, of which nothing more is given back before
        // it sends.
        self.owes_window = true;
        let reception = match self.streams.get(id) {
            Some(stream) => stream.state().receive(Received::Data),
            None if self.is_idle(id) => {
                return Err(Violation::protocol("DATA on a stream that is idle"));
            }
            None if self.is_beyond_shutdown(id) || self.streams.was_reset(id) => {
                Reception::Discarded
            }
            None => Reception::StreamError(ErrorCode::STREAM_CLOSED),
        };
        let is_accepted = match reception {
            Reception::Accepted => self.accept_data(id, header.length),
            Reception::StreamError(code) => Err(Violation::stream(id, code)),
            Reception::Discarded | Reception::ConnectionError(_) => Ok(false),
        };
        self.data = Some(DataFrame {
            stream: id,
            is_discarded: is_accepted != Ok(true),
            overhead: header.length,
        });
        is_accepted.map(|_| None)
    }

    /// True when the stream takes a DATA frame with a payload of so many octets.
    pub(super) fn accept_data(&mut self, id: StreamId, length: u32) -> Result<bool, Violation> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(false);
        };
        if !stream.has_head {
            return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
        }
        let received = stream.receive_window.receive(length);
        received.map_err(|code| Violation::stream(id, code))?;
        Ok(true)
    }

    pub(super) fn take_content(&mut self, bytes: usize, input: Option<&mut Chunk>) -> Next {
        let (Some(data), Some(input)) = (&mut self.data, input) else {
            return Ok(None);
        };
        let id = data.stream;
        let stream = self.streams.get_mut(id).filter(|_| !data.is_discarded);
        let Some(stream) = stream.filter(|stream| stream.state().can_receive()) else {
            data.is_discarded = true;
            input.consume(bytes);
            return Ok(None);
        };
        let octets = u32::try_from(bytes).expect("at most a frame");
        if let Some(left) = &mut stream.content_left {
            match left.checked_sub(bytes as u64) {
                Some(rest) => *left = rest,
                None => {
                    data.is_discarded = true;
                    input.consume(bytes);
                    return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
                }
            }
        }
        data.overhead -= octets;
        self.content_received += u64::from(octets);
        Ok(Some(Event::Content { stream: id, bytes }))
    }

    pub(super) fn end_data(&mut self, header: FrameHeader, now: Instant) -> Next {
        let Some(data) = self.data.take() else {
            return Ok(None);
        };
        // Padding, and what was discarded, is off our hands.
        if data.overhead > 0 {
            self.release_content(data.stream, data.overhead);
        }
        let ends_stream = header.has(flag::END_STREAM);
        let has_content = header.length > data.overhead;
        let is_small = header.length < SMALL_DATA_BYTES;
        if data.is_discarded && is_small {
            self.work.count_discarded_data(header.length, now)?;
        } else if !has_content && !ends_stream {
            self.work.count_control(now)?;
        }
        match ends_stream && !data.is_discarded {
            true => self.end_remotely(data.stream),
            false => Ok(None),
        }
    }

    /// The peer has set END_STREAM.
    pub(super) fn end_remotely(&mut self, id: StreamId) -> Next {
        // The holder may have reset it since the frame began.
        let stream = self.streams.get(id);
        let Some(stream) = stream.filter(|stream| stream.state().can_receive()) else {
            return Ok(None);
        };
        if stream.content_left.is_some_and(|left| left > 0) {
            return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
        }
        let ended = stream.state().after_remote_end();
        self.streams.set_state(id, ended);
        Ok(Some(Event::End { stream: id }))
    }
}
