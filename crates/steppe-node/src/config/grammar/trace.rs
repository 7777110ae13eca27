//! Strings of traces.

use steppe_config::form::{Read, Refusal};
use steppe_config::mistake::shown;

/// The URL of a collector: `http://127.0.0.1:4318`.
pub(in crate::config) fn collector(text: &str) -> Read<String> {
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
            assert_eq!(collector(text), Ok(text.to_owned()));
        }
        for text in [
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http://a/?b",
            "http://a/#b",
            "http://user:secret@a",
        ] {
            let refused = collector(text).map_err(Refusal::told);
            let told = refused.expect_err("it is refused");
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
