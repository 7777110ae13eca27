//! The connection: its parts, its preface, what is owed to the peer, and its end.

use std::io::IoSlice;
use std::time::Instant;

use steppe_mem::{Buffer, Lease, Reservation};

use super::block::{Block, Section, Target};
use super::event::{DataFrame, Event, ResetBy};
use super::flood::WorkLimits;
use super::flow::{ReceiveWindow, SendWindow};
use super::output::Output;
use super::reader::Reader;
use super::state::{ClosedBy, State};
use super::streams::{RemoteStreams, Streams};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::write::ControlFrame;
use crate::frame::{FrameHeader, FrameType, PREFACE};
use crate::hpack::{Decoder, DynamicTable, Encoder};
use crate::limits::{
    CONTROL_BYTES_MAX, SCRATCH_BYTES, TABLE_BYTES_MAX, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX,
};
use crate::role::Role;
use crate::settings::{LocalSettings, PeerSettings};
use crate::stream_id::StreamId;

/// A connection, with sections of the type `B`, and `T` beside each stream.
#[derive(Debug)]
pub struct Connection<B, T> {
    pub(super) role: Role,
    pub(super) local: LocalSettings,
    pub(super) peer: PeerSettings,
    /// The peer's settings with those of a SETTINGS frame that is not over.
    pub(super) next_peer: PeerSettings,
    /// The smallest SETTINGS_HEADER_TABLE_SIZE of that frame, if it changes.
    pub(super) next_table_bytes: Option<u32>,
    pub(super) reader: Reader,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) block: Option<Block<B>>,
    /// The DATA frame that is being received.
    pub(super) data: Option<DataFrame>,
    /// The stream of the section that was reported last, if END_STREAM came with it: its end is reported next.
    pub(super) ended_by_section: Option<StreamId>,
    pub(super) streams: Streams<T>,
    pub(super) remote: RemoteStreams,
    /// The stream that we open next.
    pub(super) next_local: u32,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// The size that the window of each stream is kept at.
    pub(super) stream_window_bytes: u32,
    /// The connection's window may have to be announced, and those of these streams.
    pub(super) owes_window: bool,
    pub(super) owed_windows: Vec<StreamId>,
    /// Resets that wait for room.
    pub(super) owed_resets: Vec<(StreamId, ErrorCode)>,
    pub(super) work: WorkLimits,
    pub(super) output: Output,
    pub(super) reserve: Reservation,
    /// Octets of content that came in all.
    pub(super) content_received: u64,
    /// Octets that were written in all.
    pub(super) written: u64,
    pub(super) ending: Ending,
    pub(super) failed: Option<ConnectionError>,
    /// The last stream of ours that the peer will process, by its GOAWAY.
    pub(super) goaway: Option<u32>,
    /// The first of the streams above it that may be open yet: they are reset one by one.
    pub(super) unprocessed: Option<StreamId>,
}

/// The progress of our graceful shutdown. RFC 9113 §6.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// A first GOAWAY says that more streams are unwelcome; a PING tells when it has come.
    Announced,
    /// The second one names the last stream.
    Final(u32),
}

impl Ending {
    /// The last stream that is processed, once the peer was told.
    pub(super) fn last(self) -> Option<u32> {
        match self {
            Self::Final(last) => Some(last),
            Self::No | Self::Announced => None,
        }
    }
}

/// The opaque data of the PING that follows a first GOAWAY.
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"shutdown";

/// The memory of a connection.
#[derive(Debug)]
pub struct Memory {
    /// For what is to be written.
    pub lease: Lease,
    /// Of [`ConnectionMemory::reserved_bytes`].
    pub reserve: Reservation,
}

/// Bytes that a connection is charged, beside itself and its streams.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionMemory;

impl ConnectionMemory {
    /// Bytes of the reservation that buffers are taken of.
    #[must_use]
    pub const fn reserved_bytes() -> usize {
        CONTROL_BYTES_MAX + SCRATCH_BYTES
    }

    /// Bytes that come with the first field block, at most: the dynamic tables of both directions, and the queue of what
    /// is to be written.
    #[must_use]
    pub const fn serving_bytes() -> usize {
        DynamicTable::memory_bytes_max(TABLE_BYTES_MAX)
            + Encoder::memory_bytes_max(TABLE_BYTES_MAX)
            + Output::queue_bytes()
    }
}

impl<B: Section, T: Default> Connection<B, T> {
    /// A connection whose preface is not exchanged.
    #[must_use]
    pub fn new(role: Role, local: LocalSettings, memory: Memory, now: Instant) -> Self {
        let Memory { lease, mut reserve } = memory;
        let of_output = reserve.split(CONTROL_BYTES_MAX);
        let reader = match role {
            Role::Server => Reader::of_client(),
            Role::Client => Reader::of_server(),
        };
        let mut connection = Self {
            role,
            local,
            peer: PeerSettings::default(),
            next_peer: PeerSettings::default(),
            next_table_bytes: None,
            reader,
            decoder: Decoder::new(TABLE_BYTES_MAX),
            encoder: Encoder::new(TABLE_BYTES_MAX),
            block: None,
            data: None,
            ended_by_section: None,
            streams: Streams::default(),
            remote: RemoteStreams::default(),
            next_local: match role {
                Role::Client => 1,
                Role::Server => 2,
            },
            send_window: SendWindow::default(),
            receive_window: ReceiveWindow::new(WINDOW_BYTES_DEFAULT),
            stream_window_bytes: WINDOW_BYTES_DEFAULT,
            owes_window: false,
            owed_windows: Vec::new(),
            owed_resets: Vec::new(),
            work: WorkLimits::new(now),
            output: Output::new(lease, of_output),
            reserve,
            content_received: 0,
            written: 0,
            ending: Ending::No,
            failed: None,
            goaway: None,
            unprocessed: None,
        };
        connection.send_preface();
        connection
    }

    fn send_preface(&mut self) {
        if self.role == Role::Client {
            self.put_control(PREFACE);
        }
        let settings = self.local.settings(self.role);
        let header = FrameHeader {
            length: u32::try_from(settings.len() * 6).expect("a few settings"),
            frame_type: FrameType::Settings,
            flags: 0,
            stream: 0,
        };
        self.put_control(&header.octets());
        for setting in settings {
            self.put_control(&setting);
        }
    }

    /// The holder's own part of a stream; `None` once it is released.
    pub fn stream_mut(&mut self, id: StreamId) -> Option<&mut T> {
        self.streams.get_mut(id).map(|stream| &mut stream.data)
    }

    /// The holder's own part of every stream.
    pub fn streams_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        let streams = self.streams.iter_mut();
        streams.map(|stream| (stream.id(), &mut stream.data))
    }

    /// True when the peer may send more on the stream.
    #[must_use]
    pub fn can_receive(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.state().can_receive())
    }

    /// True when the stream takes heads and content.
    #[must_use]
    pub fn can_send(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        self.failed.is_none() && stream.is_some_and(|stream| stream.state().can_send())
    }

    /// Streams that are not released.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Settings of the peer.
    #[must_use]
    pub fn peer(&self) -> &PeerSettings {
        &self.peer
    }

    /// The last stream of ours that the peer processes, once it has sent GOAWAY.
    #[must_use]
    pub fn goaway(&self) -> Option<u32> {
        self.goaway
    }

    /// The error that ended the connection.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.failed
    }

    /// Octets of content that came in all.
    #[must_use]
    pub fn content_received(&self) -> u64 {
        self.content_received
    }

    /// Octets that were written in all.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    /// Octets that wait to be written.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        self.output.bytes()
    }

    /// True while a field block has come in part, or waits for a decision.
    #[must_use]
    pub fn is_amid_block(&self) -> bool {
        self.block.as_ref().is_some_and(|block| !block.is_whole)
    }

    /// The value of the `priority` field of the last [`Event::Priority`], until more is received.
    #[must_use]
    pub fn priority_value(&self) -> &[u8] {
        self.reader.priority_value()
    }

    /// True while a field block waits for a decision: nothing is received until it is made.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let block = self.block.as_ref();
        block.is_some_and(|block| matches!(block.target, Target::Undecided))
    }

    /// True when `input` has more than the frame with which an undecided field block begins: what follows may give
    /// memory back.
    #[must_use]
    pub fn has_more_than_block(&self, input: &[u8]) -> bool {
        input.len() > self.reader.left()
    }

    /// False while so many control frames wait that some are to be written before more is received.
    #[must_use]
    pub fn takes_input(&self) -> bool {
        self.failed.is_none() && self.output.has_control_room()
    }

    /// The holder is done with a stream. One that is not closed is reset with `code`.
    pub fn release(&mut self, id: StreamId, code: ErrorCode) {
        self.reset(id, code);
        self.streams.remove(id);
    }

    /// Resets a stream, unless it is closed.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        let stream = self.streams.get(id);
        let Some(stream) = stream.filter(|stream| !stream.state().is_closed()) else {
            return;
        };
        if self.role == Role::Client && stream.state().can_receive() {
            self.work
                .request_reset_here(stream.receive_window.allowed());
        }
        let closed = State::Closed(ClosedBy::LocalReset);
        self.streams.set_state(id, closed);
        self.streams.note_reset(id);
        self.work.reset_here();
        if let Some(block) = &mut self.block
            && block.stream == id
            && matches!(block.target, Target::Undecided)
        {
            block.target = Target::Dropped(None);
        }
        self.send_reset(id, code);
    }

    /// Sends RST_STREAM, as soon as there is room.
    pub(super) fn send_reset(&mut self, id: StreamId, code: ErrorCode) {
        match self.output.has_control_room() {
            true => self.put_control(ControlFrame::rst_stream(id.0, code).octets()),
            false => self.owed_resets.push((id, code)),
        }
    }

    /// Resets a stream, which may be unknown. The holder is told where it has the stream.
    pub(super) fn reset_by_us(&mut self, stream: StreamId, code: ErrorCode) -> Option<Event> {
        let open = self.streams.get(stream);
        if open.is_some_and(|open| !open.state().is_closed()) {
            self.reset(stream, code);
            let by = ResetBy::Us;
            return Some(Event::Reset { stream, code, by });
        }
        if code != ErrorCode::STREAM_CLOSED {
            self.streams.note_reset(stream);
        }
        self.send_reset(stream, code);
        None
    }

    /// Gives back octets of content that came on a stream: its window and the connection's open by as much.
    pub fn release_content(&mut self, id: StreamId, bytes: u32) {
        self.receive_window.release(bytes);
        self.owes_window = true;
        if let Some(stream) = self.streams.get_mut(id)
            && stream.state().can_receive()
        {
            stream.receive_window.release(bytes);
            self.owe_window(id);
        }
    }

    /// Keeps the window of each stream at `stream` octets from now on, and the connection's at `connection`; `None`: as
    /// before.
    pub fn set_windows(&mut self, stream: Option<u32>, connection: u32) {
        self.receive_window.set_target(connection);
        self.owes_window = true;
        let Some(stream) = stream else {
            return;
        };
        self.stream_window_bytes = stream;
        self.owed_windows.clear();
        for open in self.streams.iter_mut() {
            open.receive_window.set_target(stream);
            open.owes_window = true;
            self.owed_windows.push(open.id());
        }
    }

    /// True of a client's stream that our last GOAWAY says is not processed.
    pub(super) fn is_beyond_shutdown(&self, id: StreamId) -> bool {
        let is_of_peer = id.is_of_client() && self.role == Role::Server;
        is_of_peer && self.ending.last().is_some_and(|last| id.0 > last)
    }

    pub(super) fn is_idle(&self, id: StreamId) -> bool {
        match id.is_of_client() == (self.role == Role::Client) {
            true => id.0 >= self.next_local,
            false => id.0 > self.remote.last(),
        }
    }

    /// The windows of a stream that begins.
    pub(super) fn new_windows(&self) -> (SendWindow, ReceiveWindow) {
        let mut receive = ReceiveWindow::new(WINDOW_BYTES_DEFAULT);
        receive.set_target(self.stream_window_bytes);
        (SendWindow::new(self.peer.window_bytes), receive)
    }

    /// The window of a stream may have to be announced.
    pub(super) fn owe_window(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id)
            && !std::mem::replace(&mut stream.owes_window, true)
        {
            self.owed_windows.push(id);
        }
    }

    /// Sends resets and windows that are owed, as far as there is room.
    fn send_owed(&mut self) {
        while self.failed.is_none() && self.output.has_control_room() {
            let frame = if let Some((id, code)) = self.owed_resets.pop() {
                Some(ControlFrame::rst_stream(id.0, code))
            } else if std::mem::take(&mut self.owes_window) {
                let increment = self.receive_window.take_update();
                increment.map(|increment| ControlFrame::window_update(0, increment))
            } else if let Some(id) = self.owed_windows.pop() {
                self.stream_update(id)
            } else {
                return;
            };
            if let Some(frame) = frame {
                self.put_control(frame.octets());
            }
        }
    }

    fn stream_update(&mut self, id: StreamId) -> Option<ControlFrame> {
        let stream = self.streams.get_mut(id)?;
        stream.owes_window = false;
        let increment = stream
            .receive_window
            .take_update()
            .filter(|_| stream.state().can_receive());
        increment.map(|increment| ControlFrame::window_update(id.0, increment))
    }

    /// Begins a graceful shutdown: GOAWAY twice, with the time of a round trip between, so that no stream is lost that
    /// the peer opened before it knew. RFC 9113 §6.8.
    pub fn shut_down(&mut self) {
        if self.ending == Ending::No && self.failed.is_none() {
            self.ending = Ending::Announced;
            let goaway = ControlFrame::goaway(WINDOW_BYTES_MAX, ErrorCode::NO_ERROR);
            self.put_control(goaway.octets());
            self.put_control(ControlFrame::ping(SHUTDOWN_PING).octets());
        }
    }

    /// The PING behind a first GOAWAY was acknowledged.
    pub(super) fn end_shutdown(&mut self) {
        if self.ending == Ending::Announced {
            let last = self.remote.last();
            self.ending = Ending::Final(last);
            let goaway = ControlFrame::goaway(last, ErrorCode::NO_ERROR);
            self.put_control(goaway.octets());
        }
    }

    /// True when a shutdown was announced.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.ending != Ending::No
    }

    /// True when the peer knows the last stream, and all are closed.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.ending.last().is_some() && self.streams.active() == 0
    }

    /// Ends the connection at once by GOAWAY with `code`; nothing more is received.
    pub fn fail(&mut self, code: ErrorCode, reason: &'static str) {
        if self.failed.is_some() {
            return;
        }
        // §6.8: a later GOAWAY names no later stream.
        let last = self.ending.last().unwrap_or(self.remote.last());
        let goaway = ControlFrame::goaway(last, code);
        self.put_control(goaway.octets());
        self.failed = Some(ConnectionError { code, reason });
        if let Some(mut block) = self.block.take() {
            block.release(&mut self.reserve);
        }
    }

    /// Sends a PING, whose acknowledgment is [`Event::Pong`].
    pub fn ping(&mut self, opaque: [u8; 8]) {
        self.put_control(ControlFrame::ping(opaque).octets());
    }

    /// Adds a control frame. Frames are received while there is room for their answers; a connection that has none all
    /// the same fails.
    pub(super) fn put_control(&mut self, octets: &[u8]) {
        if self.failed.is_none() && self.output.put_control(octets).is_err() {
            self.failed = Some(ConnectionError {
                code: ErrorCode::ENHANCE_YOUR_CALM,
                reason: "too many control frames wait for a peer that reads nothing",
            });
        }
    }

    /// Fills `slices` with what is to be written next; the number of those that were filled.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.send_owed();
        self.output.slices(slices)
    }

    /// Gives memory for what is to be sent, after [`SendError::OverBudget`].
    pub fn give_room(&mut self, buffer: Buffer) {
        self.output.set_buffer(buffer);
    }

    /// The first `bytes` of them were written.
    pub fn written(&mut self, bytes: usize) {
        self.work.written(bytes);
        self.written += bytes as u64;
        self.output.written(bytes);
    }
}
