//! Batches of datagrams, read or written with one system call.
//!
//! A batch has fixed memory: what is read into it and written from it allocates nothing.
//!
//! Non-goals: segmentation by the kernel (GSO, GRO), which is for flows of equal datagrams
//! between two peers; and control messages other than the local address.

mod slot;
mod sys;

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::Interest;
use tokio::net::UdpSocket;

use slot::Slot;

pub use slot::Fits;
pub(super) use sys::{forbid_fragments, report_local_address};

/// Memory for a number of datagrams of one socket.
#[derive(Debug)]
pub struct DatagramBatch {
    /// The room of all datagrams, one after the other.
    bytes: Box<[u8]>,
    /// Room of each datagram, in bytes.
    capacity: usize,
    /// Peer, local address and length of each datagram.
    slots: Box<[Slot]>,
    /// Number of datagrams.
    len: usize,
    calls: sys::Calls,
}

/// One datagram of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Payload.
    pub bytes: &'a [u8],
    /// Sender.
    pub peer: SocketAddr,
    /// The address of this machine that it was sent to; known where the socket is bound to a
    /// wildcard address ([`bind_datagram`](super::bind_datagram)).
    pub local: Option<IpAddr>,
    /// Truncated, or whole.
    pub fits: Fits,
}

/// Results of sending a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: usize,
    /// Datagrams that it refused: an unreachable peer, a datagram that is too long.
    pub refused: usize,
    /// Datagrams that found no room in the socket's buffer: lost, as the network may lose them.
    pub dropped: usize,
}

impl DatagramBatch {
    /// Room for `slots` datagrams of `capacity` bytes each; both at least 1.
    #[must_use]
    pub fn new(slots: usize, capacity: usize) -> Self {
        let (slots, capacity) = (slots.max(1), capacity.max(1));
        let nobody = Slot {
            peer: SocketAddr::from(([0, 0, 0, 0], 0)),
            local: None,
            len: 0,
            fits: Fits::Whole,
        };
        Self {
            bytes: vec![0; slots * capacity].into(),
            capacity,
            slots: vec![nobody; slots].into(),
            len: 0,
            calls: sys::Calls::new(slots),
        }
    }

    /// Memory of a batch of this shape, in bytes.
    #[must_use]
    pub fn footprint(slots: usize, capacity: usize) -> usize {
        slots * (capacity + size_of::<Slot>() + sys::BYTES_PER_SLOT)
    }

    /// Waits for datagrams, and replaces those of the batch by as many as there are and fit.
    ///
    /// # Errors
    /// Errors of `recvmmsg`; on a connected socket also those that the network reported for an earlier send.
    ///
    /// # Cancel safety
    /// Safe: a datagram that was read is in the batch.
    pub async fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.len = 0;
        socket
            .async_io(Interest::READABLE, || self.try_receive(socket))
            .await
    }

    /// Replaces the batch's datagrams without waiting: for a batch that several sockets share, whose
    /// tasks wait by [`UdpSocket::readable`].
    ///
    /// # Errors
    /// `WouldBlock` where there is none; others are errors of `recvmmsg`.
    pub fn receive_ready(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.len = 0;
        socket.try_io(Interest::READABLE, || self.try_receive(socket))
    }

    fn try_receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.len = 0;
        let slots = self.slots.len();
        let rooms = self.bytes.chunks_exact_mut(self.capacity);
        let count = self.calls.receive(socket, rooms)?;
        for index in 0..count.min(slots) {
            // A peer without an address of the Internet can't be answered.
            let Some(received) = self.calls.received(index) else {
                continue;
            };
            let at = self.len;
            if at != index {
                let from = index * self.capacity;
                let whole = from..from + received.len.min(self.capacity);
                self.bytes.copy_within(whole, at * self.capacity);
            }
            self.slots[at] = Slot {
                len: received.len.min(self.capacity),
                ..received
            };
            self.len += 1;
        }
        Ok(self.len)
    }

    /// The datagrams that are there.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        let rooms = self.bytes.chunks_exact(self.capacity);
        let filled = self.slots.iter().zip(rooms).take(self.len);
        filled.map(|(slot, room)| Datagram {
            bytes: &room[..slot.len],
            peer: slot.peer,
            local: slot.local,
            fits: slot.fits,
        })
    }

    /// Number of datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without a datagram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True without room for another datagram.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Adds a datagram for `peer`, from the address `local` of this machine where that is known:
    /// `write` fills the room that it is given and says how many bytes it wrote; 0 adds none.
    ///
    /// Returns true if one was added; without room for one, nothing is.
    pub fn push(
        &mut self,
        peer: SocketAddr,
        local: Option<IpAddr>,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(self.len) else {
            return false;
        };
        let start = self.len * self.capacity;
        let len = write(&mut self.bytes[start..start + self.capacity]);
        if len == 0 {
            return false;
        }
        *slot = Slot {
            peer,
            local,
            len: len.min(self.capacity),
            fits: Fits::Whole,
        };
        self.len += 1;
        true
    }

    /// Sends all and empties the batch. It does not wait: what the socket's buffer has no room
    /// for is dropped, as a peer that reads too slowly would have it.
    pub fn send(&mut self, socket: &UdpSocket) -> Sent {
        let mut sent = Sent::default();
        let mut at = 0;
        while at < self.len {
            let rooms = self.bytes.chunks_exact(self.capacity);
            let pending = rooms.zip(self.slots.iter()).take(self.len).skip(at);
            // Past the runtime: no task waits for room here, and the kernel knows if there is some.
            match self.calls.send(socket, pending) {
                Ok(count) => {
                    sent.datagrams += count;
                    at += count.max(1);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sent.dropped += self.len - at;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The first of those that are left is at fault; the rest is sent.
                Err(_) => {
                    sent.refused += 1;
                    at += 1;
                }
            }
        }
        self.len = 0;
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::datagram::{bind_datagram, connect_datagram};

    fn bound(ip: IpAddr) -> UdpSocket {
        let mut sockets = bind_datagram(SocketAddr::new(ip, 0), 1).expect("a port");
        let only = sockets.pop().expect("one worker");
        only.into_socket().expect("a runtime")
    }

    async fn receive_all(
        batch: &mut DatagramBatch,
        socket: &UdpSocket,
        count: usize,
    ) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while all.len() < count {
            batch.receive(socket).await.expect("readable");
            all.extend(batch.iter().map(|datagram| datagram.bytes.to_vec()));
        }
        all
    }

    #[tokio::test]
    async fn many_are_sent_and_received_in_order() {
        let server = bound(Ipv4Addr::LOCALHOST.into());
        let address = server.local_addr().expect("bound");
        let client = bound(Ipv4Addr::LOCALHOST.into());
        let mut batch = DatagramBatch::new(8, 64);
        for number in 0..8_u8 {
            assert!(batch.push(address, None, |room| {
                room[..2].copy_from_slice(&[number, number]);
                2
            }));
        }
        assert!(batch.is_full());
        assert!(!batch.push(address, None, |_| 1), "no room for a ninth");
        let sent = batch.send(&client);
        assert_eq!((sent.datagrams, sent.refused, sent.dropped), (8, 0, 0));
        assert!(batch.is_empty());
        let all = receive_all(&mut batch, &server, 8).await;
        let expected: Vec<Vec<u8>> = (0..8).map(|number| vec![number, number]).collect();
        assert_eq!(all, expected);
    }

    #[tokio::test]
    async fn an_answer_comes_from_the_address_that_was_asked() {
        for (any, asked) in [
            (
                IpAddr::from(Ipv4Addr::UNSPECIFIED),
                IpAddr::from([127, 0, 0, 7]),
            ),
            (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
        ] {
            let server = bound(any);
            let port = server.local_addr().expect("bound").port();
            let client = connect_datagram(SocketAddr::new(asked, port), 4096).expect("a route");
            client.send(b"question").await.expect("is sent");
            let mut batch = DatagramBatch::new(4, 64);
            batch.receive(&server).await.expect("readable");
            let (peer, local) = {
                let question = batch.iter().next().expect("one");
                assert_eq!(question.bytes, b"question");
                (question.peer, question.local)
            };
            assert_eq!(local, Some(asked));
            let mut answers = DatagramBatch::new(1, 64);
            answers.push(peer, local, |room| {
                room[..6].copy_from_slice(b"answer");
                6
            });
            assert_eq!(answers.send(&server).datagrams, 1);
            // Connected to `asked`: from another address it would not arrive.
            let mut buffer = [0; 64];
            let len = client.recv(&mut buffer).await.expect("readable");
            assert_eq!(&buffer[..len], b"answer");
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_said_to_be_cut() {
        let server = bound(Ipv4Addr::LOCALHOST.into());
        let client = bound(Ipv4Addr::LOCALHOST.into());
        let address = server.local_addr().expect("bound");
        for len in [16, 17] {
            client
                .send_to(&vec![7; len], address)
                .await
                .expect("is sent");
        }
        let mut batch = DatagramBatch::new(1, 16);
        for fits in [Fits::Whole, Fits::Truncated] {
            batch.receive(&server).await.expect("readable");
            let datagram = batch.iter().next().expect("one");
            assert_eq!((datagram.bytes.len(), datagram.fits), (16, fits));
        }
    }

    /// A datagram that can't be sent does not keep those behind it.
    #[tokio::test]
    async fn one_that_is_refused_does_not_hold_up_the_rest() {
        let server = bound(Ipv4Addr::LOCALHOST.into());
        let client = bound(Ipv4Addr::LOCALHOST.into());
        let address = server.local_addr().expect("bound");
        let mut batch = DatagramBatch::new(3, 64);
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        for peer in [address, nowhere, address] {
            batch.push(peer, None, |_| 5);
        }
        let sent = batch.send(&client);
        assert_eq!((sent.datagrams, sent.refused, sent.dropped), (2, 1, 0));
        assert_eq!(receive_all(&mut batch, &server, 2).await.len(), 2);
    }
}
