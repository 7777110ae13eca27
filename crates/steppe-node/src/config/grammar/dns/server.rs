//! DNS servers: `udp://ADDRESS`, `tcp://ADDRESS`, `tls://[NAME@]HOST` and `https://[NAME@]HOST/PATH`.
//!
//! Spec: RFC 3986 for the shape; RFC 8484 §3 for paths of HTTPS.

use std::net::{IpAddr, SocketAddr};

use steppe_config::mistake::shown;
use steppe_dns::config::{Server, Transport};
use steppe_net::ServerAddress;

use crate::config::grammar::{Read, Refusal, decimal_port, server_name};
use crate::config::limits::DNS_PATH_BYTES_MAX;

/// Where queries go by HTTPS that names no path. RFC 8484 §4.1.1 uses it throughout.
const PATH: &str = "/dns-query";

const HELP: &str = "write \"udp://127.0.0.1:53\", or \"tcp://\" for TCP; \"tls://NAME@ADDRESS\" or \
                    \"https://NAME/dns-query\" for encrypted ones";

/// The port of a server that names none.
fn port(transport: Transport) -> u16 {
    match transport {
        Transport::Udp | Transport::Tcp => 53,
        Transport::Tls => 853,
        Transport::Https => 443,
    }
}

/// A server of an upstream.
pub(in crate::config) fn dns_server(text: &str) -> Read<Server> {
    let refusal = || Refusal::new(format!("`{}` is not a DNS server", shown(text)));
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(match address(text, port(Transport::Udp)) {
            Some(address) => refusal().help(format!("did you mean \"udp://{address}\"?")),
            None => refusal().help(HELP),
        });
    };
    if scheme == "quic" {
        let mut refusal = Refusal::new("\"quic://\" in `servers` is not supported yet");
        refusal.range = Some(0..scheme.len() + 3);
        return Err(refusal.help("take it out: the node ignores no setting silently"));
    }
    let mut transports = Transport::ALL.into_iter();
    let transport = transports.find(|(_, name)| *name == scheme);
    let (transport, _) = transport.ok_or_else(|| refusal().help(HELP))?;
    match transport {
        Transport::Udp | Transport::Tcp => {
            let address = address(rest, port(transport));
            let server = address.map(|address| Server::at(transport, address));
            server.ok_or_else(|| refusal().help(HELP))
        }
        Transport::Tls => secure(transport, rest, "").ok_or_else(|| refusal().help(HELP)),
        Transport::Https => {
            let (authority, path) = match rest.find('/') {
                Some(at) => rest.split_at(at),
                None => (rest, PATH),
            };
            if path.contains(['{', '}']) {
                let help = "leave out the part in braces: queries are sent by POST";
                return Err(refusal().help(help));
            }
            let is_path = path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#');
            let server = secure(transport, authority, path)
                .filter(|_| is_path && path.len() <= DNS_PATH_BYTES_MAX);
            server.ok_or_else(|| refusal().help(HELP))
        }
    }
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

/// Where servers' own addresses are asked for: `9.9.9.9`, `[2620:fe::fe]:53`.
pub(in crate::config) fn dns_bootstrap(text: &str) -> Read<SocketAddr> {
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

/// Bits of an IPv4 and of an IPv6 address that servers are told: `24/56`.
pub(in crate::config) fn subnet_prefixes(text: &str) -> Read<(u8, u8)> {
    let prefix = |text: &str, max: u8| {
        let bits = decimal_port(text).and_then(|bits| u8::try_from(bits).ok());
        bits.filter(|bits| (1..=max).contains(bits))
    };
    let read = text.split_once('/');
    let read = read.and_then(|(ipv4, ipv6)| Some((prefix(ipv4, 32)?, prefix(ipv6, 128)?)));
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
            let server = dns_server(text).expect("a server");
            assert_eq!(server.to_string(), want);
            assert_eq!(dns_server(want), Ok(server), "{want}");
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
            assert!(dns_server(wrong).is_err(), "{wrong}");
        }
        let long = format!("https://dns.example/{}", "a".repeat(DNS_PATH_BYTES_MAX));
        assert!(dns_server(&long).is_err());
        let later = dns_server("quic://1.1.1.1").expect_err("later");
        assert_eq!(
            later.message,
            "\"quic://\" in `servers` is not supported yet"
        );
    }

    #[test]
    fn prefixes_are_within_their_addresses() {
        assert_eq!(subnet_prefixes("24/56"), Ok((24, 56)));
        assert_eq!(subnet_prefixes("32/128"), Ok((32, 128)));
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
                dns_bootstrap(text).map(|address| address.to_string()),
                Ok(want.to_owned())
            );
        }
        assert!(dns_bootstrap("dns.example").is_err());
    }
}
