//! Elements of the forwarding fields: splitting lists, reading nodes.
//!
//! Lists are split from the right, where the trusted proxies wrote: nothing that a client puts on
//! the left, such as a quote left open, changes how the right is read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::is_token;

/// The elements of one field line, the last one first, without the white space around them.
///
/// Commas in quotes don't count. Quotes are told by their number from the right, which only a
/// backslash could make wrong; [`forwarded_for`] refuses elements that have one.
#[derive(Debug, Clone)]
pub(super) struct FromRight<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> FromRight<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'a> Iterator for FromRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut is_quoted = false;
        let comma = rest.iter().rposition(|&byte| {
            is_quoted ^= byte == b'"';
            byte == b',' && !is_quoted
        });
        self.rest = comma.map(|comma| &rest[..comma]);
        let start = comma.map_or(0, |comma| comma + 1);
        Some(rest[start..].trim_ascii())
    }
}

/// The members of a list without quotes, empty ones left out.
pub(super) fn list_members(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// The address in an element of `X-Forwarded-For`, with or without a port.
pub(super) fn x_forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let bare = parse::<Ipv6Addr>(element).map(IpAddr::V6);
    bare.map(|address| address.to_canonical())
        .or_else(|| node_address(element))
}

/// The address that an element of `Forwarded` has in `for`.
///
/// `None` when it has none (`unknown`, obfuscated) or is malformed.
pub(super) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    if element.contains(&b'\\') {
        return None;
    }
    let mut node = None;
    for pair in Pairs::new(element) {
        let pair = pair?;
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        let value = unquote(value)?;
        if !is_token(name) {
            return None;
        }
        // RFC 7239 §4: a parameter occurs at most once.
        if name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
            return None;
        }
    }
    node_address(node?)
}

/// The pairs of an element of `Forwarded`; `Some(None)` where a quote is left open.
struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Pairs<'a> {
    fn new(element: &'a [u8]) -> Self {
        Self { rest: element }
    }

    fn split_first(&mut self) -> Option<&'a [u8]> {
        let mut is_quoted = false;
        let semicolon = self.rest.iter().position(|&byte| {
            is_quoted ^= byte == b'"';
            byte == b';' && !is_quoted
        });
        let (pair, rest) = match semicolon {
            Some(semicolon) => (&self.rest[..semicolon], &self.rest[semicolon + 1..]),
            None if is_quoted => return None,
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        Some(pair.trim_ascii())
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let pair = self.split_first();
            if pair != Some(&[]) {
                return Some(pair);
            }
        }
        None
    }
}

/// A value that is a token, or a quoted string without escapes.
fn unquote(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'"') => Some(inner),
        _ if is_token(value) => Some(value),
        _ => None,
    }
}

/// RFC 7239 §6: `node = nodename [ ":" node-port ]`, where the name is an address.
fn node_address(node: &[u8]) -> Option<IpAddr> {
    let (address, after) = match node {
        [b'[', bracketed @ ..] => {
            let end = memchr::memchr(b']', bracketed)?;
            (IpAddr::V6(parse(&bracketed[..end])?), &bracketed[end + 1..])
        }
        _ => {
            let end = memchr::memchr(b':', node).unwrap_or(node.len());
            (IpAddr::V4(parse::<Ipv4Addr>(&node[..end])?), &node[end..])
        }
    };
    let is_valid = match after {
        [] => true,
        [b':', port @ ..] => is_node_port(port),
        _ => false,
    };
    is_valid.then(|| address.to_canonical())
}

/// RFC 7239 §6.3: one to five digits, or an obfuscated port.
fn is_node_port(port: &[u8]) -> bool {
    match port {
        [b'_', name @ ..] => {
            let is_allowed =
                |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            !name.is_empty() && name.iter().all(is_allowed)
        }
        _ => matches!(port.len(), 1..=5) && port.iter().all(u8::is_ascii_digit),
    }
}

/// RFC 3986 §3.1.
pub(super) fn is_scheme(value: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    value.first().is_some_and(u8::is_ascii_alphabetic) && value.iter().all(is_allowed)
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(read: fn(&[u8]) -> Option<IpAddr>, elements: &[&str], expected: Expect) {
        let shown = |element: &&str| {
            let address = read(element.as_bytes()).map(|address| address.to_string());
            format!(
                "{element} -> {}\n",
                address.as_deref().unwrap_or("no address")
            )
        };
        expected.assert_eq(&elements.iter().map(shown).collect::<String>());
    }

    #[test]
    fn x_forwarded_for_elements() {
        check(
            x_forwarded_for,
            &[
                "192.0.2.43",
                "192.0.2.43:47011",
                "2001:db8::17",
                "[2001:db8::17]",
                "[2001:db8::17]:4711",
                "::ffff:192.0.2.43",
                "unknown",
                "192.0.2.043",
                "192.0.2.43:",
                "192.0.2.43:123456",
                "[2001:db8::17",
                "\"192.0.2.43\"",
                "192.0.2.43 10.0.0.1",
            ],
            expect![[r#"
                192.0.2.43 -> 192.0.2.43
                192.0.2.43:47011 -> 192.0.2.43
                2001:db8::17 -> 2001:db8::17
                [2001:db8::17] -> 2001:db8::17
                [2001:db8::17]:4711 -> 2001:db8::17
                ::ffff:192.0.2.43 -> 192.0.2.43
                unknown -> no address
                192.0.2.043 -> no address
                192.0.2.43: -> no address
                192.0.2.43:123456 -> no address
                [2001:db8::17 -> no address
                "192.0.2.43" -> no address
                192.0.2.43 10.0.0.1 -> no address
            "#]],
        );
    }

    #[test]
    fn forwarded_elements() {
        check(
            forwarded_for,
            &[
                "for=192.0.2.60;proto=http;by=203.0.113.43",
                "For=\"[2001:db8:cafe::17]:4711\"",
                "for=\"[2001:db8:cafe::17]\"",
                "proto=https; FOR=192.0.2.43",
                "for=\"192.0.2.43:_port\"",
                "for=192.0.2.43;;",
                "host=\"a;b,c\";for=192.0.2.43",
                "for=unknown",
                "for=_gazonk",
                "for=\"_gazonk:1\"",
                "for=[2001:db8::17]",
                "for=\"2001:db8::17\"",
                "for=192.0.2.43:80",
                "for=192.0.2.43;for=192.0.2.44",
                "for=",
                "for",
                "proto=http",
                "for=\"192.0.2.43",
                "host=\";for=192.0.2.43",
                "for=192.0.2.43;host=\"a\\\"b\"",
                "for =192.0.2.43",
                "for=192.0.2.43 x",
            ],
            expect![[r#"
                for=192.0.2.60;proto=http;by=203.0.113.43 -> 192.0.2.60
                For="[2001:db8:cafe::17]:4711" -> 2001:db8:cafe::17
                for="[2001:db8:cafe::17]" -> 2001:db8:cafe::17
                proto=https; FOR=192.0.2.43 -> 192.0.2.43
                for="192.0.2.43:_port" -> 192.0.2.43
                for=192.0.2.43;; -> 192.0.2.43
                host="a;b,c";for=192.0.2.43 -> 192.0.2.43
                for=unknown -> no address
                for=_gazonk -> no address
                for="_gazonk:1" -> no address
                for=[2001:db8::17] -> no address
                for="2001:db8::17" -> no address
                for=192.0.2.43:80 -> no address
                for=192.0.2.43;for=192.0.2.44 -> no address
                for= -> no address
                for -> no address
                proto=http -> no address
                for="192.0.2.43 -> no address
                host=";for=192.0.2.43 -> no address
                for=192.0.2.43;host="a\"b" -> no address
                for =192.0.2.43 -> no address
                for=192.0.2.43 x -> no address
            "#]],
        );
    }

    #[test]
    fn lists_are_split_from_the_right() {
        let split = |line: &'static str| {
            FromRight::new(line.as_bytes())
                .map(|element| String::from_utf8_lossy(element).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(split("a, b ,\tc"), ["c", "b", "a"]);
        assert_eq!(split(""), [""]);
        assert_eq!(split(",a,"), ["", "a", ""]);
        assert_eq!(split("x=\"a,b\", c"), ["c", "x=\"a,b\""]);
        assert_eq!(
            split("for=\"x, for=\"[::1]\""),
            ["for=\"[::1]\"", "for=\"x"]
        );
    }
}
