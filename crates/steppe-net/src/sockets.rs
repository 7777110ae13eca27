//! Sockets by what they were asked for: an address and a transport.
//!
//! Invariant: a socket is found by its key and never by its position, so that
//! listeners may change places in a configuration.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::activation::Inherited;
use crate::address::{ListenAddress, SocketKey, Transport};
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
    /// Which service has each socket that is open now.
    in_force: &'a SocketOwners,
    /// The same under the next configuration.
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

    /// Keys of the sockets that nobody has taken.
    pub fn keys(&self) -> impl Iterator<Item = SocketKey> {
        let listeners = self.listeners.iter();
        let listeners = listeners.map(|(address, _)| SocketKey::stream(address.clone()));
        let datagrams = self.datagrams.iter();
        listeners.chain(datagrams.map(|&(address, _)| SocketKey::datagram(address)))
    }

    /// Whether nothing is left to take.
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

    /// What follows is asked for by the service of this index.
    pub(crate) fn begin(&mut self, service: usize) {
        self.service = service;
        self.bound = (0..self.workers).map(|_| BoundSockets::default()).collect();
    }

    /// New sockets of the service, by worker.
    pub(crate) fn take_bound(&mut self) -> Vec<BoundSockets> {
        std::mem::take(&mut self.bound)
    }

    /// Which service listens where under the next configuration.
    pub(crate) fn into_owners(self) -> SocketOwners {
        self.next
    }

    /// Makes sure that each worker has the socket: binds it unless the service has it already.
    ///
    /// # Errors
    /// [`BindError`]; also where another service has the address, which is free
    /// for others only after a change.
    pub fn bind(&mut self, key: &SocketKey) -> Result<(), BindError> {
        let known = self.next.insert(key.clone(), self.service);
        if known.is_some() && !key.is_any_port() {
            return Err(BindError::Claimed(key.clone()));
        }
        match self.in_force.get(key) {
            Some(owner) if *owner == self.service => Ok(()),
            Some(_) if !key.is_any_port() => Err(BindError::Claimed(key.clone())),
            _ => self.bind_new(key),
        }
    }

    fn bind_new(&mut self, key: &SocketKey) -> Result<(), BindError> {
        match (key.transport, &key.address) {
            (Transport::Stream, address) => {
                let bound = self.inherited.bind(address, self.workers)?;
                for (worker, listener) in self.bound.iter_mut().zip(bound) {
                    worker.insert_listener(address.clone(), listener);
                }
            }
            (Transport::Datagram, ListenAddress::Tcp(address)) => {
                let bound = bind_datagram(*address, self.workers)?;
                for (worker, socket) in self.bound.iter_mut().zip(bound) {
                    worker.insert_datagram(*address, socket);
                }
            }
            (Transport::Datagram, ListenAddress::Unix(path)) => {
                return Err(BindError::UnixDatagram(path.clone()));
            }
        }
        Ok(())
    }
}
