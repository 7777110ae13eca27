//! Rows of tables: connections that all send the same, in front of a cooperating server.

use std::net::SocketAddr;
use std::time::Duration;

use steppe_testkit::{Authority, Leaf, Peer, Port, RawOrigin, Steppe, TlsClient};

use crate::flood::{Crowd, Flood, SilentOrigin};

/// A row of a table.
pub struct Row {
    pub name: String,
    pub origin: Origin,
    /// The protocol of the upstream.
    pub protocol: &'static str,
    pub connections: usize,
    /// The bytes that each connection sends.
    pub sent: Vec<u8>,
}

/// The server of a row.
pub enum Origin {
    Silent(SilentOrigin),
    Scripted(RawOrigin),
}

/// The transport of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Tcp,
    /// TLS 1.3, where ALPN chooses HTTP/2.
    Tls,
}

/// Time without progress after which the node counts as stalled.
const STALL: Duration = Duration::from_secs(2);

impl Origin {
    /// A server that accepts connections and neither reads nor answers.
    pub fn silent() -> Self {
        Self::Silent(SilentOrigin::start())
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Silent(origin) => origin.address(),
            Self::Scripted(origin) => origin.address(),
        }
    }
}

impl Row {
    /// Runs the row against a node with this budget in MiB.
    #[track_caller]
    pub fn run(self, over: Over, budget_mib: u64) {
        let name = format!("{}, {over:?}, {budget_mib} MiB", self.name);
        let flood = Flood::new(&name, budget_mib)
            .toward(self.origin.address(), self.protocol)
            .by_charges_alone();
        let (count, sent) = (self.connections, &self.sent);
        match over {
            Over::Tcp => flood.run(|node| send_plainly(node, count, sent)),
            Over::Tls => {
                let secure = Port::free().keep();
                let flood = with_tls_at(flood, secure);
                flood.run(|_| send_over_tls(secure, count, sent));
            }
        }
    }
}

fn send_plainly(node: &Steppe, count: usize, bytes: &[u8]) -> Crowd {
    let mut crowd = Crowd::connect(node.gateway(), count);
    let sent = crowd.send(bytes);
    println!("{} MiB were taken", sent >> 20);
    crowd
}

/// Adds a listener for HTTP/2 over TLS.
fn with_tls_at(flood: Flood, address: SocketAddr) -> Flood {
    let leaf = Authority::new("exhaustion").issue(&Leaf::named(&["a"]));
    let listener = format!(
        "[[http.listener]]\nlisten = \"{address}\"\nprotocols = [\"h1\", \"h2\"]\n\
         tls.certificates = [{{ cert = \"a.crt\", key = \"a.key\" }}]\n"
    );
    flood
        .config(|config| config.with_toml(&listener))
        .builder(|builder| {
            let builder = builder.with_file("a.crt", &leaf.cert);
            builder.with_file("a.key", &leaf.key)
        })
}

/// Sends on all connections at once: a thread for each, which gives up when the node takes no more.
fn send_over_tls(address: SocketAddr, count: usize, bytes: &[u8]) -> Vec<Peer> {
    let client = TlsClient::new().alpn(&["h2"]);
    let connect = |_| client.try_connect(address, "a").ok();
    let mut peers: Vec<_> = (0..count).filter_map(connect).collect();
    let sent: usize = std::thread::scope(|scope| {
        let send = |peer| scope.spawn(|| Peer::send_until_stall(peer, bytes, STALL));
        let sending: Vec<_> = peers.iter_mut().map(send).collect();
        let sent = sending.into_iter().map(|thread| thread.join().unwrap_or(0));
        sent.sum()
    });
    println!("{} connected, {} MiB were taken", peers.len(), sent >> 20);
    peers
}
