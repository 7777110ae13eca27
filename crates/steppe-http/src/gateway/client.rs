//! A client's connection, as all of its exchanges see it.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use steppe_mem::{Buffer, ClientAddress, Holding, Lease};
use steppe_net::accept::{Admitted, ConnectionEnds, Refused, SessionRequest};
use steppe_net::proxy_protocol::{Ends, NoHeader};
use steppe_net::{Deadline, PeerAddress, Transport};

use tokio::task::spawn_local;

use super::listener::{Listener, ListenerSettings};
use super::snapshot::{Snapshot, WorkerState};
use super::tls::ClientSession;
use crate::forwarded::Peer;
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CallMetrics, CloseReason, ListenerMetrics, TotalMetrics, Traffic};

/// A connection that was accepted, for a codec to serve.
#[derive(Debug)]
pub struct Accepted {
    /// Its bytes.
    pub transport: Transport,
    /// The bytes that have been read already, never empty.
    pub pending: Option<Buffer>,
    /// The client of the connection.
    pub client: Rc<ClientContext>,
    /// A deadline for the task that serves it.
    pub deadline: Deadline,
    /// Counts its bytes.
    pub traffic: Traffic,
}

/// The client of a connection, for all exchanges on it.
///
/// It holds no snapshot: a connection without an exchange keeps none alive.
pub struct ClientContext {
    pub(super) state: Rc<WorkerState>,
    pub(super) listener: Rc<Listener>,
    /// The peer, or whom a proxy says that it connects for.
    address: PeerAddress,
    /// The address that the client connected to.
    destination: Option<SocketAddr>,
    /// The TLS session below the protocol; `None`: there is none.
    tls: Option<Rc<ClientSession>>,
    known: Cell<KnownPeer>,
    totals: TotalMetrics,
    /// `None`: its connection may be over.
    counted: Option<Counted>,
}

/// The peer by the trusted proxies of a snapshot, computed once.
#[derive(Clone, Copy)]
struct KnownPeer {
    snapshot: u64,
    peer: Peer,
}

/// A connection's admission and counts, for as long as it is open.
pub(super) struct Counted {
    state: Rc<WorkerState>,
    /// `None`: it came through a listener that is closing.
    metrics: Option<ListenerMetrics>,
    pub(super) admitted: Admitted,
    /// The TLS session below the protocol, until the connection is served.
    pub(super) tls: Option<Rc<ClientSession>>,
}

/// The time at which a session counts toward `limits.connections`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// When it is admitted.
    Now,
    /// After its TLS handshake, see [`Counted::count`]: until then it is bounded among handshakes.
    AfterHandshake,
}

/// The protocol of its connections, for people.
pub(super) const HTTP: &str = "http";

impl Counted {
    /// Admits a session of `peer`.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn admit(
        state: &Rc<WorkerState>,
        listener: &Listener,
        peer: PeerAddress,
        counting: Counting,
    ) -> Result<Self, Refused> {
        let snapshot = state.current();
        let gateway = &snapshot.gateway;
        let settings = listener.settings();
        // What was queued at a listener that closes belongs to none, and is not counted.
        let index = gateway.listener(&listener.address).map(|(index, _)| index);
        let counted = index.filter(|_| counting == Counting::Now);
        let limit = counted.map(|index| gateway.listeners[index].session_limit());
        let admitted = listener.admission.admit(SessionRequest {
            limit: limit.as_ref(),
            clients: &gateway.shared.clients,
            client: holder_of(&snapshot, peer),
            kind: HTTP,
            lease: &settings.lease,
            // Its task, its socket, its deadline.
            bytes: CONNECTION_BYTES,
        })?;
        let metrics = index.map(|index| snapshot.metrics().listener(index));
        metrics.iter().for_each(ListenerMetrics::connection_opened);
        Ok(Self {
            state: Rc::clone(state),
            metrics,
            admitted,
            tls: None,
        })
    }

    /// Counts a connection that has agreed on TLS.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn count(&mut self, listener: &Listener) -> Result<(), Refused> {
        let gateway = &self.state.current().gateway;
        match gateway.listener(&listener.address) {
            Some((index, _)) => self
                .admitted
                .count(&gateway.listeners[index].session_limit()),
            None => Ok(()),
        }
    }
}

impl ClientContext {
    pub(super) fn new(
        listener: Rc<Listener>,
        snapshot: &Snapshot,
        ends: ConnectionEnds,
        mut counted: Counted,
    ) -> Rc<Self> {
        let ConnectionEnds {
            peer: address,
            destination,
        } = ends;
        let known = KnownPeer {
            snapshot: snapshot.id,
            peer: peer_of(snapshot, address),
        };
        Rc::new(Self {
            state: Rc::clone(&counted.state),
            listener,
            address,
            destination,
            tls: counted.tls.take(),
            known: Cell::new(known),
            totals: snapshot.totals.clone(),
            counted: Some(counted),
        })
    }

    /// The same for what outlives the connection, which is not counted as long as that is there.
    pub(super) fn detached(&self) -> Rc<Self> {
        Rc::new(Self {
            state: Rc::clone(&self.state),
            listener: Rc::clone(&self.listener),
            address: self.address,
            destination: self.destination,
            tls: self.tls.clone(),
            known: Cell::new(self.known.get()),
            totals: self.totals.clone(),
            counted: None,
        })
    }

    /// The present settings of the client's listener.
    #[must_use]
    pub fn settings(&self) -> Rc<ListenerSettings> {
        self.listener.settings()
    }

    /// Time that the client has to accept the next part of a response.
    #[must_use]
    pub fn write_timeout(&self) -> Duration {
        self.settings().timeouts.write_stall
    }

    /// A deadline for a further task of the connection, where it has many. It may be late by a tick, and costs a few words.
    #[must_use]
    pub fn add_deadline(&self) -> Deadline {
        self.state.worker.deadlines.add()
    }

    /// Starts the task of the connection, or the next one: what it reserves counts for the client, and it ends where the
    /// connection is shed.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        match &self.counted {
            Some(counted) => _ = spawn_local(Arc::clone(counted.admitted.holder()).run(task)),
            None => _ = spawn_local(task),
        }
    }

    /// Starts a further task of the connection, beside that: it ends with it.
    pub fn spawn_part(&self, task: impl Future<Output = ()> + 'static) {
        match &self.counted {
            Some(counted) => {
                _ = spawn_local(Arc::clone(counted.admitted.holder()).run_part(task));
            }
            None => _ = spawn_local(task),
        }
    }

    /// The client of an exchange that a trusted proxy passes on; `None`: it is the connection's own.
    pub(super) fn visit(&self, client: IpAddr) -> Option<Holding> {
        let counted = self
            .counted
            .as_ref()
            .filter(|_| self.address.ip() != client)?;
        Some(
            counted
                .admitted
                .holding()
                .visit(ClientAddress::Shared(client)),
        )
    }

    /// Counts why the connection ends, or an exchange on it.
    pub fn count_closed(&self, reason: CloseReason) {
        self.totals.closed(reason);
    }

    /// True if there is a TLS session below the protocol.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The protocol that was agreed on below, as ALPN names it (RFC 7301 §6).
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.agreed.alpn.as_deref()
    }

    /// The session below the protocol, where there is one.
    pub(super) fn tls(&self) -> Option<&ClientSession> {
        self.tls.as_deref()
    }

    /// The scheme of what it asks for.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(super) fn exchange_lease(&self) -> &Lease {
        &self.state.exchange_lease
    }

    pub(super) fn calls(&self) -> &CallMetrics {
        &self.state.calls
    }

    pub(super) fn totals(&self) -> &TotalMetrics {
        &self.totals
    }

    /// The peer by the trusted proxies of `snapshot`.
    pub(super) fn peer(&self, snapshot: &Snapshot) -> Peer {
        let known = self.known.get();
        if known.snapshot == snapshot.id {
            return known.peer;
        }
        let peer = peer_of(snapshot, self.address);
        self.known.set(KnownPeer {
            snapshot: snapshot.id,
            peer,
        });
        peer
    }

    /// Both ends of the connection that a request of `client` came by; `None` where that is
    /// a local process.
    pub(super) fn ends(&self, client: IpAddr) -> Option<Ends> {
        let own = self.address;
        let source = match own {
            PeerAddress::Ip(address) if own.ip() == client => {
                SocketAddr::new(client, address.port())
            }
            PeerAddress::Local if own.ip() == client => return None,
            // Of a client beyond the peer nobody knows the port.
            _ => SocketAddr::new(client, 0),
        };
        Some(Ends {
            source,
            destination: self.destination?,
        })
    }
}

impl std::fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {} of {}", self.address, self.listener.address)
    }
}

/// For whom a connection holds memory. A trusted proxy speaks for others, who have their own shares.
pub(super) fn holder_of(snapshot: &Snapshot, address: PeerAddress) -> ClientAddress {
    match address {
        PeerAddress::Ip(_) if peer_of(snapshot, address).is_trusted() => {
            ClientAddress::Exempt(address.ip())
        }
        PeerAddress::Ip(_) => ClientAddress::Shared(address.ip()),
        PeerAddress::Local => ClientAddress::Local,
    }
}

pub(super) fn peer_of(snapshot: &Snapshot, address: PeerAddress) -> Peer {
    let trusted = &snapshot.gateway.config.trusted_proxies;
    match address {
        PeerAddress::Ip(_) => Peer::new(address.ip(), trusted),
        PeerAddress::Local => Peer::unix(trusted),
    }
}

/// The reason that is counted for a session that was refused; `None`: its client left.
pub(super) fn close_reason(refused: &Refused) -> Option<CloseReason> {
    match refused {
        Refused::ConnectionLimit => Some(CloseReason::ConnectionLimit),
        Refused::OverBudget => Some(CloseReason::OverBudget),
        Refused::UntrustedProxy | Refused::Header(NoHeader::Malformed(_)) => {
            Some(CloseReason::ProxyProtocol)
        }
        Refused::Header(NoHeader::Closed) => None,
        Refused::HeaderTimeout => Some(CloseReason::HeaderTimeout),
        Refused::Handshake(_) => Some(CloseReason::Handshake),
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.connection_closed();
        }
        if self.admitted.holder().is_shed() {
            self.state.current().totals.closed(CloseReason::OverBudget);
        }
    }
}
