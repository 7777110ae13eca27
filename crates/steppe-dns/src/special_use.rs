//! Special-use domain names: answered locally and never forwarded, unless the configuration says otherwise.
//!
//! Sources: RFC 6761 (localhost, invalid, test and the reverse zones of private networks), RFC 6303 §4
//! (more reverse zones), RFC 7686 (onion), RFC 6762 §3 (local), RFC 8375 (home.arpa), RFC 9462 §4
//! (resolver.arpa), RFC 9476 (alt), and the canary domain of browsers that asks for permission to use a resolver of
//! their own.

use crate::wire::{Name, Rtype};

/// Local response to a special-use name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialUse {
    /// Address of the loopback interface. RFC 6761 §6.3.
    Loopback,
    /// NXDOMAIN.
    NameError,
    /// NODATA: the name exists, without records of the type.
    NoData,
    /// PTR record of `localhost`. RFC 6303: reverse zones are empty but for the loopback address.
    LocalhostPtr,
    /// Designations of this resolver (`SVCB` of `_dns.resolver.arpa`), or NODATA if it has none.
    /// RFC 9462 §4.
    Designations,
}

/// Scope of an entry: the name alone, or with all names below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Name,
    Suffix,
}

/// Special-use names as text, with their responses. The longest match counts.
const NAMES: &[(&str, Scope, SpecialUse)] = {
    use Scope::{Name, Suffix};
    use SpecialUse::{Designations, Loopback, NameError, NoData};
    &[
        ("localhost", Suffix, Loopback),
        ("invalid", Suffix, NameError),
        ("test", Suffix, NameError),
        ("onion", Suffix, NameError),
        ("local", Suffix, NameError),
        ("alt", Suffix, NameError),
        // RFC 8375 §4: a locally served zone, with no records but those of the configuration.
        ("home.arpa", Suffix, NameError),
        ("home.arpa", Name, NoData),
        ("resolver.arpa", Suffix, NameError),
        ("resolver.arpa", Name, NoData),
        ("_dns.resolver.arpa", Name, Designations),
        // https://support.mozilla.org/kb/canary-domain-use-application-dnsnet
        ("use-application-dns.net", Suffix, NameError),
    ]
};

/// Reverse zones of IPv4, as the first bytes of their addresses. RFC 6761 §6.1, RFC 6303 §4.1 and §4.2;
/// RFC 7793's (100.64/10) and 172.16/12 are ranges of the second byte, in [`reverse_v4`].
const REVERSE_V4: &[&[u8]] = &[
    &[0],
    &[10],
    &[127],
    &[169, 254],
    &[192, 168],
    &[192, 0, 2],
    &[198, 51, 100],
    &[203, 0, 113],
    &[255, 255, 255, 255],
];

/// Reverse zones of IPv6, as the first hexadecimal digits of their addresses. RFC 6303 §4.3 to §4.6.
const REVERSE_V6: &[&[u8]] = &[
    b"fd",
    b"fe8",
    b"fe9",
    b"fea",
    b"feb",
    b"20010db8",
    b"00000000000000000000000000000000",
    b"00000000000000000000000000000001",
];

/// Hexadecimal digits of an IPv6 address, one label each.
const V6_DIGITS: usize = 32;

/// The local response to a name; `None` for other names.
#[must_use]
pub fn special_use(qname: &Name, qtype: Rtype) -> Option<SpecialUse> {
    let found = named(qname).or_else(|| reverse(qname))?;
    Some(match found {
        SpecialUse::Loopback if !matches!(qtype, Rtype::A | Rtype::AAAA) => SpecialUse::NoData,
        SpecialUse::LocalhostPtr if qtype != Rtype::PTR => SpecialUse::NoData,
        SpecialUse::Designations if qtype != Rtype::SVCB => SpecialUse::NoData,
        found => found,
    })
}

/// True for names at or below `resolver.arpa`, which no rule may forward. RFC 9462 §8: the designations of another
/// resolver are not this one's, and clients that follow them bypass this one.
#[must_use]
pub fn is_never_forwarded(qname: &Name) -> bool {
    qname
        .suffixes()
        .any(|suffix| is_text(suffix, "resolver.arpa"))
}

fn named(qname: &Name) -> Option<SpecialUse> {
    qname.suffixes().enumerate().find_map(|(depth, suffix)| {
        let is_it = |(text, scope, _): &&(&str, Scope, SpecialUse)| {
            (depth == 0 || *scope == Scope::Suffix) && is_text(suffix, text)
        };
        // Of two entries of a name, the one for it alone is last.
        NAMES.iter().rfind(is_it).map(|(_, _, found)| *found)
    })
}

/// True if a wire form has the labels of this text, in any case.
fn is_text(mut wire: &[u8], text: &str) -> bool {
    for label in text.split('.') {
        let Some((&len, rest)) = wire.split_first() else {
            return false;
        };
        let len = usize::from(len);
        if len != label.len() || !rest[..len].eq_ignore_ascii_case(label.as_bytes()) {
            return false;
        }
        wire = &rest[len..];
    }
    wire == [0]
}

/// The response for reverse zones of networks that public servers have no data for.
fn reverse(qname: &Name) -> Option<SpecialUse> {
    let mut zone = qname.suffixes().enumerate();
    zone.find_map(|(depth, suffix)| match suffix {
        _ if is_text(suffix, "in-addr.arpa") => reverse_v4(qname, depth),
        _ if is_text(suffix, "ip6.arpa") => reverse_v6(qname, depth),
        _ => None,
    })
}

/// The response for a name with `count` labels below `in-addr.arpa`. RFC 6303 §3: names below a zone belong to it,
/// so only the labels from the top that are bytes of an address count.
fn reverse_v4(qname: &Name, count: usize) -> Option<SpecialUse> {
    let mut bytes = [0; 4];
    let len = read_labels(qname, count, &mut bytes, address_byte);
    let bytes = &bytes[..len];
    let is_private = match *bytes {
        [127, 0, 0, 1] if count == 4 => return Some(SpecialUse::LocalhostPtr),
        [172, b, ..] => b & 0xf0 == 16,
        [100, b, ..] => b & 0xc0 == 64,
        _ => REVERSE_V4.iter().any(|zone| bytes.starts_with(zone)),
    };
    is_private.then_some(SpecialUse::NameError)
}

/// The response for a name with `count` labels below `ip6.arpa`; labels that are hexadecimal digits count.
fn reverse_v6(qname: &Name, count: usize) -> Option<SpecialUse> {
    let mut digits = [0; V6_DIGITS];
    let len = read_labels(qname, count, &mut digits, |label| match label {
        [digit] if digit.is_ascii_hexdigit() => Some(digit.to_ascii_lowercase()),
        _ => None,
    });
    let is_private = |zone: &&[u8]| digits[..len].starts_with(zone);
    let zone = REVERSE_V6.iter().find(|zone| is_private(zone))?;
    Some(match zone.last() {
        Some(b'1') if count == V6_DIGITS => SpecialUse::LocalhostPtr,
        _ => SpecialUse::NameError,
    })
}

/// Reads the last of a name's first `count` labels, then the one before it, as long as `read` accepts them and
/// `out` has room. Returns the number of labels that were read.
fn read_labels(
    qname: &Name,
    count: usize,
    out: &mut [u8],
    read: impl Fn(&[u8]) -> Option<u8>,
) -> usize {
    let mut known = 0;
    let above = count.saturating_sub(out.len());
    for (index, label) in qname.labels().take(count).enumerate().skip(above) {
        let place = count - 1 - index;
        match read(label) {
            Some(byte) => {
                out[place] = byte;
                known = known.max(place + 1);
            }
            // Labels before an unknown one are below it, and do not count.
            None => known = 0,
        }
    }
    known.min(count)
}

/// A byte of an address in a reverse zone: decimal, without leading zeros.
fn address_byte(label: &[u8]) -> Option<u8> {
    let is_plain = label.iter().all(u8::is_ascii_digit) && (label.len() == 1 || label[0] != b'0');
    is_plain
        .then(|| std::str::from_utf8(label).ok()?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designations_of_others_are_not_asked_for() {
        for (name, expected) in [
            ("_dns.resolver.arpa", true),
            ("_DNS.Resolver.ARPA", true),
            ("resolver.arpa", true),
            ("arpa", false),
            ("_dns.resolver.example", false),
            (".", false),
        ] {
            assert_eq!(
                is_never_forwarded(&name.parse().unwrap()),
                expected,
                "{name}"
            );
        }
    }

    fn found(name: &str, qtype: Rtype) -> Option<SpecialUse> {
        special_use(&name.parse().unwrap(), qtype)
    }

    #[test]
    fn names_of_special_use_are_answered_here() {
        use SpecialUse::{Designations, LocalhostPtr, Loopback, NameError, NoData};
        let loopback_v6 = format!("1.{}ip6.arpa", "0.".repeat(31));
        let below_loopback_v6 = format!("a.{loopback_v6}");
        for (name, qtype, expected) in [
            ("localhost", Rtype::A, Some(Loopback)),
            ("a.LOCALHOST", Rtype::AAAA, Some(Loopback)),
            ("localhost", Rtype::MX, Some(NoData)),
            ("localhost.example", Rtype::A, None),
            ("notlocalhost", Rtype::A, None),
            ("x.onion", Rtype::A, Some(NameError)),
            ("printer.local", Rtype::A, Some(NameError)),
            ("x.invalid", Rtype::A, Some(NameError)),
            ("x.test", Rtype::A, Some(NameError)),
            ("home.arpa", Rtype::SOA, Some(NoData)),
            ("nas.home.arpa", Rtype::A, Some(NameError)),
            ("use-application-dns.net", Rtype::A, Some(NameError)),
            ("application-dns.net", Rtype::A, None),
            ("_dns.resolver.arpa", Rtype::SVCB, Some(Designations)),
            ("_dns.resolver.arpa", Rtype::A, Some(NoData)),
            ("resolver.arpa", Rtype::A, Some(NoData)),
            ("x.resolver.arpa", Rtype::SVCB, Some(NameError)),
            ("9.7.168.192.in-addr.arpa", Rtype::PTR, Some(NameError)),
            ("10.in-addr.ARPA", Rtype::PTR, Some(NameError)),
            ("1.0.0.127.in-addr.arpa", Rtype::PTR, Some(LocalhostPtr)),
            ("1.0.0.127.in-addr.arpa", Rtype::A, Some(NoData)),
            ("16.172.in-addr.arpa", Rtype::PTR, Some(NameError)),
            ("32.172.in-addr.arpa", Rtype::PTR, None),
            ("1.64.100.in-addr.arpa", Rtype::PTR, Some(NameError)),
            ("1.128.100.in-addr.arpa", Rtype::PTR, None),
            ("1.1.1.1.in-addr.arpa", Rtype::PTR, None),
            ("x.10.in-addr.arpa", Rtype::PTR, Some(NameError)),
            ("1.1.1.1.10.in-addr.arpa", Rtype::PTR, Some(NameError)),
            (
                "lb._dns-sd._udp.0.1.168.192.in-addr.arpa",
                Rtype::PTR,
                Some(NameError),
            ),
            ("7.0-25.1.168.192.in-addr.arpa", Rtype::PTR, Some(NameError)),
            ("x.1.0.0.127.in-addr.arpa", Rtype::PTR, Some(NameError)),
            ("10.x.in-addr.arpa", Rtype::PTR, None),
            ("010.in-addr.arpa", Rtype::PTR, None),
            ("+10.in-addr.arpa", Rtype::PTR, None),
            ("1.x.172.in-addr.arpa", Rtype::PTR, None),
            ("x.d.f.ip6.arpa", Rtype::PTR, Some(NameError)),
            ("d.x.f.ip6.arpa", Rtype::PTR, None),
            (&below_loopback_v6, Rtype::PTR, Some(NameError)),
            ("in-addr.arpa", Rtype::NS, None),
            ("d.f.ip6.arpa", Rtype::PTR, Some(NameError)),
            ("c.f.ip6.arpa", Rtype::PTR, None),
            ("b.e.f.ip6.arpa", Rtype::PTR, Some(NameError)),
            ("8.b.d.0.1.0.0.2.ip6.arpa", Rtype::PTR, Some(NameError)),
            ("1.0.0.2.ip6.arpa", Rtype::PTR, None),
            (&loopback_v6, Rtype::PTR, Some(LocalhostPtr)),
            (".", Rtype::NS, None),
            ("example.org", Rtype::A, None),
        ] {
            assert_eq!(found(name, qtype), expected, "{name} {qtype:?}");
        }
    }
}
