//! The part of a cache key that trusted proxies decide: forwarding fields that say more of the target than the URI.
//!
//! Origins render them (`X-Forwarded-Host`, `X-Forwarded-Prefix` and `Forwarded` become links and redirects), so
//! that a response to one value is not for another. The gateway replaces those of untrusted peers before any filter
//! sees them; these agree with the URI and add nothing to the key.
//!
//! Left out: addresses (`for`, `by`, `X-Forwarded-For`, `X-Real-IP`), which differ for each client. An origin that
//! renders them has to mark its response as private.

use crate::field::FieldId;
use crate::head::RequestHead;

/// Appends the forwarding fields of `head` that differ from `scheme` and its authority.
pub(super) fn write(key: &mut Vec<u8>, scheme: &str, head: &RequestHead) {
    let (host, proto) = (head.authority(), scheme.as_bytes());
    for (id, name, value) in head.fields.iter() {
        let is_part = match id {
            FieldId::XForwardedHost => value != host,
            FieldId::XForwardedProto => value != proto,
            FieldId::XForwardedOther => true,
            FieldId::Forwarded => {
                write_elements(key, value, host, proto);
                false
            }
            _ => false,
        };
        if is_part {
            key.extend(name.iter().map(u8::to_ascii_lowercase));
            key.push(b':');
            key.extend_from_slice(value);
            key.push(b'\n');
        }
    }
}

/// Appends the parameters of `Forwarded` but for addresses, element by element, unless all that they say is
/// `host` and `proto`.
fn write_elements(key: &mut Vec<u8>, line: &[u8], host: &[u8], proto: &[u8]) {
    let start = key.len();
    let mut says_more = false;
    key.extend_from_slice(b"forwarded:");
    for element in split(line, b',') {
        for parameter in split(element, b';').map(<[u8]>::trim_ascii) {
            let at = memchr::memchr(b'=', parameter).unwrap_or(parameter.len());
            let (name, value) = parameter.split_at(at);
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            if is(b"for") || is(b"by") {
                continue;
            }
            let value = value.strip_prefix(b"=").unwrap_or(value);
            let is_known =
                (is(b"host") && unquoted(value) == host) || (is(b"proto") && value == proto);
            says_more |= !is_known;
            key.extend_from_slice(parameter);
            key.push(b';');
        }
        key.push(b',');
    }
    key.push(b'\n');
    if !says_more {
        key.truncate(start);
    }
}

/// `value` without the quotes around it. Escapes stay: a value with one is compared as another.
fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"\"");
    inner
        .and_then(|inner| inner.strip_suffix(b"\""))
        .unwrap_or(value)
}

/// The parts of a line between separators outside of quotes.
fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    line.split(move |&byte| {
        is_quoted ^= byte == b'"';
        byte == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    fn key_part(lines: &[(&str, &str)]) -> String {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let head = RequestHead::new(b"GET", b"a.test:81", b"/", &lease);
        let mut head = head.expect("it is valid");
        for (name, value) in lines {
            let added = head.fields.append(name.as_bytes(), value.as_bytes());
            added.expect("room");
        }
        let mut key = Vec::new();
        write(&mut key, "https", &head);
        String::from_utf8(key).expect("text")
    }

    #[test]
    fn what_the_uri_says_and_addresses_add_nothing() {
        for line in [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-real-ip", "192.0.2.1"),
            ("x-forwarded-host", "a.test:81"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=192.0.2.1;host=\"a.test:81\";proto=https"),
            (
                "forwarded",
                "for=192.0.2.2, for=\"[::1]:80\";by=_x;proto=https",
            ),
            ("host", "b.test"),
            ("x-other", "b.test"),
        ] {
            assert_eq!(key_part(&[line]), "", "{line:?}");
        }
    }

    #[test]
    fn what_says_something_else_tells_keys_apart() {
        for (name, value, want) in [
            ("X-Forwarded-Host", "b.test", "x-forwarded-host:b.test\n"),
            (
                "x-forwarded-proto",
                "https, http",
                "x-forwarded-proto:https, http\n",
            ),
            ("x-forwarded-prefix", "/x", "x-forwarded-prefix:/x\n"),
            ("x-forwarded-port", "", "x-forwarded-port:\n"),
            ("forwarded", "for=a;proto=http", "forwarded:proto=http;,\n"),
            (
                "forwarded",
                "for=a; Host=b, proto=https",
                "forwarded:Host=b;,proto=https;,\n",
            ),
            (
                "forwarded",
                "host=\"b,;for=c\"",
                "forwarded:host=\"b,;for=c\";,\n",
            ),
            ("forwarded", "secret", "forwarded:secret;,\n"),
        ] {
            assert_eq!(key_part(&[(name, value)]), want, "{name}: {value}");
        }
    }
}
