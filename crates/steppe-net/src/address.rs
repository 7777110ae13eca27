//! Listen and server addresses, as written in a configuration.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address to listen on. `[::]:PORT` is dual stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// TCP on IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path (`unix:PATH`).
    Unix(PathBuf),
}

/// A server to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A name, re-resolved when the TTL of its records expires.
    Name {
        /// Host name, in lower case.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix stream socket at this path (`unix:PATH`).
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
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
