//! One listener of one worker: from its first connection to the last in its queue.
//!
//! Invariant: a listener that goes away accepts what is queued first, since
//! closing its socket would reset that; but no crowd, and no want of
//! descriptors, keeps it open.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use steppe_mem::Buffer;
use steppe_mem::limits::HOLDER_BYTES;
use steppe_net::Transport;
use steppe_net::limits::{ACCEPT_BATCH, ACCEPT_PAUSE, BACKLOG};
use steppe_net::proxy_protocol::ProxyHeader;
use steppe_net::tls::{Accepting as AcceptingTls, HandshakeLimits, ListenerTls};
use steppe_net::{
    BoundListener, Deadline, Drain, ListenAddress, PeerAddress, Phase, Stream, clock,
};
use tokio::task::{JoinHandle, spawn_local};

use super::client::{Accepted, ClientContext, Counted, holder_of, peer_of};
use super::listener::{Listener, ListenerSettings};
use super::proxied;
use super::snapshot::{Snapshot, WorkerState};
use super::tls::ClientSession;
use crate::codec::DownstreamCodec;
use crate::limits::{CONNECTION_BYTES, FIRST_REQUEST_GRACE};
use crate::metrics::{CloseReason, Handshake, Side};

/// A listener, and the task that accepts its connections.
pub(super) struct Acceptor {
    pub(super) listener: Rc<Listener>,
    codec: Rc<RefCell<Arc<dyn DownstreamCodec>>>,
    accepting: JoinHandle<()>,
}

/// What a connection is served with.
struct Accepting {
    state: Rc<WorkerState>,
    listener: Rc<Listener>,
    codec: Rc<RefCell<Arc<dyn DownstreamCodec>>>,
}

impl Acceptor {
    /// Accepts from `bound`; `settings` are made with the listener's own drain.
    pub(super) fn open(
        state: &Rc<WorkerState>,
        address: ListenAddress,
        bound: BoundListener,
        (codec, settings): (
            Arc<dyn DownstreamCodec>,
            impl FnOnce(Drain) -> ListenerSettings,
        ),
    ) -> Self {
        let codec = Rc::new(RefCell::new(codec));
        let drain = Drain::default();
        let settings = settings(drain.clone());
        let listener = Rc::new(Listener::new(address, drain, settings, &state.turns));
        let accepting = Accepting {
            state: Rc::clone(state),
            listener: Rc::clone(&listener),
            codec: Rc::clone(&codec),
        };
        let accepting = spawn_local(accepting.run(bound));
        Self {
            listener,
            codec,
            accepting,
        }
    }

    /// Connections that are accepted from now on speak `codec`.
    pub(super) fn set_codec(&self, codec: Arc<dyn DownstreamCodec>) {
        *self.codec.borrow_mut() = codec;
    }

    /// Accepts nobody any more; connections end after the response that is in flight.
    pub(super) fn close(&self) {
        self.listener.drain.enter(Phase::Draining);
    }

    /// Waits until the socket is closed.
    pub(super) async fn closed(self) {
        // A listener that failed has said so.
        let _ = self.accepting.await;
    }
}

impl Accepting {
    async fn run(self, bound: BoundListener) {
        let address = &self.listener.address;
        let socket = match bound.into_listener() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::error!(%address, %error, "cannot listen");
                return;
            }
        };
        let draining = self.listener.drain.reached(Phase::Draining);
        tokio::pin!(draining);
        let mut queued_max = BACKLOG;
        while queued_max > 0 {
            let accepted = tokio::select! {
                biased;
                accepted = poll_fn(|cx| {
                    ready!(self.listener.handshakes.poll_room(cx));
                    socket.poll_accept(cx)
                }) => accepted,
                () = &mut draining => return,
            };
            let is_draining = self.listener.drain.is_draining();
            match accepted {
                Ok((stream, peer)) => {
                    self.serve(stream, peer);
                    queued_max -= i32::from(is_draining);
                }
                Err(error) => {
                    tracing::warn!(%address, %error, "cannot accept");
                    // Descriptors come free when connections end, which the drain is to see to.
                    if is_draining {
                        return;
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            yield_after_batch(self.state.open()).await;
        }
    }

    /// Has a connection served, or refuses it.
    fn serve(&self, stream: Stream, peer: PeerAddress) {
        let snapshot = self.state.current();
        let gateway = &snapshot.gateway;
        // What was queued at a listener that closes belongs to none, and is not counted.
        let known = gateway.listener(&self.listener.address);
        let index = known.map(|(index, _)| index);
        let settings = self.listener.settings();
        // Whoever has yet to agree on TLS is bounded among its like, and counted in after that.
        let is_admitted = settings.tls.is_none();
        let admitted = index.filter(|_| is_admitted).map(|at| gateway.admit(at));
        if let Some(None) = admitted {
            return self.reject(&snapshot, stream, CloseReason::ConnectionLimit);
        }
        let holder = holder_of(&snapshot, peer);
        let holding = gateway.shared.clients.open(holder, HTTP);
        let charge = || settings.lease.try_admit(CONNECTION_BYTES + HOLDER_BYTES);
        let Ok(charge) = holding.holder().within(charge) else {
            return self.reject(&snapshot, stream, CloseReason::OverBudget);
        };
        gateway.shared.buffers.fit(&stream);
        let metrics = index.map(|index| snapshot.metrics().listener(index));
        metrics
            .iter()
            .for_each(|metrics| metrics.connection_opened());
        self.state.connection_opened();
        let counted = Counted {
            state: Rc::clone(&self.state),
            metrics,
            admitted: admitted.flatten(),
            charge,
            holding,
        };
        let transport = Transport::new(stream);
        let deadline = self.state.worker.deadlines.add();
        if settings.proxy_protocol || settings.tls.is_some() {
            let introduced = Introduced {
                listener: Rc::clone(&self.listener),
                codec: Arc::clone(&self.codec.borrow()),
                counted,
            };
            let holder = Arc::clone(introduced.counted.holding.holder());
            spawn_local(holder.run(introduced.run(transport, deadline, peer)));
            return;
        }
        let destination = transport.local_address();
        let client = ClientContext::new(
            Rc::clone(&self.listener),
            &snapshot,
            (peer, destination),
            (counted, None),
        );
        self.codec.borrow().serve(Accepted {
            transport,
            pending: None,
            client,
            deadline,
            traffic: snapshot.totals.traffic(Side::Downstream),
        });
    }

    /// Says that there is no room, as far as one write gets, and closes.
    fn reject(&self, snapshot: &Snapshot, stream: Stream, reason: CloseReason) {
        snapshot.totals.closed(reason);
        // Whoever is to speak TLS first can be told nothing.
        if self.listener.settings().tls.is_none() {
            Transport::new(stream).end_now(self.codec.borrow().no_room());
        }
    }
}

/// The client's end of a connection, and the listener's.
type Ends = (PeerAddress, Option<SocketAddr>);

/// A connection that begins with something else than a protocol of the listener's.
struct Introduced {
    listener: Rc<Listener>,
    codec: Arc<dyn DownstreamCodec>,
    counted: Counted,
}

impl Introduced {
    /// Reads the header of the PROXY protocol and agrees on TLS, whichever the listener has, and
    /// has the rest served.
    async fn run(self, transport: Transport, deadline: Deadline, peer: PeerAddress) {
        let state = Rc::clone(&self.counted.state);
        if let Err(Some(reason)) = self.introduce(transport, deadline, peer).await {
            state.current().totals.closed(reason);
        }
    }

    /// # Errors
    /// Why the connection is closed; `None`: it was not us, or it is counted already.
    async fn introduce(
        mut self,
        mut transport: Transport,
        deadline: Deadline,
        peer: PeerAddress,
    ) -> Result<(), Option<CloseReason>> {
        let state = Rc::clone(&self.counted.state);
        let settings = self.listener.settings();
        let mut ends: Ends = (peer, transport.local_address());
        let mut pending = None;
        if settings.proxy_protocol {
            (ends, pending) = self.read_header(&mut transport, &deadline, peer).await?;
            let snapshot = state.current();
            let client = holder_of(&snapshot, ends.0);
            self.counted.holding = snapshot.gateway.shared.clients.open(client, HTTP);
        }
        let mut session = None;
        if let Some(tls) = &settings.tls {
            let agreed = self
                .agree(tls, (transport, pending.take()), &deadline, ends.0)
                .await?;
            (transport, session) = (agreed.0, Some(agreed.1));
        }
        let snapshot = state.current();
        if let Some(session) = &session {
            self.admit(&snapshot, session)
                .inspect_err(|_| transport.end_now(self.codec.no_room()))?;
        }
        let traffic = snapshot.totals.traffic(Side::Downstream);
        let told = (self.counted, session);
        let client = ClientContext::new(self.listener, &snapshot, ends, told);
        self.codec.serve(Accepted {
            transport,
            pending,
            client,
            deadline,
            traffic,
        });
        Ok(())
    }

    /// An untrusted peer is rejected: a header is asked for, and nobody would believe theirs.
    async fn read_header(
        &self,
        transport: &mut Transport,
        deadline: &Deadline,
        peer: PeerAddress,
    ) -> Result<(Ends, Option<Buffer>), Option<CloseReason>> {
        if !peer_of(&self.counted.state.current(), peer).is_trusted() {
            return Err(Some(CloseReason::ProxyProtocol));
        }
        let settings = self.listener.settings();
        let (header, pending) = proxied::read_header(transport, deadline, &settings).await?;
        let ends = match header {
            // Whoever is on a socket of the proxy's machine is as far away as the proxy.
            ProxyHeader::Own | ProxyHeader::Unix => (peer, transport.local_address()),
            ProxyHeader::For(ends) => (PeerAddress::Ip(ends.source), Some(ends.destination)),
        };
        Ok((ends, pending))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a drain moves the deadline of a TLS handshake"
    )]
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    async fn agree(
        &self,
        tls: &Arc<ListenerTls>,
        (transport, pending): (Transport, Option<Buffer>),
        deadline: &Deadline,
        client: PeerAddress,
    ) -> Result<(Transport, ClientSession), Option<CloseReason>> {
        let settings = self.listener.settings();
        let limits = HandshakeLimits {
            count_max: settings.handshakes,
            age_max: settings.timeouts.header,
        };
        let slot = self.listener.handshakes.begin(limits, client.ip());
        let accepting = AcceptingTls {
            tls,
            slot: &slot,
            deadline,
            timeout: settings.timeouts.handshake,
            lease: &settings.lease,
            to_plain_http: PLAIN_HTTP,
        };
        // That of a header of the PROXY protocol is over.
        deadline.clear();
        let mut accepting = pin!(accepting.accept(transport, pending));
        let mut is_hurried = false;
        let accepted = poll_fn(|cx| {
            // As for a first request: a drain does not wait for it long, whether it has begun or waits for others.
            if settings.drain.is_draining() && !is_hurried {
                is_hurried = true;
                deadline.set(clock::now(), FIRST_REQUEST_GRACE);
            }
            accepting.as_mut().poll(cx)
        });
        let accepted = accepted.await;
        let snapshot = self.counted.state.current();
        match accepted {
            Ok((transport, agreed)) => {
                snapshot.totals.handshake(Handshake::of(&agreed));
                Ok((transport, ClientSession::new(agreed, Arc::clone(tls))))
            }
            Err(error) => {
                snapshot.totals.handshake(Handshake::failed(&error));
                tracing::debug!(listener = %self.listener.address, %error, "TLS handshake failed");
                Err(Some(CloseReason::Handshake))
            }
        }
    }

    /// Counts an established connection in, and charges what is known of its client.
    fn admit(
        &mut self,
        snapshot: &Snapshot,
        session: &ClientSession,
    ) -> Result<(), Option<CloseReason>> {
        let gateway = &snapshot.gateway;
        if let Some((index, _)) = gateway.listener(&self.listener.address) {
            let admitted = gateway.admit(index);
            self.counted.admitted = Some(admitted.ok_or(Some(CloseReason::ConnectionLimit))?);
        }
        let charged = self.counted.charge.try_grow(session.bytes());
        charged.map_err(|_| Some(CloseReason::OverBudget))
    }
}

/// The protocol of its connections, for people.
const HTTP: &str = "http";

/// What a client is told that speaks without TLS on a port that asks for it.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; \
    charset=utf-8\r\ncontent-length: 42\r\nconnection: close\r\n\r\n\
    This port speaks HTTPS: use https:// here.";

/// A crowd of new connections must not keep those that are open waiting.
async fn yield_after_batch(open: usize) {
    if open.is_multiple_of(ACCEPT_BATCH) {
        let mut has_yielded = false;
        poll_fn(|cx| {
            if has_yielded {
                return Poll::Ready(());
            }
            has_yielded = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
