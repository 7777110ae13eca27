//! Clients and the memory of each: by address, over all of its connections, of any protocol.
//!
//! A [`Holder`] stands for a connection. The task that serves it runs in the holder's [scope](Holder::run): bytes
//! reserved there through a [client lease](crate::Account::client_lease) count for its client, and bytes allocated
//! there count for the connection, charged or not.
//!
//! Two rules use these sums. While less than half of the budget is free, a client that holds its share gets nothing
//! more: its tasks wait, and its connections are refused. Reservations that cannot wait within an exchange are made as
//! ever. In debt, connections that hold most are [shed](Clients::shed).
//!
//! Invariant: the table has an entry for each open connection and for each address that has one; each entry is
//! charged with the connection ([`HOLDER_BYTES`]).

mod client;
mod holder;
mod pause;
mod queue;
mod report;
mod task;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub use holder::Holder;
pub(crate) use holder::{
    count_pooled, count_reserved, current, has_share_for, may_admit, poll_may_reserve,
};
pub use report::ClientReport;

use client::{Client, Shares};

use crate::limits::CLIENT_SHARE_BYTES_MIN;
#[cfg(doc)]
use crate::limits::HOLDER_BYTES;
use crate::lock::lock;

/// The clients of a node. Clones name the same table.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<ClientTable>);

#[derive(Debug, Default)]
struct ClientTable {
    shares: Arc<Shares>,
    entries: Mutex<ClientEntries>,
    shed_total: AtomicU64,
}

#[derive(Debug, Default)]
struct ClientEntries {
    exempt: Exempt,
    clients: HashMap<IpAddr, Arc<Client>>,
    holders: slab::Slab<Arc<Holder>>,
}

/// The addresses without a share, as a predicate.
struct Exempt(Box<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl Default for Exempt {
    fn default() -> Self {
        Self(Box::new(|_| false))
    }
}

impl fmt::Debug for Exempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exempt")
    }
}

/// A connection in the table, until it is dropped.
#[derive(Debug)]
pub struct Holding {
    clients: Clients,
    holder: Arc<Holder>,
    place: usize,
}

/// A client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// A client with a share of its own; IPv6 addresses share one for each /64.
    Shared(IpAddr),
    /// A client without a share.
    Exempt(IpAddr),
    /// A local process: it has no share.
    Local,
}

/// A connection that was told to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shed {
    /// The client's address; `None`: a local process.
    pub client: Option<IpAddr>,
    /// The connection's protocol.
    pub kind: &'static str,
    /// Bytes that it held.
    pub bytes: u64,
}

impl Clients {
    /// Sets the share of each client from now on, in bytes; `None`: no limit.
    pub fn set_share(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes.max(CLIENT_SHARE_BYTES_MIN));
        self.0.shares.set_bytes(bytes);
    }

    /// Sets the addresses without a share, for connections from now on.
    pub fn set_exempt(&self, is_exempt: impl Fn(IpAddr) -> bool + Send + Sync + 'static) {
        self.entries().exempt = Exempt(Box::new(is_exempt));
    }

    /// Enters a connection of `client` that speaks `kind`, until the result is dropped.
    #[must_use]
    pub fn open(&self, client: ClientAddress, kind: &'static str) -> Holding {
        self.enter(client, kind, None)
    }

    fn enter(
        &self,
        client: ClientAddress,
        kind: &'static str,
        connection: Option<&Arc<Holder>>,
    ) -> Holding {
        let mut entries = self.entries();
        let client = entries.client(client);
        client.connections.fetch_add(1, Ordering::Relaxed);
        let shares = Arc::clone(&self.0.shares);
        let holder = Holder::new(shares, client, kind, connection.cloned());
        let holder = Arc::new(holder);
        let place = entries.holders.insert(Arc::clone(&holder));
        Holding {
            clients: self.clone(),
            holder,
            place,
        }
    }

    fn leave(&self, holder: &Holder, place: usize) {
        let mut entries = self.entries();
        let removed = entries.holders.remove(place);
        let client = holder.client();
        if client.connections.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some(address) = &client.address
        {
            entries.clients.remove(address);
        }
        drop(entries);
        drop(removed);
    }

    /// Pauses the tasks of connections, until [`Clients::resume`]. Those of connections that are told to close end.
    pub fn pause(&self) {
        self.0.shares.pause.begin();
    }

    /// Resumes the paused tasks.
    pub fn resume(&self) {
        self.0.shares.pause.end();
    }

    /// True while a connection holds memory that comes back when it is closed, those included that were told to close.
    #[must_use]
    pub fn can_pay(&self) -> bool {
        let entries = self.entries();
        let mut holders = entries.holders.iter();
        holders
            .any(|(_, holder)| holder.held_bytes() > 0 && (holder.is_shed() || holder.can_shed()))
    }

    /// Tells the connections that hold most to close, until those hold `bytes`, together with those that were told
    /// before and are still open. Returns the connections told now, most bytes first.
    #[must_use]
    pub fn shed(&self, bytes: u64) -> Vec<Shed> {
        let entries = self.entries();
        let mut left = bytes;
        let mut open = Vec::new();
        for (_, holder) in &entries.holders {
            let held = holder.held_bytes();
            if holder.is_shed() {
                left = left.saturating_sub(held);
            } else if held > 0 && holder.can_shed() {
                open.push((held, Arc::clone(holder)));
            }
        }
        drop(entries);
        open.sort_unstable_by_key(|(held, _)| std::cmp::Reverse(*held));
        let mut shed = Vec::new();
        for (held, holder) in open {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(held);
            holder.shed();
            self.0.shed_total.fetch_add(1, Ordering::Relaxed);
            shed.push(Shed {
                client: holder.client().address,
                kind: holder.kind(),
                bytes: held,
            });
        }
        // Other tasks of those connections are paused, too.
        if !shed.is_empty() {
            self.0.shares.pause.wake();
        }
        shed
    }

    /// Wakes all tasks that wait for their client to hold less; returns true if any did.
    pub(crate) fn wake_all(&self) -> bool {
        let waiting = self.waiting();
        waiting
            .iter()
            .for_each(|client| client.queue.wake(usize::MAX));
        !waiting.is_empty()
    }

    /// Wakes tasks of clients that hold less than their share again; returns true if any waited.
    pub(crate) fn wake_within_share(&self) -> bool {
        let waiting = self.waiting();
        for client in &waiting {
            let share = self.0.shares.bytes();
            let room = share.saturating_sub(client.charged_bytes());
            client.queue.wake_for(room);
        }
        !waiting.is_empty()
    }

    /// Clients with waiting tasks.
    fn waiting(&self) -> Vec<Arc<Client>> {
        let entries = self.entries();
        let clients = entries.clients.values();
        let waiting = clients.filter(|client| client.queue.len() > 0);
        waiting.cloned().collect()
    }

    /// Tasks that wait for their client to hold less.
    #[must_use]
    pub fn held_back(&self) -> usize {
        let entries = self.entries();
        entries
            .clients
            .values()
            .map(|client| client.queue.len())
            .sum()
    }

    /// Reservations that waited or were refused because their client held its share, since the start.
    #[must_use]
    pub fn held_back_total(&self) -> u64 {
        self.0.shares.held_back_total()
    }

    /// Connections shed since the start.
    #[must_use]
    pub fn shed_total(&self) -> u64 {
        self.0.shed_total.load(Ordering::Relaxed)
    }

    /// Addresses that were held back for the first time since the last call.
    #[must_use]
    pub fn newly_held_back(&self) -> Vec<IpAddr> {
        let entries = self.entries();
        let clients = entries.clients.values();
        let new = clients
            .filter(|client| client.take_news())
            .filter_map(|client| client.address);
        new.collect()
    }

    fn entries(&self) -> MutexGuard<'_, ClientEntries> {
        lock(&self.0.entries)
    }
}

impl Holding {
    /// The holder in whose scope the connection's tasks run.
    #[must_use]
    pub fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// A client that this connection speaks for, such as that of an exchange behind a trusted proxy: bytes reserved in
    /// its scope count for that client, and for this connection when connections are shed.
    #[must_use]
    pub fn visit(&self, client: ClientAddress) -> Self {
        let kind = self.holder.kind();
        self.clients.enter(client, kind, Some(&self.holder))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.holder.end();
        self.clients.leave(&self.holder, self.place);
    }
}

impl ClientEntries {
    fn client(&mut self, address: ClientAddress) -> Arc<Client> {
        let (address, is_exempt) = match address {
            ClientAddress::Local => return Arc::new(Client::new(None)),
            ClientAddress::Shared(address) => (prefix_of(address), self.exempt.0(address)),
            ClientAddress::Exempt(address) => (prefix_of(address), true),
        };
        let client = self
            .clients
            .entry(address)
            .or_insert_with(|| Arc::new(Client::new(Some(address))));
        client.is_exempt.store(is_exempt, Ordering::Relaxed);
        Arc::clone(client)
    }
}

/// The prefix that counts as one client: an IPv4 address, or the /64 network of an IPv6 address, since a client has all
/// 2^64 of them.
fn prefix_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests;
