//! Types, classes, opcodes and response codes. Source: IANA's registry "Domain Name
//! System Parameters".

/// Type of a record or of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rtype(pub u16);

#[expect(missing_docs, reason = "each is the type of that name")]
impl Rtype {
    pub const A: Self = Self(1);
    pub const NS: Self = Self(2);
    pub const MD: Self = Self(3);
    pub const MF: Self = Self(4);
    pub const CNAME: Self = Self(5);
    pub const SOA: Self = Self(6);
    pub const MB: Self = Self(7);
    pub const MG: Self = Self(8);
    pub const MR: Self = Self(9);
    pub const PTR: Self = Self(12);
    pub const MINFO: Self = Self(14);
    pub const MX: Self = Self(15);
    pub const TXT: Self = Self(16);
    pub const RP: Self = Self(17);
    pub const AFSDB: Self = Self(18);
    pub const RT: Self = Self(21);
    pub const SIG: Self = Self(24);
    pub const PX: Self = Self(26);
    pub const AAAA: Self = Self(28);
    pub const NXT: Self = Self(30);
    pub const SRV: Self = Self(33);
    pub const NAPTR: Self = Self(35);
    pub const KX: Self = Self(36);
    pub const DNAME: Self = Self(39);
    pub const OPT: Self = Self(41);
    pub const RRSIG: Self = Self(46);
    pub const NSEC: Self = Self(47);
    pub const NSEC3: Self = Self(50);
    pub const SVCB: Self = Self(64);
    pub const HTTPS: Self = Self(65);
    pub const IXFR: Self = Self(251);
    pub const AXFR: Self = Self(252);
    pub const ANY: Self = Self(255);
}

/// Class of a record or of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class(pub u16);

impl Class {
    /// The Internet.
    pub const IN: Self = Self(1);
    /// CHAOS, for queries about the server itself, such as its version.
    pub const CH: Self = Self(3);
}

/// Purpose of a message. RFC 1035 §4.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode(pub u8);

impl Opcode {
    /// A standard query, the only one that is forwarded.
    pub const QUERY: Self = Self(0);
}

/// A response code, the upper eight bits of EDNS included. RFC 6895 §2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rcode(pub u16);

#[expect(missing_docs, reason = "each is the code of that name")]
impl Rcode {
    pub const NOERROR: Self = Self(0);
    pub const FORMERR: Self = Self(1);
    pub const SERVFAIL: Self = Self(2);
    pub const NXDOMAIN: Self = Self(3);
    pub const NOTIMP: Self = Self(4);
    pub const REFUSED: Self = Self(5);
    pub const BADVERS: Self = Self(16);
    pub const BADCOOKIE: Self = Self(23);

    /// The four bits in the header.
    #[must_use]
    pub fn low(self) -> u16 {
        self.0 & 0x0f
    }

    /// The eight bits in the OPT record. RFC 6891 §6.1.3.
    #[must_use]
    pub fn high(self) -> u8 {
        self.0.to_be_bytes()[1] >> 4 | (self.0.to_be_bytes()[0] << 4)
    }
}

/// An extended error's INFO-CODE. RFC 8914 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtendedError(pub u16);

#[expect(missing_docs, reason = "each is the code of that name")]
impl ExtendedError {
    pub const STALE_ANSWER: Self = Self(3);
    pub const FORGED_ANSWER: Self = Self(4);
    pub const CACHED_ERROR: Self = Self(13);
    pub const NOT_READY: Self = Self(14);
    pub const BLOCKED: Self = Self(15);
    pub const CENSORED: Self = Self(16);
    pub const FILTERED: Self = Self(17);
    pub const PROHIBITED: Self = Self(18);
    pub const STALE_NXDOMAIN: Self = Self(19);
    pub const NOT_SUPPORTED: Self = Self(21);
    pub const NO_REACHABLE_AUTHORITY: Self = Self(22);
    pub const NETWORK_ERROR: Self = Self(23);
    pub const INVALID_DATA: Self = Self(24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_codes_fall_into_two_parts() {
        assert_eq!((Rcode::BADVERS.high(), Rcode::BADVERS.low()), (1, 0));
        assert_eq!((Rcode::BADCOOKIE.high(), Rcode::BADCOOKIE.low()), (1, 7));
        assert_eq!((Rcode::NXDOMAIN.high(), Rcode::NXDOMAIN.low()), (0, 3));
        assert_eq!((Rcode(0xfff).high(), Rcode(0xfff).low()), (0xff, 0xf));
    }
}
