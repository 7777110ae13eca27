//! The embedded default, and its amendments by the command line and the machine.
//!
//! Invariant: an amendment is made before the file is read, so it is checked like a value of the file, quoted by reports
//! and shown by `/config`.

use std::net::SocketAddr;

use steppe_config::mistakes::Mistakes;
use steppe_config::outside::Nothing;
use steppe_config::read::Source;
use steppe_config::tree::{Value, ValueKind};

use super::{Outcome, Text, read_with};

/// The configuration of `steppe run` without a file.
pub const DEFAULT: &str = include_str!("../default.toml");

/// The name of [`DEFAULT`] in reports.
pub const DEFAULT_NAME: &str = "default.toml";

/// Values that replace those of [`DEFAULT`].
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
    pub certificate: Option<[String; 2]>,
}

/// Reads [`DEFAULT`] with these amendments.
///
/// A report quotes the default with the amended values.
pub fn embedded(amendments: &Amendments) -> Outcome {
    let mut values = Vec::new();
    for (path, address) in [
        ("http.listener.0.listen", amendments.listen),
        ("http.listener.1.listen", amendments.listen_tls),
        ("dns.listener.0.listen", amendments.listen_dns),
        ("admin.listen", amendments.admin),
        ("http.upstream.demo.servers.0", amendments.demo),
    ] {
        values.extend(address.map(|address| (path, address.to_string())));
    }
    if let Some([cert, key]) = &amendments.certificate {
        values.push(("http.listener.1.tls.certificates.0.cert", cert.clone()));
        values.push(("http.listener.1.tls.certificates.0.key", key.clone()));
    }
    let text = amended(DEFAULT, values);
    let without_tls = |tree: &mut Value| {
        if let (None, Some(ValueKind::List(listeners))) = (
            &amendments.certificate,
            tree.at_mut("http.listener").map(|value| &mut value.kind),
        ) {
            listeners.remove(1);
        }
    };
    let text = Text {
        name: DEFAULT_NAME,
        text: &text,
    };
    read_with(text, &mut Nothing, without_tls, |_, _| {})
}

/// A file with other strings at these paths.
fn amended(text: &str, values: Vec<(&str, String)>) -> String {
    let source = Source::parse(DEFAULT_NAME, text, &mut Mistakes::default());
    let mut tree = source.expect("the embedded default is valid").tree;
    let mut edits: Vec<_> = values
        .into_iter()
        .map(|(path, value)| {
            let old = tree.at_mut(path);
            let span = old.expect("the embedded default has this key").span;
            // A string of JSON is one of TOML.
            let value = serde_json::Value::String(value).to_string();
            (span.start..span.end, value)
        })
        .collect();
    edits.sort_by_key(|(range, _)| range.start);
    let mut text = text.to_owned();
    // From the end, so that earlier ranges stay valid.
    for (range, value) in edits.into_iter().rev() {
        text.replace_range(range, &value);
    }
    text
}
