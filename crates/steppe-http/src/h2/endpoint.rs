//! An endpoint of a connection (RFC 9113 §2.2): reads, hands what has come to streams, and writes.
//!
//! What differs by the side of the connection is its [`Side`]'s. Without room in the budget a field block waits
//! undecoded, for at most [`Side::patience`], or [`ROOM_PATIENCE`] where more has come behind it, which may give memory
//! back; then its stream is reset. Content has the charge of its window.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use steppe_h2::message::SectionKind;
use steppe_h2::{
    BlockStart, ConnectionError, ConnectionMemory, ErrorCode, Event, StreamId, Truncation,
};
use steppe_mem::{Buffer, LeavingRoom, Reservation, Waiter};
use steppe_net::Transport;

use super::inbox::{ReceivedSection, StreamCut};
use super::link::Link;
use super::priority::Priority;
use super::reading::ConnectionInput;
use super::section::HeadSection;
use crate::limits::{H2_STREAM_ROOM_BYTES, LISTS_LEAVE, ROOM_PATIENCE};

/// Slices of one write.
const SLICES_MAX: usize = 16;

/// The reason of a connection that ends without a violation.
const ENDED: &str = "the connection is over";

/// Reads of one poll, so that the tasks of a connection's streams have their turns.
const READS_MAX: usize = 4;

/// The part of an endpoint that differs by its side.
pub(super) trait Side {
    /// The memory that a head begins with.
    fn head_memory(&self, start: &BlockStart) -> HeadMemory;

    /// The longest time that a field block waits for memory.
    fn patience(&self) -> Duration;

    /// True when what has come is of use after the peer has closed.
    fn outlives_peer(&self) -> bool;

    /// A head has come.
    fn take_head(&mut self, head: ReceivedHead);

    /// A field block was refused for want of memory.
    fn refused(&mut self, start: &BlockStart);

    /// The peer's settings have come, or it takes no further streams.
    fn peer_changed(&mut self) {}

    /// The peer has broken the protocol.
    fn failed(&mut self, error: ConnectionError);
}

/// The memory that a head begins with.
pub(super) struct HeadMemory {
    pub(super) bytes: usize,
    /// One part in so many of the budget is left for others.
    pub(super) leaves: u64,
}

/// A head that has come.
pub(super) struct ReceivedHead {
    pub(super) stream: StreamId,
    pub(super) section: ReceivedSection,
    pub(super) began_at: Instant,
    /// The rest of its [`HeadMemory`].
    pub(super) charge: Reservation,
}

/// An endpoint, as the task of its connection sees it.
pub(super) struct Endpoint {
    pub(super) transport: Transport,
    reading: ConnectionInput,
    link: Rc<Link>,
    /// The connection's charge, but for what its parts have.
    charge: Reservation,
    /// The charge has [`ConnectionMemory::serving_bytes`].
    has_tables: bool,
    /// A field block that waits for memory.
    waiting: Option<WaitingBlock>,
    /// The memory of a field block that is being received.
    begun: Option<BegunBlock>,
    /// The time of the poll in progress.
    now: Instant,
    /// More has come behind a block that waits for memory, and lies unread.
    has_more_unread: bool,
    /// Content that waits for memory.
    stuck: Option<StuckContent>,
    /// Since when there was no room for any block, and when the next one is refused.
    short_since: Option<Instant>,
    short_until: Instant,
    /// Since when a field block has come in part.
    block_since: Option<Instant>,
    is_blocked: bool,
    /// A write failed: nothing more is written. What the peer has sent before may be unread.
    has_write_failed: bool,
}

/// A field block that waits for memory.
struct WaitingBlock {
    start: BlockStart,
    waiter: Waiter,
}

/// A field block whose memory was found.
struct BegunBlock {
    start: BlockStart,
    began_at: Instant,
    charge: Reservation,
}

/// Content that waits for memory: neither its window's charge nor the budget has room for it.
struct StuckContent {
    stream: StreamId,
    bytes: usize,
    waiter: Waiter,
}

/// The parts that an endpoint begins with.
pub(super) struct EndpointParts {
    pub(super) transport: Transport,
    pub(super) reading: ConnectionInput,
    pub(super) link: Rc<Link>,
    /// The charge of the connection, but for what its parts have.
    pub(super) charge: Reservation,
    /// The charge has [`ConnectionMemory::serving_bytes`] already, which come with the first field block otherwise.
    pub(super) has_tables: bool,
}

impl Endpoint {
    pub(super) fn new(parts: EndpointParts, now: Instant) -> Self {
        Self {
            transport: parts.transport,
            reading: parts.reading,
            link: parts.link,
            charge: parts.charge,
            has_tables: parts.has_tables,
            waiting: None,
            begun: None,
            now,
            has_more_unread: false,
            stuck: None,
            short_since: None,
            short_until: now,
            block_since: None,
            is_blocked: false,
            has_write_failed: false,
        }
    }

    /// When the field block that waits for memory is refused; `None`: there is none.
    pub(super) fn refuses_at(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|_| self.short_until)
    }

    /// Since when a field block has come in part, and does not wait for memory.
    pub(super) fn block_since(&mut self, now: Instant) -> Option<Instant> {
        if self.waiting.is_some() || !self.link.connection.borrow().is_amid_block() {
            self.block_since = None;
        } else {
            self.block_since.get_or_insert(now);
        }
        self.block_since
    }

    /// True while the peer does not take all that is to be written.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// True once a write has failed: the peer takes nothing any more.
    pub(super) fn has_write_failed(&self) -> bool {
        self.has_write_failed
    }

    /// Octets that have come in all.
    pub(super) fn read_bytes(&self) -> u64 {
        self.reading.total()
    }

    /// True while bytes that have come are not received, for want of memory.
    pub(super) fn is_held(&self) -> bool {
        self.waiting.is_some() || self.stuck.is_some()
    }

    /// Receives what comes. Ready when the connection is over; an error is the transport's.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        side: &mut impl Side,
        now: Instant,
    ) -> Poll<std::io::Result<()>> {
        self.now = now;
        for _ in 0..READS_MAX {
            if self.receive(cx, side).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let read = match self.is_held() {
                true => {
                    let read = ready!(self.poll_behind(cx));
                    if matches!(read, Ok(0)) && side.outlives_peer() {
                        return Poll::Pending;
                    }
                    read
                }
                false if !self.link.connection.borrow().takes_input() => {
                    let written = ready!(self.poll_write(cx));
                    if !side.outlives_peer() {
                        written?;
                    }
                    continue;
                }
                false => {
                    let reading = &mut self.reading;
                    ready!(reading.poll_read(cx, &mut self.transport, &self.link.traffic))
                }
            };
            if read? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        // Streams go first; then there is more to read.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads behind a block that waits for memory, while nothing has come behind it; `Ok(0)` where the peer has closed.
    fn poll_behind(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        if self.waiting.is_none() {
            ready!(self.transport.poll_closed(cx));
            return Poll::Ready(Ok(0));
        }
        let has_more = (self.link.connection.borrow()).has_more_than_block(self.reading.bytes());
        let (transport, traffic) = (&mut self.transport, &self.link.traffic);
        if !has_more && let Some(read) = self.reading.poll_read_behind(cx, transport, traffic) {
            return read;
        }
        self.has_more_unread = has_more || !transport.is_quiet(cx);
        ready!(transport.poll_closed(cx));
        Poll::Ready(Ok(0))
    }

    /// Takes the events of what was read. Ready when the connection is over.
    fn receive(&mut self, cx: &mut Context<'_>, side: &mut impl Side) -> Poll<()> {
        let is_undecided = self.link.connection.borrow().is_undecided();
        // A stream that was let go meanwhile needs no memory.
        let is_needed = is_undecided || !self.has_tables;
        match self.waiting.take().filter(|_| is_needed) {
            Some(waiting) => self.decide(cx, side, waiting),
            // The next that finds no room has the whole time.
            None => self.short_since = None,
        }
        let error = self.link.connection.borrow().error();
        if let Some(error) = error {
            return self.poll_failed(cx, side, error);
        }
        if self.waiting.is_some() || self.poll_stuck(cx).is_pending() {
            return self.pause();
        }
        loop {
            let input = self.reading.input();
            let received = self.link.connection.borrow_mut().receive(input, self.now);
            let Ok(Some(event)) = received else {
                break;
            };
            self.take_event(cx, side, event);
            if self.waiting.is_some() || self.poll_stuck(cx).is_pending() {
                break;
            }
        }
        if !self.link.connection.borrow().is_amid_block() {
            self.begun = None;
        }
        // An input that was received lies nowhere any more.
        self.reading.input();
        let error = self.link.connection.borrow().error();
        match error {
            Some(error) => self.poll_failed(cx, side, error),
            None => self.pause(),
        }
    }

    fn pause(&self) -> Poll<()> {
        self.link.is_starved.set(self.is_held());
        Poll::Pending
    }

    /// The connection has ended by a violation.
    fn poll_failed(
        &mut self,
        cx: &mut Context<'_>,
        side: &mut impl Side,
        error: ConnectionError,
    ) -> Poll<()> {
        side.failed(error);
        let _ = self.poll_write(cx);
        Poll::Ready(())
    }

    /// Ready when no content waits for memory.
    fn poll_stuck(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stuck) = &mut self.stuck else {
            return Poll::Ready(());
        };
        let mut connection = self.link.connection.borrow_mut();
        let octets = u32::try_from(stuck.bytes).unwrap_or(u32::MAX);
        if !connection.can_receive(stuck.stream) {
            if let Some(input) = self.reading.input() {
                input.consume(stuck.bytes);
            }
            connection.release_content(stuck.stream, octets);
        } else {
            let lease = self.link.windows.lease();
            let buffer = ready!(Buffer::poll_take(
                cx,
                &lease,
                stuck.bytes,
                &mut stuck.waiter
            ));
            let chunk = self.reading.move_content(stuck.bytes, buffer);
            if let Some(inbox) = connection.stream_mut(stuck.stream) {
                // Its charge is another one.
                drop(
                    inbox
                        .window
                        .as_mut()
                        .and_then(|window| window.lend(chunk.len())),
                );
                inbox.push(chunk);
            }
        }
        self.stuck = None;
        Poll::Ready(())
    }

    fn take_event(&mut self, cx: &mut Context<'_>, side: &mut impl Side, event: Event) {
        let mut connection = self.link.connection.borrow_mut();
        match event {
            Event::Begins(start) => {
                drop(connection);
                let waiter = Waiter::default();
                self.decide(cx, side, WaitingBlock { start, waiter });
            }
            Event::Section { truncation, .. } => {
                let section = connection.take_section();
                drop(connection);
                if let Some(section) = section {
                    self.take_section(side, section, truncation);
                }
            }
            Event::Content { stream, bytes } => {
                drop(connection);
                self.take_content(stream, bytes);
            }
            Event::End { stream } => {
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.end();
                }
            }
            Event::Reset { stream, code, by } => {
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.cut(StreamCut::Reset(code, by));
                }
            }
            Event::Window(Some(stream)) => {
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.wake();
                }
            }
            Event::Settings => {
                connection.streams_mut().for_each(|(_, inbox)| inbox.wake());
                drop(connection);
                side.peer_changed();
            }
            Event::Priority(stream) => {
                let value = std::iter::once(connection.priority_value());
                let priority = Priority::of_request(value);
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.priority = Some(priority);
                    inbox.wake();
                }
            }
            Event::Goaway(_) => {
                drop(connection);
                side.peer_changed();
            }
            // See `poll_write`, which wakes as many as may write. What a PING's acknowledgment tells, its octets do.
            Event::Window(None) | Event::Pong(_) => {}
        }
    }

    /// Finds memory for a field block; without it, the block waits, or is refused in the end.
    fn decide(&mut self, cx: &mut Context<'_>, side: &mut impl Side, mut block: WaitingBlock) {
        let now = self.now;
        // The last one is over.
        self.begun = None;
        let start = block.start;
        let HeadMemory { bytes, leaves } = match start.kind {
            SectionKind::Request | SectionKind::Response => side.head_memory(&start),
            SectionKind::Trailers => HeadMemory {
                bytes: H2_STREAM_ROOM_BYTES,
                leaves: LISTS_LEAVE,
            },
        };
        let more = match self.has_tables {
            true => 0,
            false => ConnectionMemory::serving_bytes(),
        };
        let lease = self.link.windows.lease();
        let leaving = lease.account().limit_bytes() / leaves;
        let room = LeavingRoom {
            bytes: bytes + more,
            leaving,
        };
        let charge = lease.poll_reserve_leaving(cx, room, &mut block.waiter);
        let mut connection = self.link.connection.borrow_mut();
        if let Poll::Ready(mut charge) = charge
            && let Ok(section) = HeadSection::take(&mut charge)
        {
            self.short_since = None;
            self.has_tables = true;
            self.charge.join(charge.split(more));
            connection.accept(section);
            self.begun = Some(BegunBlock {
                start,
                began_at: now,
                charge,
            });
            return;
        }
        let since = *self.short_since.get_or_insert(now);
        let has_more = self.has_more_unread || connection.has_more_than_block(self.reading.bytes());
        let patience = match has_more {
            true => side.patience().min(ROOM_PATIENCE),
            false => side.patience(),
        };
        if now < since + patience {
            self.short_until = since + patience;
            self.waiting = Some(block);
            return;
        }
        // §8.7: a request in progress may have been processed.
        connection.refuse(match start.kind {
            SectionKind::Request => ErrorCode::REFUSED_STREAM,
            SectionKind::Response | SectionKind::Trailers => ErrorCode::ENHANCE_YOUR_CALM,
        });
        // The dynamic table follows what is refused, too.
        if more > 0 && self.charge.try_grow(more).is_err() {
            let reason = "there is no memory for the dynamic table";
            connection.fail(ErrorCode::ENHANCE_YOUR_CALM, reason);
        }
        self.has_tables = true;
        drop(connection);
        side.refused(&start);
    }

    fn take_section(
        &mut self,
        side: &mut impl Side,
        section: HeadSection,
        truncation: Option<Truncation>,
    ) {
        self.block_since = None;
        let Some(begun) = self.begun.take() else {
            return;
        };
        let BlockStart { stream, kind, .. } = begun.start;
        let section = ReceivedSection {
            kind,
            section,
            truncation,
            is_last: begun.start.ends_stream,
        };
        if kind != SectionKind::Trailers {
            return side.take_head(ReceivedHead {
                stream,
                section,
                began_at: begun.began_at,
                charge: begun.charge,
            });
        }
        let mut connection = self.link.connection.borrow_mut();
        if let Some(inbox) = connection.stream_mut(stream) {
            inbox.push_section(section);
        }
    }

    /// Passes content to its stream.
    fn take_content(&mut self, id: StreamId, bytes: usize) {
        let mut connection = self.link.connection.borrow_mut();
        let Some(inbox) = connection.stream_mut(id) else {
            if let Some(input) = self.reading.input() {
                input.consume(bytes);
            }
            return connection.release_content(id, u32::try_from(bytes).unwrap_or(u32::MAX));
        };
        let lent = inbox.window.as_mut().and_then(|window| window.lend(bytes));
        if inbox.append(&self.reading.bytes()[..bytes]) {
            if let Some(input) = self.reading.input() {
                input.consume(bytes);
            }
            return inbox.wake();
        }
        let mut taken = self.reading.take_content(bytes, lent);
        if let Err(lent) = &mut taken
            && let Some(window) = &mut inbox.window
        {
            if let Some(lent) = lent.take() {
                window.take_back(lent, bytes);
            }
            // A small piece takes more memory than its part of the window's charge.
            if let Some(block) = window.lend_block(bytes) {
                taken = self.reading.take_content(bytes, Some(block));
            }
        }
        match taken {
            Ok(chunk) => inbox.push(chunk),
            Err(_) => {
                self.stuck = Some(StuckContent {
                    stream: id,
                    bytes,
                    waiter: Waiter::default(),
                });
            }
        }
    }

    /// Announces the windows that have changed.
    pub(super) fn change_windows(&self) {
        let mut connection = self.link.connection.borrow_mut();
        let content = connection.content_received();
        if let Some(change) = self.link.windows.change(content) {
            connection.set_windows(change.stream, change.connection);
        }
    }

    /// Writes what waits. Ready when the kernel has it. After an error, which is told once, nothing is written.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let written = self.poll_write_all(cx);
        self.has_write_failed |= matches!(written, Poll::Ready(Err(_)));
        self.is_blocked = written.is_pending();
        if self.is_blocked {
            self.link.turns.block();
            return written;
        }
        self.link.turns.go_on();
        if self.link.connection.borrow().connection_send_window() > 0 {
            self.link.turns.open_window();
        }
        written
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut connection = self.link.connection.borrow_mut();
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = connection.slices(&mut slices);
            if count == 0 && self.has_write_failed {
                return Poll::Ready(Ok(()));
            }
            if count == 0 {
                return self.transport.poll_flush(cx);
            }
            if self.has_write_failed {
                let unwritten = slices[..count].iter().map(|slice| slice.len()).sum();
                connection.written(unwritten);
                continue;
            }
            let written = ready!(self.transport.poll_write(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            connection.written(written);
            self.link.traffic.written(written);
        }
    }

    /// Ends the connection by the GOAWAY that names the last stream (RFC 9113 §6.8), and writes what waits as far as the
    /// kernel takes it at once.
    pub(super) async fn write_goaway(&mut self) {
        (self.link.connection.borrow_mut()).fail(ErrorCode::NO_ERROR, ENDED);
        let _ = poll_fn(|cx| Poll::Ready(self.poll_write(cx))).await;
    }

    /// The connection is over: its streams see that.
    pub(super) fn cut_streams(&mut self) {
        let mut connection = self.link.connection.borrow_mut();
        let cut = match connection.error() {
            Some(error) if error.code != ErrorCode::NO_ERROR => StreamCut::Failed,
            _ => StreamCut::Gone,
        };
        connection.fail(ErrorCode::NO_ERROR, ENDED);
        for (_, inbox) in connection.streams_mut() {
            inbox.cut(cut);
        }
        drop(connection);
        self.link.turns.end();
    }
}

/// A connection that is shed is dropped amid its streams.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.cut_streams();
    }
}
