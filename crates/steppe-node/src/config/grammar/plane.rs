//! Strings of the request plane.
//!
//! Spec: `docs/plane/protocol.md` §5.

use steppe_etcd::{Endpoint, EndpointError};

use steppe_config::form::{Read, Refusal};
use steppe_config::mistake::shown;
use steppe_net::config::forms::service;

/// The name of a service, or the beginning of names before a `*`.
pub(in crate::config) fn services(text: &str) -> Read<String> {
    let before = text.strip_suffix('*').unwrap_or(text);
    if before.contains('*') {
        let message = format!("`{}` has a `*` that is not at its end", shown(text));
        return Err(Refusal::new(message).help(
            "write a name such as \"embed\", or the beginning of names such as \"embed/*\"",
        ));
    }
    service(text)
}

/// The URL of a member of etcd.
pub(in crate::config) fn etcd_endpoint(text: &str) -> Read<Endpoint> {
    text.parse().map_err(|error: EndpointError| {
        // What stands before an @ may be a secret.
        let refusal = match error {
            EndpointError::User => Refusal::new("an endpoint of etcd has no user".to_owned()),
            _ => Refusal::new(format!("`{}` is not an endpoint of etcd", shown(text))),
        };
        refusal.help(error.to_string())
    })
}

/// Bytes of what keys in etcd begin with.
const ETCD_PREFIX_BYTES_MAX: usize = 255;

/// What keys in etcd begin with.
pub(in crate::config) fn etcd_prefix(text: &str) -> Read<String> {
    let is_text = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.starts_with('/') && is_text && text.len() <= ETCD_PREFIX_BYTES_MAX {
        return Ok(text.to_owned());
    }
    let refusal = Refusal::new(format!("`{}` is not a prefix of keys", shown(text)));
    Err(refusal.help(format!(
        "write a slash and visible ASCII characters, such as \"/steppe\", at most {ETCD_PREFIX_BYTES_MAX}"
    )))
}

#[cfg(test)]
mod tests {
    use steppe_net::limits::SERVICE_BYTES_MAX;

    use super::*;

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
            assert_eq!(services(text), Ok(text.to_owned()));
        }
        for text in ["", "*embed", "a*b*", "two words*"] {
            assert!(services(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn prefixes_of_keys_begin_with_a_slash() {
        for text in ["/", "/steppe", "/a/b/"] {
            assert_eq!(etcd_prefix(text), Ok(text.to_owned()));
        }
        for text in [
            "",
            "steppe",
            "/two words",
            &"/".repeat(ETCD_PREFIX_BYTES_MAX + 1),
        ] {
            assert!(etcd_prefix(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_password_of_etcd_is_refused_and_not_shown() {
        let refused = etcd_endpoint("http://root:secret@etcd:2379").expect_err("users");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}
