//! Handling of received frames. Spec: RFC 9113 §5.1, §6.

use std::time::Instant;

use steppe_mem::Chunk;

use super::block::{Block, FieldContext, Section, Target};
use super::event::{BlockStart, DataFrame, Event, PriorityUpdate, ResetBy};
use super::machine::{Connection, SHUTDOWN_PING};
use super::reader::Token;
use super::state::{ClosedBy, Received, Reception, State};
use super::streams::Stream;
use crate::error::{ConnectionError, ErrorCode, Violation};
use crate::frame::write::ControlFrame;
use crate::frame::{FrameHeader, FrameType, flag};
use crate::limits::SMALL_DATA_BYTES;
use crate::message::{AnnouncedLength, SectionKind};
use crate::role::Role;
use crate::stream_id::StreamId;

type Next<B> = Result<Option<Event<B>>, Violation>;

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
    ) -> Result<Option<Event<B>>, ConnectionError> {
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

    /// Answers a violation: by a reset, unless there are too many of them (CVE-2025-8671). The holder is told where it
    /// has the stream.
    fn answer(
        &mut self,
        violation: Violation,
        now: Instant,
    ) -> Result<Option<Event<B>>, ConnectionError> {
        let (stream, code) = match violation {
            Violation::Connection(error) => return Err(error),
            Violation::Stream(stream, code) => (stream, code),
        };
        // The holder refuses for want of room; a stream above the limit was counted where it came.
        let is_refused = matches!(
            code,
            ErrorCode::REFUSED_STREAM | ErrorCode::ENHANCE_YOUR_CALM
        );
        if !is_refused && let Err(Violation::Connection(error)) = self.work.count_reset(now) {
            return Err(error);
        }
        if self
            .streams
            .get(stream)
            .is_some_and(|open| !open.state.is_closed())
        {
            self.reset(stream, code);
            let by = ResetBy::Us;
            return Ok(Some(Event::Reset { stream, code, by }));
        }
        if code != ErrorCode::STREAM_CLOSED {
            self.streams.note_reset(stream);
        }
        self.send_reset(stream, code);
        Ok(None)
    }

    fn next_event(&mut self, input: Option<&mut Chunk>, now: Instant) -> Next<B> {
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
            self.check_preface(&token)?;
            let event = self.take_token(token, input.as_deref_mut(), now)?;
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// §3.4: the first frame is SETTINGS.
    fn check_preface(&self, token: &Token) -> Result<(), Violation> {
        let is_of_settings = matches!(token, Token::Setting(..) | Token::SettingsEnd);
        match self.peer.is_known || is_of_settings {
            true => Ok(()),
            false => Err(Violation::protocol("the first frame is not SETTINGS")),
        }
    }

    fn take_token(&mut self, token: Token, input: Option<&mut Chunk>, now: Instant) -> Next<B> {
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
            Token::End(header) => self.end_block_frame(header),
            Token::Setting(id, value) => {
                self.next_peer.apply(id, value)?;
                // RFC 7541 §4.2: the smallest of several counts.
                self.encoder
                    .set_table_bytes_max(self.next_peer.table_bytes_max);
                Ok(None)
            }
            Token::SettingsEnd => self.take_settings(now),
            Token::SettingsAck => {
                self.work.count_control(now)?;
                self.block.as_ref().map_or(Ok(None), |_| Err(interleaved()))
            }
            Token::Small(header, octets) => self.take_small(header, octets, now),
            Token::PriorityUpdate(stream, value) => {
                self.work.count_control(now)?;
                if self.block.is_some() {
                    return Err(interleaved());
                }
                let stream = StreamId(stream);
                if !stream.is_of_client() {
                    return Err(Violation::protocol(
                        "PRIORITY_UPDATE names no request's stream",
                    ));
                }
                // RFC 9218 §7.1 would let one come before its stream is opened: it is ignored then.
                let is_known = self.streams.get(stream).is_some();
                Ok(is_known.then_some(Event::Priority(PriorityUpdate { stream, value })))
            }
        }
    }

    fn begin_frame(&mut self, header: FrameHeader, now: Instant) -> Next<B> {
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
            (_, Some(_)) => Err(interleaved()),
            (FrameType::Headers, None) => self.begin_headers(header, now),
            (_, None) => self.begin_data(header),
        }
    }

    // HEADERS and CONTINUATION.

    fn begin_headers(&mut self, header: FrameHeader, now: Instant) -> Next<B> {
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
    fn begin_unknown(
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

    fn take_fragment(&mut self, fragment: &[u8]) -> Result<(), Violation> {
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

    fn end_block_frame(&mut self, header: FrameHeader) -> Next<B> {
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

    // DATA.

    fn begin_data(&mut self, header: FrameHeader) -> Next<B> {
        let id = StreamId(header.stream);
        if self.receive_window.receive(header.length).is_err() {
            let reason = "more content than the window of the connection";
            return Err(Violation::connection(ErrorCode::FLOW_CONTROL_ERROR, reason));
        }
        let reception = match self.streams.get(id) {
            Some(stream) => stream.state.receive(Received::Data),
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
    fn accept_data(&mut self, id: StreamId, length: u32) -> Result<bool, Violation> {
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

    /// True of a stream that our last GOAWAY says is not processed.
    fn is_beyond_shutdown(&self, id: StreamId) -> bool {
        let is_of_peer = id.is_of_client() == (self.role == Role::Server);
        is_of_peer && self.ending.last().is_some_and(|last| id.0 > last)
    }

    fn is_idle(&self, id: StreamId) -> bool {
        match id.is_of_client() == (self.role == Role::Client) {
            true => id.0 >= self.next_local,
            false => id.0 > self.last_remote,
        }
    }

    fn take_content(&mut self, bytes: usize, input: Option<&mut Chunk>) -> Next<B> {
        let (Some(data), Some(input)) = (&mut self.data, input) else {
            return Ok(None);
        };
        let id = data.stream;
        let stream = self.streams.get_mut(id).filter(|_| !data.is_discarded);
        let Some(stream) = stream.filter(|stream| stream.state.can_receive()) else {
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

    fn end_data(&mut self, header: FrameHeader, now: Instant) -> Next<B> {
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
        if data.is_discarded && is_small || !has_content && !ends_stream {
            self.work.count_control(now)?;
        }
        match ends_stream && !data.is_discarded {
            true => self.end_remotely(data.stream),
            false => Ok(None),
        }
    }

    /// The peer has set END_STREAM.
    fn end_remotely(&mut self, id: StreamId) -> Next<B> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        if stream.content_left.is_some_and(|left| left > 0) {
            return Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR));
        }
        stream.state = stream.state.after_remote_end();
        Ok(Some(Event::End { stream: id }))
    }

    // The others.

    fn take_settings(&mut self, now: Instant) -> Next<B> {
        self.work.count_control(now)?;
        if self.block.is_some() {
            return Err(interleaved());
        }
        let (before, next) = (self.peer.window_bytes, self.next_peer.window_bytes);
        if before != next {
            let mut streams = self.streams.iter_mut();
            let changed =
                streams.try_for_each(|stream| stream.send_window.change_initial(before, next));
            changed.map_err(|code| {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE makes a window too large";
                Violation::connection(code, reason)
            })?;
        }
        self.next_peer.is_known = true;
        self.peer = self.next_peer;
        self.put_control(ControlFrame::settings_ack().octets());
        Ok(Some(Event::Settings))
    }

    fn take_small(&mut self, header: FrameHeader, octets: [u8; 8], now: Instant) -> Next<B> {
        if self.block.is_some() {
            return Err(interleaved());
        }
        let [o0, o1, o2, o3, o4, o5, o6, o7] = octets;
        let first = u32::from_be_bytes([o0, o1, o2, o3]);
        let id = StreamId(header.stream);
        match header.frame_type {
            FrameType::Ping if header.has(flag::ACK) => {
                if octets == SHUTDOWN_PING {
                    self.end_shutdown();
                }
                Ok(Some(Event::Pong(octets)))
            }
            FrameType::Ping => {
                self.work.count_control(now)?;
                self.put_control(ControlFrame::ping_ack(octets).octets());
                Ok(None)
            }
            FrameType::Goaway => {
                self.work.count_control(now)?;
                let last = first & 0x7fff_ffff;
                if self.goaway.is_some_and(|before| last > before) {
                    return Err(Violation::protocol(
                        "GOAWAY names a later stream than before",
                    ));
                }
                self.goaway = Some(last);
                let code = ErrorCode(u32::from_be_bytes([o4, o5, o6, o7]));
                Ok(Some(Event::Goaway(code)))
            }
            FrameType::RstStream => self.take_reset(id, ErrorCode(first), now),
            FrameType::WindowUpdate => self.take_window_update(id, first & 0x7fff_ffff),
            FrameType::Priority => {
                self.work.count_control(now)?;
                // RFC 7540 §5.3.1, which RFC 9113 leaves to us.
                match first & 0x7fff_ffff == id.0 {
                    true => Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR)),
                    false => Ok(None),
                }
            }
            // A type that is not known, or a priority that is too long.
            _ => {
                self.work.count_control(now)?;
                Ok(None)
            }
        }
    }

    fn take_reset(&mut self, id: StreamId, code: ErrorCode, now: Instant) -> Next<B> {
        if self.is_idle(id) {
            return Err(Violation::protocol("RST_STREAM on a stream that is idle"));
        }
        // RFC 9113 §8.1: a server that needs no more of a request says so, once it has responded.
        if self.role == Role::Server || code != ErrorCode::NO_ERROR {
            self.work.count_reset(now)?;
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        if stream.state.receive(Received::RstStream) != Reception::Accepted {
            return Ok(None);
        }
        stream.state = State::Closed(ClosedBy::PeerReset);
        let by = ResetBy::Peer;
        Ok(Some(Event::Reset {
            stream: id,
            code,
            by,
        }))
    }

    fn take_window_update(&mut self, id: StreamId, increment: u32) -> Next<B> {
        if id.0 == 0 {
            if increment == 0 {
                return Err(Violation::protocol("WINDOW_UPDATE of 0 octets"));
            }
            self.send_window.open(increment).map_err(|code| {
                Violation::connection(code, "the window of the connection is too large")
            })?;
            return Ok(Some(Event::Window(None)));
        }
        if self.is_idle(id) {
            return Err(Violation::protocol(
                "WINDOW_UPDATE on a stream that is idle",
            ));
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        if stream.state.receive(Received::WindowUpdate) != Reception::Accepted {
            return Ok(None);
        }
        let opened = match increment {
            0 => Err(ErrorCode::PROTOCOL_ERROR),
            _ => stream.send_window.open(increment),
        };
        match opened {
            Ok(()) => Ok(Some(Event::Window(Some(id)))),
            Err(code) => Err(Violation::stream(id, code)),
        }
    }

    /// Resets the next stream that the peer will not process, by its GOAWAY.
    fn reset_unprocessed(&mut self) -> Option<Event<B>> {
        let last = self.goaway.filter(|_| self.role == Role::Client)?;
        let mut streams = self.streams.iter_mut();
        let stream = streams.find(|stream| stream.id().0 > last && !stream.state.is_closed())?;
        stream.state = State::Closed(ClosedBy::PeerReset);
        Some(Event::Reset {
            stream: stream.id(),
            code: ErrorCode::REFUSED_STREAM,
            by: ResetBy::Peer,
        })
    }
}

/// §4.3: a field block is contiguous.
fn interleaved() -> Violation {
    Violation::protocol("a frame comes amid a field block")
}
