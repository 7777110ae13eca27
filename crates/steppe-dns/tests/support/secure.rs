//! TLS servers for tests, and the authority that certifies them.

use std::path::PathBuf;

use steppe_dns::config::{Forwarder, Server, Transport, Trust};
use steppe_net::ServerAddress;
use steppe_testkit::{Authority, Issued, Leaf, OriginPeer, Scratch};

use crate::client::forwarder;

/// Name of the servers.
pub const NAME: &str = "dns.test";

/// A certificate authority, with its file.
pub struct Site {
    authority: Authority,
    scratch: Scratch,
}

impl Site {
    pub fn new() -> Self {
        let (authority, scratch) = (Authority::new("site"), Scratch::new("dns-tls"));
        scratch.write("ca.pem", authority.pem());
        Self { authority, scratch }
    }

    pub fn issue(&self, name: &str) -> Issued {
        self.authority.issue(&Leaf::named(&[name]))
    }

    pub fn ca(&self) -> PathBuf {
        self.scratch.join("ca.pem")
    }

    /// Trust in servers that the authority certifies, and in no others.
    pub fn trust(&self) -> Trust {
        Trust {
            ca: Some(self.ca()),
            ..Trust::default()
        }
    }

    /// A forwarder at `listen` with this server.
    pub fn forwarder(&self, listen: std::net::SocketAddr, server: Server) -> Forwarder {
        let mut config = forwarder(listen, &[]);
        config.upstreams[0].servers = vec![server];
        config.upstreams[0].trust = self.trust();
        config
    }
}

/// A server that is certified for [`NAME`].
pub fn server(transport: Transport, address: std::net::SocketAddr) -> Server {
    let path = match transport {
        Transport::Https => "/dns-query",
        _ => "",
    };
    Server {
        transport,
        address: ServerAddress::Ip(address),
        name: Some(NAME.to_owned()),
        path: path.to_owned(),
    }
}

/// The next message on a stream; `None` at its end.
pub fn read_message(peer: &mut OriginPeer) -> Option<Vec<u8>> {
    let len = peer.try_bytes(2)?;
    peer.try_bytes(u16::from_be_bytes([len[0], len[1]]).into())
}

/// Sends a message on a stream; does nothing if the client has disconnected.
pub fn write_message(peer: &mut OriginPeer, message: &[u8]) {
    let len = u16::try_from(message.len()).expect("a message");
    let _ = peer.try_send(&[&len.to_be_bytes()[..], message].concat());
}
