//! A connection's task: reads, hands events to the streams, writes, and ends.

use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use steppe_h2::message::SectionKind;
use steppe_h2::{
    BlockStart, ConnectionError, ConnectionMemory, ErrorCode, Event, StreamId, Truncation,
};
use steppe_mem::{Buffer, Reservation, Waiter};
use steppe_net::{Deadline, Transport, clock};

use super::head::{self, ReceivedRequest};
use super::reading::Reading;
use super::section::HeadSection;
use super::serving::BegunStream;
use super::shared::{OpenStream, Shared};
use super::tasks::StreamTasks;
use crate::age::ages_at;
use crate::config::ListenerTimeouts;
use crate::h2::priority::Priority;
use crate::head::ContentLength;
use crate::limits::{
    H2_STREAM_BYTES, H2_STREAM_ROOM_BYTES, LINGER, LISTS_LEAVE, ROOM_PATIENCE, STREAMS_LEAVE,
};
use crate::metrics::CloseReason;

/// Slices of one write.
const SLICES_MAX: usize = 16;

/// Time that tasks of streams are kept for others after the last stream.
const STREAM_TASKS_KEPT: Duration = Duration::from_secs(1);

/// Reads of one poll, so that the tasks of a connection's streams have their turns.
const READS_MAX: usize = 4;

/// A connection, as its task sees it.
pub(super) struct ServerConnection<'a> {
    transport: Transport,
    reading: Reading,
    shared: Rc<Shared>,
    tasks: Rc<StreamTasks>,
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
    /// Another stream, while tasks of streams are kept for it.
    KeptTasks,
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
pub(super) type Ended = Option<CloseReason>;

/// The parts that a connection begins with.
pub(super) struct ConnectionParts<'a> {
    pub(super) transport: Transport,
    pub(super) reading: Reading,
    pub(super) shared: Rc<Shared>,
    pub(super) deadline: &'a Deadline,
    /// The charge of the connection, but for what its parts have.
    pub(super) charge: Reservation,
}

impl<'a> ServerConnection<'a> {
    pub(super) fn new(parts: ConnectionParts<'a>, now: Instant) -> Self {
        Self {
            transport: parts.transport,
            reading: parts.reading,
            shared: parts.shared,
            tasks: Rc::default(),
            deadline: parts.deadline,
            charge: parts.charge,
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
        }
    }

    pub(super) fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Serves streams until the connection ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "once a poll of a connection; its streams begin then"
    )]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
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
            // See `poll_write`, which wakes as many as may write.
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
        // The last one is over.
        self.begun = None;
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
        let stream = BegunStream {
            open,
            room: charge,
            received,
            began_at,
        };
        StreamTasks::serve(&self.tasks, stream);
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
        if self.shared.connection.borrow().connection_send_window() > 0 {
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
            Waits::KeptTasks => {
                self.tasks.shrink();
                self.poll(cx)
            }
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
        let last = match connection.is_shutting_down() {
            true => (Waits::End, since + LINGER),
            false => (Waits::Stream, since + timeouts.idle),
        };
        let tasks =
            (!self.tasks.is_empty()).then_some((Waits::KeptTasks, since + STREAM_TASKS_KEPT));
        tasks.into_iter().chain([last]).min_by_key(|&(_, at)| at)
    }

    /// Takes no further streams, and says so twice (RFC 9113 §6.8).
    fn leave(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.idle_since = None;
        self.shared.connection.borrow_mut().shut_down();
        self.poll(cx)
    }

    /// The connection is over: its streams see that.
    pub(super) fn cut_streams(&mut self) {
        self.tasks.end();
        let mut connection = self.shared.connection.borrow_mut();
        connection.fail(ErrorCode::NO_ERROR, "the connection is over");
        for (_, inbox) in connection.streams_mut() {
            inbox.cut(ErrorCode::CANCEL);
        }
        drop(connection);
        self.shared.turns.end();
    }
}

/// A connection that is shed is dropped amid its streams.
impl Drop for ServerConnection<'_> {
    fn drop(&mut self) {
        self.cut_streams();
    }
}
