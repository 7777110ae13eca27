//! Strings of the DNS forwarder: clients, names and types; servers in a file of their own.
//!
//! Spec: RFC 1035 §5.1 for names, RFC 3597 §5 for types without a name.

pub(in crate::config) mod records;
mod server;

use ipnet::IpNet;
use steppe_config::mistake::shown;
use steppe_dns::wire::{Name, Rtype};

use super::{Read, Refusal, network};

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
    Rtype::named(text).ok_or_else(|| {
        let upper = text.to_ascii_uppercase();
        let help = match Rtype::named(&upper) {
            Some(_) => format!("did you mean \"{upper}\"?"),
            None => "write its name, such as \"AAAA\", or its number: \"TYPE65\"".to_owned(),
        };
        Refusal::new(format!("`{}` is not a record type", shown(text))).help(help)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_or_numbers() {
        for text in ["A", "HTTPS", "ANY", "TYPE1234"] {
            assert_eq!(dns_type(text).map(|it| it.to_string()), Ok(text.to_owned()));
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
