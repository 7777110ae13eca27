//! Forms of strings of the node's own keys.
//!
//! Invariant: a pattern accepts whatever its form parses.

use std::path::Path;

pub(super) use steppe_config::form::{FILE, NAME};
use steppe_config::form::{Form, Read, Refusal};
use steppe_config::mistake::shown;
pub(super) use steppe_net::config::forms::{LISTEN, NETWORK, SERVER};

/// URL of a collector of traces.
pub(super) static COLLECTOR: Form<String> =
    Form::new("a URL such as \"http://127.0.0.1:4318\"", collector).pattern("^https?://[^ #?@]+$");

/// The URL of a collector: `http://127.0.0.1:4318`.
fn collector(text: &str, _: &Path) -> Read<String> {
    let uri: Option<hyper::Uri> = text.parse().ok();
    let is_url = uri.is_some_and(|uri| {
        let is_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("@", |authority| authority.as_str());
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        is_scheme && !authority.contains('@') && has_host && uri.query().is_none()
    });
    if is_url && !text.contains('#') {
        return Ok(text.to_owned());
    }
    // What stands before an @ may be a secret.
    let refusal = match text.contains('@') {
        true => Refusal::new("the URL of a collector has no user".to_owned()),
        false => Refusal::new(format!("`{}` is not the URL of a collector", shown(text))),
    };
    Err(refusal.help("write a URL such as \"http://127.0.0.1:4318\", without user and query"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_url() {
        for text in [
            "http://127.0.0.1:4318",
            "https://otlp.example/a",
            "http://[::1]",
        ] {
            assert_eq!(collector(text, Path::new("")), Ok(text.to_owned()));
        }
        for text in [
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http://a/?b",
            "http://a/#b",
            "http://user:secret@a",
        ] {
            let refused = collector(text, Path::new("")).map_err(Refusal::told);
            let told = refused.expect_err("it is refused");
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
