//! UDP sockets: one a worker, which share an address by `SO_REUSEPORT`.
//!
//! The kernel picks the socket by a hash of both addresses and ports, so that the
//! datagrams of one client arrive at one worker.
//!
//! None of them sends fragments: a datagram above the path's MTU is an error.

mod batch;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use crate::address::ListenAddress;
use crate::listener::BindError;

pub use batch::{Datagram, DatagramBatch, Fits, Sent};

/// A bound UDP socket, to be taken over by a worker's runtime.
#[derive(Debug)]
pub struct BoundDatagram {
    socket: Socket,
    address: SocketAddr,
}

/// Binds `address` once for each of `workers`.
///
/// # Errors
/// [`BindError`]; nothing stays bound then.
pub fn bind_datagram(address: SocketAddr, workers: usize) -> Result<Vec<BoundDatagram>, BindError> {
    let bound = bind_shared(address, workers);
    bound.map_err(|source| BindError::of(&ListenAddress::Tcp(address), source))
}

/// Checks that `address` could be bound now for datagrams, as [`probe`](crate::probe) does.
pub(crate) fn probe_datagram(address: SocketAddr) -> Result<(), BindError> {
    let probed = udp_socket(address, Sharing::Alone).map(drop);
    probed.map_err(|source| BindError::of(&ListenAddress::Tcp(address), source))
}

fn bind_shared(address: SocketAddr, workers: usize) -> io::Result<Vec<BoundDatagram>> {
    // As for TCP: without this probe a second node of the same user would take
    // half of the first one's datagrams.
    drop(udp_socket(address, Sharing::Alone)?);
    let first = udp_socket(address, Sharing::BetweenWorkers)?;
    // Port 0 becomes a number with the first socket; the others share it.
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(udp_socket(address, Sharing::BetweenWorkers)?);
    }
    let bound = sockets.into_iter();
    Ok(bound
        .map(|socket| BoundDatagram { socket, address })
        .collect())
}

/// Permission for other sockets to bind the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    BetweenWorkers,
}

fn udp_socket(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // No SO_REUSEADDR: for UDP, Linux would let anybody bind the address again.
    socket.set_reuse_port(sharing == Sharing::BetweenWorkers)?;
    socket.set_nonblocking(true)?;
    batch::forbid_fragments(&socket, address.ip())?;
    if address.ip().is_unspecified() {
        batch::report_local_address(&socket, address.ip())?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Opens a socket for one peer, at a port that the kernel draws: it receives datagrams of that peer
/// alone. `receive_bytes` is the room for unread datagrams (`SO_RCVBUF`).
///
/// Must be called within the runtime of a worker.
///
/// # Errors
/// Without a route, a port or a descriptor to have.
pub fn connect_datagram(peer: SocketAddr, receive_bytes: usize) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(receive_bytes)?;
    batch::forbid_fragments(&socket, peer.ip())?;
    // Bound before it is connected: then the port is drawn from the whole range, however many
    // sockets have the same peer.
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    socket.connect(&peer.into())?;
    UdpSocket::from_std(socket.into())
}

/// Sends a datagram on a connected socket without waiting. It goes past the runtime, which learns
/// only later that a new socket has room.
///
/// # Errors
/// The system's errors; also those that the network reported for an earlier datagram.
pub fn send_connected(socket: &UdpSocket, bytes: &[u8]) -> io::Result<()> {
    SockRef::from(socket).send(bytes).map(drop)
}

impl BoundDatagram {
    /// The bound address, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands it to the runtime of the calling thread.
    ///
    /// # Errors
    /// When the runtime has no room for it.
    pub fn into_socket(self) -> io::Result<UdpSocket> {
        UdpSocket::from_std(self.socket.into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use steppe_testkit::eventually;

    use super::*;

    #[test]
    fn workers_share_a_port_and_a_second_node_is_told() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bound = bind_datagram(any, 3).expect("loopback");
        let address = bound[0].address();
        assert_ne!(address.port(), 0);
        assert_eq!(bound.len(), 3);
        assert!(bound.iter().all(|socket| socket.address() == address));
        let again = bind_datagram(address, 1).expect_err("taken");
        assert_eq!(
            again.to_string(),
            format!("{address} is in use by another process")
        );
    }

    #[test]
    fn every_datagram_arrives_at_one_of_the_workers() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bound = bind_datagram(any, 4).expect("loopback");
        let address = bound[0].address();
        for number in 0..32_u8 {
            // Each from a port of its own, so that the hash spreads them.
            let client = UdpSocket::bind(any).expect("loopback");
            client.send_to(&[number], address).expect("is sent");
        }
        let mut buffer = [std::mem::MaybeUninit::uninit(); 8];
        let mut per_worker = [0; 4];
        eventually("all have arrived", || {
            for (count, bound) in per_worker.iter_mut().zip(&bound) {
                *count += std::iter::from_fn(|| bound.socket.recv(&mut buffer).ok()).count();
            }
            per_worker.iter().sum::<usize>() >= 32
        });
        assert_eq!(per_worker.iter().sum::<usize>(), 32, "{per_worker:?}");
        // One worker in four gets all of 32 with a chance of 4^-31.
        let busy = per_worker.iter().filter(|count| **count > 0).count();
        assert!(busy > 1, "{per_worker:?}");
    }
}
