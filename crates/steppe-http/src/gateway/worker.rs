//! One worker of the gateway: opens listeners, changes configurations, and shuts
//! down without dropping anybody.

use std::rc::Rc;
use std::sync::Arc;

use steppe_net::accept::{ConnectionService, ListenerSet};
use steppe_net::{BoundSockets, Change, Drained, Phase, SocketKey, Worker, clock};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::Gateway;
use super::acceptor::Acceptor;
use super::listener::Listener;
use super::snapshot::{Snapshot, WorkerState};
use crate::codecs::DownstreamCodecs;
use crate::metrics::CloseReason;
use crate::upstream::SWEEP_EVERY;

/// Where a worker takes connections and configurations from.
pub struct Intake {
    /// Sockets of listeners of the first snapshot.
    pub sockets: BoundSockets,
    /// The snapshots that follow, and sockets that they add.
    pub changes: mpsc::Receiver<Change<Gateway>>,
    /// What listeners speak.
    pub codecs: DownstreamCodecs,
}

/// Serves on one worker until the node has drained; says what became of the
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
    let mut listeners = ListenerSet::new(&state.worker);
    let opening = Opening {
        state: &state,
        codecs: &codecs,
    };
    opening.open_new(&mut listeners, &first, sockets);
    drop(first);
    let draining = state.worker.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    loop {
        tokio::select! {
            () = &mut draining => break,
            Some(change) = changes.recv() => opening.change_over(&mut listeners, change).await,
        }
    }
    shut_down(&state, listeners).await
}

/// Opens listeners, and changes them over to the next snapshot.
struct Opening<'a> {
    state: &'a Rc<WorkerState>,
    codecs: &'a DownstreamCodecs,
}

impl Opening<'_> {
    /// Opens the listeners of a snapshot that `sockets` has a socket for.
    fn open_new(
        &self,
        listeners: &mut ListenerSet<Acceptor>,
        snapshot: &Snapshot,
        mut sockets: BoundSockets,
    ) {
        let state = self.state;
        for (index, config) in snapshot.gateway.config.listeners.iter().enumerate() {
            let address = &config.address;
            let Some(bound) = sockets.take_listener(address) else {
                continue;
            };
            listeners.open(SocketKey::stream(address.clone()), bound, |admission| {
                let drain = admission.drain().clone();
                let settings = snapshot.listener_settings(index, drain, state);
                let listener = Listener::new(address.clone(), admission, settings);
                Acceptor::new(state, listener, self.codecs.of(&config.protocols))
            });
        }
    }

    /// Serves what begins from now on as the next snapshot says.
    async fn change_over(&self, listeners: &mut ListenerSet<Acceptor>, change: Change<Gateway>) {
        let state = self.state;
        let last = state.current();
        let next = Snapshot::new(change.next, &state.worker, Some(&last));
        state.set_current(Rc::clone(&next));
        let gone = listeners.retain(|key, acceptor| {
            let Some((index, _)) = next.gateway.listener(&key.address) else {
                return false;
            };
            let drain = acceptor.admission().drain().clone();
            let settings = next.listener_settings(index, drain, state);
            let protocols = &next.gateway.config.listeners[index].protocols;
            acceptor.follow(settings, self.codecs.of(protocols));
            true
        });
        self.open_new(listeners, &next, change.sockets);
        gone.close().await;
        retire_pools(&last, &next);
        // The sender may have stopped waiting.
        let _ = change.done.send(());
    }
}

/// Idle connections of upstreams that went are of no use to anybody.
fn retire_pools(last: &Snapshot, next: &Snapshot) {
    for (_, pool) in &last.pools {
        let mut successors = next.pools.iter();
        if !successors.any(|(_, next)| next.shares_idle(pool)) {
            pool.retire();
        }
    }
}

async fn shut_down(state: &WorkerState, listeners: ListenerSet<Acceptor>) -> Drained {
    let drained = listeners.shut_down().await;
    let totals = state.current().totals.clone();
    (0..drained.dropped).for_each(|_| totals.closed(CloseReason::Drain));
    drained
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
