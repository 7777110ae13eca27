//! Names of types. Source: IANA's registry "Domain Name System Parameters".

use super::code::Rtype;

/// Types with a name: those that are common in queries and rules.
const TYPES: [(&str, u16); 27] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("HINFO", 13),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("LOC", 29),
    ("SRV", 33),
    ("NAPTR", 35),
    ("DNAME", 39),
    ("DS", 43),
    ("SSHFP", 44),
    ("RRSIG", 46),
    ("NSEC", 47),
    ("DNSKEY", 48),
    ("NSEC3", 50),
    ("TLSA", 52),
    ("CDS", 59),
    ("OPENPGPKEY", 61),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("ANY", 255),
    ("URI", 256),
    ("CAA", 257),
];

impl Rtype {
    /// The type with this name in upper case, or with `TYPE` and a number (RFC 3597 §5).
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let named = TYPES.iter().find(|(name, _)| *name == text);
        let numbered = || text.strip_prefix("TYPE")?.parse().ok();
        named.map(|(_, number)| *number).or_else(numbered).map(Self)
    }

    /// The name of the type, if it is in this table.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let named = TYPES.iter().find(|(_, number)| *number == self.0);
        named.map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_or_numbers() {
        assert_eq!(Rtype::named("HTTPS"), Some(Rtype::HTTPS));
        assert_eq!(Rtype::named("TYPE65"), Some(Rtype::HTTPS));
        assert_eq!(Rtype::HTTPS.name(), Some("HTTPS"));
        for wrong in ["", "a", "TYPE", "TYPE65536", "TYPE-1"] {
            assert_eq!(Rtype::named(wrong), None, "{wrong}");
        }
        assert_eq!(Rtype(65_280).name(), None);
    }
}
