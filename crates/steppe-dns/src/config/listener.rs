//! Where clients ask, and by what.

use std::net::SocketAddr;

use steppe_net::tls::config::ListenerConfig;

/// One `[[dns.listener]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The socket to bind, for each protocol.
    pub address: SocketAddr,
    /// What is spoken on it: at least one, and one at most of those that take a TCP socket.
    pub protocols: Vec<Protocol>,
    /// TLS below [`Protocol::Tls`] or [`Protocol::Https`], which need it.
    pub tls: Option<ListenerConfig>,
    /// Who says first whom its connections are for.
    pub introduction: Introduction,
}

/// Who says whom a connection is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Introduction {
    /// Nobody: its peer is the client.
    #[default]
    None,
    /// A trusted proxy, by the PROXY protocol; others are turned away.
    ByProxy,
}

/// What a listener speaks with clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Datagrams.
    Udp,
    /// Messages with their length before them. RFC 7766.
    Tcp,
    /// The same over TLS. RFC 7858.
    Tls,
    /// Messages in requests of HTTP. RFC 8484. Its listener is the gateway's.
    Https,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https];

    /// As a configuration writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
        }
    }

    /// Whether others can't read what is said. RFC 8467 pads there alone.
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Https)
    }
}

impl Listener {
    /// The protocol of its TCP socket, as far as this crate serves it.
    pub(crate) fn stream_protocol(&self) -> Option<Protocol> {
        let mut protocols = self.protocols.iter().copied();
        protocols.find(|protocol| matches!(protocol, Protocol::Tcp | Protocol::Tls))
    }

    /// Whether it is asked by datagrams.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.protocols.contains(&Protocol::Udp)
    }
}
