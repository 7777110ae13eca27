//! Clients and what each holds: by address, over all of its connections, whatever their protocol.
//!
//! A [`Holder`] stands for a connection. The task that serves it runs in the holder's [scope](Holder::run): what is
//! reserved there through a [client lease](crate::Account::client_lease) counts for its client, and what is
//! allocated there counts for the connection, charged or not.
//!
//! Two rules use these sums. While less than half of the budget is free, a client that holds its share gets
//! nothing more: its tasks wait, and its connections are refused. What cannot wait within an exchange is reserved as ever. In debt, connections that
//! hold most are [shed](Clients::shed).
//!
//! Invariant: the table has an entry for each open connection and for each address that has one; each entry is
//! charged with the connection ([`HOLDER_BYTES`]).

mod holder;
mod queue;
mod report;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub use holder::Holder;
pub(crate) use holder::{count_pooled, count_reserved, may_admit, poll_may_reserve};
pub use report::ClientReport;

use queue::Queue;

use crate::account::{Account, lock};
use crate::limits::CLIENT_SHARE_BYTES_MIN;
#[cfg(doc)]
use crate::limits::HOLDER_BYTES;

/// The clients of a node. Clones name the same table.
#[derive(Debug, Clone)]
pub struct Clients(Arc<Table>);

#[derive(Debug)]
struct Table {
    root: Account,
    /// `u64::MAX`: none.
    share_bytes: AtomicU64,
    entries: Mutex<Entries>,
    held_back_total: AtomicU64,
    shed_total: AtomicU64,
}

#[derive(Debug, Default)]
struct Entries {
    exempt: Exempt,
    clients: HashMap<IpAddr, Arc<Client>>,
    holders: slab::Slab<Arc<Holder>>,
}

/// Which addresses have no share.
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

/// An address, or what has none: a peer of a Unix socket.
#[derive(Debug)]
struct Client {
    /// As the table has it; `None`: in no table, and without a share.
    address: Option<IpAddr>,
    is_exempt: AtomicBool,
    /// Whether it was ever held back, and whether that is still to be logged.
    was_held_back: AtomicBool,
    is_news: AtomicBool,
    /// Bytes reserved for it, within [`FLUSH_BYTES`](crate::limits::FLUSH_BYTES) a connection.
    charged_bytes: AtomicI64,
    connections: AtomicU64,
    /// Tasks that wait for it to hold less.
    queue: Queue,
}

/// A connection in the table, until it is dropped.
#[derive(Debug)]
pub struct Holding {
    holder: Arc<Holder>,
    place: usize,
}

/// A client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// It has the share of its address; of an IPv6 address the first 64 bits count.
    Shared(IpAddr),
    /// The same without a share.
    Exempt(IpAddr),
    /// A local process: it has no share.
    Local,
}

/// A connection that was told to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shed {
    /// Its client; `None`: a local process.
    pub client: Option<IpAddr>,
    /// Its protocol.
    pub kind: &'static str,
    /// What it held.
    pub bytes: u64,
}

impl Clients {
    /// A table for the clients of the tree below `root`, without a share.
    pub(crate) fn new(root: Account) -> Self {
        Self(Arc::new(Table {
            root,
            share_bytes: AtomicU64::new(u64::MAX),
            entries: Mutex::default(),
            held_back_total: AtomicU64::new(0),
            shed_total: AtomicU64::new(0),
        }))
    }

    /// Sets the share of each client from now on, in bytes; `None`: no limit.
    pub fn set_share(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes.max(CLIENT_SHARE_BYTES_MIN));
        self.0.share_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets which addresses have no share, for connections from now on.
    pub fn set_exempt(&self, is_exempt: impl Fn(IpAddr) -> bool + Send + Sync + 'static) {
        self.entries().exempt = Exempt(Box::new(is_exempt));
    }

    /// Enters a connection of `client` that speaks `kind`, until the result is dropped.
    #[must_use]
    pub fn open(&self, client: ClientAddress, kind: &'static str) -> Holding {
        self.enter(client, (kind, None))
    }

    fn enter(
        &self,
        client: ClientAddress,
        (kind, connection): (&'static str, Option<&Arc<Holder>>),
    ) -> Holding {
        let mut entries = self.entries();
        let client = entries.client(client);
        client.connections.fetch_add(1, Ordering::Relaxed);
        let holder = Holder::new((self.clone(), client), kind, connection.cloned());
        let holder = Arc::new(holder);
        let place = entries.holders.insert(Arc::clone(&holder));
        Holding { holder, place }
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

    /// Tells connections that hold most to close, until those hold `bytes`: those that were told, most first.
    #[must_use]
    pub fn shed(&self, bytes: u64) -> Vec<Shed> {
        let entries = self.entries();
        let open = entries.holders.iter().map(|(_, holder)| holder);
        let mut open: Vec<_> = open
            .filter(|holder| holder.can_shed())
            .map(|holder| (holder.held_bytes(), Arc::clone(holder)))
            .filter(|(held, _)| *held > 0)
            .collect();
        drop(entries);
        open.sort_unstable_by_key(|(held, _)| std::cmp::Reverse(*held));
        let mut left = bytes;
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
        shed
    }

    /// Wakes tasks of clients that hold less than their share again; to be called every few milliseconds. Returns
    /// whether any wait.
    pub fn wake_held_back(&self) -> bool {
        let waiting: Vec<_> = {
            let entries = self.entries();
            let clients = entries.clients.values();
            clients
                .filter(|client| client.queue.len() > 0)
                .cloned()
                .collect()
        };
        let is_at_ease = self.0.is_at_ease();
        for client in &waiting {
            let room = self.0.share_bytes().saturating_sub(client.charged_bytes());
            match is_at_ease {
                true => client.queue.wake(usize::MAX),
                false => client.queue.wake_for(room),
            }
        }
        !waiting.is_empty()
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

    /// Reservations that waited or were refused since their client held its share, since the start.
    #[must_use]
    pub fn held_back_total(&self) -> u64 {
        self.0.held_back_total.load(Ordering::Relaxed)
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

    fn entries(&self) -> MutexGuard<'_, Entries> {
        lock(&self.0.entries)
    }
}

impl Holding {
    /// What its tasks run in.
    #[must_use]
    pub fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// A client that this connection speaks for, such as that of an exchange behind a trusted proxy: what
    /// is reserved in its scope counts for that client, and for this connection where that is shed.
    #[must_use]
    pub fn visit(&self, client: ClientAddress) -> Self {
        let parent = (self.holder.kind(), Some(&self.holder));
        self.holder.clients().enter(client, parent)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.holder.end();
        self.holder.clients().leave(&self.holder, self.place);
    }
}

impl Entries {
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

impl Client {
    fn new(address: Option<IpAddr>) -> Self {
        Self {
            address,
            is_exempt: AtomicBool::new(address.is_none()),
            was_held_back: AtomicBool::new(false),
            is_news: AtomicBool::new(false),
            charged_bytes: AtomicI64::new(0),
            connections: AtomicU64::new(0),
            queue: Queue::default(),
        }
    }

    fn charged_bytes(&self) -> u64 {
        u64::try_from(self.charged_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn note_held_back(&self) {
        if !self.was_held_back.swap(true, Ordering::Relaxed) {
            self.is_news.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was held back since the last call, for the first time.
    fn take_news(&self) -> bool {
        self.is_news.swap(false, Ordering::Relaxed)
    }
}

impl Table {
    /// What a client may hold while less than half of the budget is free.
    fn share_bytes(&self) -> u64 {
        self.share_bytes.load(Ordering::Relaxed)
    }

    /// Whether any client may reserve what it wants: half of the budget is free.
    fn is_at_ease(&self) -> bool {
        self.root.is_half_free()
    }
}

/// What counts as one client: an IPv4 address, or the network of an IPv6 address, of which a client has 2^64.
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
