//! Keys of TLS: of listeners, and of connections to servers.
//!
//! Spec: RFC 6797 §6.1 for `Strict-Transport-Security`, RFC 7301 §6 for names of protocols.

use std::path::Path;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::key::{Key, OptionalKey, key, text};
use steppe_config::mistake::shown;
use steppe_config::table::{Kind, Table};
use steppe_config::typed::Fields;
use steppe_net::config::tls::{self, SERVER_KEYS, certificate, certificates, listener_keys};
use steppe_net::tls::config::CertificateFiles;

use super::forms::field_value;
use crate::config::ListenerTls;
use crate::field::is_token;

/// HTTP/1.1 in ALPN.
pub const HTTP_1_1: &[u8] = b"http/1.1";

/// HTTP/2 in ALPN (RFC 9113 §3.1).
pub const HTTP_2: &[u8] = b"h2";

/// Certificates of a listener.
pub static CERTIFICATES: Key<Vec<CertificateFiles>> = certificates(&Kind::Table(&CERTIFICATE));

static CERTIFICATE: Table = certificate("http.listener.tls.certificates");

pub(super) static LISTENER: Table = Table::new(
    "http.listener.tls",
    "TLS of a listener: its certificates, and the client certificates that it accepts. The files \
     are checked for changes every two seconds and read again; files that can't be used change \
     nothing, and the log says so once.",
    &listener_keys::<10>(&CERTIFICATES.spec, &STRICT_TRANSPORT_SECURITY.spec),
);

static STRICT_TRANSPORT_SECURITY: OptionalKey<String> = key(
    "strict_transport_security",
    text(&TRANSPORT_SECURITY),
    "Value of `Strict-Transport-Security` in responses, with a `max-age`: \"max-age=31536000; \
     includeSubDomains\". Without it, the field is left to servers.",
);

/// A value with a `max-age`.
static TRANSPORT_SECURITY: Form<String> =
    Form::new("a value such as \"max-age=31536000\"", transport_security)
        .pattern("[Mm][Aa][Xx]-[Aa][Gg][Ee]");

pub(super) static UPSTREAM: Table = Table::new(
    "http.upstream.tls",
    "TLS to servers: their verification, and the certificate of the node. It needs `protocol = \
     \"h1s\"` or `\"h2\"`.",
    SERVER_KEYS,
);

/// TLS of a listener, without what is agreed on by ALPN.
pub(super) fn listener(tls: &Fields) -> Option<ListenerTls> {
    Some(ListenerTls {
        session: tls::listener(tls, &CERTIFICATES, Vec::new())?,
        strict_transport_security: tls.get(&STRICT_TRANSPORT_SECURITY)?,
    })
}

/// RFC 6797 §6.1: directives, `max-age` among them.
fn transport_security(text: &str, _: &Path) -> Read<String> {
    let refusal = |what: String| {
        let message = format!(
            "`{}` is not a Strict-Transport-Security value: {what}",
            shown(text)
        );
        Refusal::new(message).help("write \"max-age=31536000; includeSubDomains\"")
    };
    let mut seen: Vec<String> = Vec::new();
    for directive in text.split(';').map(|part| part.trim_matches([' ', '\t'])) {
        if directive.is_empty() {
            continue;
        }
        let (name, value) = match directive.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(value.trim_start())),
            None => (directive, None),
        };
        let name = name.to_ascii_lowercase();
        if let Some(fault) = directive_fault(&name, value) {
            return Err(refusal(format!("`{}` {fault}", shown(directive))));
        }
        if seen.contains(&name) {
            return Err(refusal(format!("`{}` occurs twice", shown(&name))));
        }
        seen.push(name);
    }
    if !seen.iter().any(|name| name == "max-age") {
        return Err(refusal("it lacks `max-age`".to_owned()));
    }
    field_value(text)
}

/// The fault of a directive, its name in lower case.
fn directive_fault(name: &str, value: Option<&str>) -> Option<&'static str> {
    if !is_token(name.as_bytes()) {
        return Some("is not a directive");
    }
    let unquoted = value.map(|value| {
        let inner = value.strip_prefix('"');
        inner
            .and_then(|inner| inner.strip_suffix('"'))
            .unwrap_or(value)
    });
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match (name, value, unquoted) {
        ("max-age", _, Some(seconds)) if is_number(seconds) => None,
        ("max-age", ..) => Some("is not a number of seconds"),
        ("includesubdomains", None, _) | (_, None, _) => None,
        ("includesubdomains", ..) => Some("takes no value"),
        (_, Some(value), _) if is_token(value.as_bytes()) || is_quoted(value) => None,
        _ => Some("has a value that is neither a token nor a quoted string"),
    }
}

/// RFC 9110 §5.6.4, but for a `;` within: no directive that is known has one.
fn is_quoted(value: &str) -> bool {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.is_some_and(|inner| {
        let is_text = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
        inner
            .bytes()
            .all(|byte| is_text(byte) && !matches!(byte, b'"' | b'\\'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_transport_security_has_a_max_age() {
        for right in [
            "max-age=31536000",
            "max-age=0; includeSubDomains",
            "includeSubDomains ; MAX-AGE = \"60\";preload",
            "max-age=1;;a=b;c=\"d e\"",
        ] {
            assert_eq!(
                transport_security(right, Path::new("")).as_deref(),
                Ok(right)
            );
        }
        for wrong in [
            "",
            "includeSubDomains",
            "max-age",
            "max-age=",
            "max-age=-1",
            "max-age=1d",
            "max-age=\"1",
            "max-age=1; max-age=2",
            "max-age=1; includeSubDomains; IncludeSubDomains",
            "max-age=1; includeSubDomains=1",
            "max-age=1, includeSubDomains",
            "max-age=1; a b",
            "max-age=1; a=\"b",
            "max-age=1; a=b c",
            "max-age=1\r\nx: y",
            "max-age=1 ",
        ] {
            assert!(
                transport_security(wrong, Path::new("")).is_err(),
                "{wrong:?}"
            );
        }
    }
}
