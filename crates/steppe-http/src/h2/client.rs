//! Faces a server: one connection for many exchanges, and a task that moves its bytes.
//!
//! Streams reach the connection directly, as in `server`; the task reads, hands what has come to them, and writes what
//! they have put. A response's head is received in memory of its own, leaving a part of the budget to others.

mod head;
mod place;
mod shared;
mod stream;
mod unsent;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use steppe_h2::{
    BlockStart, Connection, ConnectionError, ConnectionMemory, LocalSettings, Memory, Role,
};
use steppe_net::clock;
use tokio::task::spawn_local;
use tokio::time::{Sleep, sleep};

use self::place::Places;
use self::shared::Shared;
use self::stream::ClientStream;
use super::Http2;
use super::endpoint::{Endpoint, EndpointParts, HeadMemory, ReceivedHead, Side};
use super::head::{FIELD_OVERHEAD, PSEUDO_MAX};
use super::inbox::Inbox;
use super::link::Link;
use super::reading::{ConnectionInput, SCARCE_READ_BYTES};
use super::silence::{Look, Owes, Silence};
use super::windows::Windows;
use crate::limits::{
    H2_STREAM_ROOM_BYTES, H2_UNSENT_BYTES, LISTS_LEAVE, PING_AFTER, RESPONSE_FIELDS_MAX,
    RESPONSE_HEAD_BYTES_MAX, ROOM_PATIENCE, UPSTREAM_STREAMS_MAX,
};
use crate::upstream::channel::{Channel, Established, UpstreamCodec, UpstreamStream};

/// Bytes of a connection beside its streams: its state, its task, and what is kept for a budget without room.
const CONNECTION_BYTES: usize = size_of::<Shared>()
    + size_of::<Link>()
    + size_of::<ClientConnection>()
    + ConnectionMemory::reserved_bytes()
    + ConnectionMemory::serving_bytes()
    + SCARCE_READ_BYTES;

/// The opaque data of a PING.
const PING: [u8; 8] = *b"steppe\0\0";

/// A connection, while a pool keeps it.
struct ClientChannel {
    shared: Rc<Shared>,
    places: Rc<Places>,
}

impl UpstreamCodec for Http2 {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let connection = ClientConnection::new(connection);
        let shared = Rc::clone(&connection.side.shared);
        spawn_local(connection.run());
        Box::new(ClientChannel {
            shared,
            places: Rc::default(),
        })
    }

    fn connection_bytes(&self) -> usize {
        CONNECTION_BYTES
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A connection, as its task sees it.
struct ClientConnection {
    endpoint: Endpoint,
    side: ClientSide,
    silence: Silence,
    /// The time of the next check that the server is alive.
    look_at: Pin<Box<Sleep>>,
    /// When the field block that waits for memory is refused.
    refuses_at: Option<Pin<Box<Sleep>>>,
}

/// The side that sends requests.
struct ClientSide {
    shared: Rc<Shared>,
}

impl Side for ClientSide {
    fn head_memory(&self, _: &BlockStart) -> HeadMemory {
        HeadMemory {
            bytes: H2_STREAM_ROOM_BYTES,
            leaves: LISTS_LEAVE,
        }
    }

    fn patience(&self) -> Duration {
        ROOM_PATIENCE
    }

    /// Servers respond and close.
    fn outlives_peer(&self) -> bool {
        true
    }

    fn take_head(&mut self, head: ReceivedHead) {
        let ReceivedHead {
            stream, section, ..
        } = head;
        let link = &self.shared.link;
        let is_to_head = |inbox: &mut Inbox| inbox.is_to_head;
        let is_to_head = (link.connection.borrow_mut().stream_mut(stream)).is_some_and(is_to_head);
        let length = head::announced_length(&section).filter(|_| !is_to_head);
        let window = length.map(|length| link.windows.open(length, None));
        let mut connection = link.connection.borrow_mut();
        let Some(inbox) = connection.stream_mut(stream) else {
            return;
        };
        match window.transpose() {
            Ok(None) => {}
            Ok(window) => inbox.window = window,
            // The peer may send what there is no memory for.
            Err(_) => inbox.is_over_budget = true,
        }
        inbox.push_section(section);
    }

    fn refused(&mut self, start: &BlockStart) {
        let mut connection = self.shared.link.connection.borrow_mut();
        if let Some(inbox) = connection.stream_mut(start.stream) {
            inbox.is_over_budget = true;
        }
    }

    fn peer_changed(&mut self) {
        if self.shared.link.connection.borrow().goaway().is_some() {
            self.shared.close();
        }
        self.shared.wake_waiting();
        self.shared.wake_pool();
    }

    fn failed(&mut self, error: ConnectionError) {
        tracing::debug!(%error, "a server breaks the protocol of HTTP/2");
    }
}

impl ClientConnection {
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    fn new(established: Established) -> Self {
        let Established {
            transport,
            is_secure,
            lease,
            mut charge,
            traffic,
        } = established;
        if let Err(error) = transport.limit_unsent_bytes(H2_UNSENT_BYTES) {
            tracing::debug!(%error, "cannot limit the unsent bytes of a socket");
        }
        let scheme: &[u8] = if is_secure { b"https" } else { b"http" };
        let now = clock::now();
        let memory = Memory {
            lease: lease.clone(),
            reserve: charge.split(ConnectionMemory::reserved_bytes()),
        };
        let connection = Connection::new(Role::Client, local_settings(), memory, now);
        let windows = Windows::toward_server(lease.clone(), UPSTREAM_STREAMS_MAX);
        let link = Rc::new(Link::new(connection, windows, traffic));
        let parts = EndpointParts {
            transport,
            reading: ConnectionInput::new(None, lease, charge.split(SCARCE_READ_BYTES)),
            link: Rc::clone(&link),
            charge,
            has_tables: true,
        };
        Self {
            endpoint: Endpoint::new(parts, now),
            side: ClientSide {
                shared: Rc::new(Shared::new(link, scheme)),
            },
            silence: Silence::new(),
            look_at: Box::pin(sleep(PING_AFTER)),
            refuses_at: None,
        }
    }

    async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        self.endpoint.write_goaway().await;
        self.endpoint.transport.end_now(b"");
        self.endpoint.cut_streams();
        self.side.shared.close();
    }

    /// Ready when the connection is over.
    #[expect(clippy::disallowed_methods, reason = "once a poll of a connection")]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.side.shared.link.register(cx);
        loop {
            let now = clock::now();
            let input = self.endpoint.poll_input(cx, &mut self.side, now);
            self.endpoint.change_windows();
            // A server may have answered before it closed: what it sent is read to its end.
            let _ = self.endpoint.poll_write(cx);
            if input.is_ready() {
                return Poll::Ready(());
            }
            let shared = &self.side.shared;
            if self.endpoint.has_write_failed() {
                shared.close();
            }
            shared.wake_first();
            let is_of_use = !shared.is_abandoned.get() && !shared.is_closed();
            if !is_of_use && shared.link.open() == 0 {
                return Poll::Ready(());
            }
            if self.poll_silence(cx, now).is_ready() {
                return Poll::Ready(());
            }
            ready!(self.poll_refusal(cx, now));
        }
    }

    /// Ready when the server has gone without a word.
    fn poll_silence(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        loop {
            ready!(self.look_at.as_mut().poll(cx));
            let link = &self.side.shared.link;
            let owes = match link.open() {
                _ if self.endpoint.is_held() => Owes::Unread,
                0 => Owes::Nothing,
                _ => Owes::Response,
            };
            let at = match self.silence.look(self.endpoint.read_bytes(), owes, now) {
                Look::Gone => return Poll::Ready(()),
                Look::Again(at) => at,
                Look::Ask(at) => {
                    link.connection.borrow_mut().ping(PING);
                    link.wake();
                    at
                }
            };
            self.look_at.as_mut().reset(at.into());
        }
    }

    /// Ready when the field block that waits for memory is to be refused.
    fn poll_refusal(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let Some(at) = self.endpoint.refuses_at() else {
            self.refuses_at = None;
            return Poll::Pending;
        };
        let sleep = (self.refuses_at).get_or_insert_with(|| Box::pin(sleep(at - now)));
        if sleep.deadline() != at.into() {
            sleep.as_mut().reset(at.into());
        }
        sleep.as_mut().poll(cx)
    }
}

/// Nothing is pushed: a stream has one response.
fn local_settings() -> LocalSettings {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    LocalSettings {
        concurrent_streams_max: 0,
        section_bytes_max: small(RESPONSE_HEAD_BYTES_MAX + FIELD_OVERHEAD * RESPONSE_FIELDS_MAX),
        section_lines_max: small(RESPONSE_FIELDS_MAX + PSEUDO_MAX),
    }
}

impl Channel for ClientChannel {
    fn capacity(&self) -> usize {
        self.shared.capacity()
    }

    fn knows_capacity(&self) -> bool {
        self.shared.is_peer_known()
    }

    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        let pool = &mut *self.shared.pool.borrow_mut();
        match pool {
            Some(known) => known.clone_from(cx.waker()),
            None => *pool = Some(cx.waker().clone()),
        }
        !self.shared.is_closed()
    }

    fn open_stream(self: Box<Self>) -> (Box<dyn UpstreamStream>, Option<Box<dyn Channel>>) {
        (
            self.places.take(ClientStream::new(&self.shared)),
            Some(self),
        )
    }
}

impl Drop for ClientChannel {
    fn drop(&mut self) {
        self.shared.is_abandoned.set(true);
        self.shared.link.wake();
    }
}

impl fmt::Debug for ClientChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HTTP/2 with a server, {} streams",
            self.shared.link.open()
        )
    }
}
