//! Passes calls on: callers and workers connect here, and a worker names its services when it connects.
//!
//! ```text
//!  caller ─ stream ─ Relay ─ Registry: chooses a worker, or waits ─ forward ─ stream ─ worker
//! ```
//! Bodies go through in parts, as they come. What is granted to the side that sends was granted by the
//! side that receives before: memory is held here only for bytes that can go on.
//!
//! Leaves out: who listens, and on which threads connections are driven.

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
use crate::connection::Side;
use crate::dial::TargetTls;
use crate::frame::Head;
use crate::io::{Failure, Memory, Receiver, Sender, Transport, Way, reserve_session};
use crate::status::Status;
use dialed::Dialed;
pub use dialed::DialedWorker;
use forward::Passage;
use peers::Peers;
pub use queue::RelayConfig;
pub use report::{CallReport, QueueReport, RelayReport, ServiceReport, TimeReport, WorkerReport};
pub use tries::Tries;

/// A relay between callers and workers, which may be driven on any number of threads.
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

    /// Limits calls that come from now on by `config`.
    pub fn set_config(&self, config: RelayConfig) {
        self.passage.set_config(config);
    }

    /// Has each peer that connects follow `rules` from now on: the first that is about it decides, and the end of them
    /// denies. Open calls that are no longer allowed are reset as *denied*, and workers that offer what they may not
    /// are dismissed. Without rules every peer may do everything. Calls of [`Relay::call`] follow none.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        self.passage.rules.set(rules);
        self.peers.update_access();
    }

    /// Serves a peer that has connected, caller or worker, until its connection is over. The future runs
    /// on a tokio runtime, which also runs the calls that the peer makes.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::OutOfMemory`] where the budget has no room for it.
    pub fn serve(
        self: &Arc<Self>,
        socket: TcpStream,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        Ok(self.peers.serve(socket.into(), Side::Acceptor, None)?.1)
    }

    /// The same by TLS: `config` is what a listener shows and asks for.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] where the budget has no room for it.
    pub fn serve_tls(
        self: &Arc<Self>,
        socket: TcpStream,
        config: Arc<ServerConfig>,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let charge = reserve_session(self.peers.memory())?;
        let peers = Arc::clone(&self.peers);
        Ok(async move {
            let agreed = Transport::accept(socket, config, charge).await;
            let served = agreed.and_then(|transport| peers.serve(transport, Side::Acceptor, None));
            drop(peers);
            match served {
                Ok((_, serving)) => serving.await,
                Err(error) => {
                    tracing::debug!(%error, "TLS connection to the request plane failed")
                }
            }
        })
    }

    /// Keeps a connection to each of `workers`, by TLS where there is any, and to no others that were dialed before: what is open there goes
    /// on.
    ///
    /// # Panics
    /// Outside of a tokio runtime, which has to go on for as long as they are dialed.
    pub fn set_workers(self: &Arc<Self>, workers: &[DialedWorker], tls: Option<&TargetTls>) {
        self.dialed.set(&self.peers, workers, tls);
    }

    /// Opens a call to a service from inside of the process. What `head` says must hold.
    ///
    /// # Errors
    /// [`Failure`], with nothing done: nobody serves it, or all that do have no room for too long.
    ///
    /// # Cancel safety
    /// Where it is dropped, nothing was opened. A [`Call`] that is dropped is cancelled.
    pub async fn call(&self, head: &Head<'_>) -> Result<Call, Failure> {
        self.call_again(head, &self.tries()).await
    }

    /// The tries of a call that comes now.
    #[must_use]
    pub fn tries(&self) -> Tries {
        self.passage.tries()
    }

    /// Notes that the worker of a call has done nothing for it, and that nothing of its body was passed on: another may
    /// be asked by [`Relay::call_again`].
    ///
    /// # Errors
    /// `failure`, where another worker could do no more, or where enough were asked.
    pub fn refused(
        &self,
        tries: &mut Tries,
        response: &Receiver,
        failure: Failure,
    ) -> Result<(), Failure> {
        tries.note(&self.passage.registry, response.link(), failure)
    }

    /// [`Relay::call`] of a worker that has not refused the call.
    ///
    /// # Errors
    /// As [`Relay::call`]; where nobody else has room, what the workers said that refused it.
    ///
    /// # Cancel safety
    /// As [`Relay::call`].
    pub async fn call_again(&self, head: &Head<'_>, tries: &Tries) -> Result<Call, Failure> {
        let handle = self.passage.open(head, tries).await?;
        Ok(Call {
            request: Sender::new(Arc::clone(&handle)),
            response: Receiver::new(handle, Way::Response),
        })
    }

    /// Counts a call of [`Relay::call`] that is over, as whoever made it knows: its status, and how long it took
    /// until its answer began.
    pub fn count(&self, status: Status, answered: Option<Duration>) {
        if let Some(time) = answered {
            self.passage.counts.answer(time);
        }
        self.passage.counts.finish(status);
    }

    /// Says from `at` on, until this is dropped, that a call of [`Relay::call`] has waited for long: calls that hold
    /// credit and use none of it are reset. Never ready.
    ///
    /// # Cancel safety
    /// Nothing is held once it is dropped.
    pub async fn press_at<T>(&self, at: Instant) -> T {
        self.passage.pressure.press_at(at).await
    }

    /// Waits until a call has waited for long.
    ///
    /// # Cancel safety
    /// Nothing is held once it is dropped.
    pub async fn pressed(&self) {
        self.passage.pressure.pressed().await;
    }

    /// What it serves, and what waits.
    #[must_use]
    pub fn report(&self) -> RelayReport {
        RelayReport {
            services: self.passage.registry.report(),
            queue: self.passage.queue.report(),
            calls: self.passage.counts.report(),
            budget_waits: self.peers.memory().waits(),
        }
    }

    /// Takes no further calls from callers, and finishes those that are open: workers are told once these
    /// are over, since calls that wait still need them.
    pub fn drain(&self) {
        self.passage.drain();
        for link in self.peers.links().iter().filter(|link| !link.serves_any()) {
            link.drain();
        }
    }

    /// Resets the calls that are still open after [`Relay::drain`]: its time is over. Callers are told that nothing was
    /// done where that is so.
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
