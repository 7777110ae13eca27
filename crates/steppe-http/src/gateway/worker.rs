//! One worker of the gateway: opens listeners, changes configurations, and shuts
//! down without dropping anybody.

use std::rc::Rc;
use std::sync::Arc;

use steppe_net::{
    BoundListener, BoundSockets, Change, Drained, ListenAddress, Phase, Worker, clock,
};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::Gateway;
use super::acceptor::Acceptor;
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
    let mut acceptors = open_new(&state, &first, sockets, &codecs);
    drop(first);
    let draining = state.worker.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    loop {
        tokio::select! {
            () = &mut draining => break,
            Some(change) = changes.recv() => change_over(&state, &mut acceptors, change, &codecs).await,
        }
    }
    shut_down(&state, acceptors).await
}

/// Opens the listeners of a snapshot that `sockets` has a socket for.
fn open_new(
    state: &Rc<WorkerState>,
    snapshot: &Snapshot,
    mut sockets: BoundSockets,
    codecs: &DownstreamCodecs,
) -> Vec<Acceptor> {
    let listeners = snapshot.gateway.config.listeners.iter().enumerate();
    let open = |(index, listener): (usize, &crate::config::Listener)| {
        let bound = sockets.take_listener(&listener.address)?;
        Some(open(state, snapshot, index, (bound, codecs)))
    };
    listeners.filter_map(open).collect()
}

/// Accepts from `bound`, as listener `index` of the snapshot has it.
fn open(
    state: &Rc<WorkerState>,
    snapshot: &Snapshot,
    index: usize,
    (bound, codecs): (BoundListener, &DownstreamCodecs),
) -> Acceptor {
    let listener = &snapshot.gateway.config.listeners[index];
    let settings = |drain| snapshot.listener_settings(index, drain, state);
    let served = (codecs.of(&listener.protocols), settings);
    Acceptor::open(state, listener.address.clone(), bound, served)
}

/// Serves what begins from now on as the next snapshot says.
async fn change_over(
    state: &Rc<WorkerState>,
    acceptors: &mut Vec<Acceptor>,
    change: Change<Gateway>,
    codecs: &DownstreamCodecs,
) {
    let last = state.current();
    let next = Snapshot::new(change.next, &state.worker, Some(&last));
    state.set_current(Rc::clone(&next));
    let listeners = &next.gateway.config.listeners;
    let index_of = |address: &ListenAddress| {
        let mut known = listeners.iter();
        known.position(|listener| listener.address == *address)
    };
    let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(acceptors)
        .into_iter()
        .partition(|acceptor| index_of(&acceptor.listener.address).is_some());
    *acceptors = stay;
    for acceptor in &*acceptors {
        let listener = &acceptor.listener;
        let index = index_of(&listener.address).expect("it stays");
        let drain = listener.drain.clone();
        listener.set_settings(next.listener_settings(index, drain, state));
        acceptor.set_codec(codecs.of(&listeners[index].protocols));
    }
    acceptors.extend(open_new(state, &next, change.sockets, codecs));
    go.iter().for_each(Acceptor::close);
    // Connections that wait for a request take over what is asked of them now.
    state.worker.deadlines.wake_all();
    for acceptor in go {
        acceptor.closed().await;
    }
    retire_pools(&last, &next);
    // Who asked may have stopped waiting.
    let _ = change.done.send(());
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

async fn shut_down(state: &Rc<WorkerState>, acceptors: Vec<Acceptor>) -> Drained {
    acceptors.iter().for_each(Acceptor::close);
    for acceptor in acceptors {
        acceptor.closed().await;
    }
    let open = state.open();
    // Connections between two requests end now; the others after their response.
    state.worker.deadlines.wake_all();
    tokio::select! {
        () = state.all_closed() => {}
        () = state.worker.drain.reached(Phase::Stopped) => {}
    }
    let dropped = state.open();
    let totals = state.current().totals.clone();
    (0..dropped).for_each(|_| totals.closed(CloseReason::Drain));
    Drained { open, dropped }
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
