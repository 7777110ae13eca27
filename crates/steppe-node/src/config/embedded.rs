//! The embedded default, and what a command line and the machine amend in it.
//!
//! Invariant: an amendment changes the tree before it is read, so that it is checked like a value of the file, and
//! `/config` shows it.

use std::net::SocketAddr;
use std::path::PathBuf;

use steppe_config::tree::{Value, ValueKind};

use super::{Outcome, read_with};

/// The configuration of `steppe run` without a file.
pub const DEFAULT: &str = include_str!("../default.toml");

/// The name of [`DEFAULT`] in reports.
pub const DEFAULT_NAME: &str = "default.toml";

/// Values that take the place of those of [`DEFAULT`].
#[derive(Debug, Default)]
pub struct Amendments {
    /// Address of the gateway.
    pub listen: Option<SocketAddr>,
    /// Address of the gateway over HTTPS.
    pub listen_tls: Option<SocketAddr>,
    /// Address of the DNS forwarder.
    pub listen_dns: Option<SocketAddr>,
    /// Address of admin.
    pub admin: Option<SocketAddr>,
    /// Address of the demo origin.
    pub demo: Option<SocketAddr>,
    /// Files of the certificate and its private key, PEM. `None`: there is no listener over HTTPS.
    pub certificate: Option<[PathBuf; 2]>,
}

/// Reads [`DEFAULT`] with these amendments.
pub fn embedded(amendments: &Amendments) -> Outcome {
    let amend = |tree: &mut Value| amend(tree, amendments);
    read_with(DEFAULT_NAME, DEFAULT, amend, |_, _| {})
}

fn amend(tree: &mut Value, amendments: &Amendments) {
    let Amendments {
        listen,
        listen_tls,
        listen_dns,
        admin,
        demo,
        certificate,
    } = amendments;
    for (path, address) in [
        ("http.listener.0.listen", listen),
        ("http.listener.1.listen", listen_tls),
        ("dns.listener.0.listen", listen_dns),
        ("admin.listen", admin),
        ("http.upstream.demo.servers.0", demo),
    ] {
        if let Some(address) = address {
            set(tree, path, address.to_string());
        }
    }
    match certificate {
        Some(files) => {
            let paths =
                ["cert", "key"].map(|key| format!("http.listener.1.tls.certificates.0.{key}"));
            for (path, file) in paths.iter().zip(files) {
                set(tree, path, file.to_string_lossy().into_owned());
            }
        }
        None => {
            if let ValueKind::List(listeners) = &mut at(tree, "http.listener").kind {
                listeners.remove(1);
            }
        }
    }
}

fn set(tree: &mut Value, path: &str, text: String) {
    at(tree, path).kind = ValueKind::Text(text);
}

fn at<'a>(tree: &'a mut Value, path: &str) -> &'a mut Value {
    tree.at_mut(path)
        .expect("the embedded default has this key")
}
