//! HEADERS and CONTINUATION: field sections. Spec: RFC 9113 §4.3, §6.2, §6.10, §8.1.

use std::time::Instant;

use super::Next;
use crate::connection::block::{Block, FieldContext, Section, Target};
use crate::connection::event::{BlockStart, Event};
use crate::connection::machine::Connection;
use crate::connection::state::{Received, Reception};
use crate::connection::streams::Stream;
use crate::error::{ErrorCode, Violation};
use crate::frame::{FrameHeader, flag};
use crate::message::{AnnouncedLength, SectionKind};
use crate::role::Role;
use crate::stream_id::StreamId;

impl<B: Section, T: Default> Connection<B, T> {
    pub(super) fn begin_headers(&mut self, header: FrameHeader, now: Instant) -> Next<B> {
        let id = StreamId(header.stream);
        let (kind, target) = match self.streams.get(id) {
            Some(stream) => match stream.state.receive(Received::Headers) {
                Reception::Accepted if stream.has_head => {
                    (SectionKind::Trailers, Target::Undecided)
                }
                Reception::Accepted => (SectionKind::Response, Target::Undecided),
                Reception::Discarded => (SectionKind::Trailers, Target::Dropped(None)),
                Reception::StreamError(code) => {
                    (SectionKind::Trailers, Target::Dropped(Some(code)))
                }
                Reception::ConnectionError(code) => {
                    let reason = "HEADERS on a stream that is closed";
                    return Err(Violation::connection(code, reason));
                }
            },
            None => self.begin_unknown(id, now)?,
        };
        let mut block = Block::new(id, kind, target);
        block.ends_stream = header.has(flag::END_STREAM);
        block.count_frame()?;
        let is_undecided = matches!(block.target, Target::Undecided);
        let start = BlockStart {
            stream: id,
            kind,
            ends_stream: block.ends_stream,
        };
        self.block = Some(block);
        Ok(is_undecided.then_some(Event::Begins(start)))
    }

    /// HEADERS of a stream that is not in the table.
    pub(super) fn begin_unknown(
        &mut self,
        id: StreamId,
        now: Instant,
    ) -> Result<(SectionKind, Target<B>), Violation> {
        if self.is_beyond_shutdown(id) {
            self.last_remote = self.last_remote.max(id.0);
            return Ok((SectionKind::Request, Target::Dropped(None)));
        }
        let is_ours = id.is_of_client() == (self.role == Role::Client);
        let was_opened = match is_ours {
            true => id.0 < self.next_local,
            false => id.0 <= self.last_remote,
        };
        if was_opened {
            return match self.streams.was_reset(id) {
                true => Ok((SectionKind::Trailers, Target::Dropped(None))),
                false => {
                    let reason = "HEADERS on a stream that is closed";
                    Err(Violation::connection(ErrorCode::STREAM_CLOSED, reason))
                }
            };
        }
        if is_ours || self.role == Role::Client {
            return Err(Violation::protocol(
                "HEADERS on a stream that can't be opened",
            ));
        }
        self.last_remote = id.0;
        let most = self.local.concurrent_streams_max as usize;
        // Streams that were reset stay until their holder has let go of them.
        let streams = self.streams.len();
        let is_full =
            streams >= most && (streams > most + most / 4 || self.streams.active() >= most);
        if is_full {
            self.work.count_reset(now)?;
            return Ok((
                SectionKind::Request,
                Target::Dropped(Some(ErrorCode::REFUSED_STREAM)),
            ));
        }
        Ok((SectionKind::Request, Target::Undecided))
    }

    /// Decodes the field block that has begun into `section`.
    pub fn accept(&mut self, section: B) {
        if let Some(block) = &mut self.block {
            block.target = Target::Kept(section);
        }
    }

    /// Decodes the field block that has begun and drops it; its stream is reset with `code`.
    pub fn refuse(&mut self, code: ErrorCode) {
        if let Some(block) = &mut self.block {
            block.target = Target::Dropped(Some(code));
        }
    }

    pub(super) fn take_fragment(&mut self, fragment: &[u8]) -> Result<(), Violation> {
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        block.decode(
            fragment,
            FieldContext {
                decoder: &mut self.decoder,
                settings: &self.local,
                reserve: &mut self.reserve,
            },
        )
    }

    pub(super) fn end_block_frame(&mut self, header: FrameHeader) -> Next<B> {
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let Some(mut block) = self.block.take() else {
            return Ok(None);
        };
        block.release(&mut self.reserve);
        self.decoder.end().map_err(|_| {
            let reason = "a field block ends amid a field line";
            Violation::connection(ErrorCode::COMPRESSION_ERROR, reason)
        })?;
        let id = block.stream;
        let is_trailers = block.kind == SectionKind::Trailers;
        // §8.1: trailers end their message.
        // §8.1.1: a request without content announces none.
        let lacks_content = block.kind == SectionKind::Request
            && block.ends_stream
            && matches!(block.check.length(), AnnouncedLength::Known(1..));
        // §8.5: a tunnel has no trailers.
        let is_in_tunnel = self.streams.get(id).is_some_and(|stream| stream.is_tunnel);
        let is_malformed = block.is_self_dependent
            || lacks_content
            || is_in_tunnel
            || is_trailers && !block.ends_stream
            || block.truncation.is_none() && block.check.finish().is_err();
        let section = match block.target {
            Target::Kept(_) if is_malformed => {
                return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
            }
            Target::Kept(section) => section,
            Target::Dropped(Some(code)) => return Err(Violation::stream(id, code)),
            Target::Dropped(None) | Target::Undecided => return Ok(None),
        };
        if block.kind == SectionKind::Request {
            let windows = self.new_windows();
            self.streams.add(Stream::new(id, windows, T::default()));
            self.owe_window(id);
        }
        let is_interim = block.kind == SectionKind::Response && block.check.status() < 200;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.has_head |= !is_interim;
            stream.is_tunnel |= block.check.is_connect();
            if !is_trailers
                && !is_interim
                && !block.check.is_connect()
                && !stream.expects_no_content
            {
                stream.content_left = match (block.check.length(), block.check.status()) {
                    (_, 204 | 304) => None,
                    (AnnouncedLength::Known(bytes), _) => Some(bytes),
                    _ => None,
                };
            }
        }
        self.ended_by_section = block.ends_stream.then_some(id);
        if is_interim && block.ends_stream {
            return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
        }
        Ok(Some(Event::Section {
            stream: id,
            kind: block.kind,
            section,
            truncation: block.truncation,
        }))
    }

    /// The next response on the stream has no content, whatever length it announces: its request is HEAD.
    pub fn expect_no_content(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.expects_no_content = true;
        }
    }
}
