//! Listeners for clients, and their protocols.

use std::net::SocketAddr;

use steppe_net::tls::config::ListenerConfig;

/// One `[[dns.listener]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The socket to bind, for each protocol.
    pub address: SocketAddr,
    /// Protocols of the listener: at least one, and at most one that takes a TCP socket.
    pub protocols: Vec<Protocol>,
    /// TLS below [`Protocol::Tls`] or [`Protocol::Https`], which need it.
    pub tls: Option<ListenerConfig>,
    /// Source of the client's address on a connection.
    pub introduction: Introduction,
}

/// The source of the client's address on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Introduction {
    /// The peer address: the peer is the client.
    #[default]
    None,
    /// The PROXY header of a trusted proxy; connections of other peers are closed.
    ByProxy,
}

/// The protocol between a listener and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Messages in datagrams.
    Udp,
    /// Messages with their length before them. RFC 7766.
    Tcp,
    /// The same over TLS. RFC 7858.
    Tls,
    /// Messages in requests of HTTP. RFC 8484. The gateway listens for them.
    Https,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https];

    /// The name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
        }
    }

    /// True if messages are encrypted. RFC 8467 pads them only then.
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Https)
    }
}

impl Listener {
    /// The protocol of the listener's TCP socket, if this crate serves it: TCP or TLS.
    pub(crate) fn stream_protocol(&self) -> Option<Protocol> {
        let mut protocols = self.protocols.iter().copied();
        protocols.find(|protocol| matches!(protocol, Protocol::Tcp | Protocol::Tls))
    }

    /// True if clients may send datagrams.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.protocols.contains(&Protocol::Udp)
    }
}
