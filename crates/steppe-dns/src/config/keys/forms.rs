//! Forms of strings of the forwarder: clients, names, types, records and times; servers.
//!
//! Spec: RFC 1035 §5.1 for names, RFC 3597 §5 for types without a name; RFC 3986 for the shape of URLs, RFC 8484 §3
//! for paths of HTTPS.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use steppe_config::form::{Form, Read, Refusal};
use steppe_config::mistake::shown;
use steppe_net::ServerAddress;
use steppe_net::config::forms::{decimal_port, network, server_name};

use crate::client::ClientId;
use crate::config::{ClientSubnet, Server, Transport};
use crate::hosts::RecordData;
use crate::rules::{NamePatterns, PatternError};
use crate::schedule::{Hours, Zone};
use crate::wire::{Name, Rtype};

/// Networks of clients.
pub(super) static CLIENTS: Form<Vec<IpNet>> = Form::new(
    "a network such as \"10.0.0.0/8\", \"loopback\" or \"private\"",
    |text, _| clients(text),
)
.pattern("^(loopback|private|[0-9a-fA-F.:]+(/[0-9]{1,3})?)$");

/// Domain name.
pub(super) static DOMAIN_NAME: Form<Name> =
    Form::new("a domain name such as \"example.org\"", |text, _| {
        domain_name(text)
    })
    .pattern("^[!-~]+$")
    .shown_by(ToString::to_string);

/// Domain name as a key of a map: names that differ in case, or by a last dot, are one name.
pub(super) static OWNER_NAME: Form<Name> =
    Form::new("a domain name such as \"example.org\"", |text, _| {
        Ok(domain_name(text)?.to_lower())
    })
    .pattern("^[!-~]+$")
    .shown_by(ToString::to_string);

/// Type of records.
pub(super) static RECORD_TYPE: Form<Rtype> =
    Form::new("a type such as \"AAAA\"", |text, _| record_type(text))
        .pattern("^[A-Z][0-9A-Z]*$")
        .shown_by(ToString::to_string);

/// Record without its owner.
pub(super) static RECORD: Form<RecordData> = Form::new(
    "an address, or a record such as \"MX 10 mail.example.org\"",
    |text, _| parsed(text, "a record"),
)
.pattern("^([0-9a-fA-F.:]+|[A-Z][0-9A-Z]* .+)$");

/// ID that a client gives.
pub(super) static CLIENT_ID: Form<ClientId> =
    Form::new("a client ID such as \"kids-tablet\"", |text, _| {
        parsed(text, "a client ID")
    })
    .pattern("^[0-9A-Za-z-]{1,63}$");

/// Regular expression of names.
pub(super) static NAME_PATTERN: Form<String> = Form::new("a string", |text, _| {
    let text = text.to_owned();
    name_patterns(std::slice::from_ref(&text)).map(|_| text)
});

/// Hours of a day.
pub(super) static HOURS: Form<Hours> = Form::new("hours such as \"08:00-17:30\"", |text, _| {
    parsed(text, "a range of hours")
})
.pattern("^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$");

/// Time zone.
pub(super) static TIME_ZONE: Form<Zone> =
    Form::new("a time zone such as \"Europe/Berlin\"", |text, _| {
        parsed(text, "a time zone")
    })
    .pattern("^[A-Za-z][0-9A-Za-z_+/-]*$");

/// Server of an upstream.
pub(super) static SERVER: Form<Server> =
    Form::new("a server such as \"udp://127.0.0.1:53\"", |text, _| {
        server(text)
    })
    .pattern("^(udp|tcp|tls|https)://.+$")
    .shown_by(ToString::to_string);

/// Server that is asked for the addresses of servers.
pub(super) static BOOTSTRAP: Form<SocketAddr> =
    Form::new("an IP address such as \"9.9.9.9\"", |text, _| {
        bootstrap(text)
    })
    .pattern("^[0-9a-fA-F.:\\[\\]]+$");

/// Bits of addresses of IPv4 and IPv6.
pub(super) static SUBNET_PREFIXES: Form<ClientSubnet> =
    Form::new("two prefix lengths such as \"24/56\"", |text, _| {
        subnet_prefixes(text)
    })
    .pattern("^[0-9]+/[0-9]+$");

/// Parses a text. The message of a refusal has `what`, with an article, as the expected form.
fn parsed<T: FromStr<Err: Display>>(text: &str, what: &str) -> Read<T> {
    text.parse().map_err(|error: T::Err| {
        Refusal::new(format!("`{}` is not {what}", shown(text))).help(error.to_string())
    })
}

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

/// `loopback`, `private`, or a network.
fn clients(text: &str) -> Read<Vec<IpNet>> {
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

fn domain_name(text: &str) -> Read<Name> {
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
    parsed(text, "a domain name")
}

/// `AAAA`, `TYPE65`.
///
/// # Errors
/// The text is neither the name of a type in capitals, nor `TYPE` and a number.
pub fn record_type(text: &str) -> Read<Rtype> {
    Rtype::named(text).ok_or_else(|| {
        let upper = text.to_ascii_uppercase();
        let help = match Rtype::named(&upper) {
            Some(_) => format!("did you mean \"{upper}\"?"),
            None => "write its name, such as \"AAAA\", or its number: \"TYPE65\"".to_owned(),
        };
        Refusal::new(format!("`{}` is not a record type", shown(text))).help(help)
    })
}

/// Regular expressions of one rule.
pub(super) fn name_patterns(texts: &[String]) -> Read<NamePatterns> {
    NamePatterns::new(texts).map_err(|error| {
        let message = match error {
            PatternError::Syntax(_) => "a regular expression can't be read",
            PatternError::TooLarge => "regular expressions are too large",
        };
        Refusal::new(message).help(error.to_string())
    })
}

/// Path of queries by HTTPS where none is named. RFC 8484 §4.1.1 uses it throughout.
const PATH: &str = "/dns-query";

/// Bytes of the path of a server by HTTPS.
const PATH_BYTES_MAX: usize = 1024;

const SERVER_HELP: &str = "write \"udp://127.0.0.1:53\", or \"tcp://\" for TCP; \"tls://NAME@ADDRESS\" or \
                           \"https://NAME/dns-query\" for encrypted ones";

/// The port of a server that names none.
fn port(transport: Transport) -> u16 {
    match transport {
        Transport::Udp | Transport::Tcp => 53,
        Transport::Tls => 853,
        Transport::Https => 443,
    }
}

/// `udp://ADDRESS`, `tcp://ADDRESS`, `tls://[NAME@]HOST` or `https://[NAME@]HOST/PATH`.
fn server(text: &str) -> Read<Server> {
    let refusal = || Refusal::new(format!("`{}` is not a DNS server", shown(text)));
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(match address(text, port(Transport::Udp)) {
            Some(address) => refusal().help(format!("did you mean \"udp://{address}\"?")),
            None => refusal().help(SERVER_HELP),
        });
    };
    if scheme == "quic" {
        let mut refusal = Refusal::new("\"quic://\" in `servers` is not supported yet");
        refusal.range = Some(0..scheme.len() + 3);
        return Err(refusal.help("take it out: the node ignores no setting silently"));
    }
    let mut transports = Transport::ALL.into_iter();
    let transport = transports.find(|(_, name)| *name == scheme);
    let server = transport.and_then(|(transport, _)| match transport {
        Transport::Udp | Transport::Tcp => {
            let address = address(rest, port(transport))?;
            Some(Server::at(transport, address))
        }
        Transport::Tls => secure(transport, rest, ""),
        Transport::Https => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let path = if path.is_empty() { PATH } else { path };
            let is_path = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'{' | b'}');
            let is_path = path.len() <= PATH_BYTES_MAX && path.bytes().all(is_path);
            secure(transport, authority, path).filter(|_| is_path)
        }
    });
    server.ok_or_else(|| match (scheme, rest.split_once('/')) {
        ("https", Some((_, path))) if path.contains(['{', '}']) => {
            refusal().help("leave out the part in braces: queries are sent by POST")
        }
        _ => refusal().help(SERVER_HELP),
    })
}

/// `[NAME@]HOST[:PORT]`, where the host may be a name by itself.
fn secure(transport: Transport, authority: &str, path: &str) -> Option<Server> {
    let (name, place) = match authority.split_once('@') {
        Some((name, place)) => (Some(server_name(name).ok()?), place),
        None => (None, authority),
    };
    let address = match address(place, port(transport)) {
        Some(address) => ServerAddress::Ip(address),
        None => named(place, port(transport))?,
    };
    Some(Server {
        transport,
        address,
        name,
        path: path.to_owned(),
    })
}

fn named(text: &str, port: u16) -> Option<ServerAddress> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, decimal_port(port).filter(|&port| port != 0)?),
        None => (text, port),
    };
    let host = server_name(host).ok()?;
    Some(ServerAddress::Name { host, port })
}

/// `9.9.9.9`, `[2620:fe::fe]:53`.
fn bootstrap(text: &str) -> Read<SocketAddr> {
    address(text, port(Transport::Tcp)).ok_or_else(|| {
        let refusal = Refusal::new(format!("`{}` is not an address", shown(text)));
        refusal.help("write the IP address of a resolver, such as \"9.9.9.9\"")
    })
}

fn address(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let of_ip = |ip: IpAddr| SocketAddr::new(ip, port);
    let ip = bare.unwrap_or(text).parse().ok().map(of_ip);
    let address = ip.or_else(|| text.parse().ok());
    address.filter(|address| address.port() != 0)
}

/// `24/56`.
fn subnet_prefixes(text: &str) -> Read<ClientSubnet> {
    let prefix = |text: &str, max: u8| {
        let bits = decimal_port(text).and_then(|bits| u8::try_from(bits).ok());
        bits.filter(|bits| (1..=max).contains(bits))
    };
    let read = text.split_once('/').and_then(|(ipv4, ipv6)| {
        let (ipv4, ipv6) = (prefix(ipv4, 32)?, prefix(ipv6, 128)?);
        Some(ClientSubnet::Add { ipv4, ipv6 })
    });
    read.ok_or_else(|| {
        let message = format!("`{}` is not two prefix lengths", shown(text));
        Refusal::new(message).help(
            "write the prefix lengths of IPv4 (1 to 32) and of IPv6 addresses (1 to 128): \"24/56\"",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_or_numbers() {
        for text in ["A", "HTTPS", "ANY", "TYPE1234"] {
            let read = record_type(text).map(|it| it.to_string());
            assert_eq!(read, Ok(text.to_owned()));
        }
        let help = record_type("aaaa").expect_err("lower case").help;
        assert_eq!(help.as_deref(), Some("did you mean \"AAAA\"?"));
        assert!(record_type("TYPE65536").is_err());
    }

    #[test]
    fn clients_are_networks_or_have_a_name() {
        assert_eq!(clients("10.0.0.0/8").map(|networks| networks.len()), Ok(1));
        assert_eq!(clients("loopback").map(|networks| networks.len()), Ok(2));
        assert!(clients("everybody").is_err());
    }

    #[test]
    fn servers_read_back_and_have_the_port_of_their_protocol_without_one() {
        for (text, want) in [
            ("udp://127.0.0.1:5301", "udp://127.0.0.1:5301"),
            ("tcp://[::1]:54", "tcp://[::1]:54"),
            ("udp://9.9.9.9", "udp://9.9.9.9:53"),
            ("udp://[2620:fe::fe]", "udp://[2620:fe::fe]:53"),
            ("tls://9.9.9.9", "tls://9.9.9.9:853"),
            (
                "tls://dns.Example@9.9.9.9:8853",
                "tls://dns.example@9.9.9.9:8853",
            ),
            ("tls://dns.example", "tls://dns.example:853"),
            ("https://9.9.9.9:5303/q?a=b", "https://9.9.9.9:5303/q?a=b"),
            ("https://dns.example", "https://dns.example:443/dns-query"),
            (
                "https://dns.example@[::1]:8443/dns-query",
                "https://dns.example@[::1]:8443/dns-query",
            ),
        ] {
            let read = server(text).expect("a server");
            assert_eq!(read.to_string(), want);
            assert_eq!(server(want), Ok(read), "{want}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for wrong in [
            "",
            "9.9.9.9",
            "dns.example:53",
            "udp://",
            "udp://a",
            "udp://1.1.1.1:0",
            "udp://name@1.1.1.1",
            "x://1.1.1.1",
            "tls://",
            "tls://@1.1.1.1",
            "tls://a@b@1.1.1.1",
            "tls://1.1.1.1@1.1.1.1",
            "tls://dns.example/path",
            "tls://dns.example:0",
            "https://dns.example/dns-query{?dns}",
            "https://dns.example/a b",
            "https://dns.example/a#b",
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
        let long = format!("https://dns.example/{}", "a".repeat(PATH_BYTES_MAX));
        assert!(server(&long).is_err());
        let later = server("quic://1.1.1.1").expect_err("later");
        assert_eq!(
            later.message,
            "\"quic://\" in `servers` is not supported yet"
        );
        let template = server("https://dns.example/dns-query{?dns}").expect_err("a template");
        let help = template.help.unwrap_or_default();
        assert!(help.starts_with("leave out the part in braces"), "{help}");
    }

    #[test]
    fn prefixes_are_within_their_addresses() {
        for (text, ipv4, ipv6) in [("24/56", 24, 56), ("32/128", 32, 128)] {
            let want = ClientSubnet::Add { ipv4, ipv6 };
            assert_eq!(subnet_prefixes(text), Ok(want));
        }
        for wrong in [
            "", "24", "/", "0/56", "24/0", "33/56", "24/129", "24/56/8", "+4/8",
        ] {
            assert!(subnet_prefixes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn whom_to_ask_for_addresses_is_an_address() {
        for (text, want) in [("9.9.9.9", "9.9.9.9:53"), ("[::1]:54", "[::1]:54")] {
            assert_eq!(
                bootstrap(text).map(|address| address.to_string()),
                Ok(want.to_owned())
            );
        }
        assert!(bootstrap("dns.example").is_err());
    }
}
