//! The accept loop of one worker, which also drives the connections.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use steppe_net::limits::ACCEPT_PAUSE;
use steppe_net::tls::ListenerTls;
use steppe_net::{
    BoundListener, BoundSockets, Change, Drained, ListenAddress, Listener, Phase, Stream, Worker,
};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use tokio::time::timeout;

use super::dialing::Dialing;
use super::running::Running;
use super::tls::InForce;
use crate::config::Listener as Configured;
use crate::limits::FAREWELL;
use crate::relay::Relay;

/// The open listeners of a worker, and their connections.
pub(super) struct Listening<'a> {
    running: &'a Running,
    open: Vec<Open>,
    connections: Rc<RefCell<JoinSet<()>>>,
    dialing: Dialing,
}

/// TLS of a listener, which a reload may replace.
type Shown = RefCell<Option<Arc<ListenerTls>>>;

/// A listener, and the task that accepts its connections.
struct Open {
    address: ListenAddress,
    listener: Rc<Listener>,
    tls: Rc<Shown>,
    task: JoinHandle<()>,
}

impl<'a> Listening<'a> {
    pub(super) fn new(running: &'a Running) -> Self {
        Self {
            running,
            open: Vec::new(),
            connections: Rc::default(),
            dialing: Dialing::default(),
        }
    }

    /// Serves until the drain of the node has ended.
    pub(super) async fn serve(
        mut self,
        worker: &Worker,
        mut changes: mpsc::Receiver<Change<InForce>>,
    ) -> Drained {
        let draining = worker.drain.reached(Phase::Draining);
        tokio::pin!(draining);
        loop {
            tokio::select! {
                () = &mut draining => break,
                Some(change) = changes.recv() => {
                    self.change_over(&change.next, change.sockets).await;
                    // One worker dials for the whole node: callers may be connected to any worker.
                    if worker.index == 0 && let Some(relay) = self.running.relay() {
                        self.dialing.change_over(relay, &change.next);
                    }
                    // The receiver may be gone.
                    let _ = change.done.send(());
                }
            }
        }
        self.shut_down(worker).await
    }

    async fn change_over(&mut self, next: &InForce, mut sockets: BoundSockets) {
        let Some(relay) = self.running.relay() else {
            return;
        };
        let listeners = &next.config.listeners;
        let stays = |open: &Open| listeners.iter().any(|one| one.address == open.address);
        let (stay, go): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(stays);
        self.open = stay;
        for open in &self.open {
            open.tls.replace(next.tls.at(&open.address).cloned());
        }
        for Configured { address, .. } in listeners {
            if let Some(bound) = sockets.take_listener(address) {
                self.listen(relay, bound, (address, next.tls.at(address).cloned()));
            }
        }
        for open in go {
            self.close(relay, open).await;
        }
    }

    fn listen(
        &mut self,
        relay: &Arc<Relay>,
        bound: BoundListener,
        (address, tls): (&ListenAddress, Option<Arc<ListenerTls>>),
    ) {
        let listener = match bound.into_listener() {
            Ok(listener) => Rc::new(listener),
            Err(error) => {
                tracing::error!(%error, %address, "cannot listen");
                return;
            }
        };
        let tls = Rc::new(RefCell::new(tls));
        let accept = accept(
            Arc::clone(relay),
            (Rc::clone(&listener), Rc::clone(&tls)),
            Rc::clone(&self.connections),
        );
        self.open.push(Open {
            address: address.clone(),
            listener,
            tls,
            task: spawn_local(accept),
        });
    }

    /// Closes a listener after accepting the connections in its queue, which closing would reset.
    async fn close(&self, relay: &Arc<Relay>, open: Open) {
        open.task.abort();
        // The aborted task drops its handle of the listener.
        let _ = open.task.await;
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok((stream, _))) = open.listener.poll_accept(&mut cx) {
            admit(relay, (stream, &open.tls), &self.connections);
        }
    }

    async fn shut_down(mut self, worker: &Worker) -> Drained {
        let Some(relay) = self.running.relay() else {
            return Drained::default();
        };
        self.running.drain();
        for open in std::mem::take(&mut self.open) {
            self.close(relay, open).await;
        }
        let open = self.connections.borrow().len();
        let is_drained = tokio::select! {
            () = relay.drained() => true,
            () = worker.drain.reached(Phase::Stopped) => false,
        };
        // Connected peers lose nothing once no call is open.
        if is_drained {
            return Drained { open, dropped: 0 };
        }
        let dropped = self.connections.borrow().len();
        relay.cut();
        // Peers that still read get the RESETs.
        let _ = timeout(FAREWELL, relay.drained()).await;
        Drained { open, dropped }
    }
}

/// Accepts connections, until the task is aborted.
async fn accept(
    relay: Arc<Relay>,
    (listener, tls): (Rc<Listener>, Rc<Shown>),
    connections: Rc<RefCell<JoinSet<()>>>,
) {
    loop {
        match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok((stream, _)) => admit(&relay, (stream, &tls), &connections),
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Hands a connection to the relay, or closes it if there is no room.
fn admit(relay: &Arc<Relay>, (stream, tls): (Stream, &Shown), connections: &RefCell<JoinSet<()>>) {
    let Stream::Tcp(socket) = stream else {
        return;
    };
    let mut connections = connections.borrow_mut();
    while connections.try_join_next().is_some() {}
    let serving = match &*tls.borrow() {
        None => relay
            .serve(socket)
            .map(|serving| connections.spawn_local(serving)),
        Some(tls) => {
            let serving = relay.serve_tls(socket, tls.rustls_config());
            serving.map(|serving| connections.spawn_local(serving))
        }
    };
    if let Err(error) = serving {
        tracing::warn!(%error, "connection to the request plane refused");
    }
}
