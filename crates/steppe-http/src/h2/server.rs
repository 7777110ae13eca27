//! Faces a client: a task for the connection, and one for each stream.

mod stream;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request as HttpRequest;
use steppe_mem::{Lease, Reservation, Waiter};
use steppe_net::{Deadline, Transport, clock};

use self::stream::ServerStream;
use super::backlog::Backlog;
use super::carrier::Carrier;
use super::content::Piece;
use super::gate::{Admits, Gate};
use super::priority::Priority;
use super::turns::Turns;
use super::windows::{Window, Windows};
use super::{Http2, PREFACE, head};
use crate::age::ages_at;
use crate::codec::DownstreamCodec;
use crate::config::ListenerTimeouts;
use crate::gateway::{
    self, Accepted, ClientContext, Completed, End, ListenerSettings, Rejected, Request,
};
use crate::head::ContentLength;
use crate::limits::{
    CONNECTION_STREAMS_PART, CONNECTIONS_LEAVE, DATA_FRAME_BUDGET, H2_CONNECTION_BYTES,
    H2_STREAM_BYTES, H2_STREAM_ROOM_BYTES, H2_STREAM_SEND_BYTES_MAX, H2_UNSENT_BYTES, LINGER,
    LOCAL_RESETS_MAX, STREAM_WINDOW_BYTES_MIN, STREAMS_LEAVE,
};
use crate::linger::linger;
use crate::message::TO_PLAIN_HTTP;
use crate::metrics::{CloseReason, CountedStream, Traffic};

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

/// State that all streams of a connection share.
struct Shared {
    client: Rc<ClientContext>,
    /// Streams whose exchange is not over.
    open: Cell<usize>,
    /// The charge of the places that the crate keeps, for the most of them at once.
    places: RefCell<Option<Reservation>>,
    windows: Windows,
    turns: Turns,
    backlog: Backlog,
    traffic: Traffic,
    /// The connection's task, for when there are none any more.
    task: RefCell<Option<Waker>>,
}

/// A connection, as its task sees it.
struct ServerConnection<'a> {
    h2: Connection<Carrier, Piece>,
    carrier: Carrier,
    shared: Rc<Shared>,
    deadline: &'a Deadline,
    /// Begun by the client, and not by us: there is no memory for it. No further one is taken.
    waiting: Option<WaitingStream>,
    /// Since when there was none for any.
    short_since: Option<Instant>,
    /// Since when there is no stream.
    idle_since: Option<Instant>,
    /// The time after which no further stream is taken.
    ages_at: Instant,
    /// When the peer took something last, and how much in all.
    written: (Instant, u64),
    /// Since when a header list has come in part.
    list_since: Option<Instant>,
    is_leaving: bool,
}

/// A stream that waits for budget.
struct WaitingStream {
    request: HttpRequest<RecvStream>,
    respond: SendResponse<Piece>,
    began_at: Instant,
    /// The part of its window that is not reserved yet.
    lacking: usize,
    /// Room that it begins with.
    room: usize,
    /// The charge for its head as the crate has it, where that was reserved before it came.
    _head: Option<Reservation>,
    waiter: Waiter,
}

/// The event that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Another stream.
    Stream,
    /// Memory for the stream that has come, or for a header list.
    Budget,
    /// The rest of a header list.
    List,
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
        transport,
        pending,
        client,
        deadline,
        traffic,
    } = accepted;
    let settings = client.settings();
    let mut transport = transport;
    let reserved = reserve(&settings, &mut transport, &deadline, clock::now()).await;
    let charge = match reserved {
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
    deadline.set(now, settings.timeouts.header);
    let streams_max = streams_max(&settings);
    let gate = Gate::new(
        settings.lease.clone(),
        list_bytes_max(&settings),
        Some(streams_max),
    );
    let carrier = Carrier::new(
        (transport, pending),
        (settings.lease.clone(), traffic.clone(), charge),
        (gate, PREFACE.len()),
        now,
    );
    let windows = Windows::new(settings.lease.clone(), streams_max);
    let turns = Turns::default();
    let ended = match establish(&carrier, &deadline, &settings).await {
        Ok(h2) => {
            let shared = Rc::new(Shared {
                client: Rc::clone(&client),
                open: Cell::new(0),
                places: RefCell::default(),
                windows,
                turns: turns.clone(),
                backlog: carrier.backlog(),
                traffic,
                task: RefCell::default(),
            });
            let mut connection = ServerConnection {
                h2,
                carrier: carrier.clone(),
                shared,
                deadline: &deadline,
                waiting: None,
                short_since: None,
                idle_since: Some(now),
                ages_at: ages_at(now),
                written: (now, 0),
                list_since: None,
                is_leaving: false,
            };
            poll_fn(|cx| connection.poll(cx)).await
        }
        Err(ended) => Err(ended),
    };
    turns.end();
    match ended {
        Err(Some(reason)) => client.count_closed(reason),
        // What it was told last is to reach the client.
        Ok(()) | Err(None) => {
            if let Some(mut transport) = carrier.into_transport() {
                linger(&mut transport, &deadline, clock::now()).await;
            }
        }
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
    let (lease, bytes) = (&settings.lease, H2_CONNECTION_BYTES);
    let mut waiter = Waiter::default();
    deadline.set(now, settings.timeouts.header);
    poll_fn(|cx| {
        if let Poll::Ready(charge) = poll_begin(cx, lease, bytes, CONNECTIONS_LEAVE, &mut waiter) {
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

/// Reserves `bytes` for what begins, while one part of the budget, of so many, is left to those that
/// have begun.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn poll_begin(
    cx: &mut Context<'_>,
    lease: &Lease,
    bytes: usize,
    part: u64,
    waiter: &mut Waiter,
) -> Poll<Reservation> {
    let leaving = lease.account().limit_bytes() / part;
    lease.poll_reserve_leaving(cx, (bytes, leaving), waiter)
}

/// Reads the client's preface, and sends ours.
async fn establish(
    carrier: &Carrier,
    deadline: &Deadline,
    settings: &ListenerSettings,
) -> Result<Connection<Carrier, Piece>, Ended> {
    let mut handshake = pin!(builder(settings).handshake::<_, Piece>(carrier.clone()));
    poll_fn(|cx| {
        let established = handshake.as_mut().poll(cx);
        let _ = carrier.poll_send(cx);
        match established {
            Poll::Ready(established) => Poll::Ready(established.map_err(|_| None)),
            Poll::Pending => {
                ready!(deadline.poll_passed(cx));
                Poll::Ready(Err(Some(CloseReason::HeaderTimeout)))
            }
        }
    })
    .await
}

/// Streams that a client may have at once: those of one connection begin with a small part of the budget.
fn streams_max(settings: &ListenerSettings) -> usize {
    let part = settings.lease.account().limit_bytes() / CONNECTION_STREAMS_PART;
    let streams = usize::try_from(part).unwrap_or(usize::MAX) / H2_STREAM_ROOM_BYTES;
    settings.limits.streams.min(streams.max(1))
}

/// Bytes of a header list as RFC 9113 §6.5.2 counts them: 32 a field more than we do.
fn list_bytes_max(settings: &ListenerSettings) -> usize {
    settings.limits.header_bytes + head::FIELD_OVERHEAD * settings.limits.header_count
}

fn builder(settings: &ListenerSettings) -> Builder {
    let small = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        .enable_connect_protocol()
        // The last resort: what waits is bounded by what is read.
        .data_frame_budget(DATA_FRAME_BUDGET)
        .max_concurrent_streams(small(streams_max(settings)))
        .max_header_list_size(small(list_bytes_max(settings)))
        .max_send_buffer_size(H2_STREAM_SEND_BYTES_MAX)
        .max_local_error_reset_streams(Some(LOCAL_RESETS_MAX))
        .initial_window_size(STREAM_WINDOW_BYTES_MIN)
        .initial_connection_window_size(STREAM_WINDOW_BYTES_MIN);
    builder
}

impl ServerConnection<'_> {
    /// Accepts streams until the connection ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "once a poll of a connection; its streams begin then"
    )]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let now = clock::now();
        self.carrier.set_now(now);
        *self.shared.task.borrow_mut() = Some(cx.waker().clone());
        loop {
            // Written with whatever else this turn has.
            self.change_windows();
            if let Poll::Ready(ended) = self.poll_streams(cx, now) {
                // The crate ends some floods before they are counted here.
                if let Err(error) = ended
                    && error.is_library()
                    && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
                {
                    self.shared.client.count_closed(CloseReason::Flood);
                }
                let _ = self.carrier.poll_send(cx);
                return Poll::Ready(Ok(()));
            }
            if self.carrier.progress().flood.is_some() && !self.is_leaving {
                self.is_leaving = true;
                self.shared.client.count_closed(CloseReason::Flood);
                self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                continue;
            }
            if !self.shared.windows.is_untold() {
                break;
            }
        }
        if let Poll::Ready(Err(_)) = self.carrier.poll_send(cx) {
            return Poll::Ready(Err(None));
        }
        if self.carrier.poll_left(cx).is_ready() {
            return Poll::Ready(Err(None));
        }
        self.shared.turns.follow(self.carrier.progress());
        self.poll_deadline(cx, now)
    }

    /// Begins streams, as far as there is memory for them. Ready when the connection ends.
    fn poll_streams(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<(), h2::Error>> {
        loop {
            if let Some(stream) = self.waiting.take() {
                self.begin_stream(cx, stream, now);
            }
            let admits = self.admits(now);
            self.carrier.set_admits(admits);
            if self.waiting.is_some() {
                let closed = self.h2.poll_closed(cx);
                self.carrier.charge_lists();
                return closed;
            }
            let accepted = self.h2.poll_accept(cx);
            self.carrier.charge_lists();
            let Poll::Ready(accepted) = accepted else {
                if self.carrier.has_head() {
                    // The crate has refused it by itself.
                    drop(self.carrier.take_head());
                    continue;
                }
                self.shared.backlog.forget_refused();
                if !self.carrier.progress().is_short {
                    // No stream waits: the next that does has the whole time.
                    self.short_since = None;
                } else if self.is_short_for_long(now) {
                    continue;
                }
                return Poll::Pending;
            };
            match accepted {
                Some(Ok(accepted)) => self.waiting = Some(self.keep_waiting(accepted, now)),
                ended => return Poll::Ready(ended.map_or(Ok(()), |ended| ended.map(drop))),
            }
        }
    }

    /// Which heads may be read.
    fn admits(&mut self, now: Instant) -> Admits {
        if self.waiting.is_some() {
            Admits::None
        } else if self.short_since.is_some() && self.is_short_for_long(now) {
            Admits::ToRefuse
        } else {
            Admits::Reserved
        }
    }

    /// True when there was no memory for any stream, from now on at the latest, for as long as one waits.
    fn is_short_for_long(&mut self, now: Instant) -> bool {
        let timeout = self.shared.client.settings().timeouts.header;
        now >= *self.short_since.get_or_insert(now) + timeout
    }

    fn keep_waiting(
        &self,
        (request, respond): (HttpRequest<RecvStream>, SendResponse<Piece>),
        now: Instant,
    ) -> WaitingStream {
        self.shared.backlog.open(respond.stream_id().as_u32());
        let length = head::announced_length(&request);
        let head_bytes = head::map_memory(request.headers());
        let reserved = self.carrier.take_head().map(|mut reserved| {
            reserved.shrink(reserved.bytes().saturating_sub(head_bytes));
            reserved
        });
        WaitingStream {
            request,
            respond,
            began_at: now,
            lacking: self.shared.windows.lacking_bytes(length),
            // Half of the usual room is for the crate's form of a head.
            room: H2_STREAM_ROOM_BYTES + head_bytes.saturating_sub(H2_STREAM_ROOM_BYTES / 2),
            _head: reserved,
            waiter: Waiter::default(),
        }
    }

    fn change_windows(&mut self) {
        let content = self.carrier.progress().content;
        self.shared.windows.tell(content, |change| {
            self.h2.set_target_window_size(change.connection);
            change
                .stream
                .map_or(Ok(()), |bytes| self.h2.set_initial_window_size(bytes))
        });
    }

    /// Ready when the connection must end.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<(), Ended>> {
        let settings = self.shared.client.settings();
        let is_over = settings.drain.is_draining() || now >= self.ages_at;
        if is_over && !self.is_leaving {
            return self.leave(cx);
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
            Waits::List => Poll::Ready(Err(Some(CloseReason::HeaderTimeout))),
            Waits::Stream => {
                self.shared.client.count_closed(CloseReason::IdleTimeout);
                self.leave(cx)
            }
        }
    }

    /// The event that the connection waits for, and its deadline; `None`: exchanges have deadlines
    /// of their
    /// own.
    fn waits(&mut self, timeouts: &ListenerTimeouts, now: Instant) -> Option<(Waits, Instant)> {
        let progress = self.carrier.progress();
        if progress.written != self.written.1 || !progress.is_blocked {
            self.written = (now, progress.written);
        }
        let write =
            (progress.is_blocked).then(|| (Waits::Write, self.written.0 + timeouts.write_stall));
        let budget = (self
            .short_since
            .filter(|_| self.waiting.is_some() || progress.is_short))
        .map(|since| (Waits::Budget, since + timeouts.header));
        if !progress.has_part_of_list || budget.is_some() {
            self.list_since = None;
        } else {
            self.list_since.get_or_insert(now);
        }
        let list = (self.list_since).map(|since| (Waits::List, since + timeouts.header));
        if write.is_some() || budget.is_some() || list.is_some() {
            return [write, budget, list]
                .into_iter()
                .flatten()
                .min_by_key(|&(_, at)| at);
        }
        if self.shared.open.get() > 0 {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        Some(if self.is_leaving {
            (Waits::End, since + LINGER)
        } else {
            (Waits::Stream, since + timeouts.idle)
        })
    }

    /// Takes no further streams, and says so twice (RFC 9113 §6.8).
    fn leave(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.is_leaving = true;
        self.idle_since = None;
        self.h2.graceful_shutdown();
        self.poll(cx)
    }

    /// Begins a stream, or keeps it where it has to wait for budget, which there was in time for
    /// some stream.
    fn begin_stream(&mut self, cx: &mut Context<'_>, mut stream: WaitingStream, now: Instant) {
        let (lacking, room) = (stream.lacking, stream.room);
        let bytes = room + lacking;
        let lease = self.shared.windows.lease();
        let charge = poll_begin(cx, &lease, bytes, STREAMS_LEAVE, &mut stream.waiter);
        let Poll::Ready(mut charge) = charge else {
            if self.is_short_for_long(now) {
                self.refuse_stream(stream);
            } else if stream.respond.poll_reset(cx).is_pending() {
                self.waiting = Some(stream);
            } else {
                self.close_stream(&stream);
            }
            return;
        };
        self.short_since = None;
        let lacking = (lacking > 0).then(|| charge.split(lacking));
        let room = charge.split(room - H2_STREAM_BYTES);
        let window = match head::announced_length(&stream.request) {
            ContentLength::Empty => Ok(None),
            length => self.shared.windows.open(length, lacking).map(Some),
        };
        let Ok(window) = window else {
            return self.refuse_stream(stream);
        };
        let open = OpenStream::new(&self.shared, charge);
        let WaitingStream {
            request,
            respond,
            began_at,
            ..
        } = stream;
        let stream = (request, respond, window);
        let serving = serve_stream((open, room), stream, began_at);
        self.shared.client.spawn_part(serving);
    }

    /// Refuses whatever the stream receives from now on.
    fn close_stream(&self, stream: &WaitingStream) {
        let number = stream.respond.stream_id().as_u32();
        self.shared.backlog.close(number);
    }

    /// There is no memory for it: the client may send it again (RFC 9113 §8.7).
    fn refuse_stream(&self, mut stream: WaitingStream) {
        self.close_stream(&stream);
        self.shared.client.count_closed(CloseReason::OverBudget);
        stream.respond.send_reset(Reason::REFUSED_STREAM);
    }
}

/// Counts a stream for as long as its exchange lasts.
struct OpenStream {
    shared: Rc<Shared>,
    _counted: CountedStream,
}

impl OpenStream {
    /// `place`: of [`H2_STREAM_BYTES`]. The connection keeps as many as the most streams that it had at once.
    fn new(shared: &Rc<Shared>, place: Reservation) -> Self {
        let open = shared.open.get() + 1;
        shared.open.set(open);
        let places = &mut *shared.places.borrow_mut();
        let charged_bytes = places.as_ref().map_or(0, Reservation::bytes);
        if open * H2_STREAM_BYTES > charged_bytes {
            place.join_into(places);
        }
        Self {
            shared: Rc::clone(shared),
            _counted: shared.traffic.stream(),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = &self.shared.open;
        open.set(open.get() - 1);
        if open.get() == 0
            && let Some(task) = self.shared.task.take()
        {
            task.wake();
        }
    }
}

/// `room` is held until the exchange has taken what it begins with, lest other streams begin on it.
async fn serve_stream(
    (open, mut room): (OpenStream, Reservation),
    (request, respond, window): (HttpRequest<RecvStream>, SendResponse<Piece>, Option<Window>),
    began_at: Instant,
) {
    let shared = &open.shared;
    let client = &*shared.client;
    let settings = client.settings();
    let deadline = client.add_deadline();
    let read = head::request(&request, &settings, &mut room);
    let is_to_head = request.method() == http::Method::HEAD;
    let lines = request.headers().get_all("priority").iter();
    let priority = Priority::of_request(lines.map(http::HeaderValue::as_bytes));
    // Its head is of no more use.
    let content = (request.into_body(), window, shared.backlog.clone());
    let turn = (shared.turns.clone(), priority);
    let mut stream = ServerStream::new(content, respond, turn, settings);
    if is_to_head {
        stream.answer_to_head();
    }
    if let Ok(read) = &read
        && read.asks_for_tunnel()
    {
        let key = head::key_of(read).filter(|_| !read.is_connect());
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
