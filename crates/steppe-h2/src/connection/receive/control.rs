//! Frames without fields or content. Spec: RFC 9113 §6.3 to §6.9.

use std::time::Instant;

use crate::connection::block::Section;
use crate::connection::event::{Event, Next, ResetBy};
use crate::connection::machine::{Connection, SHUTDOWN_PING};
use crate::connection::state::{ClosedBy, Received, Reception, State};
use crate::error::{ErrorCode, Violation};
use crate::frame::write::ControlFrame;
use crate::frame::{FrameHeader, FrameType, flag};
use crate::role::Role;
use crate::stream_id::StreamId;

impl<B: Section, T: Default> Connection<B, T> {
    pub(super) fn take_settings(&mut self, now: Instant) -> Next {
        self.work.count_control(now)?;
        if self.block.is_some() {
            return Err(Violation::interleaved());
        }
        let (before, next) = (self.peer.window_bytes, self.next_peer.window_bytes);
        if before != next {
            let streams = self.streams.iter_mut();
            let changed = (streams.filter(|stream| !stream.state().is_closed()))
                .try_for_each(|stream| stream.send_window.change_initial(before, next));
            changed.map_err(|code| {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE makes a window too large";
                Violation::connection(code, reason)
            })?;
        }
        // RFC 7541 §4.2: the smallest of several sizes counts, too. The block that tells so follows our
        // acknowledgment: before it comes, the peer's decoder may hold on to the size of before.
        if let Some(least) = self.next_table_bytes.take() {
            self.encoder.set_table_bytes_max(least);
            self.encoder
                .set_table_bytes_max(self.next_peer.table_bytes_max);
        }
        self.next_peer.is_known = true;
        self.peer = self.next_peer;
        self.put_control(ControlFrame::settings_ack().octets());
        Ok(Some(Event::Settings))
    }

    pub(super) fn take_small(
        &mut self,
        header: FrameHeader,
        octets: [u8; 8],
        now: Instant,
    ) -> Next {
        if self.block.is_some() {
            return Err(Violation::interleaved());
        }
        let [o0, o1, o2, o3, o4, o5, o6, o7] = octets;
        let first = u32::from_be_bytes([o0, o1, o2, o3]);
        let id = StreamId(header.stream);
        match header.frame_type {
            FrameType::Ping if header.has(flag::ACK) => {
                self.work.count_control(now)?;
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
                let first_unprocessed = StreamId(last + 1);
                self.unprocessed = (self.role == Role::Client).then_some(first_unprocessed);
                let code = ErrorCode(u32::from_be_bytes([o4, o5, o6, o7]));
                Ok(Some(Event::Goaway(code)))
            }
            FrameType::RstStream => self.take_reset(id, ErrorCode(first), now),
            FrameType::WindowUpdate => self.take_window_update(id, first & 0x7fff_ffff),
            FrameType::Priority => {
                self.work.count_control(now)?;
                match first & 0x7fff_ffff == id.0 {
                    true => self.take_self_dependency(id),
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

    /// RFC 7540 §5.3.1 calls it a stream error. RFC 9113 has dropped the rule, and RST_STREAM has no place on a stream
    /// that is idle (§6.4) or closed (§5.1).
    fn take_self_dependency(&self, id: StreamId) -> Next {
        if self.is_idle(id) {
            return Err(Violation::protocol(
                "a stream that is idle depends on itself",
            ));
        }
        let stream = self.streams.get(id);
        match stream.is_some_and(|stream| !stream.state().is_closed()) {
            true => Err(Violation::stream(id, ErrorCode::PROTOCOL_ERROR)),
            false => Ok(None),
        }
    }

    pub(super) fn take_reset(&mut self, id: StreamId, code: ErrorCode, now: Instant) -> Next {
        if self.is_idle(id) {
            return Err(Violation::protocol("RST_STREAM on a stream that is idle"));
        }
        let stream = self.streams.get(id);
        let is_open = stream.is_some_and(|stream| {
            stream.state().receive(Received::RstStream) == Reception::Accepted
        });
        match self.role {
            Role::Server => self.work.count_reset(now)?,
            // Of a server's, each one that ends a stream costs it a request of ours.
            Role::Client if !is_open => self.work.count_discarded(now)?,
            Role::Client => {}
        }
        if !is_open {
            return Ok(None);
        }
        let closed = State::Closed(ClosedBy::PeerReset);
        self.streams.set_state(id, closed);
        let by = ResetBy::Peer;
        Ok(Some(Event::Reset {
            stream: id,
            code,
            by,
        }))
    }

    pub(super) fn take_window_update(&mut self, id: StreamId, increment: u32) -> Next {
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
        if stream.state().receive(Received::WindowUpdate) != Reception::Accepted {
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
    pub(super) fn reset_unprocessed(&mut self) -> Option<Event> {
        let from = self.unprocessed.take()?;
        let stream = self.streams.next_active(from)?;
        self.unprocessed = Some(stream);
        let closed = State::Closed(ClosedBy::PeerReset);
        self.streams.set_state(stream, closed);
        Some(Event::Reset {
            stream,
            code: ErrorCode::REFUSED_STREAM,
            by: ResetBy::Peer,
        })
    }
}
