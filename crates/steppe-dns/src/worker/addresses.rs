//! Addresses of servers that are known by name: resolved when a connection is needed, and kept for their TTL.
//!
//! The resolvers are known by address, so that no question waits for itself. They are asked over TCP, where an
//! answer can't be forged without seeing the query. If none of them answers, the known addresses stay in use.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use steppe_net::ServerAddress;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config;
use crate::limits::{
    BOOTSTRAP_RESPONSE_BYTES_MAX, BOOTSTRAP_TIME_MAX, BOOTSTRAP_TTL_MAX, BOOTSTRAP_TTL_MIN,
    CNAME_CHAIN_MAX, SERVER_ADDRESSES_MAX, UPSTREAM_QUERY_BYTES_MAX,
};
use crate::wire::{
    Asked, CaseBits, Class, Flags, Message, Name, Padding, Question, Response, Rtype, Section,
    UpstreamQuery,
};

/// The addresses of a server that is known by name.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    known: RefCell<Vec<IpAddr>>,
    /// Time until which the addresses are not resolved again.
    until: Cell<Option<Instant>>,
    /// Turn of the next address; the count wraps.
    turn: Cell<usize>,
}

/// A server whose address is to be resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) server: &'a config::Server,
    /// Resolvers that are asked.
    pub(super) bootstrap: &'a [SocketAddr],
    pub(super) known: &'a KnownAddresses,
}

/// The result of a lookup.
#[derive(Debug, Default)]
struct Found {
    addresses: Vec<IpAddr>,
    ttl: Option<u32>,
}

impl KnownAddresses {
    /// Makes the next connection go to another address.
    pub(super) fn pass_over(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
    }

    fn set(&self, found: Found, now: Instant) {
        let ttl = Duration::from_secs(found.ttl.unwrap_or_default().into());
        let ttl = ttl.clamp(BOOTSTRAP_TTL_MIN, BOOTSTRAP_TTL_MAX);
        self.until.set(Some(now + ttl));
        *self.known.borrow_mut() = found.addresses;
    }

    fn current(&self) -> Option<IpAddr> {
        let known = self.known.borrow();
        let turn = self.turn.get().checked_rem(known.len())?;
        known.get(turn).copied()
    }
}

impl Sought<'_> {
    /// The address to connect to. `id` is that of the first message, if the address has to be resolved.
    ///
    /// # Errors
    /// No address is known.
    pub(super) async fn address(&self, id: u16, now: Instant) -> io::Result<SocketAddr> {
        let (host, port) = match &self.server.address {
            ServerAddress::Ip(address) => return Ok(*address),
            ServerAddress::Name { host, port } => (host, *port),
            ServerAddress::Unix(_) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        let known = self.known;
        if known.until.get().is_none_or(|until| now >= until) {
            match look_up(host, self.bootstrap, id).await {
                Ok(found) => known.set(found, now),
                Err(error) => {
                    let (server, kept) = (self.server, known.known.borrow().len());
                    tracing::warn!(%server, %error, kept, "cannot resolve the host name of a DNS server");
                }
            }
        }
        let address = known.current().map(|ip| SocketAddr::new(ip, port));
        address.ok_or_else(|| io::Error::other("the server's host name has no address"))
    }
}

/// Asks resolvers one after the other, until one has an address.
async fn look_up(host: &str, servers: &[SocketAddr], id: u16) -> io::Result<Found> {
    let name: Name = host.parse().map_err(io::Error::other)?;
    let mut failure = io::Error::other("this host name needs `bootstrap`");
    for server in servers {
        let asked = timeout(BOOTSTRAP_TIME_MAX, ask(*server, &name, id)).await;
        match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(found) if !found.addresses.is_empty() => return Ok(found),
            Ok(_) => failure = io::Error::other(format!("{server} has no address for the name")),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn ask(server: SocketAddr, name: &Name, id: u16) -> io::Result<Found> {
    let mut stream = TcpStream::connect(server).await?;
    let mut found = Found::default();
    for (rtype, id) in [(Rtype::A, id), (Rtype::AAAA, id.wrapping_add(1))] {
        let question = Question {
            qname: name.wire(),
            qtype: rtype,
            qclass: Class::IN,
        };
        stream.write_all(&framed_query(question, id)?).await?;
        let len = usize::from(stream.read_u16().await?);
        if len > BOOTSTRAP_RESPONSE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; len];
        stream.read_exact(&mut bytes).await?;
        add_addresses(&bytes, &question, id, &mut found)?;
    }
    Ok(found)
}

fn framed_query(question: Question<'_>, id: u16) -> io::Result<Vec<u8>> {
    let query = UpstreamQuery {
        question,
        flags: Flags(Flags::RD),
        // EDNS is not needed here, and home routers may not support it.
        edns_flags: None,
        subnet: None,
        cookie: None,
        padding: Padding::None,
    };
    let mut bytes = vec![0; 2 + UPSTREAM_QUERY_BYTES_MAX];
    let len = query
        .write(id, CaseBits::default(), &mut bytes[2..])
        .map_err(io::Error::other)?;
    let prefix = u16::try_from(len).map_err(io::Error::other)?;
    bytes[..2].copy_from_slice(&prefix.to_be_bytes());
    bytes.truncate(2 + len);
    Ok(bytes)
}

/// Adds the addresses that a response has for a question.
fn add_addresses(bytes: &[u8], asked: &Question<'_>, id: u16, found: &mut Found) -> io::Result<()> {
    let message = Message::parse(bytes).map_err(io::Error::other)?;
    let (header, question) = (message.header(), message.question());
    let is_answer = header.id == id
        && header.flags.has(Flags::QR)
        && question.qname.eq_ignore_ascii_case(asked.qname)
        && (question.qtype, question.qclass) == (asked.qtype, asked.qclass);
    if !is_answer {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let read = Asked {
        cname_depth: CNAME_CHAIN_MAX - 1,
        is_dnssec_ok: false,
    };
    let response = Response::read(message, read).map_err(io::Error::other)?;
    let answers = response.kept(Section::Answer);
    for record in answers.filter(|record| record.rtype == asked.qtype) {
        let address = match (record.rtype, record.rdata) {
            (Rtype::A, &[a, b, c, d]) => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
            (Rtype::AAAA, rdata) => match <[u8; 16]>::try_from(rdata) {
                Ok(octets) => IpAddr::from(Ipv6Addr::from(octets)),
                Err(_) => continue,
            },
            _ => continue,
        };
        if found.addresses.len() < SERVER_ADDRESSES_MAX {
            found.addresses.push(address);
        }
        found.ttl = Some(found.ttl.map_or(record.ttl, |ttl| ttl.min(record.ttl)));
    }
    Ok(())
}
