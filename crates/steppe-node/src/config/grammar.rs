//! Strings of a configuration: durations, sizes, shares, addresses, names.
//!
//! Invariant: text that reads is within the grammar and its bounds; nothing is guessed. Non-goals:
//! hosts and paths of routes, which `steppe-http` reads. Spec: RFC 9110 §5.1, §5.5, §9.1.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use steppe_config::form::{Read, Refusal, path as file};
use steppe_config::mistake::shown;
use steppe_http::field::FieldId;
use steppe_http::field::{is_field_value, is_token};
use steppe_net::{ListenAddress, ServerAddress};

use crate::config::limits::{
    FILE_NAME_BYTES_MAX, HOST_LABEL_BYTES_MAX, HOST_NAME_BYTES_MAX, NAME_BYTES_MAX,
    UNIX_PATH_BYTES_MAX,
};

/// Where to listen; a relative path counts from `base`.
pub(super) fn listen_address(text: &str, base: &Path) -> Read<ListenAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path, base).map(ListenAddress::Unix);
    }
    text.parse().map(ListenAddress::Tcp).map_err(|_| {
        let refusal = Refusal::new(format!("`{}` is not an address to listen on", shown(text)));
        refusal.help(port_help(text).unwrap_or_else(|| listen_help(text)))
    })
}

fn listen_help(text: &str) -> String {
    let port = text.rsplit(':').next().filter(|p| p.parse::<u16>().is_ok());
    match port {
        Some(port) => format!(
            "write an IP address and a port: \"127.0.0.1:{port}\" for this machine, \
             \"[::]:{port}\" for every address of it"
        ),
        None => "write \"127.0.0.1:8080\", \"[::]:8080\" (dual stack) or \"unix:PATH\"".to_owned(),
    }
}

/// A server to connect to; a relative path counts from `base`.
pub(super) fn server_address(text: &str, base: &Path) -> Read<ServerAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path, base).map(ServerAddress::Unix);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        let refusal = || {
            Refusal::new(format!("`{}`: a server has no port 0", shown(text)))
                .help("write the port that it listens on")
        };
        let has_port = address.port() != 0;
        return has_port
            .then_some(ServerAddress::Ip(address))
            .ok_or_else(refusal);
    }
    named_server(text).ok_or_else(|| {
        let refusal = Refusal::new(format!("`{}` is not a server's address", shown(text)));
        refusal.help(port_help(text).unwrap_or_else(|| server_help(text)))
    })
}

fn named_server(text: &str) -> Option<ServerAddress> {
    let (host, port) = text.rsplit_once(':')?;
    let port = decimal_port(port).filter(|&port| port != 0)?;
    is_host_name(host).then(|| ServerAddress::Name {
        host: host.to_ascii_lowercase(),
        port,
    })
}

/// Advice about a number that is no port.
fn port_help(text: &str) -> Option<String> {
    let port = text.rsplit(':').next()?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_too_large = is_number && port.len() > 4 && port.parse::<u16>().is_err();
    is_too_large.then(|| format!("write a port up to 65535 instead of {}", shown(port)))
}

fn server_help(text: &str) -> String {
    if let Some((_, rest)) = text.split_once("://") {
        let authority = rest.split('/').next().unwrap_or(rest);
        let has_port = authority.rsplit_once(':').is_some();
        let port = match text.starts_with("https") {
            _ if has_port => "",
            true => ":443",
            false => ":80",
        };
        let authority = format!("{authority}{port}");
        return format!(
            "write the address alone, without scheme and path: \"{}\"",
            shown(&authority)
        );
    }
    if is_host_name(text) || text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()) {
        return format!("add the port: \"{text}:80\"");
    }
    if text.parse::<IpAddr>().is_ok() {
        return format!("write the address in brackets and add the port: \"[{text}]:80\"");
    }
    "write \"127.0.0.1:9001\", \"[::1]:9001\", \"name.example:9001\" or \"unix:PATH\"".to_owned()
}

/// `SocketAddr` takes no sign, so neither does a port here.
fn decimal_port(text: &str) -> Option<u16> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

/// Letters, digits, `-` and `_`; a last label of digits would be a mistyped IPv4 address.
fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=HOST_LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(is_allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.len() <= HOST_NAME_BYTES_MAX
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn unix_path(path: &str, base: &Path) -> Read<PathBuf> {
    if path.is_empty() {
        return Err(Refusal::new("`unix:` needs a path").help("write \"unix:/run/steppe.sock\""));
    }
    let path = file(path, base)?;
    let length = path.as_os_str().len();
    if length > UNIX_PATH_BYTES_MAX {
        return Err(Refusal::new(format!(
            "a path of {length} bytes is too long for a Unix socket: at most {UNIX_PATH_BYTES_MAX}"
        ))
        .help("relative paths count from the folder of the configuration: move the socket up"));
    }
    Ok(path)
}

/// The name of a file that can be asked for.
pub(super) fn file_name(text: &str) -> Read<String> {
    let refusal = |what: &str| {
        let message = format!("`{}` is not the name of a file: {what}", shown(text));
        Err(Refusal::new(message).help("write a name such as \"index.html\""))
    };
    match text {
        "" => refusal("it is empty"),
        _ if text.contains(['/', '\0']) => refusal("a name has no `/` and no NUL"),
        _ if text.starts_with('.') => refusal("names that begin with a dot are not served"),
        _ if text.len() > FILE_NAME_BYTES_MAX => refusal("it is too long"),
        _ => Ok(text.to_owned()),
    }
}

/// An address, or a network without host bits.
pub(super) fn network(text: &str) -> Read<IpNet> {
    let refusal = || Refusal::new(format!("`{}` is not a network", shown(text)));
    let network = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => text.parse().map_err(|_| {
            refusal()
                .help("write an address and the length of its prefix: \"10.0.0.0/8\", \"::1/128\"")
        })?,
    };
    let whole = network.trunc();
    if let Some(mapped) = of_mapped(&whole) {
        let refusal = Refusal::new(format!("`{}` matches no client", shown(text)));
        return Err(refusal.help(format!(
            "IPv4 clients have IPv4 addresses, on IPv6 sockets too: did you mean \"{mapped}\"?"
        )));
    }
    if whole == network {
        return Ok(network);
    }
    Err(refusal().help(format!(
        "it has bits beyond its prefix: did you mean \"{whole}\"?"
    )))
}

/// The network of IPv4 that this one of IPv4-mapped addresses (RFC 4291 §2.5.5.2) stands for.
fn of_mapped(network: &IpNet) -> Option<IpNet> {
    const MAPPED_BITS: u8 = 96;
    let IpNet::V6(network) = network else {
        return None;
    };
    let bits = network.prefix_len().checked_sub(MAPPED_BITS)?;
    let address = network.addr().to_ipv4_mapped()?;
    IpNet::new(address.into(), bits).ok()
}

/// A name of a route, an upstream, a filter.
pub(super) fn name(text: &str) -> Read<String> {
    if text.is_empty() {
        return Err(Refusal::new("a name can't be empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::new("a name can't contain control characters"));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(Refusal::new(format!(
            "a name of {} bytes is too long: at most {NAME_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(text.to_owned())
}

/// RFC 9110 §9.1: a token, case-sensitive.
pub(super) fn method(text: &str) -> Read<String> {
    if text == "*" {
        return Err(Refusal::new("`*` is not a method")
            .help("leave `methods` out: every method but CONNECT"));
    }
    if is_token(text.as_bytes()) {
        return Ok(text.to_owned());
    }
    Err(Refusal::new(format!("`{}` is not a method", shown(text)))
        .help("a method is a token such as \"GET\": letters, digits and !#$%&'*+-.^_`|~"))
}

/// RFC 9110 §5.1: a token, in lower case from here on.
pub(super) fn field_name(text: &str) -> Read<String> {
    if is_token(text.as_bytes()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(
        Refusal::new(format!("`{}` is not the name of a field", shown(text)))
            .help("a name is a token: letters, digits and !#$%&'*+-.^_`|~"),
    )
}

/// RFC 9110 §5.5.
pub(super) fn field_value(text: &str) -> Read<String> {
    let refusal = |what: &str| {
        Refusal::new(format!(
            "`{}` is not the value of a field: {what}",
            shown(text)
        ))
    };
    if is_field_value(text.as_bytes()) {
        return Ok(text.to_owned());
    }
    let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    let (why, help) = match text.bytes().any(is_control) {
        true => ("it contains a control character", "write one line of text"),
        false => (
            "it begins or ends with white space",
            "take the white space out",
        ),
    };
    Err(refusal(why).help(help))
}

/// Fields that frame a message or end at the next hop (RFC 9110 §7.6.1, RFC 9112 §6): the gateway
/// alone writes them.
pub(super) fn is_ours(name: &str) -> bool {
    let id = FieldId::of(name.as_bytes());
    id.is_hop_by_hop() || matches!(id, FieldId::ContentLength | FieldId::Trailer)
}

mod dns;
mod filter;
mod host;
mod plane;
mod tls;
mod trace;
mod upstream;

pub(super) use dns::records::{dns_client_id, dns_record, hours, name_patterns, time_zone, url};
pub(super) use dns::{clients, dns_bootstrap, dns_name, dns_server, dns_type, subnet_prefixes};
pub(super) use filter::{
    json, member_path, origin, pattern, rate_key, rate_store, text_source, token_source,
};
pub(super) use host::host;
pub(super) use plane::{etcd_endpoint, etcd_prefix, service, services};
pub(super) use tls::{
    alt_name, fingerprint, pin, pin_text, server_name, subject, transport_security,
};
pub(super) use trace::collector;
pub(super) use upstream::{cookie_name, hash_on, hedge_after, statuses, target};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind() {
        let base = Path::new("/etc/steppe");
        let listen = |text| listen_address(text, base).map(|address| address.to_string());
        assert_eq!(listen("[::]:80").as_deref(), Ok("[::]:80"));
        assert_eq!(
            listen("unix:a.sock").as_deref(),
            Ok("unix:/etc/steppe/a.sock")
        );
        for text in [
            "localhost:80",
            ":80",
            "80",
            "127.0.0.1",
            "unix:",
            "1.2.3.4:99999",
        ] {
            assert!(listen(text).is_err(), "{text}");
        }
        let server = |text| server_address(text, base).map(|address| address.to_string());
        assert_eq!(server("Api.Example:80").as_deref(), Ok("api.example:80"));
        assert_eq!(server("[::1]:80").as_deref(), Ok("[::1]:80"));
        assert_eq!(server("unix:/x").as_deref(), Ok("unix:/x"));
        for text in [
            "127.0.0.300:80",
            "a:+8",
            "a:0",
            "1.2.3.4:0",
            "a b:80",
            "http://a",
            "::1",
            "-a:1",
        ] {
            assert!(server(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks_have_no_host_bits() {
        assert!(network("10.0.0.0/8").is_ok());
        assert_eq!(
            network("::1").map(|net| net.to_string()).as_deref(),
            Ok("::1/128")
        );
        let help = network("10.1.0.0/8").expect_err("host bits").help;
        assert!(help.is_some_and(|help| help.contains("10.0.0.0/8")));
    }
}
