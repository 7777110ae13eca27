//! The connections of a relay: accepted ones, and those to dialed workers.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use steppe_mem::{Holder, OverBudget};
use tokio::net::TcpStream;

use super::access::{Access, Deed, denied};
use super::forward::{Passage, forward};
use super::registry::lock;
use crate::connection::{Side, Violation};
use crate::io::{Accepted, Driver, Endpoint, Failure, Held, Link, Memory, NamedService, Transport};
use crate::limits::RELAY_CALL_BYTES;
use crate::status::Status;

fn no_room(error: OverBudget) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, error)
}

/// The open connections of a relay.
#[derive(Debug)]
pub(super) struct Peers {
    memory: Arc<Memory>,
    passage: Arc<Passage>,
    links: Mutex<Vec<Connected>>,
}

/// A connection, and the rights of its peer.
#[derive(Debug)]
struct Connected {
    link: Weak<Link>,
    access: Weak<Access>,
}

/// The endpoint of one connection of a relay.
struct Peer {
    passage: Arc<Passage>,
    address: SocketAddr,
    access: Arc<Access>,
    /// Services that the worker may offer; `None`: all that its rights allow.
    services: Option<Arc<[Box<str>]>>,
    /// Holding of the connection in the table of clients; `None` for a dialed worker.
    holding: Option<Held>,
}

/// The origin of a connection.
pub(super) enum Origin {
    /// A client, with its memory and its holding in the table of clients.
    Client(Arc<Memory>, Option<Held>),
    /// A worker that was dialed. Of the services that it names, only these are registered.
    Worker(Arc<[Box<str>]>),
}

impl Peers {
    pub(super) fn new(memory: &Arc<Memory>, passage: &Arc<Passage>) -> Self {
        Self {
            memory: Arc::clone(memory),
            passage: Arc::clone(passage),
            links: Mutex::default(),
        }
    }

    /// The memory of the client that has connected, and its holding in the table of clients.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::OutOfMemory`] if there is no room for it in the table of clients.
    pub(super) fn client(&self, socket: &TcpStream) -> io::Result<(Arc<Memory>, Option<Held>)> {
        let address = socket.peer_addr()?.ip();
        self.memory.for_client(address).map_err(no_room)
    }

    /// Serves a peer until its connection is closed.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::OutOfMemory`] if the budget has no room for the connection.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    pub(super) fn serve(
        &self,
        transport: Transport,
        origin: Origin,
    ) -> io::Result<(Weak<Link>, impl Future<Output = ()> + Send + use<>)> {
        let socket = transport.socket();
        let address = socket.peer_addr()?;
        // Without TCP_NODELAY, responses are only slower.
        let _ = socket.set_nodelay(true);
        let now = Instant::now();
        let (side, services, memory, holding) = match origin {
            Origin::Client(memory, holding) => (Side::Acceptor, None, memory, holding),
            Origin::Worker(services) => {
                (Side::Dialer, Some(services), Arc::clone(&self.memory), None)
            }
        };
        let link = Link::new(side, &memory, now).map_err(no_room)?;
        let cert = match transport.client_cert() {
            Err(error) if !self.passage.rules.current().is_empty() => return Err(error),
            // No rule needs the certificate.
            cert => cert.unwrap_or_default(),
        };
        let access = Access::new(side, (address.ip(), cert), &memory).map_err(no_room)?;
        let mut links = lock(&self.links);
        links.retain(|one| one.link.strong_count() > 0);
        links.push(Connected {
            link: Arc::downgrade(&link),
            access: Arc::downgrade(&access),
        });
        drop(links);
        // After the push: a change of the rules either finds the connection in the list, or is seen here.
        access.update(&self.passage.rules);
        if self.passage.is_draining() {
            link.drain();
        }
        let peer = Peer {
            passage: Arc::clone(&self.passage),
            address,
            access,
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
        let links = lock(&self.links);
        links.iter().filter_map(|one| one.link.upgrade()).collect()
    }

    /// Updates the rights of each peer. Calls that are no longer allowed are reset, and workers that offer a service
    /// without permission are dismissed.
    pub(super) fn update_access(&self) {
        let links = lock(&self.links);
        let upgrade = |one: &Connected| Some((one.link.upgrade()?, one.access.upgrade()?));
        let all: Vec<_> = links.iter().filter_map(upgrade).collect();
        drop(links);
        for (link, access) in all {
            access.update(&self.passage.rules);
            link.wake_calls();
            if let Some(service) = link.find_named(|name| !access.may(Deed::Offer, name)) {
                access.tell_denied(&service);
                self.passage.registry.remove(&link);
                link.dismiss(Violation::Denied);
            }
        }
    }

    /// Sends no further calls to a worker; its connection is closed after the open ones.
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
            // The caller is a worker too: its connection gets GOAWAY only at the end of the drain.
            accepted
                .handle
                .reset(&Failure::unprocessed(Status::Draining, ""));
            return;
        }
        if !self.access.may(Deed::Call, &accepted.service) {
            accepted.handle.reset(&denied(&accepted.service));
            self.passage.counts.finish(Status::Denied);
            return;
        }
        let access = Arc::clone(&self.access);
        let forwarded = forward(Arc::clone(&self.passage), (accepted, access));
        // Boxed: the runtime moves a task's future nine times, which is 3 KB.
        tokio::spawn(Box::pin(forwarded));
    }

    fn named(&self, link: &Arc<Link>, services: &[NamedService]) {
        let is_denied = |name: &str| !self.access.may(Deed::Offer, name);
        if let Some((service, _)) = services.iter().find(|(name, _)| is_denied(name)) {
            self.access.tell_denied(service);
            self.passage.registry.remove(link);
            link.dismiss(Violation::Denied);
            return;
        }
        let may_serve = |name: &str| match &self.services {
            Some(services) => services.iter().any(|service| **service == *name),
            None => true,
        };
        let mut services = services.to_vec();
        services.retain(|(name, _)| may_serve(name));
        let registered = self.passage.registry.set(link, self.address, &services);
        if let Some(holder) = self.holder().filter(|_| !services.is_empty()) {
            // A worker serves all callers, so its memory does not count for its client's share.
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
