//! Sockets by what they were asked for: an address and a transport.
//!
//! Invariant: a socket is found by its key and never by its position, so that
//! listeners may change places in a configuration.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::activation::Inherited;
use crate::address::{ListenAddress, SocketKey, SocketKind};
use crate::datagram::{BoundDatagram, bind_datagram};
use crate::listener::{BindError, BoundListener};

/// Bound sockets of one worker, until its service takes them.
#[derive(Debug, Default)]
pub struct BoundSockets {
    listeners: Vec<(ListenAddress, BoundListener)>,
    datagrams: Vec<(SocketAddr, BoundDatagram)>,
}

/// Binds the sockets of a configuration that no earlier one has bound.
///
/// A [`Service`](crate::Service) asks it in `prepare` for each socket that its
/// configuration names, those that it has already included: what it does not ask
/// for any more is closed by `change`.
#[derive(Debug)]
pub struct SocketBinder<'a> {
    inherited: &'a Inherited,
    workers: usize,
    /// Owners of the sockets that are open now.
    in_force: &'a SocketOwners,
    /// Owners under the next configuration.
    next: SocketOwners,
    /// The service that is being prepared.
    service: usize,
    /// New sockets, by worker.
    bound: Vec<BoundSockets>,
}

/// The index of the service that listens, by socket.
pub(crate) type SocketOwners = HashMap<SocketKey, usize>;

impl BoundSockets {
    /// Adds the stream socket that was asked for at `address`.
    pub fn insert_listener(&mut self, address: ListenAddress, listener: BoundListener) {
        self.listeners.push((address, listener));
    }

    /// Adds the datagram socket that was asked for at `address`.
    pub fn insert_datagram(&mut self, address: SocketAddr, socket: BoundDatagram) {
        self.datagrams.push((address, socket));
    }

    /// Takes the stream socket of a configured address out; `None`: there is none.
    pub fn take_listener(&mut self, address: &ListenAddress) -> Option<BoundListener> {
        let mut keys = self.listeners.iter();
        let at = keys.position(|(known, _)| known == address)?;
        Some(self.listeners.remove(at).1)
    }

    /// Takes the datagram socket of a configured address out; `None`: there is none.
    pub fn take_datagram(&mut self, address: SocketAddr) -> Option<BoundDatagram> {
        let mut keys = self.datagrams.iter();
        let at = keys.position(|&(known, _)| known == address)?;
        Some(self.datagrams.remove(at).1)
    }

    /// Keys of the sockets that were not taken.
    pub fn keys(&self) -> impl Iterator<Item = SocketKey> {
        let listeners = self.listeners.iter();
        let listeners = listeners.map(|(address, _)| SocketKey::stream(address.clone()));
        let datagrams = self.datagrams.iter();
        listeners.chain(datagrams.map(|&(address, _)| SocketKey::datagram(address)))
    }

    /// True if nothing is left to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.datagrams.is_empty()
    }
}

impl<'a> SocketBinder<'a> {
    /// Binds for `workers` what is not `in_force`.
    pub(crate) fn new(
        inherited: &'a Inherited,
        workers: usize,
        in_force: &'a SocketOwners,
    ) -> Self {
        Self {
            inherited,
            workers,
            in_force,
            next: SocketOwners::new(),
            service: 0,
            bound: Vec::new(),
        }
    }

    /// Attributes the sockets that are asked for from now on to the service of this index.
    pub(crate) fn begin(&mut self, service: usize) {
        self.service = service;
        self.bound = (0..self.workers).map(|_| BoundSockets::default()).collect();
    }

    /// New sockets of the service, by worker.
    pub(crate) fn take_bound(&mut self) -> Vec<BoundSockets> {
        std::mem::take(&mut self.bound)
    }

    /// Owners of sockets under the next configuration.
    pub(crate) fn into_owners(self) -> SocketOwners {
        self.next
    }

    /// Makes sure that each worker has the socket: binds it unless the service has it already.
    ///
    /// # Errors
    /// [`BindError`]; also where another service has the address, even if it gives
    /// it up by the same change: it closes its socket only after this one is bound.
    pub fn bind(&mut self, key: &SocketKey) -> Result<(), BindError> {
        let known = self.next.insert(key.clone(), self.service);
        if known.is_some() && !key.is_any_port() {
            return Err(BindError::Duplicate(key.clone()));
        }
        match self.in_force.get(key) {
            Some(owner) if *owner == self.service => Ok(()),
            Some(_) if !key.is_any_port() => Err(BindError::OfAnotherService(key.clone())),
            _ => self
                .bind_new(key)
                .map_err(|error| self.of_this_node(key, error)),
        }
    }

    /// The system says that an address is taken, but not by which process: it may be this one.
    fn of_this_node(&self, key: &SocketKey, error: BindError) -> BindError {
        let mut held = self.next.keys().chain(self.in_force.keys());
        let held = held.find(|held| *held != key && held.overlaps(key));
        match (error, held) {
            (BindError::Taken(_), Some(held)) => BindError::Overlaps {
                key: key.clone(),
                held: held.clone(),
            },
            (error, _) => error,
        }
    }

    fn bind_new(&mut self, key: &SocketKey) -> Result<(), BindError> {
        match (key.kind, &key.address) {
            (SocketKind::Stream, address) => {
                let bound = self.inherited.bind(address, self.workers)?;
                for (worker, listener) in self.bound.iter_mut().zip(bound) {
                    worker.insert_listener(address.clone(), listener);
                }
            }
            (SocketKind::Datagram, ListenAddress::Tcp(address)) => {
                let bound = bind_datagram(*address, self.workers)?;
                for (worker, socket) in self.bound.iter_mut().zip(bound) {
                    worker.insert_datagram(*address, socket);
                }
            }
            (SocketKind::Datagram, ListenAddress::Unix(path)) => {
                return Err(BindError::UnixDatagram(path.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const WORKERS: usize = 2;

    fn any_port() -> SocketKey {
        SocketKey::stream(ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()))
    }

    fn port_1() -> SocketKey {
        SocketKey::stream(ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 1).into()))
    }

    #[test]
    fn a_socket_of_the_service_stays_and_one_of_another_is_refused() {
        let (inherited, in_force) = (Inherited::default(), [(port_1(), 0)].into());
        let mut binder = SocketBinder::new(&inherited, WORKERS, &in_force);
        binder.begin(0);
        binder.bind(&port_1()).expect("it has it already");
        assert!(binder.take_bound().iter().all(BoundSockets::is_empty));
        let twice = binder.bind(&port_1()).expect_err("once is enough");
        assert_eq!(twice.to_string(), "127.0.0.1:1 is listened on twice");
        let mut binder = SocketBinder::new(&inherited, WORKERS, &in_force);
        binder.begin(1);
        let refused = binder.bind(&port_1()).expect_err("it is the first's");
        assert!(matches!(refused, BindError::OfAnotherService(_)));
    }

    #[test]
    fn each_listener_of_port_0_gets_a_port_of_its_own() {
        let (inherited, in_force) = (Inherited::default(), SocketOwners::new());
        let mut binder = SocketBinder::new(&inherited, WORKERS, &in_force);
        binder.begin(0);
        for _ in 0..2 {
            binder.bind(&any_port()).expect("loopback");
        }
        let mut bound = binder.take_bound();
        assert_eq!(bound.len(), WORKERS);
        for worker in &mut bound {
            let mut port = || worker.take_listener(&any_port().address);
            let ports = [port(), port(), port()].map(|bound| Some(bound?.address().clone()));
            assert!(ports[0] != ports[1] && ports[1].is_some(), "{ports:?}");
            assert_eq!(ports[2], None);
            assert!(worker.is_empty());
        }
    }

    #[test]
    fn a_socket_that_takes_the_address_of_another_is_told_as_the_node_s() {
        let inherited = Inherited::default();
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let free = crate::listener::bind(&any, 1).expect("loopback")[0]
            .address()
            .clone();
        let ListenAddress::Tcp(free) = free else {
            panic!("not TCP")
        };
        let first = SocketKey::stream(ListenAddress::Tcp(free));
        let second = ListenAddress::Tcp((Ipv4Addr::UNSPECIFIED, free.port()).into());
        let second = SocketKey::stream(second);
        let in_force = SocketOwners::new();
        let mut binder = SocketBinder::new(&inherited, WORKERS, &in_force);
        binder.begin(0);
        binder.bind(&first).expect("it was free a moment ago");
        let refused = binder
            .bind(&second)
            .expect_err("the first takes a part of it");
        let told = format!("{second} overlaps {first}, where this node itself listens");
        assert_eq!(refused.to_string(), told);
    }

    #[test]
    fn datagrams_over_unix_sockets_are_refused() {
        let (inherited, in_force) = (Inherited::default(), SocketOwners::new());
        let mut binder = SocketBinder::new(&inherited, WORKERS, &in_force);
        binder.begin(0);
        let key = SocketKey {
            address: ListenAddress::Unix("/nowhere".into()),
            kind: SocketKind::Datagram,
        };
        let refused = binder.bind(&key).expect_err("it is not supported");
        assert!(matches!(refused, BindError::UnixDatagram(_)));
    }
}
