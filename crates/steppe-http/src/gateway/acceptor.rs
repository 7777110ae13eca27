//! One listener of one worker: from its first connection to the last in its queue.
//!
//! Invariant: a listener that goes away accepts what is queued first, since
//! closing its socket would reset that; but no crowd, and no want of
//! descriptors, keeps it open.

use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use steppe_mem::Buffer;
use steppe_net::Transport;
use steppe_net::limits::{ACCEPT_BATCH, ACCEPT_PAUSE, BACKLOG};
use steppe_net::{BoundListener, Deadline, Drain, ListenAddress, PeerAddress, Phase, Stream};
use tokio::task::{JoinHandle, spawn_local};

use super::client::{Accepted, ClientContext, Counted, peer_of};
use super::listener::{Listener, ListenerSettings};
use super::proxied;
use super::snapshot::{Snapshot, WorkerState};
use crate::codec::DownstreamCodec;
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CloseReason, Side};
use crate::proxy_protocol::ProxyHeader;

/// A listener, and the task that accepts its connections.
pub(super) struct Acceptor {
    pub(super) listener: Rc<Listener>,
    accepting: JoinHandle<()>,
}

/// What a connection is served with.
struct Accepting {
    state: Rc<WorkerState>,
    listener: Rc<Listener>,
    codec: Arc<dyn DownstreamCodec>,
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
        let drain = Drain::default();
        let settings = settings(drain.clone());
        let listener = Rc::new(Listener::new(address, drain, settings));
        let accepting = Accepting {
            state: Rc::clone(state),
            listener: Rc::clone(&listener),
            codec,
        };
        let accepting = spawn_local(accepting.run(bound));
        Self {
            listener,
            accepting,
        }
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
                accepted = poll_fn(|cx| socket.poll_accept(cx)) => accepted,
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
        let admitted = index.map(|index| gateway.admit(index));
        if let Some(None) = admitted {
            return self.reject(&snapshot, stream, CloseReason::ConnectionLimit);
        }
        let settings = self.listener.settings();
        let Ok(charge) = settings.lease.try_reserve(CONNECTION_BYTES) else {
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
            _admitted: admitted.flatten(),
            _charge: charge,
        };
        let transport = Transport::new(stream);
        let deadline = self.state.worker.deadlines.add();
        if settings.proxy_protocol {
            let listener = Rc::clone(&self.listener);
            let codec = Arc::clone(&self.codec);
            let introduced = Introduced {
                listener,
                codec,
                counted,
            };
            spawn_local(introduced.run(transport, deadline, peer));
            return;
        }
        let destination = transport.local_address();
        let client = ClientContext::new(
            Rc::clone(&self.listener),
            &snapshot,
            (peer, destination),
            counted,
        );
        self.codec.serve(Accepted {
            transport,
            pending: None,
            client: Rc::new(client),
            deadline,
            traffic: snapshot.totals.traffic(Side::Downstream),
        });
    }

    /// Says that there is no room, as far as one write gets, and closes.
    fn reject(&self, snapshot: &Snapshot, stream: Stream, reason: CloseReason) {
        snapshot.totals.closed(reason);
        let mut transport = Transport::new(stream);
        let mut cx = Context::from_waker(Waker::noop());
        let _ = transport.poll_write(&mut cx, &[IoSlice::new(self.codec.no_room())]);
        let _ = transport.poll_shutdown(&mut cx);
    }
}

/// A connection whose proxy says first whom it is for.
struct Introduced {
    listener: Rc<Listener>,
    codec: Arc<dyn DownstreamCodec>,
    counted: Counted,
}

impl Introduced {
    /// Reads the header of the PROXY protocol, and has the rest served. An untrusted peer is
    /// rejected: a header is asked for, and nobody would believe theirs.
    async fn run(self, mut transport: Transport, deadline: Deadline, peer: PeerAddress) {
        let state = Rc::clone(&self.counted.state);
        let snapshot = state.current();
        let header = if peer_of(&snapshot, peer).is_trusted() {
            let settings = self.listener.settings();
            drop(snapshot);
            proxied::read_header(&mut transport, &deadline, &settings).await
        } else {
            Err(Some(CloseReason::ProxyProtocol))
        };
        let snapshot = state.current();
        let traffic = snapshot.totals.traffic(Side::Downstream);
        let (header, pending) = match header {
            Ok(read) => read,
            Err(reason) => {
                reason.inspect(|&reason| snapshot.totals.closed(reason));
                return;
            }
        };
        let local = transport.local_address();
        let ends: (PeerAddress, Option<SocketAddr>) = match header {
            // Whoever is on a socket of the proxy's machine is as far away as the proxy.
            ProxyHeader::Own | ProxyHeader::Unix => (peer, local),
            ProxyHeader::For(ends) => (PeerAddress::Ip(ends.source), Some(ends.destination)),
        };
        let client = ClientContext::new(self.listener, &snapshot, ends, self.counted);
        let pending: Option<Buffer> = pending;
        self.codec.serve(Accepted {
            transport,
            pending,
            client: Rc::new(client),
            deadline,
            traffic,
        });
    }
}

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
