//! Hosts and authorities: `uri-host [ ":" port ]`.
//!
//! Invariant: an [`Authority`] that parses has a host of 1 to 255 bytes that is a name, an IPv4
//! address or a bracketed IPv6 address, so it can be written into a field or compared as it is.
//!
//! Left out: userinfo (never in `Host`, an error in a target: RFC 9110 §4.2.4) and resolution.
//! Spec: RFC 9110 §7.2, RFC 3986 §3.2.2.
//!
//! # Deviations
//! Escapes in a name are refused: DNS names have none, and `%61dmin.example` would be `admin.example`
//! to an origin that decodes it but not to a route. So are zone identifiers and `[v1.…]` addresses,
//! which nothing can connect to. So are the sub-delims (`!$&'()*+,;=`), which no DNS name of a host
//! has either, internationalized ones included (they come as `xn--…`): in `evil.example,a.example`
//! an origin that reads a list, or a field that a gateway writes one into, sees another host than
//! the route did.

use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::limits::HOST_BYTES_MAX;
use crate::path::is_unreserved;

/// A host and perhaps a port, as a `Host` field or a request target names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// As it was sent; an IPv6 address in its brackets.
    pub host: &'a [u8],
    /// `None` when there is no port, or no digit after its colon (RFC 3986 §3.2.3).
    pub port: Option<u16>,
}

/// Why an authority is refused: 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostError {
    /// No host. A `Host` field may be empty when the target has no authority (RFC 9110 §7.2):
    /// whoever allows that matches this variant.
    #[error("empty host")]
    Empty,
    /// A host that is longer than [`HOST_BYTES_MAX`].
    #[error("host of {0} bytes is longer than {HOST_BYTES_MAX}")]
    TooLong(usize),
    /// A byte that no host contains.
    #[error("byte 0x{0:02x} is not allowed in a host")]
    Byte(u8),
    /// Brackets around something else than an IPv6 address.
    #[error("invalid IPv6 address in brackets")]
    Ipv6,
    /// A port that is no number from 0 to 65535.
    #[error("invalid port")]
    Port,
}

impl<'a> Authority<'a> {
    /// Reads an authority without userinfo.
    ///
    /// # Errors
    /// [`HostError`] says what is refused.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HostError> {
        let host_end = match bytes {
            [b'[', ..] => memchr::memchr(b']', bytes).ok_or(HostError::Ipv6)? + 1,
            _ => memchr::memchr(b':', bytes).unwrap_or(bytes.len()),
        };
        let (host, after) = bytes.split_at(host_end);
        let port = match after {
            [] => None,
            [b':', digits @ ..] => parse_port(digits)?,
            _ => return Err(HostError::Ipv6),
        };
        validate(host)?;
        Ok(Self { host, port })
    }
}

/// True when two hosts are the same: ASCII case and a final dot don't count, nor does the spelling
/// of an IPv6 address.
pub fn same_host(left: &[u8], right: &[u8]) -> bool {
    let (mut left_buf, mut right_buf) = ([0; HOST_BYTES_MAX], [0; HOST_BYTES_MAX]);
    match (
        canonical(left, &mut left_buf),
        canonical(right, &mut right_buf),
    ) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// The spelling of a host that is compared: lower case, no final dot, IPv6 as RFC 5952 writes it.
/// `None` when it is too long to be a host.
pub(crate) fn canonical<'b>(host: &[u8], buf: &'b mut [u8; HOST_BYTES_MAX]) -> Option<&'b [u8]> {
    if let Some(address) = bracketed_ipv6(host) {
        return Some(write_ipv6(address, buf));
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    let copy = buf.get_mut(..host.len())?;
    copy.copy_from_slice(host);
    copy.make_ascii_lowercase();
    Some(copy)
}

/// Appends an authority in the spelling that is compared: its host as routes compare it, and its port unless that
/// is `default`. Bytes that are no authority are appended in lower case.
pub(crate) fn write_normal(out: &mut Vec<u8>, authority: &[u8], default: u16) {
    let mut buf = [0; HOST_BYTES_MAX];
    let parsed = Authority::parse(authority).ok();
    let parts = parsed.and_then(|parsed| Some((canonical(parsed.host, &mut buf)?, parsed.port)));
    let Some((host, port)) = parts else {
        return out.extend(authority.iter().map(u8::to_ascii_lowercase));
    };
    out.extend_from_slice(host);
    if let Some(port) = port.filter(|&port| port != default) {
        write!(out, ":{port}").expect("a vector takes all that is written");
    }
}

fn write_ipv6(address: Ipv6Addr, buf: &mut [u8; HOST_BYTES_MAX]) -> &[u8] {
    let mut free: &mut [u8] = buf;
    write!(free, "[{address}]").expect("an address has at most 45 characters");
    let len = HOST_BYTES_MAX - free.len();
    &buf[..len]
}

fn bracketed_ipv6(host: &[u8]) -> Option<Ipv6Addr> {
    let inner = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inner).ok()?.parse().ok()
}

/// RFC 3986 §3.2.3: `port = *DIGIT`, here at most 65535.
fn parse_port(digits: &[u8]) -> Result<Option<u16>, HostError> {
    let mut port = None;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(HostError::Port);
        }
        let shifted = port
            .unwrap_or(0_u16)
            .checked_mul(10)
            .ok_or(HostError::Port)?;
        port = Some(
            shifted
                .checked_add(u16::from(digit - b'0'))
                .ok_or(HostError::Port)?,
        );
    }
    Ok(port)
}

fn validate(host: &[u8]) -> Result<(), HostError> {
    match host {
        [] => Err(HostError::Empty),
        _ if host.len() > HOST_BYTES_MAX => Err(HostError::TooLong(host.len())),
        [b'[', ..] => bracketed_ipv6(host).map(|_| ()).ok_or(HostError::Ipv6),
        _ => match host.iter().find(|&&byte| !is_unreserved(byte)) {
            Some(&byte) => Err(HostError::Byte(byte)),
            None => Ok(()),
        },
    }
}

/// Why a route's host is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostPatternError {
    /// The text is not a host.
    #[error("`{0}` is not a host: {1}")]
    Host(String, HostError),
    /// The text names a port.
    #[error("`{0}` has a port: routes match only the host")]
    Port(String),
    /// `*` elsewhere than in the place of the first label.
    #[error("`{0}`: `*` is allowed only as the first label, as in `*.example.com`")]
    Wildcard(String),
    /// A label between dots is empty.
    #[error("`{0}` has an empty label")]
    EmptyLabel(String),
    /// Characters beyond ASCII.
    #[error("`{0}` must be written in ASCII, as Punycode (`xn--…`)")]
    NotAscii(String),
}

/// A host that a route serves, in lower case, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// Just this name or address.
    Exact(String),
    /// `*.example.com`: any name below the suffix, which is kept as `.example.com`.
    Wildcard(String),
}

impl HostPattern {
    /// Reads a route's host: a name, an address (IPv6 in brackets), or `*.example.com`.
    ///
    /// # Errors
    /// [`HostPatternError`] says what is refused.
    pub fn parse(pattern: &str) -> Result<Self, HostPatternError> {
        let shown = || pattern.to_owned();
        if !pattern.is_ascii() {
            return Err(HostPatternError::NotAscii(shown()));
        }
        let (is_wildcard, name) = match pattern.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, pattern),
        };
        let is_address = name.starts_with('[') || name.parse::<Ipv4Addr>().is_ok();
        if name.contains('*') || (is_wildcard && is_address) {
            return Err(HostPatternError::Wildcard(shown()));
        }
        let authority = Authority::parse(name.as_bytes())
            .map_err(|error| HostPatternError::Host(shown(), error))?;
        if authority.host.len() != name.len() {
            return Err(HostPatternError::Port(shown()));
        }
        let mut buf = [0; HOST_BYTES_MAX];
        let canonical = canonical(authority.host, &mut buf).expect("its length was checked");
        let canonical = String::from_utf8_lossy(canonical).into_owned();
        if canonical.split('.').any(str::is_empty) {
            return Err(HostPatternError::EmptyLabel(shown()));
        }
        Ok(if is_wildcard {
            Self::Wildcard(format!(".{canonical}"))
        } else {
            Self::Exact(canonical)
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn shown(input: &str) -> String {
        match Authority::parse(input.as_bytes()) {
            Ok(Authority { host, port }) => {
                format!("{input} -> {} {port:?}\n", host.escape_ascii())
            }
            Err(error) => format!("{} -> 400 {error}\n", input.escape_debug()),
        }
    }

    fn check(inputs: &[&str], expected: Expect) {
        expected.assert_eq(&inputs.iter().map(|input| shown(input)).collect::<String>());
    }

    #[test]
    fn authorities_are_split() {
        check(
            &[
                "example.com",
                "Example.COM.:8080",
                "example.com:",
                "127.0.0.1:80",
                "[::1]",
                "[2001:db8::1]:443",
                "[::ffff:1.2.3.4]:65535",
                "under_score.~x",
                "xn--bcher-kva.example",
                "example.com:00080",
            ],
            expect![[r#"
                example.com -> example.com None
                Example.COM.:8080 -> Example.COM. Some(8080)
                example.com: -> example.com None
                127.0.0.1:80 -> 127.0.0.1 Some(80)
                [::1] -> [::1] None
                [2001:db8::1]:443 -> [2001:db8::1] Some(443)
                [::ffff:1.2.3.4]:65535 -> [::ffff:1.2.3.4] Some(65535)
                under_score.~x -> under_score.~x None
                xn--bcher-kva.example -> xn--bcher-kva.example None
                example.com:00080 -> example.com Some(80)
            "#]],
        );
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        check(
            &[
                "",
                ":80",
                "user@example.com",
                "a b",
                "a/b",
                "a\\b",
                "a?b",
                "evil.example,a.example",
                "a;b",
                "a=b",
                "a!b",
                "*.example",
                "a:b,c",
                "ex%61mple.com",
                "é",
                "a:b",
                "a:80:80",
                "a:-1",
                "a:+1",
                "a:65536",
                "a:99999999999999999999",
                "::1",
                "[::1",
                "[::1]x",
                "[::1%25eth0]",
                "[v1.a]",
                "[1.2.3.4]",
                "[]",
                "a[::1]",
                "a\0",
            ],
            expect![[r#"
                 -> 400 empty host
                :80 -> 400 empty host
                user@example.com -> 400 byte 0x40 is not allowed in a host
                a b -> 400 byte 0x20 is not allowed in a host
                a/b -> 400 byte 0x2f is not allowed in a host
                a\\b -> 400 byte 0x5c is not allowed in a host
                a?b -> 400 byte 0x3f is not allowed in a host
                evil.example,a.example -> 400 byte 0x2c is not allowed in a host
                a;b -> 400 byte 0x3b is not allowed in a host
                a=b -> 400 byte 0x3d is not allowed in a host
                a!b -> 400 byte 0x21 is not allowed in a host
                *.example -> 400 byte 0x2a is not allowed in a host
                a:b,c -> 400 invalid port
                ex%61mple.com -> 400 byte 0x25 is not allowed in a host
                é -> 400 byte 0xc3 is not allowed in a host
                a:b -> 400 invalid port
                a:80:80 -> 400 invalid port
                a:-1 -> 400 invalid port
                a:+1 -> 400 invalid port
                a:65536 -> 400 invalid port
                a:99999999999999999999 -> 400 invalid port
                ::1 -> 400 invalid port
                [::1 -> 400 invalid IPv6 address in brackets
                [::1]x -> 400 invalid IPv6 address in brackets
                [::1%25eth0] -> 400 invalid IPv6 address in brackets
                [v1.a] -> 400 invalid IPv6 address in brackets
                [1.2.3.4] -> 400 invalid IPv6 address in brackets
                [] -> 400 invalid IPv6 address in brackets
                a[::1] -> 400 invalid port
                a\0 -> 400 byte 0x00 is not allowed in a host
            "#]],
        );
        assert_eq!(Authority::parse(&[b'a'; 256]), Err(HostError::TooLong(256)));
        assert!(Authority::parse(&[b'a'; 255]).is_ok());
    }

    #[test]
    fn case_final_dot_and_ipv6_spelling_do_not_count() {
        assert!(same_host(b"Example.com.", b"example.COM"));
        assert!(same_host(b"[::1]", b"[0:0:0:0:0:0:0:1]"));
        assert!(same_host(b"[2001:DB8::A]", b"[2001:db8::a]"));
        assert!(!same_host(b"example.com..", b"example.com"));
        assert!(!same_host(b"a.example.com", b"example.com"));
        assert!(!same_host(&[b'a'; 300], &[b'a'; 300]));
    }

    #[test]
    fn patterns_are_read() {
        let shown = |pattern: &str| match HostPattern::parse(pattern) {
            Ok(parsed) => format!("{pattern} -> {parsed:?}\n"),
            Err(error) => format!("{pattern} -> {error}\n"),
        };
        let patterns = [
            "Api.Example.com",
            "example.com.",
            "*.Example.com",
            "127.0.0.1",
            "[0::1]",
            "localhost",
            "",
            "*",
            "*.",
            "*.*.com",
            "a.*.com",
            "*a.com",
            "*.[::1]",
            "*.1.2.3.4",
            "a..b",
            ".a",
            "a:80",
            "a:",
            "::1",
            "é.com",
            "a/b",
        ];
        expect![[r#"
            Api.Example.com -> Exact("api.example.com")
            example.com. -> Exact("example.com")
            *.Example.com -> Wildcard(".example.com")
            127.0.0.1 -> Exact("127.0.0.1")
            [0::1] -> Exact("[::1]")
            localhost -> Exact("localhost")
             -> `` is not a host: empty host
            * -> `*`: `*` is allowed only as the first label, as in `*.example.com`
            *. -> `*.` is not a host: empty host
            *.*.com -> `*.*.com`: `*` is allowed only as the first label, as in `*.example.com`
            a.*.com -> `a.*.com`: `*` is allowed only as the first label, as in `*.example.com`
            *a.com -> `*a.com`: `*` is allowed only as the first label, as in `*.example.com`
            *.[::1] -> `*.[::1]`: `*` is allowed only as the first label, as in `*.example.com`
            *.1.2.3.4 -> `*.1.2.3.4`: `*` is allowed only as the first label, as in `*.example.com`
            a..b -> `a..b` has an empty label
            .a -> `.a` has an empty label
            a:80 -> `a:80` has a port: routes match only the host
            a: -> `a:` has a port: routes match only the host
            ::1 -> `::1` is not a host: invalid port
            é.com -> `é.com` must be written in ASCII, as Punycode (`xn--…`)
            a/b -> `a/b` is not a host: byte 0x2f is not allowed in a host
        "#]]
        .assert_eq(&patterns.map(shown).concat());
    }
}
