//! An upstream: servers, how they are asked, and what of their answers is believed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use steppe_net::ServerAddress;

/// One `[dns.upstream.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// At least one, at most [`crate::limits::SERVERS_PER_EXCHANGE_MAX`].
    pub servers: Vec<Server>,
    /// Which server is asked when.
    pub policy: Policy,
    /// Servers that are asked at once, with [`Policy::Race`].
    pub concurrent: u8,
    /// How long a client waits for all of them.
    pub timeout: Duration,
    /// Whether a truncated response has the question asked again over TCP.
    pub truncated: Truncated,
    /// Whether queries have the case of their letters randomized.
    pub case: CaseRandomization,
    /// Whether its responses may have private addresses.
    pub addresses: Addresses,
    /// Bounds of TTLs that differ from the cache's.
    pub max_ttl: Option<Duration>,
    /// Whom the servers asked by TLS have to be.
    pub trust: Trust,
    /// Who is asked for the addresses of servers that are known by name. Empty: the upstream's own
    /// servers by UDP.
    pub bootstrap: Vec<SocketAddr>,
    /// Which network servers are told that a client is in.
    pub client_subnet: ClientSubnet,
}

/// What the responses of an upstream depend on, of its configuration: who says them, and what of them is
/// believed and kept. [`Upstream::source`] has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    name: String,
    servers: Vec<Server>,
    addresses: Addresses,
    max_ttl: Option<Duration>,
    trust: Trust,
    client_subnet: ClientSubnet,
}

/// A server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// What it is asked over.
    pub transport: Transport,
    /// Where it is: an IP address, or with TLS a name too.
    pub address: ServerAddress,
    /// The name that its certificate is for. `None`: its address is.
    pub name: Option<String>,
    /// Of [`Transport::Https`]: the path that queries are sent to, and its query if it has one. Else empty.
    pub path: String,
}

/// What a server is asked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Messages with their length before them. RFC 7766.
    Tcp,
    /// The same above TLS: DoT. RFC 7858.
    Tls,
    /// HTTP/2 above TLS: DoH. RFC 8484.
    Https,
}

/// Whom servers have to be. RFC 8310 §8.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trust {
    /// PEM: the authorities of their certificates. `None`: the system's.
    pub ca: Option<PathBuf>,
    /// Whether their certificates are verified at all.
    pub verify: bool,
    /// SHA-256 of public keys (`SubjectPublicKeyInfo`), one of which a server must have; empty: any.
    pub pins: Vec<[u8; 32]>,
}

/// Which network servers are told that a client is in. RFC 7871.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSubnet {
    /// None.
    Strip,
    /// The one that the client names.
    Pass,
    /// The one of the client's address.
    Add {
        /// Bits of an IPv4 address that are told.
        ipv4: u8,
        /// Bits of an IPv6 address that are told.
        ipv6: u8,
    },
}

/// Which server is asked when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The fastest one, and the next when it takes longer than it mostly does.
    Hedge,
    /// Many at once; the first good response counts.
    Race,
    /// The fastest one, and the next when it fails.
    Fastest,
    /// One after the other, and the next when it fails.
    RoundRobin,
    /// The first one in order that works.
    Failover,
}

/// What a truncated response leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncated {
    /// The question is asked again over TCP.
    AskByTcp,
    /// The client is told, and may ask over TCP itself.
    Pass,
}

/// draft-vixie-dnsext-dns0x20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseRandomization {
    /// Letters are of random case, and a response must repeat it.
    On,
    /// Names are in lower case.
    Off,
}

/// Which addresses an upstream's responses may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Public ones.
    Public,
    /// Any.
    Any,
}

impl Upstream {
    /// These servers, and all else as it is where nothing is said.
    #[must_use]
    pub fn of(name: &str, servers: Vec<Server>) -> Self {
        Self {
            name: name.to_owned(),
            servers,
            policy: Policy::Hedge,
            concurrent: 8,
            timeout: Duration::from_secs(2),
            truncated: Truncated::AskByTcp,
            case: CaseRandomization::On,
            addresses: Addresses::Public,
            max_ttl: None,
            trust: Trust::default(),
            bootstrap: Vec::new(),
            client_subnet: ClientSubnet::Strip,
        }
    }

    /// What its responses depend on. Left out is how its servers are asked: that changes when an answer
    /// comes, not what it says.
    pub(crate) fn source(&self) -> Source {
        let Self {
            name,
            servers,
            policy: _,
            concurrent: _,
            timeout: _,
            truncated: _,
            case: _,
            addresses,
            max_ttl,
            trust,
            bootstrap: _,
            client_subnet,
        } = self;
        Source {
            name: name.clone(),
            servers: servers.clone(),
            addresses: *addresses,
            max_ttl: *max_ttl,
            trust: trust.clone(),
            client_subnet: *client_subnet,
        }
    }
}

impl Server {
    /// A server at an address, by UDP or TCP.
    #[must_use]
    pub fn at(transport: Transport, address: SocketAddr) -> Self {
        Self {
            transport,
            address: ServerAddress::Ip(address),
            name: None,
            path: String::new(),
        }
    }

    /// Whether it is asked above TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        matches!(self.transport, Transport::Tls | Transport::Https)
    }

    /// Its address. `None`: it is known by name.
    #[must_use]
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match &self.address {
            ServerAddress::Ip(address) => Some(*address),
            ServerAddress::Name { .. } | ServerAddress::Unix(_) => None,
        }
    }

    /// The name, or the address as text, that its certificate is for.
    #[must_use]
    pub fn certified_name(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), _) => name.clone(),
            (None, ServerAddress::Name { host, .. }) => host.clone(),
            (None, ServerAddress::Ip(address)) => address.ip().to_string(),
            (None, ServerAddress::Unix(_)) => String::new(),
        }
    }

    /// The authority of its URL (RFC 3986 §3.2), by which a server by HTTPS knows what it is asked as.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = self.certified_name();
        let host = match host.parse() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host,
        };
        match &self.address {
            ServerAddress::Ip(address) if address.port() != HTTPS => {
                format!("{host}:{}", address.port())
            }
            ServerAddress::Name { port, .. } if *port != HTTPS => format!("{host}:{port}"),
            _ => host,
        }
    }
}

/// The port that a URL does not write. RFC 9110 §4.2.2.
const HTTPS: u16 = 443;

impl Transport {
    /// All of them, with the names that they have in URLs.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Udp, "udp"),
        (Self::Tcp, "tcp"),
        (Self::Tls, "tls"),
        (Self::Https, "https"),
    ];

    /// The name that it has in URLs.
    #[must_use]
    pub fn name(self) -> &'static str {
        let [(_, udp), (_, tcp), (_, tls), (_, https)] = Self::ALL;
        match self {
            Self::Udp => udp,
            Self::Tcp => tcp,
            Self::Tls => tls,
            Self::Https => https,
        }
    }
}

/// As a configuration writes it.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.transport.name())?;
        if let Some(name) = &self.name {
            write!(f, "{name}@")?;
        }
        write!(f, "{}{}", self.address, self.path)
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            ca: None,
            verify: true,
            pins: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_what_a_url_has() {
        for (name, address, want) in [
            (None, "192.0.2.1:443", "192.0.2.1"),
            (None, "[2001:db8::1]:8443", "[2001:db8::1]:8443"),
            (Some("dns.example"), "192.0.2.1:8443", "dns.example:8443"),
        ] {
            let server = Server {
                name: name.map(str::to_owned),
                path: "/dns-query".to_owned(),
                ..Server::at(Transport::Https, address.parse().expect("an address"))
            };
            assert_eq!(server.authority(), want);
        }
    }
}
