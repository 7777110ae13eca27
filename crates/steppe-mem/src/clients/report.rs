//! The clients that hold most, for status pages.

use std::collections::HashMap;
use std::net::IpAddr;

use super::Clients;

/// A client's memory by one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientReport {
    /// The client's address, or the first one of its IPv6 network; `None`: local processes.
    pub client: Option<IpAddr>,
    /// The protocol of its connections.
    pub kind: &'static str,
    /// The client's connections, and the clients for which they are a proxy.
    pub connections: usize,
    /// Bytes reserved for the client.
    pub charged_bytes: u64,
    /// Bytes reserved or bytes allocated, whichever are more, summed over connections.
    pub held_bytes: u64,
}

impl ClientReport {
    /// The `count` of `clients` that hold most, most first.
    #[must_use]
    pub fn top(clients: &Clients, count: usize) -> Vec<Self> {
        let entries = clients.entries();
        let mut clients: HashMap<_, Self> = HashMap::new();
        for (_, holder) in &entries.holders {
            let (client, kind) = (holder.client().address, holder.kind());
            let report = clients.entry((client, kind)).or_insert(Self {
                client,
                kind,
                connections: 0,
                charged_bytes: 0,
                held_bytes: 0,
            });
            report.connections += 1;
            report.charged_bytes += holder.charged_bytes();
            report.held_bytes += holder.held_bytes();
        }
        drop(entries);
        let mut clients: Vec<_> = clients.into_values().collect();
        clients.sort_unstable_by_key(|client| std::cmp::Reverse(client.held_bytes));
        clients.truncate(count);
        clients
    }
}
