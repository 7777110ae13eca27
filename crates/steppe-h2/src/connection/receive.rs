//! Handling of received frames. Spec: RFC 9113 §5.1, §6.

mod content;
mod control;
mod section;

use std::time::Instant;

use steppe_mem::Chunk;

use super::block::Section;
use super::event::{Event, Next};
use super::machine::Connection;
use super::reader::Token;
use crate::error::{ConnectionError, Violation};
use crate::frame::{FrameHeader, FrameType};
use crate::role::Role;
use crate::stream_id::StreamId;

impl<B: Section, T: Default> Connection<B, T> {
    /// The next event of `input`, whose octets are taken off it; without input, one that is still to be reported. `None`:
    /// more input is needed, a decision about a field block, or room for answers
    /// ([`takes_input`](Connection::takes_input)).
    ///
    /// # Errors
    /// The connection has ended by a violation: GOAWAY is to be written, and nothing more comes.
    pub fn receive(
        &mut self,
        mut input: Option<&mut Chunk>,
        now: Instant,
    ) -> Result<Option<Event>, ConnectionError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        loop {
            let violation = match self.next_event(input.as_deref_mut(), now) {
                Ok(event) => return self.failed.map_or(Ok(event), Err),
                Err(violation) => violation,
            };
            match self.answer(violation, now) {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(error) => {
                    self.fail(error.code, error.reason);
                    return Err(error);
                }
            }
        }
    }

    /// Answers a violation: by a reset, unless there are too many of them (CVE-2025-8671).
    fn answer(
        &mut self,
        violation: Violation,
        now: Instant,
    ) -> Result<Option<Event>, ConnectionError> {
        let (stream, code) = match violation {
            Violation::Connection(error) => return Err(error),
            Violation::Stream(stream, code) => (stream, code),
        };
        let open = self.streams.get(stream);
        let is_open = open.is_some_and(|open| !open.state().is_closed());
        // An open stream toward a server costs it a request of ours.
        let is_paid = is_open && self.role == Role::Client;
        if !is_paid && let Err(Violation::Connection(error)) = self.work.count_reset(now) {
            return Err(error);
        }
        Ok(self.reset_by_us(stream, code))
    }

    fn next_event(&mut self, input: Option<&mut Chunk>, now: Instant) -> Next {
        if self.block.as_ref().is_some_and(|block| block.is_whole) {
            self.block = None;
        }
        if let Some(id) = self.ended_by_section.take()
            && let Some(event) = self.end_remotely(id)?
        {
            return Ok(Some(event));
        }
        if let Some(event) = self.reset_unprocessed() {
            return Ok(Some(event));
        }
        let mut input = input;
        loop {
            // Without room for answers, some are to be written first.
            if self.is_undecided() || !self.output.has_control_room() {
                return Ok(None);
            }
            // A frame may end where the input does.
            let octets = input.as_deref().map_or(&[][..], Chunk::filled);
            let (token, used) = self.reader.next(octets)?;
            if let Some(input) = &mut input {
                input.consume(used);
            }
            let Some(token) = token else {
                return Ok(None);
            };
            let event = self.take_token(token, input.as_deref_mut(), now)?;
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn take_token(&mut self, token: Token, input: Option<&mut Chunk>, now: Instant) -> Next {
        match token {
            Token::Begin(header) => self.begin_frame(header, now),
            Token::Content(bytes) => self.take_content(bytes, input),
            Token::Fragment(bytes) => {
                if let Some(input) = input {
                    self.take_fragment(&input.filled()[..bytes])?;
                    input.consume(bytes);
                }
                Ok(None)
            }
            Token::SelfDependency => {
                if let Some(block) = &mut self.block {
                    block.is_self_dependent = true;
                }
                Ok(None)
            }
            Token::End(header) if header.frame_type == FrameType::Data => {
                self.end_data(header, now)
            }
            Token::End(header) => self.end_block_frame(header, now),
            Token::Setting(id, value) => {
                let before = self.next_peer;
                self.next_peer.apply(self.role.other(), id, value)?;
                if before.table_bytes_max != self.next_peer.table_bytes_max {
                    let least = self.next_table_bytes.get_or_insert(value);
                    *least = value.min(*least);
                }
                Ok(None)
            }
            Token::SettingsEnd => self.take_settings(now),
            Token::SettingsAck => {
                self.work.count_control(now)?;
                self.block
                    .as_ref()
                    .map_or(Ok(None), |_| Err(Violation::interleaved()))
            }
            Token::Small(header, octets) => self.take_small(header, octets, now),
            Token::PriorityUpdate(stream) => {
                self.work.count_control(now)?;
                if self.block.is_some() {
                    return Err(Violation::interleaved());
                }
                let stream = StreamId(stream);
                if !stream.is_of_client() {
                    return Err(Violation::protocol(
                        "PRIORITY_UPDATE names no request's stream",
                    ));
                }
                // RFC 9218 §7.1 would let one come before its stream is opened: it is ignored then.
                let is_known = self.streams.get(stream).is_some();
                Ok(is_known.then_some(Event::Priority(stream)))
            }
        }
    }

    fn begin_frame(&mut self, header: FrameHeader, now: Instant) -> Next {
        let continues = (self.block.as_ref()).map(|block| block.stream.0 == header.stream);
        match (header.frame_type, continues) {
            (FrameType::Continuation, Some(true)) => {
                if let Some(block) = &mut self.block {
                    block.count_frame()?;
                }
                Ok(None)
            }
            (FrameType::Continuation, None) => {
                Err(Violation::protocol("CONTINUATION follows no field block"))
            }
            (_, Some(_)) => Err(Violation::interleaved()),
            (FrameType::Headers, None) => self.begin_headers(header, now),
            (_, None) => self.begin_data(header),
        }
    }
}
