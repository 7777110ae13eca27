//! Text forms of services, and of endpoints and key prefixes of etcd.
//!
//! Spec: `docs/plane/protocol.md` §5.

use std::path::Path;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::mistake::shown;
use steppe_etcd::{Endpoint, EndpointError};
use steppe_net::config::forms::service;

use crate::config::Services;

/// A service, or all services whose names have a prefix.
pub(super) static SERVICES: Form<Services> =
    Form::new("a service such as \"embed\", or \"embed/*\"", services)
        .pattern("^[!-)+-~]{0,127}[!-~]$");

/// URL of a member of etcd.
pub(super) static ENDPOINT: Form<Endpoint> =
    Form::new("a URL such as \"http://127.0.0.1:2379\"", endpoint)
        .pattern("^https?://[^ /?#@]+/?$")
        .shown_by(ToString::to_string);

/// Prefix of keys in etcd.
pub(super) static PREFIX: Form<String> =
    Form::new("a prefix of keys such as \"/steppe\"", prefix).pattern("^/[!-~]{0,254}$");

/// Reads the name of a service, or a prefix of names before a `*`.
fn services(text: &str, _: &Path) -> Read<Services> {
    let before = text.strip_suffix('*').unwrap_or(text);
    if before.contains('*') {
        let message = format!("`{}` has a `*` that is not at its end", shown(text));
        return Err(Refusal::new(message).help(
            "write a name such as \"embed\", or the beginning of names such as \"embed/*\"",
        ));
    }
    service(text).map(|text| Services::new(&text))
}

fn endpoint(text: &str, _: &Path) -> Read<Endpoint> {
    text.parse().map_err(|error: EndpointError| {
        // Text before an @ may be a secret.
        let refusal = match error {
            EndpointError::User => Refusal::new("an endpoint of etcd has no user".to_owned()),
            _ => Refusal::new(format!("`{}` is not an endpoint of etcd", shown(text))),
        };
        refusal.help(error.to_string())
    })
}

const PREFIX_BYTES_MAX: usize = 255;

fn prefix(text: &str, _: &Path) -> Read<String> {
    let is_text = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.starts_with('/') && is_text && text.len() <= PREFIX_BYTES_MAX {
        return Ok(text.to_owned());
    }
    let refusal = Refusal::new(format!("`{}` is not a prefix of keys", shown(text)));
    Err(refusal.help(format!(
        "write a slash and visible ASCII characters, such as \"/steppe\", at most {PREFIX_BYTES_MAX}"
    )))
}

#[cfg(test)]
mod tests {
    use steppe_net::limits::SERVICE_BYTES_MAX;

    use super::*;

    fn base() -> &'static Path {
        Path::new("")
    }

    #[test]
    fn services_are_visible_ascii() {
        for text in ["echo", "a.Service/Method", &"x".repeat(SERVICE_BYTES_MAX)] {
            assert_eq!(service(text), Ok(text.to_owned()));
        }
        for text in ["", "two words", "größe", &"x".repeat(SERVICE_BYTES_MAX + 1)] {
            assert!(service(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_star_stands_at_the_end() {
        for text in ["embed", "embed/*", "*"] {
            assert_eq!(services(text, base()), Ok(Services::new(text)));
        }
        for text in ["", "*embed", "a*b*", "two words*"] {
            assert!(services(text, base()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn prefixes_of_keys_begin_with_a_slash() {
        for text in ["/", "/steppe", "/a/b/"] {
            assert_eq!(prefix(text, base()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "steppe",
            "/two words",
            &"/".repeat(PREFIX_BYTES_MAX + 1),
        ] {
            assert!(prefix(text, base()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_password_of_etcd_is_refused_and_not_shown() {
        let refused = endpoint("http://root:secret@etcd:2379", base()).expect_err("users");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}
