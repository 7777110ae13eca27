//! The connections of a relay: those that were accepted, and those that it dialed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use steppe_mem::{Holder, Holding, Reservation};

use super::forward::{Passage, forward};
use super::registry::lock;
use crate::connection::Side;
use crate::io::{Accepted, Driver, Endpoint, Failure, Link, Memory, NamedService, Transport};
use crate::limits::RELAY_CALL_BYTES;
use crate::status::Status;

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Peers {
    memory: Arc<Memory>,
    passage: Arc<Passage>,
    links: Mutex<Vec<Weak<Link>>>,
}

/// One connection's side of a relay.
struct Peer {
    passage: Arc<Passage>,
    address: SocketAddr,
    /// What it may serve; `None`: whatever it names.
    services: Option<Arc<[Box<str>]>>,
    /// Its place among the connections of all clients; `None`: it was dialed.
    holding: Option<(Holding, Reservation)>,
}

impl Peers {
    pub(super) fn new(memory: &Arc<Memory>, passage: &Arc<Passage>) -> Self {
        Self {
            memory: Arc::clone(memory),
            passage: Arc::clone(passage),
            links: Mutex::default(),
        }
    }

    /// Serves a peer until its connection is over; of what it names, it may serve `services` only.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::OutOfMemory`] where the budget has no room for it.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    pub(super) fn serve(
        &self,
        transport: Transport,
        side: Side,
        services: Option<Arc<[Box<str>]>>,
    ) -> io::Result<(Weak<Link>, impl Future<Output = ()> + Send + use<>)> {
        let socket = transport.socket();
        let address = socket.peer_addr()?;
        // Without it answers are late, and right.
        let _ = socket.set_nodelay(true);
        let now = Instant::now();
        let no_room = |error| io::Error::new(io::ErrorKind::OutOfMemory, error);
        let (memory, holding) = match side {
            Side::Acceptor => self.memory.for_client(address.ip()).map_err(no_room)?,
            Side::Dialer => (Arc::clone(&self.memory), None),
        };
        let link = Link::new(side, &memory, now).map_err(no_room)?;
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
            holding,
        };
        let holder = peer.holder();
        let weak = Arc::downgrade(&link);
        let driver = Driver::new(link, transport, peer, now);
        let driven = async move {
            match holder {
                Some(holder) => _ = holder.run(driver).await,
                None => _ = driver.await,
            }
        };
        Ok((weak, driven))
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.links).iter().filter_map(Weak::upgrade).collect()
    }

    /// Calls a worker no more: what is open there goes on, and then its connection is closed.
    pub(super) fn leave(&self, worker: &Arc<Link>) {
        self.passage.registry.remove(worker);
        worker.close_when_idle();
    }
}

impl Peer {
    fn holder(&self) -> Option<Arc<Holder>> {
        let (holding, _) = self.holding.as_ref()?;
        Some(Arc::clone(holding.holder()))
    }
}

impl Endpoint for Peer {
    const CALL_BYTES: usize = RELAY_CALL_BYTES;

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
        if let Some(holder) = self.holder().filter(|_| !services.is_empty()) {
            // A worker works for all callers.
            holder.exempt();
        }
        if registered.is_err() {
            link.refuse();
        }
    }

    fn lost(&self, link: &Arc<Link>) {
        self.passage.registry.remove(link);
    }
}
