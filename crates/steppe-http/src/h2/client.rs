//! Faces a server: one connection for many exchanges, and a task that moves its bytes.

mod shared;
mod stream;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use steppe_net::clock;
use tokio::task::spawn_local;
use tokio::time::{Sleep, sleep};

use self::shared::Shared;
use self::stream::ClientStream;
use super::Http2;
use super::carrier::Carrier;
use super::content::Piece;
use super::gate::Gate;
use super::head::FIELD_OVERHEAD;
use super::silence::{Look, Owes, Silence};
use crate::limits::{
    DATA_FRAME_BUDGET, H2_STREAM_SEND_BYTES_MAX, LOCAL_RESETS_MAX, PING_AFTER, RESPONSE_FIELDS_MAX,
    RESPONSE_HEAD_BYTES_MAX, STREAM_WINDOW_BYTES_MIN, UPSTREAM_STREAMS_MAX,
};
use crate::upstream::channel::{Channel, Established, UpstreamCodec, UpstreamStream};

/// A connection, while a pool keeps it.
struct ClientChannel {
    /// `None` where there never was one.
    requests: Option<SendRequest<Piece>>,
    shared: Rc<Shared>,
}

impl UpstreamCodec for Http2 {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let shared = Rc::new(Shared::new(&connection));
        let established = establish(connection);
        let requests = established.map(|(requests, mut h2, carrier)| {
            shared.backlog.replace(Some(carrier.backlog()));
            let task = Task {
                ping: h2.ping_pong(),
                h2,
                silence: Silence::new(),
                look_at: Box::pin(sleep(PING_AFTER)),
                carrier,
                shared: Rc::clone(&shared),
                requests: Some(requests.clone()),
            };
            spawn_local(task.run());
            requests
        });
        Box::new(ClientChannel { requests, shared })
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Bytes of a header list as RFC 9113 §6.5.2 counts them.
const LIST_BYTES_MAX: usize = RESPONSE_HEAD_BYTES_MAX + FIELD_OVERHEAD * RESPONSE_FIELDS_MAX;

type Client = (SendRequest<Piece>, Connection<Carrier, Piece>, Carrier);

/// `None` where there is no memory for it.
#[expect(clippy::disallowed_methods, reason = "a connection begins")]
fn establish(connection: Established) -> Option<Client> {
    let Established {
        transport,
        lease,
        traffic,
        ..
    } = connection;
    let charge = lease.try_reserve(crate::limits::H2_CONNECTION_BYTES).ok()?;
    let h2 = builder();
    let gate = Gate::new(lease.clone(), LIST_BYTES_MAX);
    let charged = (lease, traffic, charge);
    let carrier = Carrier::new(transport, charged, gate, clock::now());
    let handshake = pin!(h2.handshake::<_, Piece>(carrier.clone()));
    // It writes the preface, which is gathered, and waits for nothing.
    let mut cx = Context::from_waker(Waker::noop());
    match handshake.poll(&mut cx) {
        Poll::Ready(Ok((requests, h2))) => Some((requests, h2, carrier)),
        Poll::Ready(Err(_)) | Poll::Pending => None,
    }
}

fn builder() -> Builder {
    let small = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        // The last resort: what waits is bounded by what is read.
        .data_frame_budget(DATA_FRAME_BUDGET)
        .max_header_list_size(small(LIST_BYTES_MAX))
        .max_send_buffer_size(H2_STREAM_SEND_BYTES_MAX)
        .max_local_error_reset_streams(Some(LOCAL_RESETS_MAX))
        .initial_window_size(STREAM_WINDOW_BYTES_MIN)
        .initial_connection_window_size(STREAM_WINDOW_BYTES_MIN);
    builder
}

/// Moves the bytes of a connection until it ends.
struct Task {
    h2: Connection<Carrier, Piece>,
    carrier: Carrier,
    shared: Rc<Shared>,
    silence: Silence,
    /// The time of the next check that the server is alive.
    look_at: Pin<Box<Sleep>>,
    ping: Option<PingPong>,
    /// Keeps the connection from ending while the pool has it.
    requests: Option<SendRequest<Piece>>,
}

impl Task {
    async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        self.shared.turns.end();
        self.shared.close();
    }

    #[expect(clippy::disallowed_methods, reason = "once a poll of a connection")]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::now();
        self.carrier.set_now(now);
        // Written with whatever else this turn has.
        self.change_windows();
        *self.shared.task.borrow_mut() = Some(cx.waker().clone());
        if self.shared.is_abandoned.get() {
            // It ends with its last stream.
            self.requests = None;
        }
        let ended = Pin::new(&mut self.h2).poll(cx);
        self.carrier.charge_lists();
        if ended.is_ready() {
            let _ = self.carrier.poll_send(cx);
            return Poll::Ready(());
        }
        let progress = self.carrier.progress();
        if progress.has_settings {
            self.shared.settle();
        }
        if progress.is_goaway || progress.flood.is_some() {
            self.shared.close();
        }
        if progress.flood.is_some() || matches!(self.carrier.poll_send(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(());
        }
        self.shared.turns.follow(self.carrier.progress());
        self.poll_silence(cx, now)
    }

    /// Ready where the server has gone without a word.
    fn poll_silence(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        // The crate has to see an answer before it sends another PING.
        if let Some(ping) = &mut self.ping {
            let _ = ping.poll_pong(cx);
        }
        loop {
            ready!(self.look_at.as_mut().poll(cx));
            let progress = self.carrier.progress();
            let owes = match self.shared.open.get() {
                _ if progress.is_held => Owes::Unread,
                0 => Owes::Nothing,
                _ => Owes::Response,
            };
            let at = match self.silence.look(progress.read, owes, now) {
                Look::Gone => return Poll::Ready(()),
                Look::Again(at) => at,
                Look::Ask(at) => {
                    if let Some(ping) = &mut self.ping {
                        let _ = ping.send_ping(Ping::opaque());
                    }
                    at
                }
            };
            self.look_at.as_mut().reset(at.into());
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
}

impl Channel for ClientChannel {
    fn capacity(&self) -> usize {
        match &self.requests {
            Some(requests) if !self.shared.is_closed.get() => {
                let allowed = requests.current_max_send_streams();
                (allowed.min(UPSTREAM_STREAMS_MAX)).saturating_sub(self.shared.open.get())
            }
            _ => 0,
        }
    }

    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        *self.shared.pool.borrow_mut() = Some(cx.waker().clone());
        self.requests.is_some() && !self.shared.is_closed.get()
    }

    fn open_stream(self: Box<Self>) -> (Box<dyn UpstreamStream>, Option<Box<dyn Channel>>) {
        let stream = ClientStream::new(self.requests.clone(), Rc::clone(&self.shared));
        (Box::new(stream), Some(self))
    }
}

impl Drop for ClientChannel {
    fn drop(&mut self) {
        self.requests = None;
        self.shared.is_abandoned.set(true);
        if let Some(waker) = self.shared.task.take() {
            waker.wake();
        }
    }
}

impl fmt::Debug for ClientChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HTTP/2 with a server, {} streams",
            self.shared.open.get()
        )
    }
}
