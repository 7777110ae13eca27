//! Faces a client: a task for the connection, and one for each stream.
//!
//! The protocol is that of `steppe-h2`, which has no sockets. The connection's task reads, hands events to the streams,
//! and writes what they have put; streams reach the connection directly.
//!
//! Without room in the budget a new stream waits undecoded, for at most `timeouts.header`, or [`ROOM_PATIENCE`] where
//! more has come behind it: a client's RST_STREAM and WINDOW_UPDATE may be what gives memory back. Then it is refused.

mod head;
mod incoming;
mod outgoing;
mod reading;
mod section;
mod shared;
mod stream;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_h2::message::SectionKind;
use steppe_h2::{
    BlockStart, Connection, ConnectionError, ConnectionMemory, ErrorCode, Event, LocalSettings,
    Memory, Role, StreamId, Truncation,
};
use steppe_mem::{Buffer, Reservation, Waiter};
use steppe_net::{Deadline, Transport, clock};

use self::head::ReceivedRequest;
use self::reading::{Reading, SCARCE_READ_BYTES};
use self::section::HeadSection;
use self::shared::{OpenStream, Shared};
use self::stream::ServerStream;
use super::priority::Priority;
use super::turns::Turns;
use super::websocket;
use super::windows::Windows;
use super::{Http2, PREFACE};
use crate::age::ages_at;
use crate::codec::DownstreamCodec;
use crate::config::ListenerTimeouts;
use crate::gateway::{self, Accepted, Completed, End, ListenerSettings, Rejected, Request};
use crate::head::ContentLength;
use crate::limits::{
    CONNECTION_STREAMS_PART, CONNECTIONS_LEAVE, H2_STREAM_BYTES, H2_STREAM_ROOM_BYTES,
    H2_UNSENT_BYTES, LINGER, LISTS_LEAVE, ROOM_PATIENCE, STREAMS_LEAVE,
};
use crate::linger::linger;
use crate::message::TO_PLAIN_HTTP;
use crate::metrics::CloseReason;

impl DownstreamCodec for Http2 {
    fn serve(&self, connection: Accepted) {
        let client = Rc::clone(&connection.client);
        client.spawn(serve(connection));
    }

    fn no_room(&self) -> &'static [u8] {
        NO_ROOM
    }

    fn to_plain_http(&self) -> &'static [u8] {
        TO_PLAIN_HTTP
    }

    fn preface(&self) -> &'static [u8] {
        PREFACE
    }

    fn alpn(&self) -> &'static [u8] {
        b"h2"
    }
}

/// Empty SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM for no stream (RFC 9113 §6.5, §6.8).
const NO_ROOM: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";

/// Bytes of a connection beside its streams: its state, its task, and what is kept for a budget without room.
const CONNECTION_BYTES: usize = size_of::<Shared>()
    + size_of::<ServerConnection<'_>>()
    + ConnectionMemory::reserved_bytes()
    + SCARCE_READ_BYTES;

/// Slices of one write.
const SLICES_MAX: usize = 16;

/// Reads of one poll, so that the tasks of a connection's streams have their turns.
const READS_MAX: usize = 4;

/// A connection, as its task sees it.
struct ServerConnection<'a> {
    transport: Transport,
    reading: Reading,
    shared: Rc<Shared>,
    deadline: &'a Deadline,
    /// The connection's charge, but for what its parts have.
    charge: Reservation,
    /// The charge has what comes with the first field block.
    is_serving: bool,
    /// A field block that waits for memory.
    waiting: Option<WaitingBlock>,
    /// The memory of a field block that is being received.
    begun: Option<BegunBlock>,
    /// More has come behind a block that waits for memory, and lies unread.
    has_more_unread: bool,
    /// Content that waits for memory.
    stuck: Option<StuckContent>,
    /// Since when there was no room for any block, and when the next one is refused.
    short_since: Option<Instant>,
    short_until: Instant,
    began_at: Instant,
    /// Since when there is no stream.
    idle_since: Option<Instant>,
    /// The time after which no further stream is taken.
    ages_at: Instant,
    /// When the peer took something last, and how much in all.
    written: (Instant, u64),
    is_blocked: bool,
    /// Since when a field block has come in part.
    block_since: Option<Instant>,
}

/// A field block that waits for memory.
struct WaitingBlock {
    start: BlockStart,
    waiter: Waiter,
}

/// A field block whose memory was found.
struct BegunBlock {
    began_at: Instant,
    /// Nothing follows it on its stream.
    is_whole: bool,
    charge: Reservation,
}

/// Content that waits for memory: neither its window's charge nor the budget has room for it.
struct StuckContent {
    stream: StreamId,
    bytes: usize,
    waiter: Waiter,
}

/// The event that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Another stream.
    Stream,
    /// Memory for a field block.
    Budget,
    /// The rest of a field block, or the client's first SETTINGS.
    Block,
    /// The peer, to take some of what is to be written.
    Write,
    /// The peer, to have read that it is over.
    End,
}

/// Why a connection ends before its client ends it.
type Ended = Option<CloseReason>;

#[expect(
    clippy::disallowed_methods,
    reason = "a connection begins, and the deadline of its preface; and it ends"
)]
async fn serve(accepted: Accepted) {
    let Accepted {
        mut transport,
        pending,
        client,
        deadline,
        traffic,
    } = accepted;
    let settings = client.settings();
    let reserved = reserve(&settings, &mut transport, &deadline, clock::now()).await;
    let mut charge = match reserved {
        Ok(charge) => charge,
        Err(None) => return,
        Err(Some(reason)) => {
            client.count_closed(reason);
            return transport.end_now(NO_ROOM);
        }
    };
    if let Err(error) = transport.limit_unsent_bytes(H2_UNSENT_BYTES) {
        tracing::debug!(%error, "cannot limit the unsent bytes of a socket");
    }
    let now = clock::now();
    let lease = settings.lease.clone();
    let reserve = charge.split(ConnectionMemory::reserved_bytes());
    let local = local_settings(&settings);
    let memory = Memory {
        lease: lease.clone(),
        reserve,
    };
    let connection = Connection::new(Role::Server, local, memory, now);
    let shared = Rc::new(Shared {
        client: Rc::clone(&client),
        connection: RefCell::new(connection),
        open: Cell::new(0),
        places: RefCell::default(),
        windows: Windows::new(lease.clone(), local.concurrent_streams_max as usize),
        turns: Turns::default(),
        traffic,
        task: RefCell::default(),
    });
    let mut connection = ServerConnection {
        transport,
        reading: Reading::new(pending, lease, charge.split(SCARCE_READ_BYTES)),
        shared: Rc::clone(&shared),
        deadline: &deadline,
        charge,
        is_serving: false,
        waiting: None,
        begun: None,
        has_more_unread: false,
        stuck: None,
        short_since: None,
        short_until: now,
        began_at: now,
        idle_since: None,
        ages_at: ages_at(now),
        written: (now, 0),
        is_blocked: false,
        block_since: None,
    };
    let ended = poll_fn(|cx| connection.poll(cx)).await;
    connection.cut_streams();
    match ended {
        Err(Some(reason)) => client.count_closed(reason),
        // What it was told last is to reach the client.
        Ok(()) => linger(&mut connection.transport, &deadline, clock::now()).await,
        Err(None) => {}
    }
}

/// The memory of a connection.
///
/// # Errors
/// There is none in time, or before the node drains; `None`: its client has left.
async fn reserve(
    settings: &ListenerSettings,
    transport: &mut Transport,
    deadline: &Deadline,
    now: Instant,
) -> Result<Reservation, Ended> {
    let lease = &settings.lease;
    let leaving = lease.account().limit_bytes() / CONNECTIONS_LEAVE;
    let mut waiter = Waiter::default();
    deadline.set(now, settings.timeouts.header);
    poll_fn(|cx| {
        let charge = lease.poll_reserve_leaving(cx, (CONNECTION_BYTES, leaving), &mut waiter);
        if let Poll::Ready(charge) = charge {
            return Poll::Ready(Ok(charge));
        }
        if transport.poll_closed(cx).is_ready() {
            return Poll::Ready(Err(None));
        }
        let is_over = deadline.poll_passed(cx).is_ready() || settings.drain.is_draining();
        if is_over {
            return Poll::Ready(Err(Some(CloseReason::OverBudget)));
        }
        Poll::Pending
    })
    .await
}

fn local_settings(settings: &ListenerSettings) -> LocalSettings {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // RFC 9113 §6.5.2 counts 32 octets a field line more than we do.
    let limits = &settings.limits;
    let section_bytes = limits.header_bytes + 32 * limits.header_count;
    // Pseudo-header fields are no fields of a head.
    const PSEUDO_MAX: usize = 6;
    LocalSettings {
        concurrent_streams_max: small(streams_max(settings)),
        section_bytes_max: small(section_bytes),
        section_lines_max: small(limits.header_count + PSEUDO_MAX),
    }
}

/// Streams that a client may have at once: those of one connection begin with a small part of the budget.
fn streams_max(settings: &ListenerSettings) -> usize {
    let part = settings.lease.account().limit_bytes() / CONNECTION_STREAMS_PART;
    let streams = usize::try_from(part).unwrap_or(usize::MAX) / H2_STREAM_ROOM_BYTES;
    settings.limits.streams.min(streams.max(1))
}

impl ServerConnection<'_> {
    /// Serves streams until the connection ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "once a poll of a connection; its streams begin then"
    )]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let now = clock::now();
        self.shared.task.borrow_mut().replace(cx.waker().clone());
        let read = self.poll_input(cx, now);
        self.change_windows();
        if let Poll::Ready(Err(_)) = self.poll_write(cx) {
            return Poll::Ready(Err(None));
        }
        if let Poll::Ready(ended) = read {
            return Poll::Ready(ended);
        }
        self.poll_deadline(cx, now)
    }

    /// Receives what comes. Ready when the connection is over.
    fn poll_input(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<(), Ended>> {
        for _ in 0..READS_MAX {
            if let Poll::Ready(ended) = self.receive(cx, now) {
                return Poll::Ready(ended);
            }
            let read = match self.waiting {
                Some(_) => ready!(self.poll_behind(cx)),
                None if self.stuck.is_some() => {
                    ready!(self.transport.poll_closed(cx));
                    Ok(0)
                }
                None if !self.shared.connection.borrow().takes_input() => {
                    ready!(self.poll_write(cx)).map_err(|_| None)?;
                    continue;
                }
                None => {
                    let reading = &mut self.reading;
                    ready!(reading.poll_read(cx, &mut self.transport, &self.shared.traffic))
                }
            };
            match read {
                // What it was told last is to reach the client, TLS's end included.
                Ok(0) => return Poll::Ready(Ok(())),
                Err(_) => return Poll::Ready(Err(None)),
                Ok(_) => {}
            }
        }
        // Streams go first; then there is more to read.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads behind a block that waits for memory, while nothing has come behind it.
    fn poll_behind(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let has_more = (self.shared.connection.borrow()).has_more_than_block(self.reading.bytes());
        let (transport, traffic) = (&mut self.transport, &self.shared.traffic);
        if !has_more && let Some(read) = self.reading.poll_read_behind(cx, transport, traffic) {
            return read;
        }
        self.has_more_unread = has_more || !transport.is_quiet(cx);
        ready!(transport.poll_closed(cx));
        Poll::Ready(Ok(0))
    }

    /// Takes the events of what was read. Ready when the connection is over.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<(), Ended>> {
        match self.waiting.take() {
            Some(waiting) => self.decide(cx, waiting, now),
            // The next that finds no room has the whole time.
            None => self.short_since = None,
        }
        let error = self.shared.connection.borrow().error();
        if let Some(error) = error {
            return self.poll_failed(cx, error);
        }
        if self.waiting.is_some() || self.poll_stuck(cx).is_pending() {
            return Poll::Pending;
        }
        loop {
            let input = self.reading.input();
            let received = self.shared.connection.borrow_mut().receive(input, now);
            let Ok(Some(event)) = received else {
                break;
            };
            self.take_event(cx, event, now);
            if self.waiting.is_some() {
                break;
            }
            if self.poll_stuck(cx).is_pending() {
                break;
            }
            if !self.shared.connection.borrow().is_amid_block() {
                self.begun = None;
            }
        }
        if !self.shared.connection.borrow().is_amid_block() {
            self.begun = None;
        }
        // An input that was received lies nowhere any more.
        self.reading.input();
        let error = self.shared.connection.borrow().error();
        match error {
            Some(error) => self.poll_failed(cx, error),
            None => Poll::Pending,
        }
    }

    /// The connection has ended by a violation.
    fn poll_failed(
        &mut self,
        cx: &mut Context<'_>,
        error: ConnectionError,
    ) -> Poll<Result<(), Ended>> {
        if error.code == ErrorCode::ENHANCE_YOUR_CALM {
            self.shared.client.count_closed(CloseReason::Flood);
        }
        let _ = self.poll_write(cx);
        Poll::Ready(Ok(()))
    }

    /// Ready when no content waits for memory.
    fn poll_stuck(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stuck) = &mut self.stuck else {
            return Poll::Ready(());
        };
        let mut connection = self.shared.connection.borrow_mut();
        let octets = u32::try_from(stuck.bytes).unwrap_or(u32::MAX);
        if !connection.can_receive(stuck.stream) {
            if let Some(input) = self.reading.input() {
                input.consume(stuck.bytes);
            }
            connection.release_content(stuck.stream, octets);
        } else {
            let lease = self.shared.windows.lease();
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

    fn take_event(&mut self, cx: &mut Context<'_>, event: Event<HeadSection>, now: Instant) {
        match event {
            Event::Begins(start) => {
                let waiter = Waiter::default();
                self.decide(cx, WaitingBlock { start, waiter }, now);
            }
            Event::Section {
                stream,
                kind: SectionKind::Request,
                section,
                truncation,
            } => {
                self.block_since = None;
                self.begin_stream(stream, section, truncation);
            }
            Event::Section {
                stream,
                section,
                truncation,
                ..
            } => {
                let mut connection = self.shared.connection.borrow_mut();
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.trailers = Some(head::trailers(section, truncation));
                }
            }
            Event::Content { stream, bytes } => self.take_content(stream, bytes),
            Event::End { stream } => {
                let mut connection = self.shared.connection.borrow_mut();
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.end();
                }
            }
            Event::Reset { stream, code, .. } => {
                let mut connection = self.shared.connection.borrow_mut();
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.cut(code);
                }
            }
            Event::Window(Some(stream)) => {
                let mut connection = self.shared.connection.borrow_mut();
                if let Some(inbox) = connection.stream_mut(stream) {
                    inbox.wake();
                }
            }
            // See `poll`: as many go on as there is room for.
            Event::Window(None) => {}
            Event::Settings => {
                let mut connection = self.shared.connection.borrow_mut();
                connection.streams_mut().for_each(|(_, inbox)| inbox.wake());
            }
            Event::Priority(update) => {
                let mut connection = self.shared.connection.borrow_mut();
                if let Some(inbox) = connection.stream_mut(update.stream) {
                    let value = std::iter::once(update.value());
                    inbox.priority = Some(Priority::of_request(value));
                    inbox.wake();
                }
            }
            Event::Pong(_) | Event::Goaway(_) => {}
        }
    }

    /// Finds memory for a field block; without it, the block waits, or is refused in the end.
    fn decide(&mut self, cx: &mut Context<'_>, mut block: WaitingBlock, now: Instant) {
        let lease = self.shared.windows.lease();
        let (bytes, part) = match block.start.kind {
            SectionKind::Request => {
                let length = match block.start.ends_stream {
                    true => ContentLength::Empty,
                    false => ContentLength::Unknown,
                };
                let lacking = self.shared.windows.lacking_bytes(length);
                (
                    H2_STREAM_BYTES + H2_STREAM_ROOM_BYTES + lacking,
                    STREAMS_LEAVE,
                )
            }
            SectionKind::Response | SectionKind::Trailers => (H2_STREAM_ROOM_BYTES, LISTS_LEAVE),
        };
        let more = match self.is_serving {
            true => 0,
            false => ConnectionMemory::serving_bytes(),
        };
        let bytes = bytes + more;
        let leaving = lease.account().limit_bytes() / part;
        let charge = lease.poll_reserve_leaving(cx, (bytes, leaving), &mut block.waiter);
        let mut connection = self.shared.connection.borrow_mut();
        if let Poll::Ready(mut charge) = charge
            && let Ok(section) = HeadSection::take(&mut charge)
        {
            self.short_since = None;
            self.is_serving = true;
            self.charge.join(charge.split(more));
            connection.accept(section);
            self.begun = Some(BegunBlock {
                began_at: now,
                is_whole: block.start.ends_stream,
                charge,
            });
            return;
        }
        let since = *self.short_since.get_or_insert(now);
        let timeout = self.shared.client.settings().timeouts.header;
        let has_more = self.has_more_unread || connection.has_more_than_block(self.reading.bytes());
        let patience = match has_more {
            true => timeout.min(ROOM_PATIENCE),
            false => timeout,
        };
        if now < since + patience {
            self.short_until = since + patience;
            self.waiting = Some(block);
            return;
        }
        // §8.7: a request in progress may have been processed.
        connection.refuse(match block.start.kind {
            SectionKind::Request => ErrorCode::REFUSED_STREAM,
            SectionKind::Response | SectionKind::Trailers => ErrorCode::ENHANCE_YOUR_CALM,
        });
        // The dynamic table follows what is refused, too.
        if more > 0 && self.charge.try_grow(more).is_err() {
            let reason = "there is no memory for the dynamic table";
            connection.fail(ErrorCode::ENHANCE_YOUR_CALM, reason);
        }
        self.is_serving = true;
        drop(connection);
        self.shared.client.count_closed(CloseReason::OverBudget);
    }

    /// Begins the exchange of a request.
    fn begin_stream(&mut self, id: StreamId, section: HeadSection, truncation: Option<Truncation>) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        let BegunBlock {
            began_at,
            is_whole,
            mut charge,
        } = begun;
        let mut received = ReceivedRequest::new(section, truncation);
        if is_whole {
            received = received.whole();
        }
        let windows = &self.shared.windows;
        let length = received.announced_length();
        let window = match length {
            ContentLength::Empty => Ok(None),
            length => {
                let lacking = windows.lacking_bytes(length).min(charge.bytes());
                let lacking = (lacking > 0).then(|| charge.split(lacking));
                windows.open(length, lacking).map(Some)
            }
        };
        let mut connection = self.shared.connection.borrow_mut();
        let Ok(window) = window else {
            connection.release(id, ErrorCode::REFUSED_STREAM);
            drop(connection);
            return self.shared.client.count_closed(CloseReason::OverBudget);
        };
        if let Some(inbox) = connection.stream_mut(id) {
            inbox.window = window;
        }
        drop(connection);
        let place = charge.split(H2_STREAM_BYTES.min(charge.bytes()));
        let open = OpenStream::new(&self.shared, id, place);
        let serving = serve_stream((open, charge), received, began_at);
        self.shared.client.spawn_part(serving);
    }

    /// Passes content to its stream.
    fn take_content(&mut self, id: StreamId, bytes: usize) {
        let mut connection = self.shared.connection.borrow_mut();
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
        match self.reading.take_content(bytes, lent) {
            Ok(chunk) => inbox.push(chunk),
            Err(lent) => {
                if let (Some(window), Some(lent)) = (&mut inbox.window, lent) {
                    window.take_back(lent, bytes);
                }
                self.stuck = Some(StuckContent {
                    stream: id,
                    bytes,
                    waiter: Waiter::default(),
                });
            }
        }
    }

    fn change_windows(&mut self) {
        let mut connection = self.shared.connection.borrow_mut();
        let content = connection.content_received();
        self.shared.windows.tell(content, |change| {
            connection.set_windows(change.stream, change.connection);
            Ok::<(), ()>(())
        });
    }

    /// Writes what waits. Ready when the kernel has it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let written = self.poll_write_all(cx);
        self.is_blocked = written.is_pending();
        if self.is_blocked {
            self.shared.turns.block();
            return written;
        }
        self.shared.turns.go_on();
        if self.shared.connection.borrow().connection_window() > 0 {
            self.shared.turns.open_window();
        }
        written
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut connection = self.shared.connection.borrow_mut();
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = connection.slices(&mut slices);
            if count == 0 {
                return self.transport.poll_flush(cx);
            }
            let written = ready!(self.transport.poll_write(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            connection.written(written);
            self.shared.traffic.written(written);
        }
    }

    /// Ready when the connection must end.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<(), Ended>> {
        let settings = self.shared.client.settings();
        let is_leaving = self.shared.connection.borrow().is_shutting_down();
        let has_failed = self.shared.connection.borrow().error().is_some();
        let is_over = settings.drain.is_draining() || now >= self.ages_at;
        if is_over && !is_leaving && !has_failed {
            return self.leave(cx);
        }
        if self.shared.open.get() == 0 && self.is_shut_down() {
            return Poll::Ready(Ok(()));
        }
        let Some((waits, until)) = self.waits(&settings.timeouts, now) else {
            self.deadline.clear();
            // A drain or a change of the configuration wakes it all the same.
            let _ = self.deadline.poll_passed(cx);
            return Poll::Pending;
        };
        self.deadline.set_at(Some(until));
        ready!(self.deadline.poll_passed(cx));
        match waits {
            Waits::Write => Poll::Ready(Err(Some(CloseReason::WriteStall))),
            Waits::End => Poll::Ready(Ok(())),
            // It is refused then, and with it all that find no memory either.
            Waits::Budget => self.poll(cx),
            Waits::Block => Poll::Ready(Err(Some(CloseReason::HeaderTimeout))),
            Waits::Stream if has_failed => Poll::Ready(Ok(())),
            Waits::Stream => {
                self.shared.client.count_closed(CloseReason::IdleTimeout);
                self.leave(cx)
            }
        }
    }

    /// The shutdown is over, and the client has it.
    fn is_shut_down(&self) -> bool {
        let connection = self.shared.connection.borrow();
        connection.is_shut_down() && connection.unwritten_bytes() == 0 && !self.is_blocked
    }

    /// The event that the connection waits for, and its deadline; `None`: exchanges have deadlines of their own.
    fn waits(&mut self, timeouts: &ListenerTimeouts, now: Instant) -> Option<(Waits, Instant)> {
        let connection = self.shared.connection.borrow();
        let written = connection.written_bytes();
        if written != self.written.1 || !self.is_blocked {
            self.written = (now, written);
        }
        let write =
            (self.is_blocked).then(|| (Waits::Write, self.written.0 + timeouts.write_stall));
        let budget = (self.waiting.is_some()).then_some((Waits::Budget, self.short_until));
        if !connection.is_amid_block() || budget.is_some() {
            self.block_since = None;
        } else {
            self.block_since.get_or_insert(now);
        }
        let block = (self.block_since).map(|since| (Waits::Block, since + timeouts.header));
        let preface =
            (!connection.peer().is_known).then(|| (Waits::Block, self.began_at + timeouts.header));
        let first = [write, budget, block, preface].into_iter().flatten();
        if let Some(first) = first.min_by_key(|&(_, at)| at) {
            return Some(first);
        }
        if self.shared.open.get() > 0 {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        Some(match connection.is_shutting_down() {
            true => (Waits::End, since + LINGER),
            false => (Waits::Stream, since + timeouts.idle),
        })
    }

    /// Takes no further streams, and says so twice (RFC 9113 §6.8).
    fn leave(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.idle_since = None;
        self.shared.connection.borrow_mut().shut_down();
        self.poll(cx)
    }

    /// The connection is over: its streams see that.
    fn cut_streams(&mut self) {
        let mut connection = self.shared.connection.borrow_mut();
        connection.fail(ErrorCode::NO_ERROR, "the connection is over");
        for (_, inbox) in connection.streams_mut() {
            inbox.cut(ErrorCode::CANCEL);
        }
        drop(connection);
        self.shared.turns.end();
    }
}

/// `room` is held until the exchange has taken what it begins with, lest other streams begin on it.
async fn serve_stream(
    (open, room): (OpenStream, Reservation),
    received: ReceivedRequest,
    began_at: Instant,
) {
    let shared = Rc::clone(&open.shared);
    let client = &*shared.client;
    let settings = client.settings();
    let deadline = client.add_deadline();
    let priority = received.priority();
    let is_to_head = received.is_to_head();
    let read = received.into_head(&settings);
    let mut stream = ServerStream::new(open, priority, settings);
    if is_to_head {
        stream.answer_to_head();
    }
    if let Ok(read) = &read
        && read.asks_for_tunnel()
    {
        let key = websocket::key_of(read).filter(|_| !read.is_connect());
        stream.ask_for_tunnel(key.map(<[u8]>::to_vec));
    }
    let completed = match read {
        Ok(head) => {
            let request = Request { head, began_at };
            let exchange = gateway::run(client, &deadline, &mut stream, request);
            begin_with(room, exchange).await
        }
        Err(rejection) => {
            let rejected = Rejected {
                error: rejection.error,
                began_at,
                request: rejection.view(),
            };
            let exchange = gateway::reject(client, &deadline, &mut stream, rejected);
            begin_with(room, exchange).await
        }
    };
    if completed.end == End::Aborted {
        return stream.abort();
    }
    // What the client sends yet would be answered by a reset, and some discard the response then.
    deadline.set(completed.at, LINGER);
    poll_fn(|cx| match stream.poll_drain(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => deadline.poll_passed(cx),
    })
    .await;
}

/// Holds `room` while `exchange` begins.
async fn begin_with(room: Reservation, exchange: impl Future<Output = Completed>) -> Completed {
    let mut exchange = pin!(exchange);
    let mut room = Some(room);
    poll_fn(|cx| {
        let polled = exchange.as_mut().poll(cx);
        room = None;
        polled
    })
    .await
}
