//! The listeners of a service on one worker: opened, retired, drained.

use std::rc::Rc;

use tokio::task::{JoinHandle, spawn_local};

use super::acceptor::Acceptor;
use super::admission::{Admission, OpenSessions};
use super::service::{ConnectionService, SessionService};
use crate::address::SocketKey;
use crate::drain::Phase;
use crate::listener::BoundListener;
use crate::service::Drained;
use crate::tls::HandshakeScheduler;
use crate::worker::Worker;

/// Listeners of a service on one worker, by their sockets' keys.
#[derive(Debug)]
pub struct ListenerSet<S> {
    worker: Rc<Worker>,
    scheduler: Rc<HandshakeScheduler>,
    open: Rc<OpenSessions>,
    listeners: Vec<OpenListener<S>>,
}

/// Listeners that a new configuration has not.
#[derive(Debug)]
#[must_use = "they accept connections until they are closed"]
pub struct RetiredListeners<S> {
    worker: Rc<Worker>,
    listeners: Vec<OpenListener<S>>,
}

#[derive(Debug)]
struct OpenListener<S> {
    key: SocketKey,
    service: Rc<S>,
    /// `None`: it accepts no connections.
    accepting: Option<JoinHandle<()>>,
}

impl<S: ConnectionService> ListenerSet<S> {
    /// Accepts connections from `bound`, for the service that `service` makes with the listener's admission.
    pub fn open(
        &mut self,
        key: SocketKey,
        bound: BoundListener,
        service: impl FnOnce(Admission) -> S,
    ) {
        let acceptor = Acceptor {
            worker: Rc::clone(&self.worker),
            address: key.address.clone(),
            service: self.add(key, service),
        };
        let accepting = spawn_local(acceptor.run(bound));
        let added = self.listeners.last_mut().expect("it was added");
        added.accepting = Some(accepting);
    }
}

impl<S: SessionService> ListenerSet<S> {
    /// No listeners yet, on `worker`.
    #[must_use]
    pub fn new(worker: &Rc<Worker>) -> Self {
        Self {
            worker: Rc::clone(worker),
            scheduler: Rc::default(),
            open: Rc::default(),
            listeners: Vec::new(),
        }
    }

    /// No listeners yet, whose sessions are drained with those of this set.
    #[must_use]
    pub fn beside<T>(&self) -> ListenerSet<T> {
        ListenerSet {
            worker: Rc::clone(&self.worker),
            scheduler: Rc::clone(&self.scheduler),
            open: Rc::clone(&self.open),
            listeners: Vec::new(),
        }
    }

    /// Adds a listener whose sessions come by other means than connections that are accepted here. It is retired as any
    /// other.
    pub fn add(&mut self, key: SocketKey, service: impl FnOnce(Admission) -> S) -> Rc<S> {
        let service = Rc::new(service(Admission::new(&self.scheduler, &self.open)));
        self.listeners.push(OpenListener {
            key,
            service: Rc::clone(&service),
            accepting: None,
        });
        service
    }

    /// Keeps the listeners for which `stays` returns true, after it has them follow a new configuration.
    pub fn retain(
        &mut self,
        mut stays: impl FnMut(&SocketKey, &Rc<S>) -> bool,
    ) -> RetiredListeners<S> {
        let listeners = std::mem::take(&mut self.listeners).into_iter();
        let (stay, go) = listeners.partition(|open| stays(&open.key, &open.service));
        self.listeners = stay;
        RetiredListeners {
            worker: Rc::clone(&self.worker),
            listeners: go,
        }
    }

    /// Closes the listeners, and waits for their sessions until the node's drain times out.
    pub async fn shut_down(mut self) -> Drained {
        let all = self.retain(|_, _| false);
        all.drain();
        all.closed().await;
        let open = self.open.count();
        // Connections between two requests end now; the others after their response.
        self.worker.deadlines.wake_all();
        tokio::select! {
            () = self.open.all_closed() => {}
            () = self.worker.drain.reached(Phase::Stopped) => {}
        }
        Drained {
            open,
            dropped: self.open.count(),
        }
    }
}

impl<S: SessionService> RetiredListeners<S> {
    /// Has the sessions of these listeners drain, and waits until their sockets are closed. Sessions of all listeners
    /// are woken, to follow what is asked of them now.
    pub async fn close(self) {
        self.drain();
        self.worker.deadlines.wake_all();
        self.closed().await;
    }

    fn drain(&self) {
        for listener in &self.listeners {
            let drain = listener.service.admission().drain();
            drain.enter(Phase::Draining);
        }
    }

    async fn closed(self) {
        for listener in self.listeners {
            if let Some(accepting) = listener.accepting {
                // A listener that failed has logged that.
                let _ = accepting.await;
            }
        }
    }
}
