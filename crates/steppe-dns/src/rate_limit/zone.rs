//! The zone that a name counts for, and the test for names that carry data.
//!
//! Both are estimates. The Public Suffix List has the suffixes below which names are registered, but its ten
//! thousand rules grow old in a binary. The forms of its commonest entries are enough to count by, since a zone
//! that is taken too wide or too narrow is limited as a whole or in parts.

use crate::limits::{
    ENCODED_BYTES_MIN, ENCODED_COINCIDENCES_PER_100_MAX, ENCODED_DIGITS_SHARE, NAME_BYTES_MAX,
    NAME_LABELS_MAX,
};
use crate::wire::Name;

/// A name, cut at the zone that was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The labels below the zone, in wire form without the root.
    pub below: &'a [u8],
    /// The zone in wire form.
    pub zone: &'a [u8],
}

/// Second-level labels below which names are registered in some countries: `co.uk`, `com.br`.
const REGISTRIES: [&[u8]; 15] = [
    b"ac", b"co", b"com", b"edu", b"go", b"gob", b"gouv", b"gov", b"mil", b"ne", b"net", b"nom",
    b"or", b"org", b"sch",
];

/// Labels of a zone of reverse names of IPv4: the network of two bytes. RFC 1035 §3.5.
const REVERSE_IPV4_LABELS: usize = 4;
/// Labels of a zone of reverse names of IPv6: the network of six bytes, a label for each nibble. RFC 3596 §2.5.
const REVERSE_IPV6_LABELS: usize = 14;

/// Cuts a name at its zone.
#[must_use]
pub fn cut(name: &Name) -> Cut<'_> {
    let wire = name.wire();
    let mut starts = [0_u8; NAME_LABELS_MAX];
    let mut count = 0;
    for suffix in name.suffixes() {
        // A name has 255 bytes.
        starts[count] = u8::try_from(wire.len() - suffix.len()).unwrap_or(u8::MAX);
        count += 1;
    }
    let label = |from_top: usize| {
        let start = usize::from(starts[count.checked_sub(from_top)?]);
        let len = usize::from(*wire.get(start)?);
        wire.get(start + 1..start + 1 + len)
    };
    let is = |from_top: usize, text: &[u8]| {
        label(from_top).is_some_and(|label| label.eq_ignore_ascii_case(text))
    };
    let labels = if is(1, b"arpa") && is(2, b"in-addr") {
        REVERSE_IPV4_LABELS
    } else if is(1, b"arpa") && is(2, b"ip6") {
        REVERSE_IPV6_LABELS
    } else if label(1).is_some_and(|top| top.len() == 2)
        && REGISTRIES.iter().any(|registry| is(2, registry))
    {
        3
    } else {
        2
    };
    // A single label counts for the root, whose zone a flood of made-up ones is aimed at.
    let at = match count {
        0 | 1 => wire.len() - 1,
        _ => usize::from(starts[count - labels.min(count)]),
    };
    Cut {
        below: &wire[..at],
        zone: &wire[at..],
    }
}

impl Cut<'_> {
    /// True if the labels below the zone look like encoded data: long, with digits among the letters, and with
    /// more different characters than words have. Measured by Friedman's index of coincidence, the chance that
    /// two of the bytes are the same: 1/15 in English, 1/16 in hexadecimal digits, 1/32 in base32; names of
    /// machines have few digits or are short.
    #[must_use]
    pub fn looks_encoded(&self) -> bool {
        if self.below.len() < ENCODED_BYTES_MIN {
            return false;
        }
        let mut counts = [0_u8; 256];
        let (mut bytes, mut digits) = (0_usize, 0_usize);
        let mut rest = self.below;
        while let Some((&len, after)) = rest.split_first() {
            let (label, after) = after.split_at(usize::from(len).min(after.len()));
            for byte in label.iter().map(u8::to_ascii_lowercase) {
                // A name has less than 256 bytes.
                counts[usize::from(byte)] += 1;
                digits += usize::from(!byte.is_ascii_alphabetic() && byte != b'-');
            }
            bytes += label.len();
            rest = after;
        }
        const { assert!(NAME_BYTES_MAX <= 255) };
        let pairs = |count: &u8| usize::from(*count) * usize::from(count.saturating_sub(1));
        let same: usize = counts.iter().map(pairs).sum();
        let is_spread =
            100 * same < ENCODED_COINCIDENCES_PER_100_MAX * bytes * bytes.saturating_sub(1);
        bytes >= ENCODED_BYTES_MIN && digits * ENCODED_DIGITS_SHARE >= bytes && is_spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone_of(text: &str) -> String {
        let name: Name = text.parse().expect("a name");
        let cut = cut(&name);
        assert_eq!([cut.below, cut.zone].concat(), name.wire());
        let zone = Name::from_wire(cut.zone).expect("a name");
        zone.to_string().trim_end_matches('.').to_owned()
    }

    #[test]
    fn a_name_is_cut_where_it_was_registered() {
        for (name, zone) in [
            (".", ""),
            ("x8f3k", ""),
            ("example.org", "example.org"),
            ("a.b.c.example.org", "example.org"),
            ("a.b.Example.CO.uk", "Example.CO.uk"),
            ("a.b.example.uk", "example.uk"),
            ("co.uk", "co.uk"),
            ("a.co.museum", "co.museum"),
            ("4.3.2.1.in-addr.arpa", "2.1.in-addr.arpa"),
            ("1.in-addr.arpa", "1.in-addr.arpa"),
        ] {
            assert_eq!(zone_of(name), zone, "{name}");
        }
        let nibbles = "0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.ip6.arpa";
        assert_eq!(zone_of(nibbles), "4.5.6.7.8.9.a.b.c.d.e.f.ip6.arpa");
    }

    #[test]
    fn data_in_names_is_told_from_names_of_machines() {
        let looks = |text: &str| cut(&text.parse().expect("a name")).looks_encoded();
        for encoded in [
            // Hexadecimal, as dnscat2 has it; base32, as iodine; base64url.
            "9f3b60aa41c7d852e06b1ff9a3c4d7e8205b6c1d.t.example",
            "mzxw6ytboi4dqmjrgq2tmnzyhe3dcnbv.gezdgnbvgy3tqojq.t.example",
            "0dGhpcyBpcyBhIHRlc3Qgb2YgYTEyMzQ1Njc4OTA.t.example",
        ] {
            assert!(looks(encoded), "{encoded}");
        }
        for plain in [
            "www.example",
            "9f3b60aa41c7.example",
            "a-rather-long-name-of-some-internal-service.production.t.example",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1111.t.example",
            "ec2-203-0-113-25.compute-1.amazonaws.example",
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
        ] {
            assert!(!looks(plain), "{plain}");
        }
    }
}
