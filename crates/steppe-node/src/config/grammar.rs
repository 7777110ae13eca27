//! Strings of a configuration: durations, sizes, shares, addresses, names.
//!
//! Invariant: text that reads is within the grammar and its bounds; nothing is guessed. Non-goals:
//! hosts and paths of routes, which `steppe-http` reads. Spec: RFC 9110 §5.1, §5.5, §9.1.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use steppe_http::field::FieldId;
use steppe_http::field::{is_field_value, is_token};
use steppe_net::{ListenAddress, ServerAddress};

use crate::config::limits::{
    FILE_NAME_BYTES_MAX, HOST_LABEL_BYTES_MAX, HOST_NAME_BYTES_MAX, NAME_BYTES_MAX,
    UNIX_PATH_BYTES_MAX,
};
use crate::config::mistake::shown;

/// Why a string is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The problem.
    pub(super) message: String,
    /// A way to mend it.
    pub(super) help: Option<String>,
    /// The bytes of the string that are wrong; `None`: the whole of it.
    pub(super) range: Option<Range<usize>>,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            range: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// In one line, for a command line.
    pub(super) fn told(self) -> String {
        match self.help {
            Some(help) => format!("{}: {help}", self.message),
            None => self.message,
        }
    }
}

type Read<T> = Result<T, Refusal>;

/// Nanoseconds of each unit, the largest first.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

/// Bytes of each unit, the largest first.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// `"250ms"`, `"1.5s"`, `"1m"`.
pub(super) fn duration(text: &str) -> Read<Duration> {
    let refusal = || {
        Refusal::new(format!("`{}` is not a duration", shown(text))).help(
            "write a number and a unit (us, ms, s, m, h or d), such as \"250ms\", \"5s\" or \"1m\"",
        )
    };
    let (number, unit) = split_unit(text).ok_or_else(refusal)?;
    let scale = unit_scale(&DURATION_UNITS, unit).ok_or_else(refusal)?;
    let nanos = scaled(number, scale).ok_or_else(refusal)?;
    Ok(Duration::from_nanos(nanos))
}

/// `"64KiB"`, `"1.5GiB"`, `"512B"`; `"0"` needs no unit.
pub(super) fn size(text: &str) -> Read<u64> {
    let refusal = || {
        let refusal = Refusal::new(format!("`{}` is not a size", shown(text)));
        refusal.help(size_help(text))
    };
    let (number, unit) = split_unit(text).ok_or_else(refusal)?;
    if unit.is_empty() && number == "0" {
        return Ok(0);
    }
    let scale = unit_scale(&SIZE_UNITS, unit).ok_or_else(refusal)?;
    scaled(number, scale).ok_or_else(refusal)
}

fn size_help(text: &str) -> String {
    let (number, unit) = split_unit(text).unwrap_or(("64", ""));
    let binary = SIZE_UNITS.iter().find(|(name, _)| {
        let letter = unit.get(..1).filter(|_| unit.len() <= 3);
        letter.is_some_and(|letter| name[..1].eq_ignore_ascii_case(letter))
    });
    match binary {
        Some((name, _)) => format!("did you mean \"{number}{name}\"?"),
        None => "write a number and a unit (B, KiB, MiB, GiB or TiB), such as \"64KiB\" or \
                 \"10MiB\""
            .to_owned(),
    }
}

/// `"75%"`: above 0 and up to 100 %.
pub(super) fn percent(text: &str) -> Read<f64> {
    let refusal = || {
        Refusal::new(format!("`{}` is not a share", shown(text)))
            .help("write a share such as \"75%\" or 0.75")
    };
    let number = text.strip_suffix('%').ok_or_else(refusal)?;
    let is_decimal = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent: f64 = number
        .parse()
        .ok()
        .filter(|_| is_decimal)
        .ok_or_else(refusal)?;
    share(percent / 100.0)
}

/// Above 0 and up to 1.
pub(super) fn share(share: f64) -> Read<f64> {
    if share > 0.0 && share <= 1.0 {
        return Ok(share);
    }
    Err(Refusal::new("a share is above 0% and at most 100%")
        .help("write a share such as \"75%\" or 0.75"))
}

/// The number and what follows it.
fn split_unit(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (!number.is_empty()).then_some((number, unit))
}

fn unit_scale(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    let found = units.iter().find(|(name, _)| *name == unit)?;
    Some(found.1)
}

/// A decimal number times `scale`, rounded down. `None`: no number, or beyond 64 bits.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_short = !fraction.is_empty() && fraction.len() <= 9;
    if !is_short {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let digits: u128 = fraction.parse().ok()?;
    let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u64::try_from(digits * u128::from(scale) / power).ok()?;
    whole.checked_mul(scale)?.checked_add(part)
}

/// The shortest text that [`duration`] reads as this.
pub(crate) fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match DURATION_UNITS
        .iter()
        .find(|(_, scale)| nanos > 0 && nanos.is_multiple_of(u128::from(*scale)))
    {
        Some((unit, scale)) => format!("{}{unit}", nanos / u128::from(*scale)),
        None if nanos == 0 => "0s".to_owned(),
        None => format!("{}us", nanos / 1_000),
    }
}

/// A share as a percentage, to a millionth.
pub(super) fn percent_text(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

/// The shortest text that [`size`] reads as this.
pub(super) fn size_text(bytes: u64) -> String {
    match SIZE_UNITS
        .iter()
        .find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale))
    {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => "0B".to_owned(),
    }
}

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

/// A path; a relative one counts from `base`.
pub(super) fn file(text: &str, base: &Path) -> Read<PathBuf> {
    if text.is_empty() {
        return Err(Refusal::new("a path can't be empty"));
    }
    if text.contains('\0') {
        return Err(Refusal::new("a path can't contain NUL"));
    }
    Ok(base.join(text))
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
    json, media_range, member_path, origin, pattern, rate_key, rate_store, text_source,
    token_source,
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
    fn durations_read_back() {
        for (text, nanos, canonical) in [
            ("250ms", 250_000_000, "250ms"),
            ("1.8s", 1_800_000_000, "1800ms"),
            ("60s", 60_000_000_000, "1m"),
            ("0s", 0, "0s"),
            ("36h", 129_600_000_000_000, "36h"),
            ("7us", 7_000, "7us"),
        ] {
            let read = duration(text).expect(text);
            assert_eq!(read, Duration::from_nanos(nanos), "{text}");
            assert_eq!(duration_text(read), canonical);
            assert_eq!(duration(canonical).as_ref(), Ok(&read));
        }
        for text in [
            "",
            "5",
            "5 s",
            "s",
            "-1s",
            "1.s",
            ".5s",
            "1e3s",
            "5S",
            "999999999d",
            "1.2.3s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_read_back() {
        for (text, bytes, canonical) in [
            ("64KiB", 64 << 10, "64KiB"),
            ("1.5GiB", 1536 << 20, "1536MiB"),
            ("0", 0, "0B"),
            ("1000B", 1000, "1000B"),
        ] {
            let read = size(text).expect(text);
            assert_eq!(read, bytes, "{text}");
            assert_eq!(size_text(read), canonical);
            assert_eq!(size(canonical), Ok(read));
        }
        for text in ["", "64", "64 KiB", "64KB", "MiB", "-1B", "99999999TiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        let help = size("64MB").expect_err("decimal units are refused").help;
        assert_eq!(help.as_deref(), Some("did you mean \"64MiB\"?"));
    }

    #[test]
    fn shares_are_within_the_whole() {
        assert_eq!(percent("75%"), Ok(0.75));
        assert_eq!(percent("100%"), Ok(1.0));
        for text in ["0%", "101%", "75", "%", "-1%", "nan%", "inf%", "1e1%"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert!(share(f64::NAN).is_err());
    }

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
