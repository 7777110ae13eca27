//! Distinguished names as text (RFC 4514).
//!
//! Invariant: two names that differ in more than the types of their strings differ as text.

use std::fmt::Write as _;

use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// RFC 4514 §2: the most specific part first.
pub(super) fn format(name: &X509Name<'_>) -> String {
    let sequences: Vec<_> = name.iter_rdn().collect();
    let relative = sequences.iter().rev().map(|relative| {
        let attributes: Vec<_> = relative.iter().map(attribute).collect();
        attributes.join("+")
    });
    relative.collect::<Vec<_>>().join(",")
}

/// RFC 4514 §2.3: `CN=api`, and `#` with hexadecimal digits for what has no short name or no text.
fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let id = attribute.attr_type().to_id_string();
    let short = SHORT_NAMES.iter().find(|(each, _)| *each == id);
    let value = attribute.attr_value();
    match (short, text(value)) {
        (Some((_, short)), Some(text)) => format!("{short}={}", escaped(&text)),
        (Some((_, short)), None) => format!("{short}=#{}", hex(&der(value))),
        (None, _) => format!("{id}=#{}", hex(&der(value))),
    }
}

/// RFC 4514 §3, and the two that people meet besides.
const SHORT_NAMES: [(&str, &str); 11] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("2.5.4.5", "serialNumber"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

fn text(value: &Any<'_>) -> Option<String> {
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::NumericString
        | Tag::Ia5String
        | Tag::VisibleString => String::from_utf8(value.data.to_vec()).ok(),
        Tag::BmpString => {
            let (pairs, []) = value.data.as_chunks::<2>() else {
                return None;
            };
            let units: Vec<_> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

/// The value as it was encoded.
fn der(value: &Any<'_>) -> Vec<u8> {
    let tag = value.header.raw_tag().unwrap_or_default();
    let length = value.data.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = &length[zeros..];
    let mut bytes = tag.to_vec();
    match value.data.len() {
        0 => bytes.push(0),
        1..128 => bytes.extend(length),
        // X.690 §8.1.3.5; a `usize` has at most eight bytes.
        _ => {
            bytes.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
            bytes.extend(length);
        }
    }
    bytes.extend(value.data);
    bytes
}

/// RFC 4514 §2.4; also what would move a terminal's cursor, end a line or turn its direction.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.char_indices().next_back().map(|(index, _)| index);
    for (index, char) in text.char_indices() {
        let is_edge = index == 0 || Some(index) == last;
        match char {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => out.extend(['\\', char]),
            ' ' if is_edge => out.push_str("\\ "),
            '#' if index == 0 => out.push_str("\\#"),
            _ if is_invisible(char) => {
                for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string can't fail.
                    _ = write!(out, "\\{byte:02X}");
                }
            }
            _ => out.push(char),
        }
    }
    out
}

/// True for a character that moves a terminal's cursor, ends a line, turns its direction, or shows nothing.
pub(super) fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(char, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Uppercase hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can't fail.
        _ = write!(text, "{byte:02X}");
    }
    text
}
