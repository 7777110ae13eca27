//! One worker of the plane: accepts connections, and has each driven on its thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use steppe_net::limits::ACCEPT_PAUSE;
use steppe_net::{
    BoundListener, BoundSockets, Change, Drained, ListenAddress, Listener, Phase, Stream, Worker,
};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet, spawn_local};

use super::dialing::Dialing;
use super::running::Running;
use crate::config::Plane;
use crate::relay::Relay;

/// Listeners of a worker that are open, and the connections that came to them.
pub(super) struct Listening<'a> {
    running: &'a Running,
    open: Vec<Open>,
    connections: Rc<RefCell<JoinSet<()>>>,
    dialing: Dialing,
}

/// A listener, and the task that accepts its connections.
struct Open {
    address: ListenAddress,
    listener: Rc<Listener>,
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

    /// Serves until the node has drained.
    pub(super) async fn serve(
        mut self,
        worker: &Worker,
        mut changes: mpsc::Receiver<Change<Plane>>,
    ) -> Drained {
        let draining = worker.drain.reached(Phase::Draining);
        tokio::pin!(draining);
        loop {
            tokio::select! {
                () = &mut draining => break,
                Some(change) = changes.recv() => {
                    self.change_over(&change.next, change.sockets).await;
                    // One worker of the node has them all: its peers may be on any.
                    if worker.index == 0 && let Some(relay) = self.running.relay() {
                        self.dialing.change_over(relay, &change.next.workers);
                    }
                    // Who asked may have stopped waiting.
                    let _ = change.done.send(());
                }
            }
        }
        self.shut_down(worker).await
    }

    async fn change_over(&mut self, next: &Plane, mut sockets: BoundSockets) {
        let Some(relay) = self.running.relay() else {
            return;
        };
        let stays = |open: &Open| next.listeners.contains(&open.address);
        let (stay, go): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(stays);
        self.open = stay;
        for address in &next.listeners {
            if let Some(bound) = sockets.take_listener(address) {
                self.listen(relay, address, bound);
            }
        }
        for open in go {
            self.close(relay, open).await;
        }
    }

    fn listen(&mut self, relay: &Arc<Relay>, address: &ListenAddress, bound: BoundListener) {
        let listener = match bound.into_listener() {
            Ok(listener) => Rc::new(listener),
            Err(error) => {
                tracing::error!(%error, %address, "cannot listen");
                return;
            }
        };
        let accept = accept(
            Arc::clone(relay),
            Rc::clone(&listener),
            Rc::clone(&self.connections),
        );
        self.open.push(Open {
            address: address.clone(),
            listener,
            task: spawn_local(accept),
        });
    }

    /// Closes a listener; who is in its queue is served, since closing would reset them.
    async fn close(&self, relay: &Arc<Relay>, open: Open) {
        open.task.abort();
        // It lets go of its socket.
        let _ = open.task.await;
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok((stream, _))) = open.listener.poll_accept(&mut cx) {
            admit(relay, stream, &self.connections);
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
        // Peers that stay connected lose nothing once no call is open.
        Drained {
            open,
            dropped: if is_drained {
                0
            } else {
                self.connections.borrow().len()
            },
        }
    }
}

/// Accepts connections, until it is aborted.
async fn accept(relay: Arc<Relay>, listener: Rc<Listener>, connections: Rc<RefCell<JoinSet<()>>>) {
    loop {
        match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok((stream, _)) => admit(&relay, stream, &connections),
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Has the relay serve a connection; without room for it, it is closed.
fn admit(relay: &Arc<Relay>, stream: Stream, connections: &RefCell<JoinSet<()>>) {
    let Stream::Tcp(socket) = stream else {
        return;
    };
    let mut connections = connections.borrow_mut();
    while connections.try_join_next().is_some() {}
    match relay.serve(socket) {
        Ok(serving) => _ = connections.spawn_local(serving),
        Err(error) => tracing::warn!(%error, "a connection of the plane was not served"),
    }
}
