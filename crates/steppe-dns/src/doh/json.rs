//! Messages as JSON, as public resolvers have it: a query by parameters of a target, a response as an object.
//! Data is in presentation form.

use serde_json::{Map, Value, json};

use super::presentation::{name_at, rdata_text};
use crate::limits::{DOH_JSON_BYTES_MAX, UDP_PAYLOAD_BYTES};
use crate::wire::{Flags, Header, Message, Name, Opt, Rtype, Section, Writer};

/// Bytes of a record beside its name and data: names of members, numbers, and what a value takes.
const RECORD_BYTES: usize = 64;

/// Bytes of a query that is made here: header, name, type and class, OPT.
const QUERY_BYTES_MAX: usize = 12 + 255 + 4 + 11;

/// The query of `name`, `type`, `do` and `cd`. `None`: `name` is missing, or a value is invalid.
pub(super) fn query<'a>(parameters: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Vec<u8>> {
    let (mut qname, mut qtype) = (None, Rtype::A);
    let (mut dnssec_ok, mut checking_disabled) = (0, 0);
    for (parameter, value) in parameters {
        let value = decoded(value)?;
        let is_set = matches!(value.as_str(), "1" | "true");
        match parameter {
            b"name" if qname.is_none() => qname = Some(value.parse::<Name>().ok()?),
            b"type" => qtype = read_type(&value)?,
            b"do" if is_set => dnssec_ok = Opt::DNSSEC_OK,
            b"cd" if is_set => checking_disabled = Flags::CD,
            // Other parameters have no counterpart in a query.
            _ => {}
        }
    }
    let mut bytes = [0; QUERY_BYTES_MAX];
    let mut out = Writer::new(&mut bytes);
    let payload = u16::try_from(UDP_PAYLOAD_BYTES).ok()?;
    out.numbers([0, Flags::RD | checking_disabled, 1, 0, 0, 1])
        .ok()?;
    out.bytes(qname?.wire()).ok()?;
    out.numbers([qtype.0, 1]).ok()?;
    out.bytes(&[0]).ok()?;
    out.numbers([Rtype::OPT.0, payload, 0, dnssec_ok, 0]).ok()?;
    Some(out.written().to_vec())
}

fn read_type(text: &str) -> Option<Rtype> {
    let number = || text.parse().ok().map(Rtype);
    Rtype::named(&text.to_ascii_uppercase()).or_else(number)
}

/// A value of a parameter without its percent-encoding. RFC 3986 §2.1.
fn decoded(value: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digits = std::str::from_utf8(digits).ok()?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_plain)?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// A response as an object. `None`: its names can't be read, or it has more text than
/// [`DOH_JSON_BYTES_MAX`].
pub(super) fn response(message: &Message<'_>) -> Option<Vec<u8>> {
    let flags = message.header().flags;
    let question = message.question();
    let asked = json!({
        "name": Name::from_wire(question.qname).ok()?.to_string(),
        "type": question.qtype.0,
    });
    let rcode_high = message.opt().map_or(0, |opt| u16::from(opt.rcode_high));
    let mut object = status(rcode_high << 4 | flags.rcode().0, flags);
    object.insert("Question".to_owned(), Value::Array(vec![asked]));
    let mut left = DOH_JSON_BYTES_MAX;
    for (name, section) in [
        ("Answer", Section::Answer),
        ("Authority", Section::Authority),
        ("Additional", Section::Additional),
    ] {
        let records = records(message, section, &mut left)?;
        if !records.is_empty() {
            object.insert(name.to_owned(), Value::Array(records));
        }
    }
    serde_json::to_vec(&object).ok()
}

/// The response code of a message without a question, as an object.
pub(super) fn code(header: Header) -> Option<Vec<u8>> {
    serde_json::to_vec(&status(header.flags.rcode().0, header.flags)).ok()
}

/// The response code and the flags.
fn status(rcode: u16, flags: Flags) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("Status".to_owned(), rcode.into());
    for (name, flag) in [
        ("TC", Flags::TC),
        ("RD", Flags::RD),
        ("RA", Flags::RA),
        ("AD", Flags::AD),
        ("CD", Flags::CD),
    ] {
        object.insert(name.to_owned(), flags.has(flag).into());
    }
    object
}

/// Records of a section as objects, whose bytes are taken off `left`. `None`: there is not enough left, or a name
/// can't be read.
fn records(message: &Message<'_>, section: Section, left: &mut usize) -> Option<Vec<Value>> {
    let records = message.records(section);
    let records = records.filter(|record| record.rtype != Rtype::OPT);
    let text = |record| {
        let crate::wire::Record {
            owner_at,
            rtype,
            ttl,
            ..
        } = record;
        let (owner, _) = name_at(message.bytes(), owner_at)?;
        let (owner, data) = (owner.to_string(), rdata_text(message.bytes(), &record));
        *left = left.checked_sub(RECORD_BYTES + owner.len() + data.len())?;
        Some(json!({ "name": owner, "type": rtype.0, "TTL": ttl, "data": data }))
    };
    records.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ClientQuery;

    fn ask(parameters: &[(&str, &str)]) -> Option<Vec<u8>> {
        let parameters = parameters.iter();
        query(parameters.map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    #[test]
    fn parameters_make_a_query() {
        let bytes = ask(&[("name", "www.Example.org"), ("type", "aaaa"), ("do", "1")]);
        let bytes = bytes.expect("a query");
        let query = ClientQuery::parse(&bytes).expect("it can be read");
        assert_eq!(query.question().qtype, Rtype::AAAA);
        assert_eq!(query.question().qname, b"\x03www\x07Example\x03org\0");
        assert!(query.is_dnssec_ok() && !query.flags().has(Flags::CD));
        let bytes = ask(&[("name", "a%2eb"), ("type", "65"), ("cd", "true")]);
        let bytes = bytes.expect("a query");
        let query = ClientQuery::parse(&bytes).expect("it can be read");
        assert_eq!(query.question().qtype, Rtype::HTTPS);
        assert_eq!(query.question().qname, b"\x01a\x01b\0");
        assert!(!query.is_dnssec_ok() && query.flags().has(Flags::CD));
    }

    #[test]
    fn a_response_that_repeats_long_names_is_not_written_out() {
        let mut bytes = vec![0, 0, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0];
        for _ in 0..3 {
            bytes.push(63);
            bytes.extend([0xff; 63]);
        }
        bytes.extend([0, 0, 16, 0, 1]);
        let mut written = |count: u16| {
            let len = bytes.len();
            bytes[6..8].copy_from_slice(&count.to_be_bytes());
            for _ in 0..count {
                bytes.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 1, 0, 2, 1, 0xff]);
            }
            let text = response(&Message::parse(&bytes).expect("a message"));
            bytes.truncate(len);
            text.map(|text| text.len())
        };
        assert!(written(1).is_some_and(|len| len > 3 * 63 * 4));
        assert!(written(200).is_some_and(|len| len < 2 * DOH_JSON_BYTES_MAX));
        assert_eq!(written(4000), None);
    }

    #[test]
    fn what_is_no_name_or_type_makes_none() {
        for wrong in [
            &[][..],
            &[("type", "A")],
            &[("name", "")],
            &[("name", "a..b")],
            &[("name", "a%2")],
            &[("name", "a%+1")],
            &[("name", "a"), ("type", "B")],
            &[("name", "a"), ("type", "65536")],
        ] {
            assert_eq!(ask(wrong), None, "{wrong:?}");
        }
    }
}
