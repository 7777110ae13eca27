//! The relay: callers and workers connect to it, and it forwards calls to the workers of their services.
//!
//! ```text
//!  caller ─ stream ─ Relay ─ Registry: chooses a worker, or waits ─ forward ─ stream ─ worker
//! ```
//! Bodies are forwarded in parts, as they are received. The relay grants the sender of a body only credit that the
//! receiver has granted to it: it holds memory only for bytes that can be sent on.
//!
//! Non-goals: listeners, and the choice of the thread that drives a connection.

mod access;
mod counts;
mod dialed;
mod forward;
mod peers;
mod pressure;
mod pump;
mod queue;
mod registry;
mod report;
mod tries;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tokio::net::TcpStream;

use crate::caller::Call;
use crate::config::Rule;
use crate::dial::TargetTls;
use crate::frame::Head;
use crate::io::{Failure, Memory, Receiver, Sender, Transport, Way, admit_session};
use crate::status::Status;
use dialed::Dialed;
pub use dialed::DialedWorker;
use forward::Passage;
use peers::{Origin, Peers};
pub use queue::RelayConfig;
pub use report::{CallReport, QueueReport, RelayReport, ServiceReport, TimeReport, WorkerReport};
pub use tries::Tries;

/// A relay between callers and workers. Any number of threads may drive its connections.
#[derive(Debug)]
pub struct Relay {
    passage: Arc<Passage>,
    peers: Arc<Peers>,
    dialed: Dialed,
}

impl Relay {
    /// A relay without connections.
    #[must_use]
    pub fn new(memory: &Arc<Memory>, config: RelayConfig) -> Arc<Self> {
        let passage = Arc::new(Passage::new(config));
        Arc::new(Self {
            peers: Arc::new(Peers::new(memory, &passage)),
            passage,
            dialed: Dialed::default(),
        })
    }

    /// Sets the limits for further calls.
    pub fn set_config(&self, config: RelayConfig) {
        self.passage.set_config(config);
    }

    /// Replaces the rules of all peers that connect: the first rule that matches a peer decides, and a peer that none
    /// matches may do nothing. Open calls that are no longer allowed are reset as *denied*, and workers that offer a
    /// service without permission are dismissed. Without rules, every peer may offer and call everything. The rules do
    /// not apply to [`Relay::call`].
    pub fn set_rules(&self, rules: Vec<Rule>) {
        self.passage.rules.set(rules);
        self.peers.update_access();
    }

    /// Serves a peer that has connected, caller or worker, until its connection is closed. The future runs
    /// on a tokio runtime, which also runs the calls of the peer.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::OutOfMemory`] if the budget has no room for the connection.
    pub fn serve(
        self: &Arc<Self>,
        socket: TcpStream,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let (memory, holding) = self.peers.client(&socket)?;
        let client = Origin::Client(memory, holding);
        Ok(self.peers.serve(socket.into(), client)?.1)
    }

    /// Serves a peer over TLS, with the `config` of a listener.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the budget has no room for the session.
    pub fn serve_tls(
        self: &Arc<Self>,
        socket: TcpStream,
        config: Arc<ServerConfig>,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let (memory, holding) = self.peers.client(&socket)?;
        // The handshake counts for the client already.
        let charge = admit_session(&memory)?;
        let client = Origin::Client(memory, holding);
        let peers = Arc::clone(&self.peers);
        Ok(async move {
            let agreed = Transport::accept(socket, config, charge).await;
            let served = agreed.and_then(|transport| peers.serve(transport, client));
            drop(peers);
            match served {
                Ok((_, serving)) => serving.await,
                Err(error) => {
                    tracing::debug!(%error, "TLS connection to the request plane failed")
                }
            }
        })
    }

    /// Dials each of `workers` and keeps a connection to it, over TLS if `tls` is given. Connections to workers that
    /// are not listed any more are closed once their open calls have ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime, which has to run while the workers are dialed.
    pub fn set_workers(self: &Arc<Self>, workers: &[DialedWorker], tls: Option<&TargetTls>) {
        self.dialed.set(&self.peers, workers, tls);
    }

    /// Opens a call to a service from inside of the process. Its body must have the length and payment of `head`.
    ///
    /// # Errors
    /// [`Failure`], unprocessed: no worker offers the service, or none has room in time.
    ///
    /// # Cancel safety
    /// A future that is dropped has opened nothing. A [`Call`] that is dropped is cancelled.
    pub async fn call(&self, head: &Head<'_>) -> Result<Call, Failure> {
        self.call_again(head, &self.tries()).await
    }

    /// The tries of a new call, whose time to wait for workers begins now.
    #[must_use]
    pub fn tries(&self) -> Tries {
        self.passage.tries()
    }

    /// Notes that the worker of a call did not process it, and that no part of its body was passed on: another worker
    /// may be tried by [`Relay::call_again`].
    ///
    /// # Errors
    /// `failure`, if other workers would fail too, or if enough workers were tried.
    pub fn refused(
        &self,
        tries: &mut Tries,
        response: &Receiver,
        failure: Failure,
    ) -> Result<(), Failure> {
        tries.note(&self.passage.registry, response.link(), failure)
    }

    /// Opens a call as [`Relay::call`] does, at a worker that has not refused it.
    ///
    /// # Errors
    /// The errors of [`Relay::call`]; if no other worker has room, the refusal of one that was tried.
    ///
    /// # Cancel safety
    /// As for [`Relay::call`].
    pub async fn call_again(&self, head: &Head<'_>, tries: &Tries) -> Result<Call, Failure> {
        let handle = self.passage.open(head, tries).await?;
        Ok(Call {
            request: Sender::new(Arc::clone(&handle)),
            response: Receiver::new(handle, Way::Response),
        })
    }

    /// Counts a call of [`Relay::call`] that has ended: its status, and the time until its response
    /// began.
    pub fn count(&self, status: Status, answered: Option<Duration>) {
        if let Some(time) = answered {
            self.passage.counts.answer(time);
        }
        self.passage.counts.finish(status);
    }

    /// From `at` on, reports that a call of [`Relay::call`] has waited for long, until the future is dropped: calls
    /// that hold credit without using it are reset meanwhile. The future never completes.
    ///
    /// # Cancel safety
    /// A future that is dropped holds nothing.
    pub async fn press_at<T>(&self, at: Instant) -> T {
        self.passage.pressure.press_at(at).await
    }

    /// Waits until any call has waited for long.
    ///
    /// # Cancel safety
    /// A future that is dropped holds nothing.
    pub async fn pressed(&self) {
        self.passage.pressure.pressed().await;
    }

    /// The services, workers and waiting calls of the relay, and the counts of its calls.
    #[must_use]
    pub fn report(&self) -> RelayReport {
        RelayReport {
            services: self.passage.registry.report(),
            queue: self.passage.queue.report(),
            calls: self.passage.counts.report(),
            budget_waits: self.peers.memory().waits(),
        }
    }

    /// Drains the relay: accepts no further calls from callers, and finishes the open ones. Workers are sent GOAWAY
    /// after these calls, which may still wait for them.
    pub fn drain(&self) {
        self.passage.drain();
        for link in self.peers.links().iter().filter(|link| !link.serves_any()) {
            link.drain();
        }
    }

    /// Resets the calls that are still open when the deadline of [`Relay::drain`] has passed, as UNPROCESSED if no
    /// worker got them.
    pub fn cut(&self) {
        for link in self.peers.links() {
            link.drain();
            link.cut();
        }
    }

    /// Waits until no call is open after [`Relay::drain`].
    pub async fn drained(&self) {
        let links = self.peers.links();
        for link in links.iter().filter(|link| !link.serves_any()) {
            link.drained().await;
        }
        for link in &links {
            link.drain();
        }
        for link in links {
            link.drained().await;
        }
    }
}
