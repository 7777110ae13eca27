//! HEADERS and CONTINUATION: field sections. Spec: RFC 9113 §4.3, §6.2, §6.10, §8.1.

use std::time::Instant;

use crate::connection::block::{Block, FieldContext, Section, Target};
use crate::connection::event::{BlockStart, Event, Next};
use crate::connection::machine::Connection;
use crate::connection::state::{Received, Reception};
use crate::connection::streams::{Asked, Stream};
use crate::error::{ErrorCode, Violation};
use crate::frame::{FrameHeader, flag};
use crate::limits::INTERIM_HEADS_MAX;
use crate::message::{AnnouncedLength, SectionCheck, SectionKind};
use crate::role::Role;
use crate::stream_id::StreamId;

impl<B: Section, T: Default> Connection<B, T> {
    pub(super) fn begin_headers(&mut self, header: FrameHeader, now: Instant) -> Next {
        let id = StreamId(header.stream);
        let (kind, target) = match self.streams.get(id) {
            Some(stream) => match stream.state().receive(Received::Headers) {
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
        let block = self.block.insert(Block::new(id, kind, target));
        block.ends_stream = header.has(flag::END_STREAM);
        block.count_frame()?;
        let is_undecided = matches!(block.target, Target::Undecided);
        let start = BlockStart {
            stream: id,
            kind,
            ends_stream: block.ends_stream,
        };
        Ok(is_undecided.then_some(Event::Begins(start)))
    }

    /// HEADERS of a stream that is not in the table.
    pub(super) fn begin_unknown(
        &mut self,
        id: StreamId,
        now: Instant,
    ) -> Result<(SectionKind, Target<B>), Violation> {
        if self.is_beyond_shutdown(id) {
            if id.0 > self.remote.last() {
                self.remote.open(id);
            }
            return Ok((SectionKind::Request, Target::Dropped(None)));
        }
        let is_ours = id.is_of_client() == (self.role == Role::Client);
        let was_opened = match is_ours {
            true => id.0 < self.next_local,
            false => id.0 <= self.remote.last(),
        };
        if was_opened && !is_ours && self.remote.passed_over(id) {
            let reason = "HEADERS on a stream below one that was opened";
            return Err(Violation::protocol(reason));
        }
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
        self.remote.open(id);
        let most = self.local.concurrent_streams_max as usize;
        // Streams that were reset stay until their holder has let go of them.
        let streams = self.streams.len();
        let is_full =
            streams >= most && (streams > most + most / 4 || self.streams.active() >= most);
        if is_full {
            self.work.count_reset(now)?;
            return Ok((
                SectionKind::Request,
                Target::Refused(ErrorCode::REFUSED_STREAM),
            ));
        }
        Ok((SectionKind::Request, Target::Undecided))
    }

    /// Decodes the field block that has begun into `section`.
    pub fn accept(&mut self, section: B) {
        if let Some(block) = self.undecided() {
            block.target = Target::Kept(section);
        }
    }

    /// Decodes the field block that has begun and drops it; its stream is reset with `code`, which does not count against
    /// the peer.
    pub fn refuse(&mut self, code: ErrorCode) {
        if let Some(block) = self.undecided() {
            block.target = Target::Refused(code);
        }
    }

    fn undecided(&mut self) -> Option<&mut Block<B>> {
        let block = self.block.as_mut();
        block.filter(|block| matches!(block.target, Target::Undecided))
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

    pub(super) fn end_block_frame(&mut self, header: FrameHeader, now: Instant) -> Next {
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let Some(block) = &mut self.block else {
            return Ok(None);
        };
        block.release(&mut self.reserve);
        let ended = self.end_block(now);
        match (&mut self.block, &ended) {
            (Some(block), Ok(Some(Event::Section { .. }))) => block.is_whole = true,
            _ => self.block = None,
        }
        ended
    }

    fn end_block(&mut self, now: Instant) -> Next {
        self.decoder.end().map_err(|_| {
            let reason = "a field block ends amid a field line";
            Violation::connection(ErrorCode::COMPRESSION_ERROR, reason)
        })?;
        let Some(block) = &self.block else {
            return Ok(None);
        };
        let (id, kind) = (block.stream, block.kind);
        let content = self.content_behind(block);
        let is_malformed = self.is_malformed(block, content);
        match block.target {
            // The holder has reset the stream since the block began.
            Target::Kept(_) if kind != SectionKind::Request && !self.can_receive(id) => {
                return Ok(None);
            }
            Target::Kept(_) if is_malformed => {
                return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
            }
            Target::Kept(_) => {}
            Target::Dropped(Some(code)) => return Err(Violation::stream(id, code)),
            Target::Refused(code) => return Ok(self.reset_by_us(id, code)),
            Target::Dropped(None) | Target::Undecided => {
                self.work.count_discarded(now)?;
                return Ok(None);
            }
        }
        let is_interim = is_interim(kind, &block.check);
        let (is_connect, status) = (block.check.is_connect(), block.check.status());
        let (truncation, ends_stream) = (block.truncation, block.ends_stream);
        if kind == SectionKind::Request {
            let windows = self.new_windows();
            self.streams.add(Stream::new(id, windows, T::default()));
            self.owe_window(id);
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.interim_heads += u32::from(is_interim);
            if stream.interim_heads > INTERIM_HEADS_MAX {
                return Err(Violation::stream(id, ErrorCode::ENHANCE_YOUR_CALM));
            }
            stream.has_head |= !is_interim;
            stream.is_tunnel |= match kind {
                SectionKind::Request => is_connect,
                SectionKind::Response => opens_tunnel(stream.asked, status),
                SectionKind::Trailers => false,
            };
            stream.content_left = content;
        }
        self.ended_by_section = ends_stream.then_some(id);
        Ok(Some(Event::Section {
            stream: id,
            kind,
            truncation,
        }))
    }

    /// The section of the last [`Event::Section`]; `None` once it was taken, or more was received.
    pub fn take_section(&mut self) -> Option<B> {
        let block = self.block.as_mut().filter(|block| block.is_whole)?;
        let target = std::mem::replace(&mut block.target, Target::Undecided);
        self.block = None;
        match target {
            Target::Kept(section) => Some(section),
            Target::Undecided | Target::Dropped(_) | Target::Refused(_) => None,
        }
    }

    /// Octets of content that may follow a section that is over; `None`: any number.
    fn content_behind(&self, block: &Block<B>) -> Option<u64> {
        let stream = self.streams.get(block.stream);
        let asked = stream.map_or(Asked::Other, |stream| stream.asked);
        let status = block.check.status();
        match block.kind {
            SectionKind::Trailers => stream?.content_left,
            _ if is_interim(block.kind, &block.check) => None,
            _ if block.check.is_connect() || opens_tunnel(asked, status) => None,
            // RFC 9110 §6.4.1: what they announce is that of another response.
            SectionKind::Response if asked == Asked::Head || matches!(status, 204 | 304) => Some(0),
            SectionKind::Request | SectionKind::Response => match block.check.length() {
                AnnouncedLength::Known(octets) => Some(octets),
                AnnouncedLength::Unknown | AnnouncedLength::Invalid => None,
            },
        }
    }

    /// True of a section that RFC 9113 §8.1.1 calls malformed; `content` may follow it.
    fn is_malformed(&self, block: &Block<B>, content: Option<u64>) -> bool {
        let lacks_content = block.ends_stream && content.is_some_and(|octets| octets > 0);
        // §8.1: trailers end their message, and interim heads don't.
        let ends_wrongly = match block.kind {
            SectionKind::Request => false,
            SectionKind::Response => block.ends_stream && is_interim(block.kind, &block.check),
            SectionKind::Trailers => !block.ends_stream,
        };
        // §8.5: a tunnel has no trailers.
        let stream = self.streams.get(block.stream);
        let is_in_tunnel = stream.is_some_and(|stream| stream.is_tunnel);
        // A request that was cut gets a response that says so. No response of a client's is cut before its status.
        let is_checked = block.truncation.is_none() || block.kind == SectionKind::Response;
        block.is_self_dependent
            || lacks_content
            || ends_wrongly
            || is_in_tunnel
            || is_checked && block.check.finish().is_err()
    }
}

fn is_interim(kind: SectionKind, check: &SectionCheck) -> bool {
    kind == SectionKind::Response && check.status() < 200
}

/// True of the response that makes a stream a tunnel. RFC 9110 §9.3.6.
fn opens_tunnel(asked: Asked, status: u16) -> bool {
    asked == Asked::Connect && (200..300).contains(&status)
}
