//! Clients that wait for the answer of a question in flight.
//!
//! Invariant: a place is given up when its question ends, and only then, so that a number refers to one
//! client. The place of a client that was answered earlier, or has disconnected, stays taken until then.

use std::net::{IpAddr, SocketAddr};

use crate::answer::AnswerName;
use crate::config::Protocol;
use crate::limits::CLIENT_QUERY_BYTES_MAX;

const NONE: u32 = u32::MAX;

/// The destination of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// A datagram from the listener of this number.
    Datagram {
        listener: u32,
        peer: SocketAddr,
        local: Option<IpAddr>,
    },
    /// The connection of this number.
    Stream { connection: u64, protocol: Protocol },
    /// The query of this number from within the process.
    InProcess { asker: u64 },
}

/// Clients that wait.
#[derive(Debug)]
pub(super) struct Clients {
    slots: Box<[Slot]>,
    /// Queries of all slots, one after the other. Zeros at first, whose pages are not resident.
    queries: Box<[u8]>,
    free: u32,
    waiting: usize,
}

#[derive(Debug, Clone)]
struct Slot {
    generation: u32,
    next_free: u32,
    query_len: u16,
    destination: Option<Destination>,
    name: AnswerName,
}

/// A client whose question has ended.
#[derive(Debug)]
pub(super) struct Waited<'a> {
    pub(super) destination: Destination,
    /// Name that the answer is for.
    pub(super) name: AnswerName,
    /// Query of the client.
    pub(super) query: &'a [u8],
}

impl Destination {
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Datagram { .. } => Protocol::Udp,
            Self::Stream { protocol, .. } => *protocol,
            Self::InProcess { .. } => Protocol::Https,
        }
    }
}

impl Clients {
    /// Bytes of a client.
    pub(super) const BYTES_EACH: usize = size_of::<Slot>() + CLIENT_QUERY_BYTES_MAX;

    pub(super) fn new(count: u32) -> Self {
        let slot = |index| Slot {
            generation: 0,
            next_free: if index + 1 < count { index + 1 } else { NONE },
            query_len: 0,
            destination: None,
            name: AnswerName::Asked,
        };
        Self {
            slots: (0..count).map(slot).collect(),
            queries: vec![0; count as usize * CLIENT_QUERY_BYTES_MAX].into_boxed_slice(),
            free: 0,
            waiting: 0,
        }
    }

    /// Lets a client wait, and returns its number. `None`: there is no room, or its query is too long.
    pub(super) fn park(
        &mut self,
        query: &[u8],
        destination: Destination,
        name: AnswerName,
    ) -> Option<u64> {
        let index = self.free;
        let slot = self.slots.get_mut(index as usize)?;
        let len = u16::try_from(query.len()).ok()?;
        let start = index as usize * CLIENT_QUERY_BYTES_MAX;
        let room = &mut self.queries[start..start + CLIENT_QUERY_BYTES_MAX];
        room.get_mut(..query.len())?.copy_from_slice(query);
        slot.query_len = len;
        slot.destination = Some(destination);
        slot.name = name;
        self.free = slot.next_free;
        self.waiting += 1;
        Some(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// The client of this number. `None`: its place was given up.
    pub(super) fn waited(&self, token: u64) -> Option<Waited<'_>> {
        let index = Self::index(token);
        let slot = self.slots.get(index)?;
        let start = index * CLIENT_QUERY_BYTES_MAX;
        (u64::from(slot.generation) == token >> 32)
            .then(|| {
                Some(Waited {
                    destination: slot.destination?,
                    name: slot.name,
                    query: &self.queries[start..start + usize::from(slot.query_len)],
                })
            })
            .flatten()
    }

    /// Gives up the place of this number.
    pub(super) fn leave(&mut self, token: u64) {
        let index = Self::index(token);
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if u64::from(slot.generation) != token >> 32 {
            return;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.destination = None;
        slot.next_free = self.free;
        self.free = u32::try_from(index).unwrap_or(NONE);
        self.waiting -= 1;
    }

    /// The number of clients that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// True if clients of the UDP listener of this number wait.
    pub(super) fn wait_for(&self, number: u32) -> bool {
        let mut waiting = self.slots.iter().filter_map(|slot| slot.destination);
        waiting.any(|destination| {
            matches!(destination, Destination::Datagram { listener, .. } if listener == number)
        })
    }

    /// The place of a number.
    pub(super) fn index(token: u64) -> usize {
        usize::try_from(token & u64::from(u32::MAX)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(connection: u64) -> Destination {
        Destination::Stream {
            connection,
            protocol: Protocol::Tcp,
        }
    }

    #[test]
    fn a_place_that_was_given_up_is_no_longer_known_by_its_number() {
        let mut clients = Clients::new(2);
        let first = clients
            .park(b"first", to(1), AnswerName::Asked)
            .expect("room");
        let second = clients
            .park(b"second", to(2), AnswerName::Asked)
            .expect("room");
        assert_eq!(clients.park(b"third", to(3), AnswerName::Asked), None);
        assert_eq!(clients.waited(second).expect("it waits").query, b"second");
        clients.leave(first);
        clients.leave(first);
        assert_eq!(clients.waiting(), 1);
        let third = clients
            .park(b"third", to(3), AnswerName::Asked)
            .expect("room");
        assert!(clients.waited(first).is_none());
        let waited = clients.waited(third).expect("it waits");
        assert_eq!((waited.query, waited.destination), (&b"third"[..], to(3)));
    }

    #[test]
    fn a_query_longer_than_its_place_does_not_wait() {
        let mut clients = Clients::new(1);
        let long = [0; CLIENT_QUERY_BYTES_MAX + 1];
        assert_eq!(clients.park(&long, to(1), AnswerName::Asked), None);
        assert!(clients.park(&long[1..], to(1), AnswerName::Asked).is_some());
    }
}
