//! Addresses as a configuration writes them, and the keys of sockets there.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// An address to listen on. `[::]:PORT` is dual stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// TCP on IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path (`unix:PATH`).
    Unix(PathBuf),
}

/// The way in which bytes arrive at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// Connections: TCP, or a Unix stream socket.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// The key by which a service asks for a socket: as configured, so port 0 stays 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SocketKey {
    /// Address of the socket.
    pub address: ListenAddress,
    /// Stream or datagrams.
    pub kind: SocketKind,
}

/// A server to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A name that is resolved again by its records' TTL.
    Name {
        /// Host name, in lower case.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix stream socket at this path (`unix:PATH`).
    Unix(PathBuf),
}

impl ListenAddress {
    /// True if a socket at one of the addresses takes the other one: they are equal, or one has the
    /// port of the other and the unspecified address. `[::]` takes IPv4 too. Port 0 is a new port
    /// each time, and overlaps none.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => {
                let is_same_port = one.port() == other.port() && one.port() != 0;
                is_same_port && (covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
            }
            (Self::Unix(one), Self::Unix(other)) => one == other,
            _ => false,
        }
    }
}

/// True if a socket at `ip` receives what is sent to `other`.
fn covers(ip: IpAddr, other: IpAddr) -> bool {
    match ip {
        IpAddr::V6(ip) if ip.is_unspecified() => true,
        IpAddr::V4(ip) if ip.is_unspecified() => other.to_canonical().is_ipv4(),
        _ => ip.to_canonical() == other.to_canonical(),
    }
}

impl SocketKey {
    /// A socket that accepts connections.
    #[must_use]
    pub fn stream(address: ListenAddress) -> Self {
        Self {
            address,
            kind: SocketKind::Stream,
        }
    }

    /// A socket that receives datagrams.
    #[must_use]
    pub fn datagram(address: SocketAddr) -> Self {
        Self {
            address: ListenAddress::Tcp(address),
            kind: SocketKind::Datagram,
        }
    }

    /// True if the system refuses the other socket while this one is open.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.kind == other.kind && self.address.overlaps(&other.address)
    }

    /// True if each socket of this key gets a port of its own.
    pub(crate) fn is_any_port(&self) -> bool {
        matches!(self.address, ListenAddress::Tcp(address) if address.port() == 0)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for SocketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SocketKind::Stream => self.address.fmt(f),
            SocketKind::Datagram => write!(f, "{} (UDP)", self.address),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_addresses_overlap_those_that_they_take() {
        for (one, other, expected) in [
            ("[::]:53", "0.0.0.0:53", true),
            ("[::]:53", "10.0.0.1:53", true),
            ("[::]:53", "[::1]:53", true),
            ("0.0.0.0:53", "127.0.0.1:53", true),
            ("127.0.0.1:53", "[::ffff:127.0.0.1]:53", true),
            ("0.0.0.0:53", "[::1]:53", false),
            ("127.0.0.1:53", "127.0.0.2:53", false),
            ("[::]:53", "0.0.0.0:54", false),
            ("[::]:0", "0.0.0.0:0", false),
        ] {
            let [one, other] =
                [one, other].map(|text| ListenAddress::Tcp(text.parse().expect("valid")));
            assert_eq!(one.overlaps(&other), expected, "{one} {other}");
            assert_eq!(other.overlaps(&one), expected, "{other} {one}");
        }
    }
}
