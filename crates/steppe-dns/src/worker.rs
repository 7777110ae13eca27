//! One worker of the forwarder: opens listeners, changes snapshots, and shuts down without a query lost.
//!
//! All tasks work on `state`. `decide` answers a client's query or lets its client wait (`clients`); `asking`
//! sends queries to servers (`upstream`, `carriers`), `received` handles their responses, and `complete` answers
//! the clients that wait. `datagrams`, `streams` (with `client_stream`), `streams_upstream` and `timer` are the
//! tasks.

mod addresses;
mod askers;
mod asking;
mod carriers;
mod charged;
mod client_stream;
mod clients;
mod complete;
mod connecting;
mod connection;
mod connections;
mod datagrams;
mod decide;
mod denials;
mod exchanges;
mod fallback;
mod fallbacks;
mod https;
mod in_process;
mod intake;
mod limited;
mod line;
mod log;
mod probes;
mod queue;
mod received;
mod reconnects;
mod server;
mod silence;
mod state;
mod streams;
mod streams_upstream;
mod subnets;
mod timer;
mod times_asked;
mod upstream;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use steppe_net::tls::HandshakeScheduler;
use steppe_net::{BoundSockets, Drained, ListenAddress, Phase, SocketKind, Worker};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

use crate::snapshot::Snapshot;
use crate::wakes::Wake;
use datagrams::{serve_datagrams, serve_rest};
use state::{Handle, turn};
use streams::{StreamListener, StreamSettings, accept, accept_rest};

pub use askers::Unanswered;
pub(crate) use in_process::ask;
pub use in_process::{Asked, Asking};
pub(crate) use intake::Intake;
pub(crate) use state::{DatagramListener, WorkerState};

/// A listener that is open, and the task that serves it.
struct Open {
    socket: Socket,
    task: JoinHandle<()>,
}

enum Socket {
    /// A UDP listener, and its number in the state.
    Udp(Rc<DatagramListener>, u32),
    Stream(Rc<StreamListener>),
}

/// Interval at which a worker or a listener that ends checks for clients that still wait.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Time for which clients of a listener that a reload closes may wait for their answers.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(3);

/// Serves on one worker until the node has drained.
pub(crate) async fn serve(worker: Rc<Worker>, mut intake: Intake) -> Drained {
    let mut serving: Option<Serving> = None;
    let draining = worker.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    loop {
        tokio::select! {
            () = &mut draining => break,
            Some(change) = intake.changes.recv() => {
                let is_needed = change.next.config.is_asked();
                if serving.is_none() && is_needed {
                    serving = Serving::begin(&worker, &change.next, &mut intake);
                }
                if let Some(serving) = &mut serving {
                    serving.change_over(change.next, change.sockets).await;
                }
                // The sender of the change may have stopped waiting.
                let _ = change.done.send(());
            }
        }
    }
    match serving {
        Some(serving) => serving.shut_down().await,
        None => Drained::default(),
    }
}

fn tell_of(opened: io::Result<()>, address: SocketAddr) {
    if let Err(error) = opened {
        tracing::error!(%error, %address, "cannot listen");
    }
}

/// Answers clients whose questions other workers have asked.
async fn receive_wakes(state: Handle, mut wakes: mpsc::Receiver<Wake>) {
    while let Some(wake) = wakes.recv().await {
        turn(&state, |state, _| state.wake(&wake));
    }
}

struct Serving {
    state: Handle,
    open: Vec<Open>,
    /// The tasks of the timer, and of wakes from other workers.
    tasks: [AbortHandle; 2],
    worker: Rc<Worker>,
    /// Scheduler of the TLS handshakes of all listeners.
    turns: Rc<HandshakeScheduler>,
    /// Registration of the state for queries from within the process.
    _here: in_process::Installed,
}

/// The identity of a listener's socket, whatever its protocol.
type Key = (SocketAddr, SocketKind);

impl Socket {
    fn key(&self) -> Key {
        match self {
            Self::Udp(listener, _) => (listener.address, SocketKind::Datagram),
            Self::Stream(listener) => (listener.address, SocketKind::Stream),
        }
    }
}

impl Serving {
    /// Begins to serve. `None`: the system has no random numbers, without which nothing is served.
    fn begin(worker: &Rc<Worker>, snapshot: &Arc<Snapshot>, intake: &mut Intake) -> Option<Self> {
        let state = WorkerState::new(worker.index, Arc::clone(snapshot), intake)?;
        let wakes = intake.wakes.take()?;
        let timer = spawn_local(timer::run(Rc::clone(&state)));
        let wakes = spawn_local(receive_wakes(Rc::clone(&state), wakes));
        Some(Self {
            _here: in_process::install(&state),
            state,
            open: Vec::new(),
            tasks: [timer.abort_handle(), wakes.abort_handle()],
            worker: Rc::clone(worker),
            turns: Rc::default(),
        })
    }

    async fn change_over(&mut self, next: Arc<Snapshot>, mut sockets: BoundSockets) {
        self.state.borrow_mut().set_snapshot(Arc::clone(&next));
        let streams = next.stream_settings();
        let datagrams = next.config.listeners.iter();
        let datagrams: Vec<SocketAddr> = datagrams
            .filter(|listener| listener.has_datagrams())
            .map(|listener| listener.address)
            .collect();
        let stays = |open: &Open| match open.socket.key() {
            (address, SocketKind::Datagram) => datagrams.contains(&address),
            (address, SocketKind::Stream) => streams.iter().any(|(known, _)| *known == address),
        };
        let open = std::mem::take(&mut self.open).into_iter();
        let (stay, go): (Vec<_>, Vec<_>) = open.partition(stays);
        self.open = stay;
        for address in datagrams {
            let opened = self.open_datagrams(address, &mut sockets);
            tell_of(opened, address);
        }
        for (address, settings) in streams {
            let opened = self.open_streams(address, settings, &mut sockets);
            tell_of(opened, address);
        }
        self.close(go).await;
    }

    /// Opens a UDP listener, if it is new.
    fn open_datagrams(
        &mut self,
        address: SocketAddr,
        sockets: &mut BoundSockets,
    ) -> io::Result<()> {
        let Some(bound) = sockets.take_datagram(address) else {
            return Ok(());
        };
        let listener = Rc::new(DatagramListener::new(address, bound.into_socket()?));
        let number = self.state.borrow_mut().add_listener(&listener);
        let serve = serve_datagrams(Rc::clone(&self.state), Rc::clone(&listener), number);
        let task = spawn_local(serve);
        let socket = Socket::Udp(listener, number);
        self.open.push(Open { socket, task });
        Ok(())
    }

    /// Opens a TCP listener; one that is open already takes the settings over.
    fn open_streams(
        &mut self,
        address: SocketAddr,
        settings: StreamSettings,
        sockets: &mut BoundSockets,
    ) -> io::Result<()> {
        for Open { socket, .. } in &self.open {
            if let Socket::Stream(listener) = socket
                && listener.address == address
            {
                listener.set_settings(settings);
                return Ok(());
            }
        }
        let Some(bound) = sockets.take_listener(&ListenAddress::Tcp(address)) else {
            return Ok(());
        };
        let listener = bound.into_listener()?;
        let settings = (&self.turns, settings);
        let listener = StreamListener::new(address, listener, &self.worker, settings);
        let task = spawn_local(accept(Rc::clone(&self.state), Rc::clone(&listener)));
        let socket = Socket::Stream(listener);
        self.open.push(Open { socket, task });
        Ok(())
    }

    /// Stops listeners: takes the datagrams and connections that have come to them, and no more.
    async fn stop(&self, open: &mut [Open]) {
        for Open { socket, task } in open {
            task.abort();
            // The task releases its socket.
            let _ = task.await;
            match socket {
                Socket::Udp(listener, number) => serve_rest(&self.state, listener, *number),
                Socket::Stream(listener) => accept_rest(&self.state, listener),
            }
        }
    }

    /// Closes listeners when the queries that came to them are answered.
    async fn close(&self, mut go: Vec<Open>) {
        self.stop(&mut go).await;
        let numbers = go.iter().filter_map(|open| match open.socket {
            Socket::Udp(_, number) => Some(number),
            Socket::Stream(_) => None,
        });
        let numbers: Vec<u32> = numbers.collect();
        let wait = |number: &u32| self.state.borrow().clients.wait_for(*number);
        let answered = async {
            while numbers.iter().any(wait) {
                sleep(LOOK_EVERY).await;
            }
        };
        // Clients that still wait by then wait for servers that do not answer.
        let _ = timeout(CLOSE_TIME_MAX, answered).await;
        let listeners = &mut self.state.borrow_mut().listeners;
        for number in numbers {
            listeners[number as usize] = None;
        }
    }

    async fn shut_down(mut self) -> Drained {
        let mut open = std::mem::take(&mut self.open);
        self.stop(&mut open).await;
        let waiting = self.state.borrow().in_flight();
        let is_over = || {
            let state = self.state.borrow();
            // Clients of other workers may wait for questions that this worker asks.
            state.in_flight() == 0 && !state.exchanges.are_awaited() && state.connections.is_empty()
        };
        let stopped = self.worker.drain.reached(Phase::Stopped);
        tokio::pin!(stopped);
        while !is_over() {
            tokio::select! {
                () = &mut stopped => break,
                () = sleep(LOOK_EVERY) => {}
            }
        }
        self.tasks.iter().for_each(AbortHandle::abort);
        let dropped = self.state.borrow().in_flight();
        Drained {
            open: waiting,
            dropped,
        }
    }
}
