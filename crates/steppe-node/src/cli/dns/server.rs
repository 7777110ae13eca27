//! A DNS server in the syntax of a command line.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A server, and the protocol to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) by: By,
    /// An IP address or a host name, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The name to verify in its certificate.
    pub(super) name: String,
    /// The path of its HTTPS resource.
    pub(super) path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Udp,
    Tcp,
    /// DNS over TLS, RFC 7858.
    Tls,
    /// DNS over HTTPS, RFC 8484.
    Https,
}

/// The path in RFC 8484's examples, and of most servers.
const PATH: &str = "/dns-query";

const FORMS: &str = "expected an IP address or a name, with udp://, tcp:// or tls:// before it, or \
                     https://HOST/dns-query; NAME@ADDRESS for a certificate of another name";

impl By {
    fn port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 53,
            Self::Tls => 853,
            Self::Https => 443,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
        }
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (by, rest) = match text.split_once("://") {
            None => (By::Udp, text),
            Some(("udp", rest)) => (By::Udp, rest),
            Some(("tcp", rest)) => (By::Tcp, rest),
            Some(("tls", rest)) => (By::Tls, rest),
            Some(("https", rest)) => (By::Https, rest),
            Some(("quic", _)) => return Err("quic:// is not supported yet".to_owned()),
            Some(_) => return Err(FORMS.to_owned()),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) if by == By::Https => rest.split_at(at),
            Some(_) => return Err(FORMS.to_owned()),
            None => (rest, PATH),
        };
        let (name, address) = match authority.split_once('@') {
            Some((name, address)) => (Some(name), address),
            None => (None, authority),
        };
        let (host, port) = host(address).ok_or(FORMS)?;
        let name = name.map_or_else(|| host.clone(), str::to_owned);
        Ok(Self {
            by,
            port: port.unwrap_or(by.port()),
            name,
            host,
            path: path.to_owned(),
        })
    }
}

/// Parses `HOST`, `HOST:PORT`, an IP address, `[IPV6]` or `[IPV6]:PORT`.
fn host(text: &str) -> Option<(String, Option<u16>)> {
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some((ip.to_string(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_string(), Some(address.port())));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (!host.is_empty() && host.bytes().all(is_name)).then(|| (host.to_owned(), port))
}

impl Server {
    /// `host:port`, as a URL has it.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self.by {
            By::Https => &self.path,
            By::Udp | By::Tcp | By::Tls => "",
        };
        write!(f, "{}://{}{path}", self.by.scheme(), self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_people_write_them() {
        for (given, want) in [
            ("9.9.9.9", "udp://9.9.9.9:53"),
            ("127.0.0.1:5300", "udp://127.0.0.1:5300"),
            ("::1", "udp://[::1]:53"),
            ("tcp://[::1]:54", "tcp://[::1]:54"),
            ("dns.example", "udp://dns.example:53"),
            ("tls://dns.example", "tls://dns.example:853"),
            ("https://dns.example", "https://dns.example:443/dns-query"),
            ("https://[::1]:8443/q", "https://[::1]:8443/q"),
        ] {
            let server: Server = given.parse().expect(given);
            assert_eq!(server.to_string(), want);
        }
        let server: Server = "tls://resolver.example@127.0.0.1:5302"
            .parse()
            .expect("one");
        assert_eq!(
            (server.name.as_str(), server.host.as_str(), server.port),
            ("resolver.example", "127.0.0.1", 5302)
        );
        for wrong in [
            "",
            "x://1.1.1.1",
            "udp://1.1.1.1/a",
            "a b",
            "1.1.1.1:x",
            "quic://a",
        ] {
            wrong.parse::<Server>().expect_err(wrong);
        }
    }
}
