//! One worker of the gateway: opens listeners, changes configurations, and shuts down without dropping a request.

use std::rc::Rc;
use std::sync::Arc;

use steppe_net::accept::{Admission, ListenerSet, SessionService};
use steppe_net::{
    BoundDatagram, BoundSockets, Change, Drained, ListenAddress, Phase, SocketKey, Worker, clock,
};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::Gateway;
use super::acceptor::Acceptor;
use super::listener::Listener;
use super::sessions::{Endpoint, SessionListener};
use super::snapshot::{Snapshot, WorkerState};
use crate::codec::DatagramCodec;
use crate::codecs::DownstreamCodecs;
use crate::metrics::CloseReason;
use crate::upstream::SWEEP_EVERY;

/// Sockets, configurations and protocols of a worker.
pub struct Intake {
    /// Sockets of listeners of the first snapshot.
    pub sockets: BoundSockets,
    /// The snapshots that follow, and sockets that they add.
    pub changes: mpsc::Receiver<Change<Gateway>>,
    /// Protocols of its listeners.
    pub codecs: DownstreamCodecs,
}

/// Serves on one worker until the node has drained. Returns what became of the
/// connections that were open then.
pub async fn serve(gateway: Arc<Gateway>, worker: Rc<Worker>, intake: Intake) -> Drained {
    let Intake {
        sockets,
        mut changes,
        codecs,
    } = intake;
    let first = Snapshot::new(gateway, &worker, None);
    let state = Rc::new(WorkerState::new(worker, Rc::clone(&first)));
    spawn_local(housekeeping(Rc::clone(&state)));
    let mut listeners = Listeners::new(&state, codecs);
    listeners.open_new(&first, sockets);
    drop(first);
    let draining = state.worker.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    loop {
        tokio::select! {
            () = &mut draining => break,
            Some(change) = changes.recv() => listeners.change_over(change).await,
        }
    }
    listeners.shut_down().await
}

/// Listeners of a worker, by the kind of their sockets, and the protocols that there are.
struct Listeners {
    state: Rc<WorkerState>,
    codecs: DownstreamCodecs,
    streams: ListenerSet<Acceptor>,
    datagrams: ListenerSet<SessionListener>,
}

impl Listeners {
    fn new(state: &Rc<WorkerState>, codecs: DownstreamCodecs) -> Self {
        let streams = ListenerSet::new(&state.worker);
        Self {
            state: Rc::clone(state),
            codecs,
            datagrams: streams.beside(),
            streams,
        }
    }

    /// Opens the listeners of a snapshot that `sockets` has a socket for.
    fn open_new(&mut self, snapshot: &Snapshot, mut sockets: BoundSockets) {
        for (index, config) in snapshot.gateway.config.listeners.iter().enumerate() {
            let (address, protocols) = (&config.address, &config.protocols);
            let listener = |admission: Admission| {
                let drain = admission.drain().clone();
                let settings = snapshot.listener_settings(index, drain, &self.state);
                Listener::new(address.clone(), admission, settings)
            };
            if let Some(bound) = sockets.take_listener(address) {
                let codec = self.codecs.of_streams(protocols);
                let codec = codec.expect("its socket is bound for it");
                let key = SocketKey::stream(address.clone());
                self.streams.open(key, bound, |admission| {
                    Acceptor::new(&self.state, listener(admission), codec)
                });
            }
            if let ListenAddress::Tcp(socket) = *address
                && let Some(bound) = sockets.take_datagram(socket)
            {
                let sessions = self
                    .datagrams
                    .add(SocketKey::datagram(socket), |admission| {
                        SessionListener::new(&self.state, listener(admission))
                    });
                let codec = self.codecs.of_datagrams(protocols);
                let codec = codec.expect("its socket is bound for it");
                serve_datagrams(&**codec, bound, &sessions);
            }
        }
    }

    /// Serves what begins from now on as the next snapshot says.
    async fn change_over(&mut self, change: Change<Gateway>) {
        let state = &self.state;
        let last = state.current();
        let next = Snapshot::new(change.next, &state.worker, Some(&last));
        state.set_current(Rc::clone(&next));
        let known = |key: &SocketKey| {
            let (index, _) = next.gateway.listener(&key.address)?;
            Some((index, &next.gateway.config.listeners[index].protocols))
        };
        let settings = |index, admission: &Admission| {
            let drain = admission.drain().clone();
            next.listener_settings(index, drain, state)
        };
        let streams = self.streams.retain(|key, acceptor| {
            let Some((index, protocols)) = known(key) else {
                return false;
            };
            let Some(codec) = self.codecs.of_streams(protocols) else {
                return false;
            };
            acceptor.follow(settings(index, acceptor.admission()), codec);
            true
        });
        let datagrams = self.datagrams.retain(|key, sessions| {
            let known = known(key);
            let spoken =
                known.filter(|(_, protocols)| self.codecs.of_datagrams(protocols).is_some());
            let Some((index, _)) = spoken else {
                return false;
            };
            sessions.follow(settings(index, sessions.admission()));
            true
        });
        self.open_new(&next, change.sockets);
        datagrams.close().await;
        streams.close().await;
        retire_pools(&last, &next);
        // The sender may have stopped waiting.
        let _ = change.done.send(());
    }

    async fn shut_down(mut self) -> Drained {
        self.datagrams.retain(|_, _| false).close().await;
        let drained = self.streams.shut_down().await;
        let totals = self.state.current().totals.clone();
        (0..drained.dropped).for_each(|_| totals.closed(CloseReason::Drain));
        drained
    }
}

/// Has a codec serve the sessions of a datagram socket.
fn serve_datagrams(codec: &dyn DatagramCodec, bound: BoundDatagram, sessions: &SessionListener) {
    let address = bound.address();
    match bound.into_socket() {
        Ok(socket) => codec.serve(Endpoint {
            socket,
            listener: sessions.clone(),
        }),
        Err(error) => tracing::error!(%address, %error, "cannot listen"),
    }
}

/// Closes idle connections of upstreams that the next snapshot has not.
fn retire_pools(last: &Snapshot, next: &Snapshot) {
    for (_, pool) in &last.pools {
        let mut successors = next.pools.iter();
        if !successors.any(|(_, next)| next.shares_idle(pool)) {
            pool.retire();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one task of a worker that sweeps pools and filters"
)]
async fn housekeeping(state: Rc<WorkerState>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let now = clock::now();
        let current = state.current();
        current.pools.iter().for_each(|(_, pool)| pool.sweep(now));
        current.gateway.sweep_filters();
        if let Some(access) = &current.access {
            access.flush();
        }
    }
}
