//! Text of types and response codes. Source: IANA's registry "Domain Name System
//! Parameters"; RFC 3597 §5 for types without a name.

use std::fmt;

use super::code::{Rcode, Rtype};

const RCODES: [(Rcode, &str); 8] = [
    (Rcode::NOERROR, "NOERROR"),
    (Rcode::FORMERR, "FORMERR"),
    (Rcode::SERVFAIL, "SERVFAIL"),
    (Rcode::NXDOMAIN, "NXDOMAIN"),
    (Rcode::NOTIMP, "NOTIMP"),
    (Rcode::REFUSED, "REFUSED"),
    (Rcode::BADVERS, "BADVERS"),
    (Rcode::BADCOOKIE, "BADCOOKIE"),
];

impl fmt::Display for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RCODES.iter().find(|(code, _)| code == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "RCODE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_back() {
        for text in ["A", "HTTPS", "ANY", "TYPE1234"] {
            let rtype = Rtype::named(text).expect("a type");
            assert_eq!(rtype.to_string(), text);
        }
        assert_eq!(Rcode::BADVERS.to_string(), "BADVERS");
        assert_eq!(Rcode(999).to_string(), "RCODE999");
    }
}
