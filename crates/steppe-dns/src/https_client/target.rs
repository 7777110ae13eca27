//! The request of a query: its target and its fields. Spec: RFC 8484 §4.1.

use steppe_h2::hpack::{FieldLine, Indexing};

use crate::doh::MESSAGE;

/// The authority and path that queries are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    authority: String,
    path: String,
}

/// The target has bytes that no URL has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a URL of a server")]
pub struct InvalidTarget;

impl Target {
    /// A target of `https://`; `path` may have a query.
    ///
    /// # Errors
    /// [`InvalidTarget`]
    pub fn new(authority: String, path: String) -> Result<Self, InvalidTarget> {
        let is_valid = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let is_authority = |byte: u8| is_valid(byte) && !matches!(byte, b'/' | b'?' | b'@');
        let is_target = !authority.is_empty()
            && authority.bytes().all(is_authority)
            && path.starts_with('/')
            && path.bytes().all(is_valid);
        match is_target {
            true => Ok(Self { authority, path }),
            false => Err(InvalidTarget),
        }
    }

    /// The field lines of a POST with so many bytes of content.
    pub(super) fn lines<'a>(&'a self, content_length: &'a str) -> [FieldLine<'a>; 7] {
        [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", &self.authority),
            (":path", &self.path),
            ("accept", MESSAGE),
            ("content-type", MESSAGE),
            ("content-length", content_length),
        ]
        .map(|(name, value)| FieldLine {
            name: name.as_bytes(),
            value: value.as_bytes(),
            indexing: Indexing::Without,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_no_bytes_that_end_it() {
        let target = |authority: &str, path: &str| Target::new(authority.into(), path.into());
        for (authority, path) in [
            ("dns.example", "/dns-query"),
            ("[::1]:8443", "/other?a=b"),
            ("dns.example", "/"),
        ] {
            assert!(target(authority, path).is_ok(), "{authority}{path}");
        }
        for (authority, path) in [
            ("", "/"),
            ("dns.example", ""),
            ("dns.example", "dns-query"),
            ("dns.example", "/a b"),
            ("dns.example", "/a#b"),
            ("dns.example", "/a\r\nb: c"),
            ("dns.example/", "/"),
            ("user@dns.example", "/"),
        ] {
            assert_eq!(
                target(authority, path),
                Err(InvalidTarget),
                "{authority}{path}"
            );
        }
    }
}
