//! Forms of addresses, networks, and names and keys of servers.
//!
//! Invariant: text that reads is within the grammar and its bounds; nothing is guessed.
//!
//! Spec: RFC 4648 §4 for Base64, RFC 6066 §3 for names of servers.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use steppe_config::form::{Form, Read, Refusal, path as file};
use steppe_config::mistake::shown;

use crate::limits::{
    CERTIFICATE_NAME_BYTES_MAX, HOST_LABEL_BYTES_MAX, HOST_NAME_BYTES_MAX, SERVICE_BYTES_MAX,
    UNIX_PATH_BYTES_MAX,
};
use crate::{ListenAddress, ServerAddress};

/// Address to listen on.
pub static LISTEN: Form<ListenAddress> = Form::new(
    "an address such as \"127.0.0.1:8080\", \"[::]:8080\" or \"unix:PATH\"",
    listen_address,
)
.pattern("^(unix:.+|.+:[0-9]+)$")
.shown_by(ToString::to_string);

/// Address of a server.
pub static SERVER: Form<ServerAddress> = Form::new(
    "an address such as \"127.0.0.1:9001\", \"name:9001\" or \"unix:PATH\"",
    server_address,
)
.pattern("^(unix:.+|.+:[0-9]+)$")
.shown_by(ToString::to_string);

/// Address, or network.
pub static NETWORK: Form<IpNet> =
    Form::new("a network such as \"10.0.0.0/8\"", |text, _| network(text))
        .pattern("^[0-9a-fA-F.:]+(/[0-9]{1,3})?$")
        .shown_by(ToString::to_string);

/// Name that the certificate of a server is verified for.
pub static SERVER_NAME: Form<String> =
    Form::new("a host name such as \"api.internal\"", |text, _| {
        server_name(text)
    })
    .pattern("^[0-9A-Za-z_.-]+$");

/// SHA-256 digest of a public key.
pub static PIN: Form<[u8; 32]> = Form::new("a digest such as \"sha256/BASE64\"", pin)
    .pattern("^sha256/[0-9A-Za-z+/]{43}=$")
    .shown_by(pin_text);

/// Subject alternative name of a certificate.
pub static ALT_NAME: Form<String> = Form::new(
    "a name such as \"api.internal\" or \"spiffe://example/api\"",
    |text, _| certificate_name(text, "a subject alternative name"),
)
.pattern("^.+$");

/// URL of http or https.
pub static URL: Form<String> =
    Form::new("a URL such as \"https://lists.example/ads.txt\"", url).pattern("^https?://[^ #]+$");

/// Service of the request plane.
pub static SERVICE: Form<String> =
    Form::new("a service such as \"embed\"", |text, _| service(text)).pattern("^[!-~]{1,128}$");

/// Where to listen; a relative path counts from `base`.
fn listen_address(text: &str, base: &Path) -> Read<ListenAddress> {
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
fn server_address(text: &str, base: &Path) -> Read<ServerAddress> {
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

/// A port; `SocketAddr` takes no sign, so neither does this.
pub fn decimal_port(text: &str) -> Option<u16> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

/// Letters, digits, `-` and `_`; a last label of digits would be a mistyped IPv4 address.
pub fn is_host_name(text: &str) -> bool {
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

/// An address, or a network without host bits.
///
/// # Errors
/// When it is neither.
pub fn network(text: &str) -> Read<IpNet> {
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

/// A host name, in lower case and without its final dot: SNI has none (RFC 6066 §3).
///
/// # Errors
/// When it is none.
pub fn server_name(text: &str) -> Read<String> {
    if is_host_name(text) {
        let name = text.strip_suffix('.').unwrap_or(text);
        return Ok(name.to_ascii_lowercase());
    }
    let message = format!("`{}` is not a host name", shown(text));
    Err(Refusal::new(message).help("write a name of the server's certificate: \"api.internal\""))
}

/// The algorithm of a pin, before its digest.
const PIN_PREFIX: &str = "sha256/";

/// `sha256/` and the digest of a `SubjectPublicKeyInfo` in Base64.
fn pin(text: &str, _: &Path) -> Read<[u8; 32]> {
    let refusal = |what: &str| {
        let message = format!("`{}` is not a pin: {what}", shown(text));
        Refusal::new(message).help(
            "write \"sha256/\" and the SHA-256 digest of the public key in Base64, 44 characters",
        )
    };
    let digest = text
        .strip_prefix(PIN_PREFIX)
        .ok_or_else(|| refusal("it does not begin with \"sha256/\""))?;
    let digest = STANDARD
        .decode(digest)
        .map_err(|_| refusal("its digest is not Base64"))?;
    let bytes = digest.len();
    digest
        .try_into()
        .map_err(|_| refusal(&format!("its digest has {bytes} bytes instead of 32")))
}

/// The text that [`pin`] reads as this.
fn pin_text(digest: &[u8; 32]) -> String {
    format!("{PIN_PREFIX}{}", STANDARD.encode(digest))
}

/// A name in a certificate: whatever one may contain.
///
/// # Errors
/// When it is empty or too long, or contains NUL.
pub fn certificate_name(text: &str, what: &str) -> Read<String> {
    if text.is_empty() {
        return Err(Refusal::new(format!("{what} can't be empty")));
    }
    if text.contains('\0') {
        return Err(Refusal::new(format!("{what} can't contain NUL")));
    }
    let length = text.len();
    if length > CERTIFICATE_NAME_BYTES_MAX {
        let most = CERTIFICATE_NAME_BYTES_MAX;
        let message = format!("{what} of {length} bytes is too long: at most {most}");
        return Err(Refusal::new(message));
    }
    Ok(text.to_owned())
}

/// The name of a service.
///
/// # Errors
/// When it is empty, too long, or not of visible ASCII.
pub fn service(text: &str) -> Read<String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_name && text.len() <= SERVICE_BYTES_MAX {
        return Ok(text.to_owned());
    }
    let refusal = Refusal::new(format!("`{}` is not the name of a service", shown(text)));
    Err(refusal.help(format!(
        "write 1 to {SERVICE_BYTES_MAX} visible ASCII characters, such as \"embed\""
    )))
}

/// `https://lists.example/ads.txt`.
fn url(text: &str, _: &Path) -> Read<String> {
    let uri: Option<http::Uri> = text.parse().ok();
    let is_url = uri.is_some_and(|uri| {
        let is_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("@", |authority| authority.as_str());
        is_scheme && !authority.contains('@') && uri.host().is_some_and(|host| !host.is_empty())
    });
    match is_url {
        true => Ok(text.to_owned()),
        false => {
            let message = format!("`{}` is not a URL to fetch from", shown(text));
            let help =
                "write one such as \"https://lists.example/ads.txt\", without user and password";
            Err(Refusal::new(message).help(help))
        }
    }
}

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

    const DIGEST: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn names_in_certificates_are_bounded() {
        let name = |text: &str| certificate_name(text, "a name");
        assert!(name("spiffe://example/api").is_ok());
        let long = "a".repeat(CERTIFICATE_NAME_BYTES_MAX + 1);
        assert!(name("").is_err() && name("a\0").is_err() && name(&long).is_err());
    }

    #[test]
    fn pins_read_back() {
        let text = "sha256/MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";
        assert_eq!(pin(text, Path::new("")), Ok(DIGEST));
        assert_eq!(pin_text(&DIGEST), text);
        for wrong in [
            "",
            "sha256/",
            "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=",
            "sha1/MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=",
            "sha256/MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY",
            "sha256/MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dQ==",
            "sha256/30313233343536373839616263646566",
        ] {
            assert!(pin(wrong, Path::new("")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_servers_are_hosts() {
        assert_eq!(server_name("Api.Internal."), Ok("api.internal".to_owned()));
        for wrong in ["", "10.0.0.1", "::1", "a b", "*.example.com", "a:443", "-a"] {
            assert!(server_name(wrong).is_err(), "{wrong}");
        }
    }
}
