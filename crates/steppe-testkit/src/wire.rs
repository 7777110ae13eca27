//! The transport of a test's connections: TCP alone, or TLS above it.
//!
//! `STEPPE_WIRE=tls` sets it for a whole run, so that the same tests cover both. Every client connection of a node
//! and every connection to a scripted origin is TLS then. A node's configuration gets the keys that this takes,
//! where it listens on `{gateway}` and where an upstream has a scripted origin.

use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};

use toml::{Table, Value};

use crate::authority::{Authority, Issued, Leaf};
use crate::peer::Peer;
use crate::tls_client::TlsClient;
use crate::tls_server::TlsServer;
use crate::{Section, Setting};

/// The transport of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// TCP.
    Plain,
    /// TLS above TCP.
    Tls,
}

/// Certificates and TLS configurations for both ends of a run's connections.
pub(crate) struct Credentials {
    pub(crate) ca: String,
    pub(crate) node: Issued,
    pub(crate) client: TlsClient,
    pub(crate) server: TlsServer,
    /// Addresses of scripted origins.
    origins: Mutex<Vec<SocketAddr>>,
}

impl Wire {
    /// The transport of this run.
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

    /// The scheme of URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }

    /// Makes the TLS handshake on a client's connection to a node, if this transport has TLS.
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

    /// The credentials of the run; `None` without TLS.
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

    /// Adds the keys of TLS to the configuration `text`, for files in `directory`. Keys that it has stay, and so does
    /// a text that is no TOML.
    pub(crate) fn add_keys(&self, text: String, gateway: SocketAddr, directory: &str) -> String {
        let Ok(mut root) = text.parse::<Table>() else {
            return text;
        };
        let Some(http) = root.get_mut("http").and_then(Value::as_table_mut) else {
            return text;
        };
        let gateway = gateway.to_string();
        let listeners = http.get_mut("listener").and_then(Value::as_array_mut);
        for listener in tables(listeners.into_iter().flatten()) {
            if listener.get("listen").and_then(Value::as_str) == Some(&gateway) {
                let shown = Section::new()
                    .set("cert", format!("{directory}/wire.pem"))
                    .set("key", format!("{directory}/wire.key"));
                add_key(listener, "tls", Section::new().set("certificates", [shown]));
            }
        }
        let upstreams = http.get_mut("upstream").and_then(Value::as_table_mut);
        let upstreams = upstreams.into_iter().flat_map(Table::iter_mut);
        for upstream in tables(upstreams.map(|(_, upstream)| upstream)) {
            if self.is_scripted(upstream) {
                add_key(upstream, "protocol", "h1s");
                let ca = format!("{directory}/wire-ca.pem");
                add_key(upstream, "tls", Section::new().set("ca", ca));
            }
        }
        root.to_string()
    }

    /// True if one of the upstream's servers is a scripted origin.
    fn is_scripted(&self, upstream: &Table) -> bool {
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = upstream.get("servers").and_then(Value::as_array);
        let mut addresses = servers.into_iter().flatten().filter_map(|server| {
            let address = server
                .as_table()
                .map_or(Some(server), |server| server.get("address"));
            address?.as_str()
        });
        addresses.any(|server| origins.iter().any(|origin| origin.to_string() == server))
    }
}

fn tables<'a>(values: impl Iterator<Item = &'a mut Value>) -> impl Iterator<Item = &'a mut Table> {
    values.filter_map(Value::as_table_mut)
}

fn add_key(table: &mut Table, key: &str, value: impl Into<Setting>) {
    table.entry(key).or_insert(value.into().into());
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::NodeConfig;

    #[test]
    fn keys_are_added_to_listeners_and_to_scripted_origins() {
        let gateway = "127.0.0.1:1".parse().expect("an address");
        let credentials = Credentials::new();
        credentials.add_origin("127.0.0.1:2".parse().expect("an address"));
        let servers = |servers: &'static [&str]| move |u: Section| u.servers(servers);
        let config = NodeConfig::default()
            .add_listener("127.0.0.1:1", |l| l)
            .add_listener("127.0.0.1:4", |l| l)
            .add_upstream("a", servers(&["127.0.0.1:3", "127.0.0.1:2"]))
            .add_upstream("b", servers(&["127.0.0.1:3"]));
        let added = credentials.add_keys(config.to_string(), gateway, "/x");
        expect![[r#"
            [[http.listener]]
            listen = "127.0.0.1:1"

            [[http.listener.tls.certificates]]
            cert = "/x/wire.pem"
            key = "/x/wire.key"

            [[http.listener]]
            listen = "127.0.0.1:4"

            [http.upstream.a]
            servers = ["127.0.0.1:3", "127.0.0.1:2"]
            protocol = "h1s"

            [http.upstream.a.tls]
            ca = "/x/wire-ca.pem"

            [http.upstream.b]
            servers = ["127.0.0.1:3"]
        "#]]
        .assert_eq(&added);
        let again = credentials.add_keys(added.clone(), gateway, "/x");
        assert_eq!(again, added);
        for untouched in ["[http", "[node]\n# a comment\n"] {
            let text = credentials.add_keys(untouched.to_owned(), gateway, "/x");
            assert_eq!(text, untouched);
        }
    }
}
