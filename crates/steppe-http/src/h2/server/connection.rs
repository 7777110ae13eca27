//! A connection's task: takes requests, and ends.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use steppe_h2::{BlockStart, ConnectionError, ErrorCode};
use steppe_net::{Deadline, Transport, clock};

use super::head::ReceivedRequest;
use super::serving::BegunStream;
use super::tasks::StreamTasks;
use crate::age::ages_at;
use crate::config::ListenerTimeouts;
use crate::gateway::ClientContext;
use crate::h2::endpoint::{Endpoint, EndpointParts, HeadMemory, ReceivedHead, Side};
use crate::h2::link::{Link, OpenStream};
use crate::head::ContentLength;
use crate::limits::{H2_STREAM_BYTES, H2_STREAM_ROOM_BYTES, LINGER, STREAMS_LEAVE};
use crate::metrics::CloseReason;

/// Time that tasks of streams are kept for others after the last stream.
const STREAM_TASKS_KEPT: Duration = Duration::from_secs(1);

/// A connection, as its task sees it.
pub(super) struct ServerConnection<'a> {
    endpoint: Endpoint,
    side: ServerSide,
    deadline: &'a Deadline,
    began_at: Instant,
    /// Since when there is no stream.
    idle_since: Option<Instant>,
    /// The time after which no further stream is taken.
    ages_at: Instant,
    /// When the peer took something last, and how much in all.
    written: (Instant, u64),
}

/// The side that takes requests.
struct ServerSide {
    client: Rc<ClientContext>,
    link: Rc<Link>,
    tasks: Rc<StreamTasks>,
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
pub(super) type ConnectionEnd = Option<CloseReason>;

impl Side for ServerSide {
    fn head_memory(&self, start: &BlockStart) -> HeadMemory {
        let length = match start.ends_stream {
            true => ContentLength::Empty,
            false => ContentLength::Unknown,
        };
        let lacking = self.link.windows.lacking_bytes(length);
        HeadMemory {
            bytes: H2_STREAM_BYTES + H2_STREAM_ROOM_BYTES + lacking,
            leaves: STREAMS_LEAVE,
        }
    }

    fn patience(&self) -> Duration {
        self.client.settings().timeouts.header
    }

    fn outlives_peer(&self) -> bool {
        false
    }

    /// Begins the exchange of a request.
    fn take_head(&mut self, head: ReceivedHead) {
        let ReceivedHead {
            stream: id,
            section,
            began_at,
            mut charge,
        } = head;
        let received = ReceivedRequest::new(section);
        let windows = &self.link.windows;
        let length = received.announced_length();
        let window = match length {
            ContentLength::Empty => Ok(None),
            length => {
                let lacking = windows.lacking_bytes(length).min(charge.bytes());
                let lacking = (lacking > 0).then(|| charge.split(lacking));
                windows.open(length, lacking).map(Some)
            }
        };
        let mut connection = self.link.connection.borrow_mut();
        let Ok(window) = window else {
            connection.release(id, ErrorCode::REFUSED_STREAM);
            drop(connection);
            return self.client.count_closed(CloseReason::OverBudget);
        };
        if let Some(inbox) = connection.stream_mut(id) {
            inbox.window = window;
        }
        drop(connection);
        let open = OpenStream::new(&self.link);
        let place = charge.split(H2_STREAM_BYTES.min(charge.bytes()));
        self.link.keep_place(place);
        let stream = BegunStream {
            client: Rc::clone(&self.client),
            open,
            id,
            room: charge,
            received,
            began_at,
        };
        StreamTasks::serve(&self.tasks, stream);
    }

    fn refused(&mut self, _: &BlockStart) {
        self.client.count_closed(CloseReason::OverBudget);
    }

    fn failed(&mut self, error: ConnectionError) {
        if error.code == ErrorCode::ENHANCE_YOUR_CALM {
            self.client.count_closed(CloseReason::Flood);
        }
    }
}

impl<'a> ServerConnection<'a> {
    pub(super) fn new(
        parts: EndpointParts,
        client: Rc<ClientContext>,
        deadline: &'a Deadline,
        now: Instant,
    ) -> Self {
        Self {
            side: ServerSide {
                client,
                link: Rc::clone(&parts.link),
                tasks: Rc::default(),
            },
            endpoint: Endpoint::new(parts, now),
            deadline,
            began_at: now,
            idle_since: None,
            ages_at: ages_at(now),
            written: (now, 0),
        }
    }

    pub(super) fn transport(&mut self) -> &mut Transport {
        &mut self.endpoint.transport
    }

    /// Serves streams until the connection ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "once a poll of a connection; its streams begin then"
    )]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        let now = clock::now();
        self.side.link.register(cx);
        let input = self.endpoint.poll_input(cx, &mut self.side, now);
        self.endpoint.change_windows();
        if let Poll::Ready(Err(_)) = self.endpoint.poll_write(cx) {
            return Poll::Ready(Err(None));
        }
        if let Poll::Ready(ended) = input {
            // What it was told last is to reach the client, TLS's end included.
            return Poll::Ready(ended.map_err(|_| None));
        }
        self.poll_deadline(cx, now)
    }

    /// Ready when the connection must end.
    fn poll_deadline(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), ConnectionEnd>> {
        let settings = self.side.client.settings();
        let is_leaving = self.side.link.connection.borrow().is_shutting_down();
        let has_failed = self.side.link.connection.borrow().error().is_some();
        let is_over = settings.drain.is_draining() || now >= self.ages_at;
        if is_over && !is_leaving && !has_failed {
            return self.leave(cx);
        }
        if self.side.link.open() == 0 && self.is_shut_down() {
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
                self.side.tasks.shrink();
                self.poll(cx)
            }
            Waits::Stream if has_failed => Poll::Ready(Ok(())),
            Waits::Stream => {
                self.side.client.count_closed(CloseReason::IdleTimeout);
                self.leave(cx)
            }
        }
    }

    /// The shutdown is over, and the client has it.
    fn is_shut_down(&self) -> bool {
        let connection = self.side.link.connection.borrow();
        connection.is_shut_down()
            && connection.unwritten_bytes() == 0
            && !self.endpoint.is_blocked()
    }

    /// The event that the connection waits for, and its deadline; `None`: exchanges have deadlines of their own.
    fn waits(&mut self, timeouts: &ListenerTimeouts, now: Instant) -> Option<(Waits, Instant)> {
        let block =
            (self.endpoint.block_since(now)).map(|since| (Waits::Block, since + timeouts.header));
        let connection = self.side.link.connection.borrow();
        let written = connection.written_bytes();
        let is_blocked = self.endpoint.is_blocked();
        if written != self.written.1 || !is_blocked {
            self.written = (now, written);
        }
        let write = is_blocked.then(|| (Waits::Write, self.written.0 + timeouts.write_stall));
        let budget = (self.endpoint.refuses_at()).map(|at| (Waits::Budget, at));
        let preface =
            (!connection.peer().is_known).then(|| (Waits::Block, self.began_at + timeouts.header));
        let first = [write, budget, block, preface].into_iter().flatten();
        if let Some(first) = first.min_by_key(|&(_, at)| at) {
            return Some(first);
        }
        if self.side.link.open() > 0 {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        let last = match connection.is_shutting_down() {
            true => (Waits::End, since + LINGER),
            false => (Waits::Stream, since + timeouts.idle),
        };
        let tasks =
            (!self.side.tasks.is_empty()).then_some((Waits::KeptTasks, since + STREAM_TASKS_KEPT));
        tasks.into_iter().chain([last]).min_by_key(|&(_, at)| at)
    }

    /// Takes no further streams, and says so twice (RFC 9113 §6.8).
    fn leave(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        self.idle_since = None;
        self.side.link.connection.borrow_mut().shut_down();
        self.poll(cx)
    }

    /// The connection is over: its streams see that.
    pub(super) fn cut_streams(&mut self) {
        self.side.tasks.end();
        self.endpoint.cut_streams();
    }

    /// See [`Endpoint::write_goaway`].
    pub(super) async fn write_goaway(&mut self) {
        self.endpoint.write_goaway().await;
    }
}

/// A connection that is shed is dropped amid its streams.
impl Drop for ServerConnection<'_> {
    fn drop(&mut self) {
        self.cut_streams();
    }
}
