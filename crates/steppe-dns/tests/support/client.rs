//! A client of the forwarder, and configurations for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use steppe_dns::config::{
    Action, Addresses, Forwarder, Listener, Policy, Protocol, Rule, Server, Transport, Upstream,
};

use crate::messages::{message, with_opt};

/// Upper bound of the time for any response.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A UDP client with a socket of its own.
pub struct Client(UdpSocket);

impl Client {
    pub fn of(server: SocketAddr) -> Self {
        Self::from_to(Ipv4Addr::LOCALHOST.into(), server)
    }

    /// A client with this address, of the loopback network.
    pub fn from_to(address: IpAddr, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("loopback");
        socket.connect(server).expect("is set");
        socket.set_read_timeout(Some(PATIENCE)).expect("is set");
        Self(socket)
    }

    pub fn send(&self, bytes: &[u8]) {
        self.0.send(bytes).expect("is sent");
    }

    pub fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 65_535];
        let len = self.0.recv(&mut buffer).expect("a response");
        buffer.truncate(len);
        buffer
    }

    pub fn ask(&self, query: &[u8]) -> Vec<u8> {
        self.send(query);
        self.receive()
    }

    /// The response to a question of type A with EDNS.
    pub fn ask_for(&self, name: &str) -> Vec<u8> {
        self.ask(&query(name, 1))
    }
}

/// A query with EDNS, and with an id derived from its name.
pub fn query(name: &str, rtype: u16) -> Vec<u8> {
    let id = name.bytes().fold(7_u16, |id, byte| {
        id.wrapping_mul(31).wrapping_add(byte.into())
    });
    with_opt(
        message(id, 0x0100, (name, rtype), [&[], &[], &[]]),
        1232,
        0,
        &[],
    )
}

/// The response code in the header.
pub fn rcode(response: &[u8]) -> u8 {
    response[3] & 0x0f
}

/// The number of records in the answer section.
pub fn answers(response: &[u8]) -> u16 {
    u16::from_be_bytes([response[6], response[7]])
}

/// The info-code of the extended error.
pub fn extended_error(response: &[u8]) -> Option<u16> {
    let opt = response.windows(3).rposition(|bytes| bytes == [0, 0, 41])?;
    let mut options = response.get(opt + 11..)?;
    while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk::<4>() {
        let (data, after) = rest.split_at(usize::from(u16::from_be_bytes([l0, l1])));
        if [c0, c1] == [0, 15] {
            return Some(u16::from_be_bytes([data[0], data[1]]));
        }
        options = after;
    }
    None
}

/// A forwarder at `listen` that uses these servers over UDP, one after the other.
///
/// Servers receive exactly the queries that a test counts: a late server gets no repeated query while its client
/// waits. A race of a single server has no retries; with more servers, a race would query all at once.
pub fn forwarder(listen: SocketAddr, servers: &[SocketAddr]) -> Forwarder {
    let servers = servers
        .iter()
        .map(|address| Server::at(Transport::Udp, *address));
    let policy = match servers.len() {
        0 | 1 => Policy::Race,
        _ => Policy::Failover,
    };
    let upstream = Upstream {
        policy,
        timeout: 2 * PATIENCE,
        addresses: Addresses::Any,
        ..Upstream::of("test", servers.collect())
    };
    Forwarder {
        listeners: vec![Listener {
            address: listen,
            protocols: vec![Protocol::Udp, Protocol::Tcp],
            tls: None,
            introduction: steppe_dns::config::Introduction::None,
        }],
        access: vec!["127.0.0.0/8".parse().expect("a network")],
        upstreams: vec![upstream],
        rules: vec![Rule::new(Action::Forward(0))],
        ..Forwarder::default()
    }
}
