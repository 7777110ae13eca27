//! Strings of the DNS forwarder: clients, names and types; servers in a file of their own.
//!
//! Spec: RFC 1035 §5.1 for names, RFC 3597 §5 for types without a name.

pub(in crate::config) mod records;
mod server;

use ipnet::IpNet;
use steppe_dns::wire::{Name, Rtype};

use super::{Read, Refusal, network};
use crate::config::mistake::shown;

pub(in crate::config) use server::{dns_bootstrap, dns_server, subnet_prefixes};

/// Networks with a name.
const NAMED_NETWORKS: [(&str, &[&str]); 2] = [
    ("loopback", &["127.0.0.0/8", "::1/128"]),
    (
        "private",
        &[
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "169.254.0.0/16",
            "fc00::/7",
            "fe80::/10",
        ],
    ),
];

/// Types with a name, of IANA's registry: those that people write rules for.
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

/// `loopback`, `private`, or a network. The networks that are meant.
pub(in crate::config) fn clients(text: &str) -> Read<Vec<IpNet>> {
    let named = NAMED_NETWORKS.iter().find(|(name, _)| *name == text);
    if let Some((_, networks)) = named {
        return networks.iter().map(|text| network(text)).collect();
    }
    network(text)
        .map(|network| vec![network])
        .map_err(|refusal| match refusal.help {
            Some(_) if !text.starts_with(|first: char| first.is_ascii_digit() || first == ':') => {
                refusal.help("write a network such as \"10.0.0.0/8\", \"loopback\" or \"private\"")
            }
            _ => refusal,
        })
}

/// A domain name.
pub(in crate::config) fn dns_name(text: &str) -> Read<Name> {
    let refusal =
        |why: String| Refusal::new(format!("`{}` is not a domain name", shown(text))).help(why);
    if text.is_empty() {
        return Err(refusal(
            "write one such as \"example.org\", or \".\" for all".to_owned(),
        ));
    }
    if let Some(rest) = text.strip_prefix("*.") {
        return Err(refusal(format!(
            "did you mean the suffix \"{}\"?",
            shown(rest)
        )));
    }
    text.parse()
        .map_err(|error: steppe_dns::wire::NameError| refusal(error.to_string()))
}

/// `AAAA`, `TYPE65`.
pub(in crate::config) fn dns_type(text: &str) -> Read<Rtype> {
    let named = TYPES.iter().find(|(name, _)| *name == text);
    let numbered = text
        .strip_prefix("TYPE")
        .and_then(|number| number.parse().ok());
    let number = named.map(|(_, number)| *number).or(numbered);
    number.map(Rtype).ok_or_else(|| {
        let upper = text.to_ascii_uppercase();
        let is_case = TYPES.iter().any(|(name, _)| *name == upper);
        let help = match is_case {
            true => format!("did you mean \"{upper}\"?"),
            false => "write its name, such as \"AAAA\", or its number: \"TYPE65\"".to_owned(),
        };
        Refusal::new(format!("`{}` is no type of records", shown(text))).help(help)
    })
}

/// How a type is written.
pub(in crate::config) fn dns_type_text(rtype: Rtype) -> String {
    let named = TYPES.iter().find(|(_, number)| *number == rtype.0);
    named.map_or_else(
        || format!("TYPE{}", rtype.0),
        |(name, _)| (*name).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_or_numbers() {
        for text in ["A", "HTTPS", "ANY", "TYPE1234"] {
            assert_eq!(dns_type(text).map(dns_type_text), Ok(text.to_owned()));
        }
        let help = dns_type("aaaa").expect_err("lower case").help;
        assert_eq!(help.as_deref(), Some("did you mean \"AAAA\"?"));
        assert!(dns_type("TYPE65536").is_err());
    }

    #[test]
    fn clients_are_networks_or_have_a_name() {
        assert_eq!(clients("10.0.0.0/8").map(|networks| networks.len()), Ok(1));
        assert_eq!(clients("loopback").map(|networks| networks.len()), Ok(2));
        assert!(clients("everybody").is_err());
    }
}
