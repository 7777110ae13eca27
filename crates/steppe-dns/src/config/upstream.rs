//! An upstream: its servers, the policy of asking them, and the limits on answers that are accepted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use steppe_net::ServerAddress;

/// One `[dns.upstream.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Name of the upstream.
    pub name: String,
    /// Servers: those of `servers`, at most [`crate::limits::SERVERS_PER_EXCHANGE_MAX`], then those of
    /// `resolv_conf`.
    pub servers: Vec<Server>,
    /// Order in which servers are asked.
    pub policy: Policy,
    /// Servers that are asked at once, with [`Policy::Race`].
    pub concurrent: u8,
    /// Time that a client waits for all servers together.
    pub timeout: Duration,
    /// Treatment of truncated responses.
    pub truncated: Truncated,
    /// Randomization of the case of letters in queries.
    pub case: CaseRandomization,
    /// Addresses that responses may have.
    pub addresses: Addresses,
    /// Longest time that responses are kept, where it differs from the cache's.
    pub max_ttl: Option<Duration>,
    /// Authentication of servers that are asked over TLS.
    pub trust: Trust,
    /// Resolvers that are asked for the addresses of servers known by name. Empty: the upstream's own
    /// servers by UDP.
    pub bootstrap: Vec<SocketAddr>,
    /// Client subnet that servers are sent.
    pub client_subnet: ClientSubnet,
}

/// The settings of an upstream that its responses depend on: the servers, their authentication, and the
/// bounds within which responses are accepted and cached. Made by [`Upstream::source`].
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
    /// Transport of queries to the server.
    pub transport: Transport,
    /// Address and port: an IP address, or with TLS a host name too.
    pub address: ServerAddress,
    /// Name that the certificate is for. `None`: it is for the address.
    pub name: Option<String>,
    /// Path of requests over [`Transport::Https`], with the query of the URL if it has one; else empty.
    pub path: String,
}

/// The transport of queries to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Messages in datagrams.
    Udp,
    /// Messages with their length before them. RFC 7766.
    Tcp,
    /// The same over TLS: DoT. RFC 7858.
    Tls,
    /// HTTP/2 over TLS: DoH. RFC 8484.
    Https,
}

/// The authentication of servers. RFC 8310 §8.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trust {
    /// PEM file with the authorities of certificates. `None`: the system's.
    pub ca: Option<PathBuf>,
    /// True if certificates are verified.
    pub verify: bool,
    /// SHA-256 of public keys (`SubjectPublicKeyInfo`), one of which a server must have; empty: any.
    pub pins: Vec<[u8; 32]>,
}

/// The client subnet that servers are sent. RFC 7871.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSubnet {
    /// No subnet.
    Strip,
    /// The subnet that the client sends.
    Pass,
    /// The network of the client's address.
    Add {
        /// Prefix length for IPv4 addresses.
        ipv4: u8,
        /// Prefix length for IPv6 addresses.
        ipv6: u8,
    },
}

/// The order in which servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The fastest server, and the next one when it takes longer than it mostly does.
    Hedge,
    /// Many servers at once; the first good response counts.
    Race,
    /// The fastest server, and the next one when it fails.
    Fastest,
    /// Each server in turn, and the next one when it fails.
    RoundRobin,
    /// The first server in order that works.
    Failover,
}

/// The treatment of a truncated response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncated {
    /// The question is asked again over TCP.
    AskByTcp,
    /// The client gets the truncated response, and may ask over TCP itself.
    Pass,
}

/// The case of letters in queries. draft-vixie-dnsext-dns0x20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseRandomization {
    /// Letters are of random case, and a response must repeat it.
    On,
    /// Names are in lower case.
    Off,
}

/// The addresses that an upstream's responses may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Public addresses.
    Public,
    /// Any address.
    Any,
}

impl Upstream {
    /// An upstream with these servers, and the defaults of all other settings.
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

    /// The settings that responses depend on. Left out are those of asking servers: they affect the time of an
    /// answer, not its contents.
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

    /// True if the server is asked over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        matches!(self.transport, Transport::Tls | Transport::Https)
    }

    /// The address of the server. `None`: it is known by name.
    #[must_use]
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match &self.address {
            ServerAddress::Ip(address) => Some(*address),
            ServerAddress::Name { .. } | ServerAddress::Unix(_) => None,
        }
    }

    /// The name, or the address as text, that the server's certificate is for.
    #[must_use]
    pub fn certified_name(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), _) => name.clone(),
            (None, ServerAddress::Name { host, .. }) => host.clone(),
            (None, ServerAddress::Ip(address)) => address.ip().to_string(),
            (None, ServerAddress::Unix(_)) => String::new(),
        }
    }

    /// The authority of the server's URL (RFC 3986 §3.2), which requests over HTTPS have as `:authority`.
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

/// The default port of `https`, which a URL leaves out. RFC 9110 §4.2.2.
const HTTPS: u16 = 443;

impl Transport {
    /// All transports, with their schemes in URLs.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Udp, "udp"),
        (Self::Tcp, "tcp"),
        (Self::Tls, "tls"),
        (Self::Https, "https"),
    ];

    /// The scheme of the transport in URLs.
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

/// The URL of the server, as a configuration has it.
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
