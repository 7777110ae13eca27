//! Steps that the names of whole messages take.

use super::*;

/// A response to `a.` of type MX, with the bytes of these records as its answer section.
fn response(count: u16, records: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [7, 0x8180, 1, count, 0, 0] {
        bytes.extend(u16::to_be_bytes(number));
    }
    bytes.extend(b"\x01a\x00\x00\x0f\x00\x01");
    bytes.extend(records);
    bytes
}

/// A response with a TXT record whose data is a chain of names, then records whose owners point to the last link of
/// the chain, or alternately to the last two.
fn chains(records: u16, is_alternating: u16) -> Vec<u8> {
    let mut bytes = response(records + 1, b"");
    // Each of the 60 links is a letter and a pointer to the link before.
    bytes.extend(b"\xc0\x0c\x00\x10\x00\x01\x00\x00\x00\x3c");
    bytes.extend(u16::to_be_bytes(60 * 4 + 3));
    let mut at = u16::try_from(bytes.len()).unwrap();
    bytes.extend(b"\x01x\x00");
    let mut links = vec![at];
    for _ in 0..60 {
        let next = u16::try_from(bytes.len()).unwrap();
        bytes.extend(b"\x01x");
        bytes.extend((0xc000 | at).to_be_bytes());
        at = next;
        links.push(at);
    }
    for index in 0..records {
        let link = links[60 - usize::from(index % (1 + is_alternating))];
        bytes.extend((0xc000 | link).to_be_bytes());
        bytes.extend(b"\x00\x10\x00\x01\x00\x00\x00\x3c\x00\x00");
    }
    bytes
}

#[test]
fn a_record_set_is_followed_once() {
    let bytes = chains(2000, 0);
    let message = Message::parse(&bytes).unwrap();
    let steps = check_names(&message).unwrap();
    assert_eq!(
        Steps::of_message(bytes.len()).left() - steps.left(),
        1 + 61 + 60 + 1
    );
}

#[test]
fn names_that_take_too_many_steps_are_refused() {
    let bytes = chains(2000, 1);
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(check_names(&message), Err(WireError::Steps));
    // A few such chains are accepted.
    let few = chains(10, 1);
    assert!(check_names(&Message::parse(&few).unwrap()).is_ok());
}

#[test]
fn names_in_data_are_checked_where_a_type_has_them() {
    for (what, rtype, data, error) in [
        (
            "a loop in MX",
            15_u16,
            &b"\x00\x0a\xc0\x21"[..],
            Some(WireError::Pointer),
        ),
        ("a loop in CNAME", 5, b"\xc0\x1f", Some(WireError::Pointer)),
        ("MX that is short", 15, b"\x00", Some(WireError::Short)),
        (
            "MX with more behind",
            15,
            b"\x00\x0a\xc0\x0c\x00",
            Some(WireError::Rdata),
        ),
        (
            "SOA without numbers",
            6,
            b"\xc0\x0c\xc0\x0c\x00",
            Some(WireError::Rdata),
        ),
        (
            "a name that goes on behind its data",
            2,
            b"\x05ab",
            Some(WireError::Short),
        ),
        ("the same bytes in TXT", 16, b"\xc0\x1f", None),
        (
            "the same bytes in an unknown type",
            65280,
            b"\xc0\x1f",
            None,
        ),
    ] {
        let mut record = b"\xc0\x0c".to_vec();
        record.extend(rtype.to_be_bytes());
        record.extend(b"\x00\x01\x00\x00\x00\x3c");
        record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        record.extend(data);
        let bytes = response(1, &record);
        let checked = check_names(&Message::parse(&bytes).unwrap());
        assert_eq!(checked.err(), error, "{what}");
    }
}
