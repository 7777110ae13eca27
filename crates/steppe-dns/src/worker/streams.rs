//! TCP and TLS listeners: accept, PROXY header, TLS handshake, and entry into the table of connections.
//!
//! Invariant: a connection is charged before anything is read from it, and the number of handshakes in progress
//! is bounded.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use steppe_mem::limits::HOLDER_BYTES;
use steppe_mem::{Buffer, ClientAddress, Holding, Lease, Reservation};
use steppe_net::limits::ACCEPT_PAUSE;
use steppe_net::proxy_protocol::{HeaderRoom, NoHeader, ProxyHeader, poll_header};
use steppe_net::tls::{
    Accepting, HandshakeError, HandshakeLimits, HandshakeScheduler, Handshakes, ListenerTls,
};
use steppe_net::{Deadline, Listener, PeerAddress, Stream, Transport, Worker};

use super::client_stream::ClientStream;
use super::connection::{Connection, Peer};
use super::connections::Added;
use super::state::Handle;
use crate::client::{Client, ClientId};
use crate::config::{Introduction, Protocol};
use crate::limits::{
    CLIENT_READ_BYTES, CONNECTION_BYTES, HANDSHAKE_TIME_MAX, HANDSHAKES_PER_WORKER_MAX,
};
use crate::snapshot::Snapshot;

/// A TCP socket that clients connect to.
#[derive(Debug)]
pub(super) struct StreamListener {
    /// Address in the configuration.
    pub(super) address: SocketAddr,
    listener: Listener,
    worker: Rc<Worker>,
    handshakes: Handshakes,
    settings: RefCell<StreamSettings>,
}

/// The settings of connections from now on.
#[derive(Debug, Clone)]
pub(super) struct StreamSettings {
    /// Protocol of connections: [`Protocol::Tcp`] or [`Protocol::Tls`], which this crate serves.
    pub(super) protocol: Protocol,
    pub(super) tls: Option<Arc<ListenerTls>>,
    pub(super) introduction: Introduction,
}

/// A connection that was accepted.
struct Accepted {
    handle: Handle,
    listener: Rc<StreamListener>,
    settings: StreamSettings,
    peer: SocketAddr,
    charge: Reservation,
    /// Entry of the connection in the table of clients.
    holding: Holding,
    /// Lease whose reservations count for the client.
    lease: Lease,
}

/// The protocol of connections, for reports.
const DNS: &str = "dns";

/// The transport of a connection, and the bytes that were read from it already.
type Begun = (Transport, Option<Buffer>);

/// The reason why a connection is not served.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error(transparent)]
    Header(#[from] NoHeader),
    #[error("no PROXY protocol header in time")]
    HeaderTimeout,
    #[error("client named in the PROXY header is not in `dns.access`")]
    NotAdmitted,
    #[error("too many connections")]
    NoRoom,
}

impl StreamListener {
    pub(super) fn new(
        address: SocketAddr,
        listener: Listener,
        worker: &Rc<Worker>,
        (turns, settings): (&Rc<HandshakeScheduler>, StreamSettings),
    ) -> Rc<Self> {
        Rc::new(Self {
            address,
            listener,
            worker: Rc::clone(worker),
            handshakes: Handshakes::new(Rc::clone(turns)),
            settings: RefCell::new(settings),
        })
    }

    /// Changes the settings of connections from now on.
    pub(super) fn set_settings(&self, settings: StreamSettings) {
        *self.settings.borrow_mut() = settings;
    }
}

/// Accepts connections, until the task is aborted.
pub(super) async fn accept(state: Handle, listener: Rc<StreamListener>) {
    loop {
        let accepted = poll_fn(|cx| {
            ready!(listener.handshakes.poll_room(cx));
            listener.listener.poll_accept(cx)
        });
        match accepted.await {
            Ok((stream, peer)) => admit(&state, &listener, stream, &peer),
            Err(error) => {
                tracing::warn!(%error, address = %listener.address, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts the connections that are queued at a listener that is about to close.
pub(super) fn accept_rest(state: &Handle, listener: &Rc<StreamListener>) {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok((stream, peer))) = listener.listener.poll_accept(&mut cx) {
        admit(state, listener, stream, &peer);
    }
}

/// Serves a connection, if its client is admitted and the budget has room.
fn admit(handle: &Handle, listener: &Rc<StreamListener>, stream: Stream, peer: &PeerAddress) {
    let PeerAddress::Ip(peer) = *peer else {
        return;
    };
    let state = handle.borrow();
    let settings = listener.settings.borrow().clone();
    let snapshot = &state.current.snapshot;
    let is_admitted = match settings.introduction {
        Introduction::None => snapshot.admits(&Client::at(peer.ip())),
        Introduction::ByProxy => snapshot.trusts(peer.ip()),
    };
    if !is_admitted {
        return;
    }
    let holder = match settings.introduction {
        Introduction::None => ClientAddress::Shared(peer.ip()),
        // A proxy connects for many clients.
        Introduction::ByProxy => ClientAddress::Exempt(peer.ip()),
    };
    let holding = state.holders.open(holder, DNS);
    let lease = state.lease.of_holder(holding.holder());
    let Ok(charge) = lease.try_admit(CONNECTION_BYTES + HOLDER_BYTES) else {
        state.metrics.connections_refused.increment();
        return;
    };
    drop(state);
    let accepted = Accepted {
        handle: Rc::clone(handle),
        listener: Rc::clone(listener),
        settings,
        peer,
        charge,
        holding,
        lease,
    };
    let holder = Arc::clone(accepted.holding.holder());
    tokio::task::spawn_local(holder.run(accepted.run(Transport::new(stream))));
}

impl Accepted {
    async fn run(mut self, transport: Transport) {
        let peer = self.peer;
        let handle = Rc::clone(&self.handle);
        let deadline = self.listener.worker.deadlines.add();
        let agreed = match self.agree(transport, &deadline).await {
            Ok(agreed) => self.count_in(agreed, deadline),
            Err(error) => Err(error),
        };
        let (entry, stream, (transport, pending), worker) = match agreed {
            Ok(served) => served,
            Err(error) => {
                let metrics = &handle.borrow().metrics;
                match error {
                    Refused::Handshake(_) => metrics.handshakes_failed.increment(),
                    _ => metrics.connections_refused.increment(),
                }
                tracing::debug!(%peer, %error, "client connection refused");
                return;
            }
        };
        let served = stream.serve(transport, pending, &worker.drain).await;
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "client connection ended with an error");
        }
        drop(entry);
    }

    /// Reads the PROXY header and performs the TLS handshake, if the settings have these. Returns the transport and
    /// the client.
    #[expect(
        clippy::disallowed_methods,
        reason = "the deadline of a header and a TLS handshake begins with it"
    )]
    async fn agree(
        &mut self,
        mut transport: Transport,
        deadline: &Deadline,
    ) -> Result<(Begun, Client), Refused> {
        deadline.set(Instant::now(), HANDSHAKE_TIME_MAX);
        let lease = self.lease.clone();
        let (mut client, mut pending) = (Client::at(self.peer.ip()), None);
        if self.settings.introduction == Introduction::ByProxy {
            let room = HeaderRoom {
                lease: &lease,
                first_bytes: CLIENT_READ_BYTES,
            };
            let header = poll_fn(|cx| {
                if let Poll::Ready(header) = poll_header(cx, &mut transport, room, &mut pending) {
                    return Poll::Ready(header.map_err(Refused::Header));
                }
                ready!(deadline.poll_passed(cx));
                Poll::Ready(Err(Refused::HeaderTimeout))
            });
            if let ProxyHeader::For(ends) = header.await? {
                client = Client::at(ends.source.ip());
                self.hold_for(client.address);
            }
            if !self.handle.borrow().current.snapshot.admits(&client) {
                return Err(Refused::NotAdmitted);
            }
        }
        let Some(tls) = &self.settings.tls else {
            return Ok(((transport, pending), client));
        };
        let handshakes = &self.listener.handshakes;
        let limits = HandshakeLimits {
            count_max: HANDSHAKES_PER_WORKER_MAX,
            age_max: HANDSHAKE_TIME_MAX,
        };
        let slot = handshakes.begin(limits, client.address);
        let accepting = Accepting {
            tls,
            slot: &slot,
            deadline,
            timeout: HANDSHAKE_TIME_MAX,
            lease: &lease,
            // A client that speaks HTTP without TLS gets no answer.
            to_plain_http: &[],
        };
        // The deadline is set again once the handshake begins.
        deadline.clear();
        // In a box, whose memory is freed before the connection is served.
        let (transport, agreed) = Box::pin(accepting.accept(transport, pending)).await?;
        let name = agreed.server_name.as_deref().unwrap_or_default();
        let (label, _) = name.split_once('.').unwrap_or_default();
        client.id = ClientId::from_bytes(label.as_bytes()).ok();
        Ok(((transport, None), client))
    }

    /// Makes reservations from now on count for the client that a proxy names.
    fn hold_for(&mut self, client: IpAddr) {
        let state = self.handle.borrow();
        self.holding = state.holders.open(ClientAddress::Shared(client), DNS);
        self.lease = state.lease.of_holder(self.holding.holder());
    }

    /// Enters the connection into the table of those that are served.
    fn count_in(
        self,
        (begun, client): (Begun, Client),
        deadline: Deadline,
    ) -> Result<(Entry, ClientStream, Begun, Rc<Worker>), Refused> {
        let peer = Peer {
            client,
            protocol: self.settings.protocol,
            local: begun.0.local_address().map(|local| local.ip()),
        };
        let connection = Rc::new(Connection::new(peer, self.charge));
        let mut state = self.handle.borrow_mut();
        let Ok((number, added)) = state.connections.insert(&connection) else {
            return Err(Refused::NoRoom);
        };
        if added == Added::InPlace {
            state.metrics.connections_evicted.increment();
        }
        let lease = self.lease.clone();
        drop(state);
        let entry = Entry {
            handle: Rc::clone(&self.handle),
            number,
            _holding: self.holding,
        };
        let stream = ClientStream {
            state: self.handle,
            number,
            connection,
            deadline,
            lease,
        };
        let worker = Rc::clone(&self.listener.worker);
        Ok((entry, stream, begun, worker))
    }
}

/// A connection's entry in the table, which is removed on drop: the task may be dropped at any await.
struct Entry {
    handle: Handle,
    number: u64,
    _holding: Holding,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.handle.borrow_mut().connections.remove(self.number);
    }
}

impl Snapshot {
    /// The TCP and TLS listeners that this crate serves, with their settings.
    pub(super) fn stream_settings(&self) -> Vec<(SocketAddr, StreamSettings)> {
        let listeners = self.config.listeners.iter().zip(&self.tls);
        let settings = listeners.filter_map(|(listener, tls)| {
            let settings = StreamSettings {
                protocol: listener.stream_protocol()?,
                tls: tls.clone(),
                introduction: listener.introduction,
            };
            Some((listener.address, settings))
        });
        settings.collect()
    }
}
