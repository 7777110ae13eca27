//! Data of records as text: RFC 1035 §5.1 for common types, RFC 3597 §5 for all others.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::{Name, Record, Rtype, Steps, read_name};

/// The name that begins at `at`, and the offset of its end.
pub(super) fn name_at(bytes: &[u8], at: usize) -> Option<(Name, usize)> {
    let mut steps = Steps::of_message(bytes.len());
    read_name(bytes, at, &mut steps).ok()
}

/// The data of a record of this message. Data that is invalid for its type is shown as that of an unknown type.
pub(super) fn rdata_text(bytes: &[u8], record: &Record<'_>) -> String {
    known(bytes, record).unwrap_or_else(|| unknown(record.rdata))
}

fn known(bytes: &[u8], record: &Record<'_>) -> Option<String> {
    let (at, rdata) = (record.rdata_at, record.rdata);
    let name = |at| name_at(bytes, at);
    let end = record.end();
    match record.rtype {
        Rtype::A => Some(Ipv4Addr::from(<[u8; 4]>::try_from(rdata).ok()?).to_string()),
        Rtype::AAAA => Some(Ipv6Addr::from(<[u8; 16]>::try_from(rdata).ok()?).to_string()),
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => {
            let (target, after) = name(at)?;
            (after == end).then(|| target.to_string())
        }
        Rtype::MX => {
            let (exchange, after) = name(at + 2)?;
            let preference = number(rdata, 0)?;
            (after == end).then(|| format!("{preference} {exchange}"))
        }
        Rtype::SRV => {
            let (target, after) = name(at + 6)?;
            let [priority, weight, port] = [0, 2, 4].map(|at| number(rdata, at));
            let (priority, weight, port) = (priority?, weight?, port?);
            (after == end).then(|| format!("{priority} {weight} {port} {target}"))
        }
        Rtype::SOA => {
            let (mname, rname_at) = name(at)?;
            let (rname, numbers_at) = name(rname_at)?;
            let numbers = bytes.get(numbers_at..end)?;
            let mut text = format!("{mname} {rname}");
            for number in numbers.chunks(4) {
                let number = u32::from_be_bytes(number.try_into().ok()?);
                write!(text, " {number}").ok()?;
            }
            (numbers.len() == 20).then_some(text)
        }
        Rtype::TXT => strings(rdata),
        _ => None,
    }
}

fn number(rdata: &[u8], at: usize) -> Option<u16> {
    let bytes = rdata.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// Strings of RFC 1035 §3.3 between quotes.
fn strings(mut rdata: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let Some((&len, rest)) = rdata.split_first() {
        let (string, after) = rest.split_at_checked(usize::from(len))?;
        if !text.is_empty() {
            text.push(' ');
        }
        text.push('"');
        for &byte in string {
            match byte {
                b'"' | b'\\' => write!(text, "\\{}", char::from(byte)).ok()?,
                b' '..=b'~' => text.push(char::from(byte)),
                _ => write!(text, "\\{byte:03}").ok()?,
            }
        }
        text.push('"');
        rdata = after;
    }
    (!text.is_empty()).then_some(text)
}

/// The data of an unknown type. RFC 3597 §5.
fn unknown(rdata: &[u8]) -> String {
    let mut text = format!("\\# {}", rdata.len());
    for (index, byte) in rdata.iter().enumerate() {
        let space = if index == 0 { " " } else { "" };
        // Writing to a string can't fail.
        let _ = write!(text, "{space}{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, Section};

    /// The data of a record of this type, in a message of its own.
    fn shown(rtype: Rtype, rdata: &[u8]) -> String {
        let mut bytes = b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\xc0\x0c".to_vec();
        bytes.extend(rtype.0.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 9]);
        bytes.extend(u16::try_from(rdata.len()).expect("short").to_be_bytes());
        bytes.extend(rdata);
        let message = Message::parse(&bytes).expect("a message");
        let record = message.records(Section::Answer).next().expect("a record");
        rdata_text(&bytes, &record)
    }

    #[test]
    fn data_is_shown_as_zone_files_have_it() {
        assert_eq!(shown(Rtype::A, &[192, 0, 2, 1]), "192.0.2.1");
        let v6 = Ipv6Addr::LOCALHOST.octets();
        assert_eq!(shown(Rtype::AAAA, &v6), "::1");
        assert_eq!(shown(Rtype::CNAME, b"\xc0\x0c"), "a.");
        assert_eq!(shown(Rtype::MX, b"\0\x0a\x01m\xc0\x0c"), "10 m.a.");
        assert_eq!(shown(Rtype::SRV, b"\0\x01\0\x02\0\x35\0"), "1 2 53 .");
        let soa = [&b"\x01n\xc0\x0c\x01h\0"[..], &[0, 0, 0, 7].repeat(5)].concat();
        assert_eq!(shown(Rtype::SOA, &soa), "n.a. h. 7 7 7 7 7");
        assert_eq!(
            shown(Rtype::TXT, b"\x03a\"b\x01\xff\0"),
            r#""a\"b" "\255" """#
        );
        assert_eq!(shown(Rtype::HTTPS, &[0, 1, 0xab]), "\\# 3 0001ab");
    }

    #[test]
    fn data_that_is_not_what_its_type_says_is_unknown() {
        assert_eq!(shown(Rtype::A, &[1, 2, 3]), "\\# 3 010203");
        assert_eq!(shown(Rtype::MX, &[1]), "\\# 1 01");
        assert_eq!(shown(Rtype::SOA, b"\0\0\x01"), "\\# 3 000001");
        assert_eq!(shown(Rtype::TXT, b"\x09a"), "\\# 2 0961");
        assert_eq!(shown(Rtype::TXT, b""), "\\# 0");
    }
}
