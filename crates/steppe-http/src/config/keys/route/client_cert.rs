//! Keys of what a route asks of the client's certificate.
//!
//! Spec: RFC 4514 for subjects.

use std::path::Path;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::key::{OptionalKey, key, text};
use steppe_config::keys;
use steppe_config::mistake::shown;
use steppe_config::table::{Needs, Table};
use steppe_config::typed::Fields;
use steppe_net::config::forms::{ALT_NAME, certificate_name};
use steppe_net::tls::x509::fingerprint_text;

use crate::config::ClientCertMatch;

pub(super) static TABLE: Table = Table::new(
    "http.route.client_cert",
    "Conditions on the client's certificate. Some listener must ask for client certificates.",
    keys! { SUBJECT, SAN, FINGERPRINT },
)
.needing(Needs::Any(&["subject", "san", "fingerprint"]));

static SUBJECT: OptionalKey<String> = key(
    "subject",
    text(&SUBJECT_FORM),
    "Subject that the certificate must have, exactly, as RFC 4514 writes it: \"CN=api,O=Example\".",
);

static SUBJECT_FORM: Form<String> =
    Form::new("a subject such as \"CN=api,O=Example\"", subject).pattern("^[0-9A-Za-z.-]+=.*$");

static SAN: OptionalKey<String> = key(
    "san",
    text(&ALT_NAME),
    "Subject alternative name that the certificate must have, exactly: a DNS name, URI, address or \
     e-mail address.",
);

static FINGERPRINT: OptionalKey<[u8; 32]> = key(
    "fingerprint",
    text(&DIGEST),
    "SHA-256 digest of the whole certificate, in hexadecimal, with colons or without.",
);

static DIGEST: Form<[u8; 32]> = Form::new("a SHA-256 digest in hexadecimal", fingerprint)
    .pattern("^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$")
    .shown_by(fingerprint_text);

pub(super) fn build(client_cert: &Fields) -> Option<ClientCertMatch> {
    Some(ClientCertMatch {
        subject: client_cert.get(&SUBJECT)?,
        san: client_cert.get(&SAN)?,
        fingerprint: client_cert.get(&FINGERPRINT)?,
    })
}

/// A SHA-256 digest in hexadecimal: 64 digits, or 32 pairs of them with colons between.
fn fingerprint(text: &str, _: &Path) -> Read<[u8; 32]> {
    let digest = match text.contains(':') {
        true => text.split(':').map(byte).collect(),
        false => text
            .as_bytes()
            .chunks(2)
            .map(|pair| byte(std::str::from_utf8(pair).ok()?))
            .collect(),
    };
    let digest: Option<Vec<u8>> = digest;
    digest
        .and_then(|digest| digest.try_into().ok())
        .ok_or_else(|| {
            let message = format!("`{}` is not a SHA-256 fingerprint", shown(text));
            Refusal::new(message).help(
                "write 64 hexadecimal digits, colons between the pairs or not: \
                 `openssl x509 -fingerprint -sha256` prints them",
            )
        })
}

/// Two hexadecimal digits; `from_str_radix` would take a sign for one.
fn byte(pair: &str) -> Option<u8> {
    let is_hex = pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u8::from_str_radix(pair, 16).ok();
    value.filter(|_| is_hex)
}

/// A distinguished name. One that RFC 4514 does not write like this would never match.
fn subject(text: &str, _: &Path) -> Read<String> {
    let text = certificate_name(text, "a subject")?;
    let wrong = attributes(&text).find_map(|attribute| Some((attribute, fault(attribute)?)));
    let Some((attribute, fault)) = wrong else {
        return Ok(text);
    };
    let message = format!("`{}` in a subject: {fault}", shown(attribute));
    Err(Refusal::new(message)
        .help("write it as `openssl x509 -subject -nameopt RFC2253` does: \"CN=api,O=Example\""))
}

/// Attributes of a distinguished name: between commas and plus signs that are not escaped.
fn attributes(subject: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    subject.split(move |char: char| {
        let ends = !is_escaped && matches!(char, ',' | '+');
        is_escaped = !is_escaped && char == '\\';
        ends
    })
}

/// RFC 4514 §3: `attributeTypeAndValue`. `None`: it is one.
fn fault(attribute: &str) -> Option<&'static str> {
    let Some((kind, value)) = attribute.split_once('=') else {
        return Some("an attribute is written TYPE=VALUE");
    };
    if kind.starts_with(' ') {
        return Some("there is no space after a comma");
    }
    let is_name = kind.starts_with(|first: char| first.is_ascii_alphabetic())
        && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_name && !kind.split('.').all(is_number) {
        return Some("a type is a name such as CN, or an object identifier");
    }
    let is_hex = |digits: &str| {
        let digits = digits.as_bytes();
        !digits.is_empty()
            && digits.len().is_multiple_of(2)
            && digits.iter().all(u8::is_ascii_hexdigit)
    };
    match value.strip_prefix('#') {
        Some(digits) if is_hex(digits) => None,
        Some(_) => Some("`#` begins a value in hexadecimal: escape it as `\\#`"),
        None => value_fault(value),
    }
}

/// RFC 4514 §2.4: what must be escaped in a string.
fn value_fault(value: &str) -> Option<&'static str> {
    if value.starts_with(' ') {
        return Some("a space that begins a value is escaped: `\\ `");
    }
    let mut chars = value.chars();
    let mut last = None;
    while let Some(char) = chars.next() {
        last = Some(char);
        match char {
            '"' | ';' | '<' | '>' => return Some("`\"`, `;`, `<` and `>` are escaped by `\\`"),
            '\\' => match chars.next() {
                Some(' ' | '"' | '#' | '+' | ',' | ';' | '<' | '=' | '>' | '\\') => last = None,
                Some(high) if high.is_ascii_hexdigit() => {
                    let is_pair = chars.next().is_some_and(|low| low.is_ascii_hexdigit());
                    if !is_pair {
                        return Some("`\\` is followed by two hexadecimal digits");
                    }
                    last = None;
                }
                _ => return Some("`\\` escapes a special character, or begins `\\HH`"),
            },
            _ => {}
        }
    }
    (last == Some(' ')).then_some("a space that ends a value is escaped: `\\ `")
}

#[cfg(test)]
mod tests {
    use steppe_net::limits::CERTIFICATE_NAME_BYTES_MAX;

    use super::*;

    const DIGEST: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn fingerprints_read_back() {
        let text = fingerprint_text(&DIGEST);
        assert_eq!(text.len(), 64);
        assert_eq!(fingerprint(&text, Path::new("")), Ok(DIGEST));
        let pairs: Vec<String> = DIGEST.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(fingerprint(&pairs.join(":"), Path::new("")), Ok(DIGEST));
        for wrong in [
            "",
            &text[1..],
            &text[2..],
            &format!("{text}00"),
            &text.replace('3', "g"),
            &text.replacen("30", "+0", 1),
            &pairs[1..].join(":"),
            &format!(":{}", pairs.join(":")),
            &"ä".repeat(32),
        ] {
            assert!(fingerprint(wrong, Path::new("")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn subjects_are_written_as_rfc_4514_says() {
        for right in [
            "CN=api",
            "CN=api,O=Example\\, Inc.,C=DE",
            "OU=a+CN=b",
            "2.5.4.3=#0c03617069",
            "CN=",
            "CN=L\\C4\\8Di\u{107}",
            "CN=\\ a\\ ",
            "CN=a\\\\,O=b",
            "CN=a=b",
        ] {
            assert_eq!(subject(right, Path::new("")).as_deref(), Ok(right));
        }
        for wrong in [
            "",
            "api",
            "/CN=api",
            "CN=api, O=Example",
            "CN = api",
            "CN=api,",
            "=api",
            "CN=a;O=b",
            "CN=\"a\"",
            "CN= a",
            "CN=a ",
            "CN=a\\",
            "CN=a\\x",
            "CN=a\\4",
            "CN=#zz",
            "CN=a\0",
            "1..2=a",
        ] {
            assert!(subject(wrong, Path::new("")).is_err(), "{wrong}");
        }
        let long = format!("CN={}", "a".repeat(CERTIFICATE_NAME_BYTES_MAX));
        assert!(subject(&long, Path::new("")).is_err());
    }
}
