//! Passes calls on: callers and workers connect here, and a worker names its services when it connects.
//!
//! ```text
//!  caller ─ stream ─ Relay ─ Registry: chooses a worker, or waits ─ forward ─ stream ─ worker
//! ```
//! Bodies go through in parts, as they come. What is granted to the side that sends was granted by the
//! side that receives before: memory is held here only for bytes that can go on.
//!
//! Leaves out: who listens, and on which threads connections are driven.

mod dialed;
mod forward;
mod pump;
mod queue;
mod registry;
mod report;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::net::TcpStream;

use crate::caller::Call;
use crate::connection::Side;
use crate::frame::Head;
use crate::io::{
    Accepted, Driver, Endpoint, Failure, Link, Memory, NamedService, Receiver, Sender, Way,
};
use crate::status::Status;
use dialed::Dialed;
pub use dialed::DialedWorker;
use forward::{Passage, forward};
pub use queue::RelayConfig;
use registry::lock;
pub use report::{QueueReport, RelayReport, ServiceReport, WorkerReport};

/// A relay between callers and workers, which may be driven on any number of threads.
#[derive(Debug)]
pub struct Relay {
    memory: Arc<Memory>,
    passage: Arc<Passage>,
    links: Mutex<Vec<Weak<Link>>>,
    dialed: Dialed,
}

/// One connection's side of a relay.
struct Peer {
    passage: Arc<Passage>,
    address: SocketAddr,
    /// What it may serve; `None`: whatever it names.
    services: Option<Arc<[Box<str>]>>,
}

impl Relay {
    /// A relay without connections.
    #[must_use]
    pub fn new(memory: &Arc<Memory>, config: RelayConfig) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(memory),
            passage: Arc::new(Passage::new(config)),
            links: Mutex::default(),
            dialed: Dialed::default(),
        })
    }

    /// Limits calls that come from now on by `config`.
    pub fn set_config(&self, config: RelayConfig) {
        self.passage.set_config(config);
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
        Ok(self.drive(socket, Side::Acceptor, None)?.1)
    }

    /// Serves a worker that was dialed, of which `services` alone are taken.
    fn serve_dialed(
        self: &Arc<Self>,
        socket: TcpStream,
        services: &Arc<[Box<str>]>,
    ) -> io::Result<(Weak<Link>, impl Future<Output = ()> + Send + use<>)> {
        self.drive(socket, Side::Dialer, Some(Arc::clone(services)))
    }

    fn drive(
        self: &Arc<Self>,
        socket: TcpStream,
        side: Side,
        services: Option<Arc<[Box<str>]>>,
    ) -> io::Result<(Weak<Link>, impl Future<Output = ()> + Send + use<>)> {
        let address = socket.peer_addr()?;
        // Without it answers are late, and right.
        let _ = socket.set_nodelay(true);
        let now = Instant::now();
        let link = Link::new(side, &self.memory, now)
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        let mut links = lock(&self.links);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&link));
        drop(links);
        if self.passage.is_draining() {
            link.drain();
        }
        let peer = Peer {
            passage: Arc::clone(&self.passage),
            address,
            services,
        };
        let weak = Arc::downgrade(&link);
        let driver = Driver::new(link, socket, peer, now);
        let driven = async move {
            driver.await;
        };
        Ok((weak, driven))
    }

    /// Keeps a connection to each of `workers`, and to no others that were dialed before: what is open there goes
    /// on.
    ///
    /// # Panics
    /// Outside of a tokio runtime, which has to go on for as long as they are dialed.
    pub fn set_workers(self: &Arc<Self>, workers: &[DialedWorker]) {
        self.dialed.set(self, workers);
    }

    /// Opens a call to a service from inside of the process. What `head` says must hold.
    ///
    /// # Errors
    /// [`Failure`], with nothing done: nobody serves it, or all that do have no room for too long.
    ///
    /// # Cancel safety
    /// Where it is dropped, nothing was opened. A [`Call`] that is dropped is cancelled.
    pub async fn call(&self, head: &Head<'_>) -> Result<Call, Failure> {
        let handle = self.passage.open(head, None).await?;
        Ok(Call {
            request: Sender::new(Arc::clone(&handle)),
            response: Receiver::new(handle, Way::Response),
        })
    }

    /// What it serves, and what waits.
    #[must_use]
    pub fn report(&self) -> RelayReport {
        RelayReport {
            services: self.passage.registry.report(),
            queue: self.passage.queue.report(),
        }
    }

    /// Takes no further calls from callers, and finishes those that are open: workers are told once these
    /// are over, since calls that wait still need them.
    pub fn drain(&self) {
        self.passage.drain();
        for link in self.links().iter().filter(|link| !link.serves_any()) {
            link.drain();
        }
    }

    /// Waits until no call is open after [`Relay::drain`].
    pub async fn drained(&self) {
        let links = self.links();
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

    fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.links).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Endpoint for Peer {
    fn accept(&self, accepted: Accepted) {
        if self.passage.is_draining() {
            // A worker that calls others: its connection is not told yet.
            accepted
                .handle
                .reset(&Failure::unprocessed(Status::Draining, ""));
            return;
        }
        tokio::spawn(forward(Arc::clone(&self.passage), accepted));
    }

    fn named(&self, link: &Arc<Link>, services: &[NamedService]) {
        let may_serve = |name: &str| match &self.services {
            Some(services) => services.iter().any(|service| **service == *name),
            None => true,
        };
        let mut services = services.to_vec();
        services.retain(|(name, _)| may_serve(name));
        let registered = self.passage.registry.set(link, self.address, &services);
        if registered.is_err() {
            link.refuse();
        }
    }

    fn lost(&self, link: &Arc<Link>) {
        self.passage.registry.remove(link);
    }
}
