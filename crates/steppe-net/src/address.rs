//! Addresses as a configuration writes them, and the keys of sockets there.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where to listen. `[::]:PORT` is dual stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// TCP on IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path (`unix:PATH`).
    Unix(PathBuf),
}

/// How bytes arrive at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// Connections: TCP, or a Unix stream socket.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// What a service asks for a socket by: as configured, so port 0 stays 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SocketKey {
    /// Where it is bound.
    pub address: ListenAddress,
    /// What it carries.
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

    /// Whether each socket of this key gets a port of its own.
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
