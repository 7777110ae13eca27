//! The client's address, and the fields that carry it to the origin: `Forwarded` and
//! `X-Forwarded-*`.
//!
//! Invariants: forwarding fields of untrusted peers are neither believed nor passed on; both
//! kinds of field that are sent name the same client; nothing is allocated.
//!
//! The client is found by walking from the right, over the elements that trusted proxies added: the
//! first address that is no trusted proxy's is the client's. An element that names no address
//! (`unknown`, obfuscated, malformed, more than [`FORWARDED_ELEMENTS_MAX`] from the right) ends
//! the walk, and the last trusted hop stands for the client.
//!
//! `X-Forwarded-For` decides when both fields are there. Nearly every proxy in use appends to it,
//! and one that doesn't know `Forwarded` passes a client's own on untouched: that one is believed
//! only where there is no `X-Forwarded-For`. A trusted proxy that writes `Forwarded` alone must
//! therefore remove the other.
//!
//! Every other `X-Forwarded-*` field, `X-Real-IP`, `X-Client-IP` and `True-Client-IP` pass from a
//! trusted proxy and are removed from the requests of other peers. Nothing is put in their place:
//! origins that read them stand behind a proxy that sets them.
//!
//! Left out: `by`, which names interfaces to origins that don't read it; `Via` says that
//! Steppe was there. Spec: RFC 7239; `X-Forwarded-*` has none.

mod element;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::encoder::Put;
use crate::field::{FieldId, is_token};
use crate::host::Authority;
use crate::limits::{ADDRESS_TEXT_BYTES_MAX, FORWARDED_ELEMENTS_MAX};
use element::{FromRight, forwarded_for, is_scheme, list_members, x_forwarded_for};

/// The other end of a downstream connection. Made once a connection: its address is text already
/// when a request needs it.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    address: IpAddr,
    text: AddressText,
    is_trusted: bool,
}

impl Peer {
    /// A peer at `address`; an IPv4-mapped one is an IPv4 peer.
    pub fn new(address: IpAddr, trusted_proxies: &[IpNet]) -> Self {
        let address = address.to_canonical();
        let is_trusted = is_within(address, trusted_proxies);
        Self {
            address,
            text: AddressText::new(address),
            is_trusted,
        }
    }

    /// A peer on a Unix socket, which is on this machine: trusted as 127.0.0.1 is, and called so.
    pub fn unix(trusted_proxies: &[IpNet]) -> Self {
        Self::new(IpAddr::V4(Ipv4Addr::LOCALHOST), trusted_proxies)
    }

    /// The peer's address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The peer's address as text.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// True for a trusted proxy.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// True for a request field that is not forwarded: the gateway sets it itself, or the peer is
    /// not trusted
    /// with it.
    pub(crate) fn is_replaced(&self, id: FieldId) -> bool {
        let is_ours = matches!(
            id,
            FieldId::Forwarded
                | FieldId::XForwardedFor
                | FieldId::XForwardedHost
                | FieldId::XForwardedProto
        );
        is_ours || !self.is_trusted && id.tells_of_client()
    }
}

/// The field lines that came with a request: for each name their values in order.
///
/// Of an untrusted peer they are not looked at.
#[derive(Debug, Clone)]
pub struct ForwardedLines<I> {
    /// Values of `Forwarded`.
    pub forwarded: I,
    /// Values of `X-Forwarded-For`.
    pub x_forwarded_for: I,
    /// Values of `X-Forwarded-Proto`.
    pub x_forwarded_proto: I,
    /// Values of `X-Forwarded-Host`.
    pub x_forwarded_host: I,
}

/// The authority and scheme by which the request was received.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedAuthority<'a> {
    /// The authority that [`Authority`] has parsed, with its port; empty when the request has none.
    pub host: &'a [u8],
    /// `http` or `https`.
    pub proto: &'static str,
}

/// One request's client, and the fields that tell the origin.
#[derive(Debug, Clone)]
pub struct Forwarding<'a, I> {
    peer: &'a Peer,
    received: ReceivedAuthority<'a>,
    incoming: ForwardedLines<I>,
    client: IpAddr,
    forwarded: ValuePrefix,
    x_forwarded_for: ValuePrefix,
}

/// The elements before the gateway's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValuePrefix {
    /// The values of the peer's field.
    Extended,
    /// The client alone, unless it is the peer.
    Made,
}

impl<'a, I> Forwarding<'a, I>
where
    I: DoubleEndedIterator<Item = &'a [u8]> + Clone,
{
    /// Finds the client of a request.
    pub fn new(
        peer: &'a Peer,
        trusted_proxies: &[IpNet],
        received: ReceivedAuthority<'a>,
        incoming: ForwardedLines<I>,
    ) -> Self {
        let (client, forwarded, x_forwarded_for) = if peer.is_trusted {
            believe(peer, trusted_proxies, &incoming)
        } else {
            (peer.address, ValuePrefix::Made, ValuePrefix::Made)
        };
        Self {
            peer,
            received,
            incoming,
            client,
            forwarded,
            x_forwarded_for,
        }
    }

    /// The client's address, as far as trusted proxies vouch for it.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// Writes the value of `Forwarded`.
    pub fn write_forwarded(&self, sink: &mut impl Put) {
        if self.forwarded == ValuePrefix::Extended {
            put_lines(self.incoming.forwarded.clone(), sink);
            sink.put(b", ");
        } else if self.client != self.peer.address {
            put_node(self.client, AddressText::new(self.client).as_bytes(), sink);
            sink.put(b", ");
        }
        put_node(self.peer.address, self.peer.text.as_bytes(), sink);
        if !self.received.host.is_empty() {
            sink.put(b";host=");
            put_value(self.received.host, sink);
        }
        sink.put(b";proto=");
        sink.put(self.received.proto.as_bytes());
    }

    /// Writes the value of `X-Forwarded-For`.
    pub fn write_x_forwarded_for(&self, sink: &mut impl Put) {
        if self.x_forwarded_for == ValuePrefix::Extended {
            put_lines(self.incoming.x_forwarded_for.clone(), sink);
            sink.put(b", ");
        } else if self.client != self.peer.address {
            sink.put(AddressText::new(self.client).as_bytes());
            sink.put(b", ");
        }
        sink.put(self.peer.text.as_bytes());
    }

    /// Writes the value of `X-Forwarded-Proto`: a trusted proxy's, if it is one or a list of
    /// them, otherwise ours.
    pub fn write_x_forwarded_proto(&self, sink: &mut impl Put) {
        let lines = &self.incoming.x_forwarded_proto;
        if self.peer.is_trusted && is_list_of(lines.clone(), is_scheme) {
            put_lines(lines.clone(), sink);
        } else {
            sink.put(self.received.proto.as_bytes());
        }
    }

    /// Writes the value of `X-Forwarded-Host`: a trusted proxy's, if it is one or a list of them,
    /// otherwise ours, which is empty when the request names no host.
    pub fn write_x_forwarded_host(&self, sink: &mut impl Put) {
        let lines = &self.incoming.x_forwarded_host;
        let is_host = |member: &[u8]| Authority::parse(member).is_ok();
        if self.peer.is_trusted && is_list_of(lines.clone(), is_host) {
            put_lines(lines.clone(), sink);
        } else {
            sink.put(self.received.host);
        }
    }
}

/// The client by a trusted peer's fields, and the treatment of both.
fn believe<'a, I>(
    peer: &Peer,
    trusted_proxies: &[IpNet],
    incoming: &ForwardedLines<I>,
) -> (IpAddr, ValuePrefix, ValuePrefix)
where
    I: DoubleEndedIterator<Item = &'a [u8]> + Clone,
{
    let walk = |lines: &I, read: fn(&[u8]) -> Option<IpAddr>| {
        let elements = lines.clone().rev().flat_map(FromRight::new);
        walk(
            peer.address,
            elements.take(FORWARDED_ELEMENTS_MAX),
            read,
            trusted_proxies,
        )
    };
    let by_x_forwarded_for = walk(&incoming.x_forwarded_for, x_forwarded_for);
    let by_forwarded = walk(&incoming.forwarded, forwarded_for);
    let client = by_x_forwarded_for.or(by_forwarded).unwrap_or(peer.address);
    // A `Forwarded` that tells another story, or that an origin could split elsewhere, is replaced.
    let is_consistent = by_forwarded == Some(client) && has_one_reading(incoming.forwarded.clone());
    let forwarded = if is_consistent {
        ValuePrefix::Extended
    } else {
        ValuePrefix::Made
    };
    let x_forwarded_for = if by_x_forwarded_for.is_some() {
        ValuePrefix::Extended
    } else {
        ValuePrefix::Made
    };
    (client, forwarded, x_forwarded_for)
}

/// The client according to `elements`, which come from the right; `None` when there are none.
fn walk<'a>(
    peer: IpAddr,
    elements: impl Iterator<Item = &'a [u8]>,
    read: fn(&[u8]) -> Option<IpAddr>,
    trusted_proxies: &[IpNet],
) -> Option<IpAddr> {
    let mut client = None;
    // RFC 9110 §5.6.1.2: empty list elements are ignored.
    for element in elements.filter(|element| !element.is_empty()) {
        let hop = *client.get_or_insert(peer);
        let Some(address) = read(element) else {
            return Some(hop);
        };
        client = Some(address);
        if !is_within(address, trusted_proxies) {
            break;
        }
    }
    client
}

fn is_within(address: IpAddr, nets: &[IpNet]) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

/// True when lines split into elements the same way from either side: no quote is left open, and
/// no backslash hides one.
fn has_one_reading<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
    lines.all(|line| {
        let quotes = memchr::memchr_iter(b'"', line).count();
        quotes.is_multiple_of(2) && memchr::memchr(b'\\', line).is_none()
    })
}

/// True when the lines are a list of at least one member, each of which is `valid`.
fn is_list_of<'a>(
    lines: impl Iterator<Item = &'a [u8]> + Clone,
    valid: impl Fn(&[u8]) -> bool,
) -> bool {
    let mut members = lines.flat_map(list_members).peekable();
    members.peek().is_some() && members.all(valid)
}

/// Writes lines as one: RFC 9110 §5.3.
fn put_lines<'a>(lines: impl Iterator<Item = &'a [u8]>, sink: &mut impl Put) {
    let is_empty = |line: &[u8]| list_members(line).next().is_none();
    for (index, line) in lines.filter(|line| !is_empty(line)).enumerate() {
        if index > 0 {
            sink.put(b", ");
        }
        sink.put(line);
    }
}

/// Writes `for=` and a node: RFC 7239 §6, where an IPv6 address is bracketed and quoted.
fn put_node(address: IpAddr, text: &[u8], sink: &mut impl Put) {
    let (before, after): (&[u8], &[u8]) = match address {
        IpAddr::V4(_) => (b"for=", b""),
        IpAddr::V6(_) => (b"for=\"[", b"]\""),
    };
    sink.put(before);
    sink.put(text);
    sink.put(after);
}

/// Writes a value as a token or, where it isn't one, quoted. An authority needs no escaping.
fn put_value(value: &[u8], sink: &mut impl Put) {
    if is_token(value) {
        sink.put(value);
    } else {
        sink.put(b"\"");
        sink.put(value);
        sink.put(b"\"");
    }
}

/// An address as text, without an allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressText {
    bytes: [u8; ADDRESS_TEXT_BYTES_MAX],
    len: usize,
}

impl AddressText {
    /// `address` is canonical: an IPv4-mapped one would be longer.
    pub(crate) fn new(address: IpAddr) -> Self {
        let mut bytes = [0; ADDRESS_TEXT_BYTES_MAX];
        let mut free: &mut [u8] = &mut bytes;
        write!(free, "{address}").expect("the longest address is eight groups of four digits");
        let len = ADDRESS_TEXT_BYTES_MAX - free.len();
        Self { bytes, len }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
