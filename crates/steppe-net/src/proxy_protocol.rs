//! The PROXY protocol, versions 1 and 2: a header at the beginning of a connection, in which a proxy
//! names the client.
//!
//! Invariant: nothing is read beyond the header, and none is accepted in part.
//!
//! Leaves out extensions (TLVs), which are skipped, `PP2_TYPE_CRC32C` among them: TCP has a
//! checksum of its own; and datagrams. The caller decides which proxies to trust.
//! Spec: "The PROXY protocol, versions 1 & 2", HAProxy, doc/proxy-protocol.txt.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease};

use crate::limits::{PROXY_V1_BYTES_MAX, PROXY_V2_BYTES_MAX};
use crate::transport::{ReadRoom, Transport};

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Both ends of a connection: the client's, and what it connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The client.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// The content of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The proxy names no client: the connection's own ends count.
    Own,
    /// For a client over IP.
    For(Ends),
    /// For a client on a Unix socket of the proxy's machine.
    Unix,
}

impl ProxyVersion {
    /// Name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// Error for bytes that begin no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed PROXY protocol header")]
pub struct Malformed;

/// Why a connection has no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoHeader {
    /// The peer closed before it was whole.
    #[error("connection closed by the proxy before the end of its PROXY header")]
    Closed,
    /// The bytes begin no header.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

const V1_START: &[u8] = b"PROXY ";
const V2_START: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const V2_FIXED_BYTES: usize = 16;
const V2_INET_BYTES: usize = 12;
const V2_INET6_BYTES: usize = 36;
const V2_UNIX_BYTES: usize = 216;

/// Room for the first read of a connection.
#[derive(Clone, Copy)]
pub struct HeaderRoom<'a> {
    /// The lease of the buffer.
    pub lease: &'a Lease,
    /// Bytes of the first buffer.
    pub first_bytes: usize,
}

/// Reads the header that a connection begins with. What came behind it stays in `pending`, which has `room` at first.
///
/// # Errors
/// [`NoHeader`].
pub fn poll_header(
    cx: &mut Context<'_>,
    transport: &mut Transport,
    room: HeaderRoom<'_>,
    pending: &mut Option<Buffer>,
) -> Poll<Result<ProxyHeader, NoHeader>> {
    let HeaderRoom { lease, first_bytes } = room;
    loop {
        if let Some(filled) = pending
            && let Some((header, bytes)) = parse(filled.filled())?
        {
            filled.consume(bytes);
            filled.compact();
            if filled.is_empty() {
                *pending = None;
            }
            return Poll::Ready(Ok(header));
        }
        let room = ReadRoom {
            lease,
            first_bytes,
            bytes_max: PROXY_V2_BYTES_MAX.max(first_bytes),
        };
        if !matches!(ready!(transport.poll_fill(cx, room, pending)), Ok(1..)) {
            return Poll::Ready(Err(NoHeader::Closed));
        }
    }
}

/// The header that `bytes` begin with, and how many they are; `None` while it is not whole.
///
/// # Errors
/// The bytes can't become a header.
pub fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, Malformed> {
    if begins(bytes, V2_START) {
        return parse_v2(bytes);
    }
    if begins(bytes, V1_START) {
        return parse_v1(bytes);
    }
    Err(Malformed)
}

/// True if `bytes` begin with `start`, or with a part of it and end there.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let count = bytes.len().min(start.len());
    bytes[..count] == start[..count]
}

/// §2.1.
fn parse_v1(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, Malformed> {
    let line = &bytes[..bytes.len().min(PROXY_V1_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        let is_too_long = line.len() == PROXY_V1_BYTES_MAX;
        return if is_too_long {
            Err(Malformed)
        } else {
            Ok(None)
        };
    };
    let rest = line[..end].strip_prefix(V1_START).ok_or(Malformed)?;
    let header = parse_line(rest).ok_or(Malformed)?;
    Ok(Some((header, end + 2)))
}

/// A line between `PROXY ` and its end.
fn parse_line(line: &[u8]) -> Option<ProxyHeader> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let address: fn(&str) -> Option<IpAddr> = match words.next()? {
        // What follows is to be ignored.
        "UNKNOWN" => return Some(ProxyHeader::Own),
        "TCP4" => |text| text.parse().map(IpAddr::V4).ok(),
        "TCP6" => |text| text.parse().map(IpAddr::V6).ok(),
        _ => return None,
    };
    let [source, destination] = [address(words.next()?)?, address(words.next()?)?];
    let ports = [port(words.next()?)?, port(words.next()?)?];
    let is_over = words.next().is_none();
    is_over.then_some(ProxyHeader::For(Ends {
        source: SocketAddr::new(source, ports[0]),
        destination: SocketAddr::new(destination, ports[1]),
    }))
}

/// "No heading zero", and no sign.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    (is_plain && !has_leading_zero)
        .then(|| text.parse().ok())
        .flatten()
}

/// §2.2.
fn parse_v2(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, Malformed> {
    let Some((fixed, rest)) = bytes.split_at_checked(V2_FIXED_BYTES) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let (version, command) = (fixed[12] >> 4, fixed[12] & 15);
    if version != 2 || V2_FIXED_BYTES + length > PROXY_V2_BYTES_MAX {
        return Err(Malformed);
    }
    let (family, transport) = (fixed[13] >> 4, fixed[13] & 15);
    if command > 1 || family > 3 || transport > 2 {
        return Err(Malformed);
    }
    let Some(content) = rest.get(..length) else {
        return Ok(None);
    };
    let is_stream = transport == 1;
    let header = match (command, family) {
        (1, 1) if is_stream => ProxyHeader::For(inet(content)?),
        (1, 2) if is_stream => ProxyHeader::For(inet6(content)?),
        (1, 3) if is_stream && length >= V2_UNIX_BYTES => ProxyHeader::Unix,
        (1, 3) if is_stream => return Err(Malformed),
        // LOCAL, AF_UNSPEC, and datagrams, of which there is no header here.
        _ => ProxyHeader::Own,
    };
    Ok(Some((header, V2_FIXED_BYTES + length)))
}

fn inet(content: &[u8]) -> Result<Ends, Malformed> {
    let content: &[u8; V2_INET_BYTES] = content.first_chunk().ok_or(Malformed)?;
    let [a, b, c, d, e, f, g, h, ports @ ..] = *content;
    Ok(ends(
        Ipv4Addr::new(a, b, c, d),
        Ipv4Addr::new(e, f, g, h),
        ports,
    ))
}

fn inet6(content: &[u8]) -> Result<Ends, Malformed> {
    let (source, rest) = content.split_first_chunk::<16>().ok_or(Malformed)?;
    let (destination, rest) = rest.split_first_chunk::<16>().ok_or(Malformed)?;
    let ports = rest.first_chunk::<4>().ok_or(Malformed)?;
    Ok(ends(
        Ipv6Addr::from(*source),
        Ipv6Addr::from(*destination),
        *ports,
    ))
}

fn ends(source: impl Into<IpAddr>, destination: impl Into<IpAddr>, ports: [u8; 4]) -> Ends {
    let [a, b, c, d] = ports;
    Ends {
        source: SocketAddr::new(source.into(), u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination.into(), u16::from_be_bytes([c, d])),
    }
}

/// A header, ready to be sent.
#[derive(Debug, Clone, Copy)]
pub struct EncodedHeader {
    bytes: [u8; PROXY_V1_BYTES_MAX],
    len: usize,
}

impl EncodedHeader {
    /// A header for the connection between `ends`; `None`: for the proxy itself.
    #[must_use]
    pub fn new(version: ProxyVersion, ends: Option<Ends>) -> Self {
        let mut header = Self {
            bytes: [0; PROXY_V1_BYTES_MAX],
            len: 0,
        };
        match version {
            ProxyVersion::V1 => header.v1(ends),
            ProxyVersion::V2 => header.v2(ends),
        }
        header
    }

    /// Bytes of the header.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn v1(&mut self, ends: Option<Ends>) {
        let mut room = &mut self.bytes[..];
        let written = match ends.map(of_one_family) {
            None => room.write_all(b"PROXY UNKNOWN\r\n"),
            Some((family, source, destination, [from, to])) => write!(
                room,
                "PROXY TCP{family} {source} {destination} {from} {to}\r\n"
            ),
        };
        written.expect("the longest line has 107 bytes");
        self.len = PROXY_V1_BYTES_MAX - room.len();
    }

    fn v2(&mut self, ends: Option<Ends>) {
        const LOCAL: u8 = 0x20;
        const PROXY: u8 = 0x21;
        const STREAM: u8 = 1;
        self.put(V2_START);
        let Some((_, source, destination, ports)) = ends.map(of_one_family) else {
            return self.put(&[LOCAL, 0, 0, 0]);
        };
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.put(&[PROXY, 1 << 4 | STREAM, 0, 12]);
                self.put(&source.octets());
                self.put(&destination.octets());
            }
            (source, destination) => {
                self.put(&[PROXY, 2 << 4 | STREAM, 0, 36]);
                self.put(&to_v6(source).octets());
                self.put(&to_v6(destination).octets());
            }
        }
        ports.iter().for_each(|port| self.put(&port.to_be_bytes()));
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Family, source, destination, ports: a header has one family for both ends.
fn of_one_family(ends: Ends) -> (u8, IpAddr, IpAddr, [u16; 2]) {
    let (source, destination) = (
        ends.source.ip().to_canonical(),
        ends.destination.ip().to_canonical(),
    );
    let ports = [ends.source.port(), ends.destination.port()];
    if source.is_ipv4() && destination.is_ipv4() {
        return (4, source, destination, ports);
    }
    let (source, destination) = (to_v6(source).into(), to_v6(destination).into());
    (6, source, destination, ports)
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

const _: () = assert!(PROXY_V1_BYTES_MAX >= V2_FIXED_BYTES + V2_INET6_BYTES);
const _: () = assert!(PROXY_V2_BYTES_MAX >= V2_FIXED_BYTES + V2_UNIX_BYTES);

#[cfg(test)]
mod tests;
