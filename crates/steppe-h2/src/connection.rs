//! The state machine of one connection, on either side. Spec: RFC 9113 §5.
//!
//! The holder of a connection reads bytes and gives them to [`Connection::receive`], which returns one [`Event`] at a
//! time; it sends by [`send_head`](Connection::send_head) and [`send_content`](Connection::send_content), and writes
//! what [`slices`](Connection::slices) has.
//!
//! **Without room** for a section, the holder leaves [`Event::Begins`] undecided: the field block stays undecoded in
//! the input, and nothing behind it is read. It decides before it reads more: by
//! [`accept`](Connection::accept), or by [`refuse`](Connection::refuse), which decodes the block into scratch memory,
//! so that the dynamic table stays in step, and resets the stream with REFUSED_STREAM.
//!
//! **Windows** open only by [`release`](Connection::release) and [`set_windows`](Connection::set_windows): the holder
//! charges what a peer may send.

mod block;
mod flood;
mod flow;
mod output;
mod reader;
mod receive;
mod send;
mod state;
mod streams;

#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::time::Instant;

use steppe_mem::{Lease, Reservation};

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
use block::{Block, Target};
use flood::WorkLimits;
use flow::{ReceiveWindow, SendWindow};
use output::Output;
use reader::Reader;
use state::{ClosedBy, State};
use streams::Streams;

pub use block::{Section, Truncation};
pub use receive::{BlockStart, Event, PriorityUpdate, ResetBy};
pub use send::{EndStream, SendError};

/// A connection, with sections of the type `B`, and `T` beside each stream.
#[derive(Debug)]
pub struct Connection<B, T> {
    role: Role,
    local: LocalSettings,
    peer: PeerSettings,
    /// The peer's settings with those of a SETTINGS frame that is not over.
    next_peer: PeerSettings,
    reader: Reader,
    decoder: Decoder,
    encoder: Encoder,
    block: Option<Block<B>>,
    /// The DATA frame that is being received.
    data: Option<receive::DataFrame>,
    /// The stream of the section that was reported last, if END_STREAM came with it: its end is reported next.
    ended_by_section: Option<StreamId>,
    streams: Streams<T>,
    /// The highest stream that the peer opened, 0 at first.
    last_remote: u32,
    /// The stream that we open next.
    next_local: u32,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// The size that the window of each stream is kept at.
    stream_window_bytes: u32,
    /// Some window may have to be announced.
    has_owed_windows: bool,
    work: WorkLimits,
    output: Output,
    reserve: Reservation,
    /// Octets of content that came in all.
    content_received: u64,
    /// Octets that were written in all.
    written: u64,
    ending: Ending,
    failed: Option<ConnectionError>,
    /// The last stream of ours that the peer will process, by its GOAWAY.
    goaway: Option<u32>,
}

/// The progress of our graceful shutdown. RFC 9113 §6.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// A first GOAWAY says that more streams are unwelcome; a PING tells when it has come.
    Announced,
    /// The second one names the last stream.
    Final(u32),
}

/// The opaque data of the PING that follows a first GOAWAY.
const SHUTDOWN_PING: [u8; 8] = *b"shutdown";

/// Bytes that a connection is charged, beside its streams.
///
/// Scratch memory and the buffer of control frames are taken of the reservation when they are needed.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionMemory;

impl ConnectionMemory {
    /// Bytes of a connection without field blocks, at most.
    #[must_use]
    pub const fn bytes() -> usize {
        size_of::<Connection<(), ()>>() + Self::reserved_bytes()
    }

    /// The part of them that buffers are taken of.
    #[must_use]
    pub const fn reserved_bytes() -> usize {
        CONTROL_BYTES_MAX + SCRATCH_BYTES
    }

    /// Bytes of the table of streams, for so many at once.
    #[must_use]
    pub const fn stream_bytes<T>(streams: usize) -> usize {
        Streams::<T>::bytes(streams)
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
    /// A connection whose preface is not exchanged. `reserve` is of [`ConnectionMemory::reserved_bytes`]; `lease` is
    /// for what is to be written.
    #[must_use]
    pub fn new(
        role: Role,
        local: LocalSettings,
        (lease, reserve): (Lease, Reservation),
        now: Instant,
    ) -> Self {
        let reader = match role {
            Role::Server => Reader::of_client(),
            Role::Client => Reader::of_server(),
        };
        let mut connection = Self {
            role,
            local,
            peer: PeerSettings::default(),
            next_peer: PeerSettings::default(),
            reader,
            decoder: Decoder::new(TABLE_BYTES_MAX),
            encoder: Encoder::new(TABLE_BYTES_MAX),
            block: None,
            data: None,
            ended_by_section: None,
            streams: Streams::default(),
            last_remote: 0,
            next_local: match role {
                Role::Client => 1,
                Role::Server => 2,
            },
            send_window: SendWindow::default(),
            receive_window: ReceiveWindow::new(WINDOW_BYTES_DEFAULT),
            stream_window_bytes: WINDOW_BYTES_DEFAULT,
            has_owed_windows: false,
            work: WorkLimits::new(now),
            output: Output::new(lease),
            reserve,
            content_received: 0,
            written: 0,
            ending: Ending::No,
            failed: None,
            goaway: None,
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

    /// What the holder keeps of a stream; `None` once it is released.
    pub fn stream_mut(&mut self, id: StreamId) -> Option<&mut T> {
        self.streams.get_mut(id).map(|stream| &mut stream.data)
    }

    /// What the holder keeps of every stream.
    pub fn streams_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        let streams = self.streams.iter_mut();
        streams.map(|stream| (stream.id(), &mut stream.data))
    }

    /// True when the peer may send more on the stream.
    #[must_use]
    pub fn can_receive(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.state.can_receive())
    }

    /// True when the stream takes heads and content.
    #[must_use]
    pub fn can_send(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        self.failed.is_none() && stream.is_some_and(|stream| stream.state.can_send())
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
        self.block.is_some()
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

    /// True between two frames of the peer, with no field block in part.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.block.is_none() && self.reader.is_between_frames()
    }

    /// The holder is done with a stream. One that is not closed is reset with `code`.
    pub fn release(&mut self, id: StreamId, code: ErrorCode) {
        self.reset(id, code);
        self.streams.remove(id);
    }

    /// Resets a stream, unless it is closed.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.state.is_closed() {
            return;
        }
        stream.state = State::Closed(ClosedBy::LocalReset);
        self.streams.note_reset(id);
        self.put_control(ControlFrame::rst_stream(id.0, code).octets());
    }

    /// Gives back octets of content that came on a stream: its window and the connection's open by as much.
    pub fn release_content(&mut self, id: StreamId, bytes: u32) {
        self.receive_window.release(bytes);
        if let Some(stream) = self.streams.get_mut(id)
            && stream.state.can_receive()
        {
            stream.receive_window.release(bytes);
        }
        self.has_owed_windows = true;
    }

    /// Keeps the window of each stream at `stream` octets from now on, and the connection's at `connection`; `None`: as
    /// before.
    pub fn set_windows(&mut self, stream: Option<u32>, connection: u32) {
        self.receive_window.set_target(connection);
        if let Some(stream) = stream {
            self.stream_window_bytes = stream;
            for open in self.streams.iter_mut() {
                open.receive_window.set_target(stream);
            }
        }
        self.has_owed_windows = true;
    }

    /// Announces windows that have to be.
    fn announce_windows(&mut self) {
        if !std::mem::take(&mut self.has_owed_windows) || self.failed.is_some() {
            return;
        }
        if let Some(increment) = self.receive_window.take_update() {
            let update = ControlFrame::window_update(0, increment);
            let put = self.output.put_control(update.octets(), &mut self.reserve);
            debug_assert!(put.is_ok(), "there is room for one");
        }
        for stream in self.streams.iter_mut() {
            if !stream.state.can_receive() {
                continue;
            }
            // The rest follows when more was written: a PING still finds room.
            if !self.output.has_control_room() {
                self.has_owed_windows = true;
                return;
            }
            if let Some(increment) = stream.receive_window.take_update() {
                let update = ControlFrame::window_update(stream.id().0, increment);
                let _ = self.output.put_control(update.octets(), &mut self.reserve);
            }
        }
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
    fn end_shutdown(&mut self) {
        if self.ending == Ending::Announced {
            self.ending = Ending::Final(self.last_remote);
            let goaway = ControlFrame::goaway(self.last_remote, ErrorCode::NO_ERROR);
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
        matches!(self.ending, Ending::Final(_)) && self.streams.active() == 0
    }

    /// Ends the connection at once by GOAWAY with `code`; nothing more is received.
    pub fn fail(&mut self, code: ErrorCode, reason: &'static str) {
        if self.failed.is_some() {
            return;
        }
        let goaway = ControlFrame::goaway(self.last_remote, code);
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

    /// Adds a control frame. A peer that provokes more than there is room for is ended.
    fn put_control(&mut self, octets: &[u8]) {
        if self.failed.is_none() && self.output.put_control(octets, &mut self.reserve).is_err() {
            self.failed = Some(ConnectionError {
                code: ErrorCode::ENHANCE_YOUR_CALM,
                reason: "too many control frames wait for a peer that reads nothing",
            });
        }
    }

    /// Fills `slices` with what is to be written next; the number of those that were filled.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.announce_windows();
        self.output.slices(slices)
    }

    /// The first `bytes` of them were written.
    pub fn written(&mut self, bytes: usize) {
        self.work.written(bytes);
        self.written += bytes as u64;
        self.output.written(bytes, &mut self.reserve);
    }
}
