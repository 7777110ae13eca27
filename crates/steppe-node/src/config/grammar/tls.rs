//! Strings of TLS: names in certificates, digests, `Strict-Transport-Security`.
//!
//! Spec: RFC 4514 for subjects, RFC 6797 §6.1.

use steppe_config::mistake::shown;
use steppe_http::field::is_token;

use super::{Read, Refusal, field_value};
use crate::config::limits::CERTIFICATE_NAME_BYTES_MAX;

/// A SHA-256 digest in hexadecimal: 64 digits, or 32 pairs of them with colons between.
pub(in crate::config) fn fingerprint(text: &str) -> Read<[u8; 32]> {
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

/// A subject alternative name: whatever one may contain.
pub(in crate::config) fn alt_name(text: &str) -> Read<String> {
    certificate_name(text, "a subject alternative name")
}

/// A distinguished name. One that RFC 4514 does not write like this would never match.
pub(in crate::config) fn subject(text: &str) -> Read<String> {
    let text = certificate_name(text, "a subject")?;
    let wrong = attributes(&text).find_map(|attribute| Some((attribute, fault(attribute)?)));
    let Some((attribute, fault)) = wrong else {
        return Ok(text);
    };
    let message = format!("`{}` in a subject: {fault}", shown(attribute));
    Err(Refusal::new(message)
        .help("write it as `openssl x509 -subject -nameopt RFC2253` does: \"CN=api,O=Example\""))
}

fn certificate_name(text: &str, what: &str) -> Read<String> {
    if text.is_empty() {
        return Err(Refusal::new(format!("{what} can't be empty")));
    }
    if text.contains('\0') {
        return Err(Refusal::new(format!("{what} can't contain NUL")));
    }
    let length = text.len();
    if length > CERTIFICATE_NAME_BYTES_MAX {
        let most = CERTIFICATE_NAME_BYTES_MAX;
        let message = format!("{what} of {length} bytes is too long: at most {most}");
        return Err(Refusal::new(message));
    }
    Ok(text.to_owned())
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

/// RFC 6797 §6.1: directives, `max-age` among them.
pub(in crate::config) fn transport_security(text: &str) -> Read<String> {
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

/// What is wrong with a directive, its name in lower case.
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
    use steppe_net::tls::x509::fingerprint_text;

    use super::*;

    const DIGEST: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn fingerprints_read_back() {
        let text = fingerprint_text(&DIGEST);
        assert_eq!(text.len(), 64);
        assert_eq!(fingerprint(&text), Ok(DIGEST));
        let pairs: Vec<String> = DIGEST.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(fingerprint(&pairs.join(":")), Ok(DIGEST));
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
            assert!(fingerprint(wrong).is_err(), "{wrong}");
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
            assert_eq!(subject(right).as_deref(), Ok(right));
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
            assert!(subject(wrong).is_err(), "{wrong}");
        }
        let long = format!("CN={}", "a".repeat(CERTIFICATE_NAME_BYTES_MAX));
        assert!(subject(&long).is_err() && alt_name(&long).is_err());
        assert!(alt_name("").is_err() && alt_name("spiffe://example/api").is_ok());
    }

    #[test]
    fn strict_transport_security_has_a_max_age() {
        for right in [
            "max-age=31536000",
            "max-age=0; includeSubDomains",
            "includeSubDomains ; MAX-AGE = \"60\";preload",
            "max-age=1;;a=b;c=\"d e\"",
        ] {
            assert_eq!(transport_security(right).as_deref(), Ok(right));
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
            assert!(transport_security(wrong).is_err(), "{wrong:?}");
        }
    }
}
