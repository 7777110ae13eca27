//! Names: RFC 1035 and its limits, invalid pointers, text, case.

use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    text.parse()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// A message whose names begin after an empty header.
fn after_header(bytes: &[u8]) -> Vec<u8> {
    [&[0; HEADER_BYTES], bytes].concat()
}

fn read(bytes: &[u8], at: usize) -> Result<(String, usize, u32), WireError> {
    let mut steps = Steps::of_message(bytes.len());
    let before = steps.left();
    let (name, end) = read_name(bytes, at, &mut steps)?;
    Ok((name.to_string(), end, before - steps.left()))
}

#[test]
fn the_names_of_rfc_1035_are_read() {
    // RFC 1035 §4.1.4, with the offsets of its figure.
    let mut bytes = vec![0; 93];
    bytes[20..32].copy_from_slice(b"\x01F\x03ISI\x04ARPA\x00");
    bytes[40..46].copy_from_slice(b"\x03FOO\xc0\x14");
    bytes[64..66].copy_from_slice(&[0xc0, 26]);
    bytes[92] = 0;
    assert_eq!(read(&bytes, 20), Ok(("F.ISI.ARPA.".into(), 32, 4)));
    assert_eq!(read(&bytes, 40), Ok(("FOO.F.ISI.ARPA.".into(), 46, 6)));
    assert_eq!(read(&bytes, 64), Ok(("ARPA.".into(), 66, 3)));
    assert_eq!(read(&bytes, 92), Ok((".".into(), 93, 1)));
}

#[test]
fn pointers_lead_backwards_only() {
    for (what, bytes) in [
        ("to itself", &b"\xc0\x0c"[..]),
        ("to the name that it ends", b"\x01a\xc0\x0c"),
        ("forwards", b"\xc0\x10\x00\x00\x01a\x00"),
        ("into the header", b"\xc0\x04"),
    ] {
        assert_eq!(
            read(&after_header(bytes), 12),
            Err(WireError::Pointer),
            "{what}"
        );
    }
    // Two names that point to each other.
    let pair = after_header(b"\x01a\xc0\x10\x01b\xc0\x0c");
    assert_eq!(read(&pair, 12), Err(WireError::Pointer));
    assert_eq!(read(&pair, 16), Err(WireError::Pointer));
}

#[test]
fn pointers_to_pointers_are_few() {
    let mut bytes = after_header(b"\x01a\x00");
    let mut last = 12;
    for count in 1..=NAME_POINTERS_MAX + 1 {
        let at = bytes.len();
        bytes.extend((0xc000 | u16::try_from(last).unwrap()).to_be_bytes());
        last = at;
        let is_read = read(&bytes, at).is_ok();
        assert_eq!(is_read, count <= NAME_POINTERS_MAX, "{count} pointers");
    }
}

#[test]
fn what_is_no_label_is_refused() {
    assert_eq!(read(&after_header(b"\x40a\x00"), 12), Err(WireError::Label));
    assert_eq!(read(&after_header(b"\x80a\x00"), 12), Err(WireError::Label));
    assert_eq!(read(&after_header(b"\x03ab"), 12), Err(WireError::Short));
    assert_eq!(read(&after_header(b"\x01a"), 12), Err(WireError::Short));
    assert_eq!(read(&after_header(b"\x01a\xc0"), 12), Err(WireError::Short));
}

#[test]
fn names_have_255_bytes_at_most() {
    let label = [&[63][..], &[b'a'; 63]].concat();
    let longest = [&label.repeat(3)[..], &[61], &[b'b'; 61], &[0]].concat();
    assert_eq!(longest.len(), NAME_BYTES_MAX);
    assert!(Name::from_wire(&longest).is_ok());
    let longer = [&label.repeat(3)[..], &[62], &[b'b'; 62], &[0]].concat();
    assert_eq!(skip_name(&longer, 0), Err(WireError::NameTooLong));
    assert_eq!(
        read(&after_header(&longer), 12),
        Err(WireError::NameTooLong)
    );
    // A name within the limit is too long with the target of its pointer.
    let bytes = after_header(&[&longest[..], b"\x01c\xc0\x0c"].concat());
    assert_eq!(read(&bytes, 12 + 255), Err(WireError::NameTooLong));
}

#[test]
fn all_names_of_a_message_share_their_steps() {
    // 60 names, each one letter and a pointer to the one before it.
    let mut bytes = after_header(b"\x01a\x00");
    let mut at = 12_u16;
    for _ in 0..60 {
        let next = u16::try_from(bytes.len()).unwrap();
        bytes.extend(b"\x01a");
        bytes.extend((0xc000 | at).to_be_bytes());
        at = next;
    }
    let mut steps = Steps(1000);
    let mut read = 0;
    while read_name(&bytes, at.into(), &mut steps).is_ok() {
        read += 1;
    }
    // Each takes 61 labels, 60 pointers and the root.
    assert_eq!((read, steps.left()), (1000 / 122, 0));
}

#[test]
fn text_is_read_and_written() {
    for (text, written) in [
        (".", "."),
        ("example.org", "example.org."),
        ("example.org.", "example.org."),
        (r"a\.b.example", r"a\.b.example."),
        (r"\032\255.x", r"\032\255.x."),
        ("_dns.Resolver.arpa", "_dns.Resolver.arpa."),
        ("_x.Bücher.example.", "_x.xn--bcher-kva.example."),
    ] {
        assert_eq!(name(text).to_string(), written);
        assert_eq!(name(&name(text).to_string()).wire(), name(text).wire());
    }
    let long_label = "a".repeat(64);
    let long_name = "a.".repeat(128);
    let long_unicode = format!("ü{}.example", "\u{ad}".repeat(600));
    for (text, error) in [
        ("", NameError::EmptyLabel),
        (".a", NameError::EmptyLabel),
        ("a..b", NameError::EmptyLabel),
        (&long_label, NameError::LabelTooLong),
        (&long_name, NameError::TooLong),
        (r"\256", NameError::Escape),
        (r"a\", NameError::Escape),
        (r"\1x", NameError::Escape),
        ("a b", NameError::Character),
        ("ü b", NameError::Character),
        ("ü\u{ff3c}.example", NameError::Character),
        ("ü\u{ff0f}x.example", NameError::Character),
        // Soft hyphens are removed by the mapping.
        (&long_unicode, NameError::TooLong),
        ("\u{fffd}.example", NameError::Character),
    ] {
        assert_eq!(text.parse::<Name>(), Err(error), "{text:?}");
    }
}

#[test]
fn names_above_are_told() {
    let www = name("www.Example.ORG");
    for above in [".", "org", "example.org", "WWW.example.org"] {
        assert!(www.is_at_or_below(&name(above)), "{above}");
    }
    for other in [
        "ample.org",
        "a.www.example.org",
        "w.example.org",
        "example.com",
    ] {
        assert!(!www.is_at_or_below(&name(other)), "{other}");
    }
    assert_eq!(www.labels().count(), 3);
    assert_eq!(Name::ROOT.labels().count(), 0);
    assert_eq!(www, name("WWW.eXample.org"));
    assert_eq!(www.to_lower().wire(), name("www.example.org").wire());
}

#[test]
fn whole_wire_forms_only() {
    assert_eq!(Name::from_wire(b"\x01a"), Err(WireError::Short));
    assert_eq!(Name::from_wire(b"\x01a\x00\x00"), Err(WireError::Trailing));
    assert_eq!(Name::from_wire(b"\xc0\x0c"), Err(WireError::Pointer));
}

proptest! {
    #[test]
    fn case_bits_fit_what_they_made_and_little_else(text in "[a-z]{12,30}\\.[a-z]{2,9}", bits: u64) {
        let mut name = name(&text);
        let len = usize::from(name.len);
        CaseBits(bits).apply(&mut name.bytes[..len]);
        prop_assert!(CaseBits(bits).fits(name.wire()));
        prop_assert_eq!(name, text.parse().unwrap());
        let letter = 1 + usize::try_from(bits % 12).unwrap();
        name.bytes[letter] ^= 0x20;
        prop_assert!(!CaseBits(bits).fits(name.wire()));
    }

    #[test]
    fn text_round_trips(labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..10)) {
        let mut wire: Vec<u8> = Vec::new();
        for label in &labels {
            wire.push(u8::try_from(label.len()).unwrap());
            wire.extend(label);
        }
        wire.push(0);
        let name = Name::from_wire(&wire).unwrap();
        let again: Name = name.to_string().parse().unwrap();
        prop_assert_eq!(again.wire(), &wire[..]);
        prop_assert_eq!(name.labels().count(), labels.len());
    }
}
