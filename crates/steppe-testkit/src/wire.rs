//! What a test's connections are made of: TCP alone, or TLS above it.
//!
//! A parameter of a whole run, `STEPPE_WIRE=tls`, so that one table has both. Every client connection of a node
//! and every connection to a scripted origin is TLS then. A node's configuration gets the keys that this takes,
//! where it listens on `{gateway}` and where an upstream has a scripted origin.

use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::authority::{Authority, Issued, Leaf};
use crate::peer::Peer;
use crate::tls_client::TlsClient;
use crate::tls_server::TlsServer;

/// What connections are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// TCP.
    Plain,
    /// TLS above TCP.
    Tls,
}

/// What both ends of a run's connections need.
pub(crate) struct Credentials {
    pub(crate) ca: String,
    pub(crate) node: Issued,
    pub(crate) client: TlsClient,
    pub(crate) server: TlsServer,
    /// Where scripted origins listen.
    origins: Mutex<Vec<SocketAddr>>,
}

impl Wire {
    /// That of this run.
    ///
    /// # Panics
    /// When `STEPPE_WIRE` names none.
    pub fn of_run() -> Self {
        match std::env::var("STEPPE_WIRE").as_deref() {
            Err(_) | Ok("" | "plain") => Self::Plain,
            Ok("tls") => Self::Tls,
            Ok(other) => panic!("STEPPE_WIRE is plain or tls, not {other}"),
        }
    }

    /// The scheme of its URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }

    /// Makes a connection of a client to a node one of this kind.
    ///
    /// # Panics
    /// When its handshake fails.
    #[track_caller]
    pub fn introduce(self, peer: Peer) -> Peer {
        let Some(credentials) = self.credentials() else {
            return peer;
        };
        let session = credentials.client.over(peer, "localhost");
        session.unwrap_or_else(|error| panic!("no session: {error}"))
    }

    /// `None` where there is no TLS.
    pub(crate) fn credentials(self) -> Option<&'static Credentials> {
        static ALL: OnceLock<Credentials> = OnceLock::new();
        (self == Self::Tls).then(|| ALL.get_or_init(Credentials::new))
    }
}

impl Credentials {
    fn new() -> Self {
        let authority = Authority::new("tests");
        let issued = authority.issue(&Leaf::named(&["localhost", "127.0.0.1"]));
        Self {
            ca: authority.pem(),
            client: TlsClient::new(),
            server: TlsServer::showing(&issued),
            node: issued,
            origins: Mutex::default(),
        }
    }

    pub(crate) fn add_origin(&self, address: SocketAddr) {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.push(address);
    }

    /// The configuration `toml` with the keys of TLS, for files in `directory`.
    pub(crate) fn add_keys(&self, toml: &str, gateway: SocketAddr, directory: &str) -> String {
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let listen = format!("listen = \"{gateway}\"");
        let line = |line: &str| {
            let keys = if line.trim() == listen {
                format!(
                    "tls = {{ certificates = [{{ cert = \"{directory}/wire.pem\", \
                     key = \"{directory}/wire.key\" }}] }}\n"
                )
            } else if is_of(line, &origins) {
                format!("protocol = \"h1s\"\ntls = {{ ca = \"{directory}/wire-ca.pem\" }}\n")
            } else {
                String::new()
            };
            format!("{line}\n{keys}")
        };
        toml.lines().map(line).collect()
    }
}

/// Whether `line` names servers, and one of them is among `origins`.
fn is_of(line: &str, origins: &[SocketAddr]) -> bool {
    let Some(list) = line.trim().strip_prefix("servers = [") else {
        return false;
    };
    let mut servers = list.split('"').skip(1).step_by(2);
    servers.any(|server| origins.iter().any(|origin| origin.to_string() == server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_added_to_listeners_and_to_scripted_origins() {
        let gateway = "127.0.0.1:1".parse().expect("an address");
        let credentials = Credentials::new();
        credentials.add_origin("127.0.0.1:2".parse().expect("an address"));
        let toml = "listen = \"127.0.0.1:1\"\n[a]\nservers = [\"127.0.0.1:3\", \"127.0.0.1:2\"]\n\
                    [b]\nservers = [\"127.0.0.1:3\"]\n";
        let added = credentials.add_keys(toml, gateway, "/x");
        let expected = "listen = \"127.0.0.1:1\"\ntls = { certificates = [{ cert = \"/x/wire.pem\", \
                        key = \"/x/wire.key\" }] }\n[a]\nservers = [\"127.0.0.1:3\", \"127.0.0.1:2\"]\n\
                        protocol = \"h1s\"\ntls = { ca = \"/x/wire-ca.pem\" }\n\
                        [b]\nservers = [\"127.0.0.1:3\"]\n";
        assert_eq!(added, expected);
    }
}
