//! Memory of header lists that come, reserved before they are read.
//!
//! The `h2` crate takes all frames that there are and keeps the lists until somebody asks for them: one byte of a
//! list can become a field of a hundred. While the budget has plenty, a connection is read in large pieces, and what
//! a piece can bring is free. When it is short, or a client's share is, a connection is read frame by frame, and the
//! payload of a list only when the most that the list can take is reserved. A list that came in part keeps that until
//! it is whole.
//!
//! Toward clients, a list that opens a stream is read only when the connection's task has taken the last one, and none
//! while a stream waits for memory. Other frames are read on up to there: they free memory.

use std::task::{Context, Poll, ready};

use steppe_mem::{Lease, Reservation, Waiter};

use super::frames::List;
use crate::limits::{
    H2_LIST_FACTOR, H2_READ_GROWTH_BYTES, H2_STREAM_ROOM_BYTES, LISTS_LEAVE, STREAMS_LEAVE,
};

/// Which header lists of a client may open streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admits {
    /// As many streams as there is memory for.
    Reserved,
    /// None: a stream waits for memory.
    None,
    /// Any, one at a time: its stream is refused where there is no memory in the end either.
    ToRefuse,
}

#[derive(Debug)]
pub(super) struct Gate {
    lease: Lease,
    /// The most that one list takes.
    list_bytes: usize,
    /// While so much is free, nothing is reserved before it comes.
    plenty_bytes: u64,
    admits: Admits,
    /// `None`: of a server, whose lists open no stream.
    streams_max: Option<usize>,
    room: Option<Reservation>,
    waiter: Waiter,
    /// A head has come that the task has not asked for.
    is_given: bool,
}

impl Gate {
    /// A gate of a connection whose lists have at most `list_bytes` (RFC 9113 §6.5.2), and whose
    /// peer opens `streams_max`
    /// streams; `None`: the peer is a server.
    pub(super) fn new(lease: Lease, list_bytes: usize, streams_max: Option<usize>) -> Self {
        let limit = lease.account().limit_bytes();
        let begun = streams_max.unwrap_or(0) * H2_STREAM_ROOM_BYTES;
        Self {
            plenty_bytes: limit / STREAMS_LEAVE + (begun + H2_READ_GROWTH_BYTES) as u64,
            lease,
            list_bytes: list_bytes * H2_LIST_FACTOR,
            admits: Admits::Reserved,
            streams_max,
            room: None,
            waiter: Waiter::default(),
            is_given: false,
        }
    }

    pub(super) fn set_admits(&mut self, admits: Admits) {
        self.admits = admits;
    }

    /// The most that one list takes.
    pub(super) fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// True while the connection is to be read frame by frame. To be asked in the scope of the connection: its client
    /// may hold its share.
    pub(super) fn is_tight(&self) -> bool {
        self.admits != Admits::Reserved
            || self.lease.account().headroom_bytes() < self.plenty_bytes
            || !self.lease.has_share_for(self.list_bytes)
    }

    /// True while a list waits for memory.
    pub(super) fn is_short(&self) -> bool {
        self.waiter.is_waiting()
    }

    /// True while the connection's task has a head to take before another one is read.
    pub(super) fn is_given(&self) -> bool {
        self.is_given
    }

    /// Takes the reservation of the head that came; the next one may be read.
    pub(super) fn take_given(&mut self) -> Option<Reservation> {
        std::mem::take(&mut self.is_given)
            .then(|| self.room.take())
            .flatten()
    }

    /// Ready when more of `list` may be read, which is under way.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, list: Option<List>) -> Poll<()> {
        let Some(list) = list else {
            self.waiter = Waiter::default();
            if !self.is_given {
                self.room = None;
            }
            return Poll::Ready(());
        };
        let is_head = self.is_head(list);
        if is_head && (self.is_given || self.admits == Admits::None) {
            return Poll::Pending;
        }
        if self.room.is_some() || (is_head && self.admits == Admits::ToRefuse) {
            self.waiter = Waiter::default();
            return Poll::Ready(());
        }
        let part = if is_head { STREAMS_LEAVE } else { LISTS_LEAVE };
        let leaving = self.lease.account().limit_bytes() / part;
        let wanted = (self.list_bytes, leaving);
        let room = ready!(
            self.lease
                .poll_reserve_leaving(cx, wanted, &mut self.waiter)
        );
        self.room = Some(room);
        Poll::Ready(())
    }

    /// A head has come to its end: the connection's task is to take it.
    pub(super) fn give(&mut self) {
        self.is_given = true;
    }

    /// So much of what was reserved for a list, if there is.
    pub(super) fn split_room(&mut self, bytes: usize) -> Option<Reservation> {
        let room = self.room.as_mut().filter(|room| room.bytes() >= bytes)?;
        Some(room.split(bytes))
    }

    /// True for a list that opens a stream.
    pub(super) fn is_head(&self, list: List) -> bool {
        list.is_opening && self.streams_max.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::task::Waker;

    use steppe_mem::{Budget, ClientAddress};

    use super::*;

    const HEAD: List = List {
        stream: 1,
        is_opening: true,
    };
    const TRAILERS: List = List {
        is_opening: false,
        ..HEAD
    };

    #[test]
    fn a_connection_of_a_client_at_its_share_is_read_frame_by_frame() {
        let budget = Budget::new(256 << 20);
        let clients = budget.clients();
        clients.set_share(Some(16 << 20));
        let _others = budget.root().lease().try_reserve(140 << 20).expect("room");
        let lease = budget.root().client_lease();
        let gate = Gate::new(lease.clone(), 20_000, Some(100));
        let connection = clients.open(ClientAddress::Shared(IpAddr::from([192, 0, 2, 1])), "http");
        let is_tight = || connection.holder().within(|| gate.is_tight());
        assert!(!is_tight());
        let taken = connection.holder().within(|| lease.try_reserve(12 << 20));
        assert!(is_tight(), "it holds three quarters of its share");
        connection.holder().within(|| drop(taken));
        assert!(!is_tight());
    }

    #[test]
    fn a_head_is_read_when_the_last_was_taken_and_there_is_room() {
        let budget = Budget::new(64 << 20);
        let lease = budget.root().lease();
        let mut gate = Gate::new(lease.clone(), 20_000, Some(100));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!gate.is_tight() && gate.poll(&mut cx, Some(HEAD)).is_ready());
        let reserved = || budget.root().reserved_bytes();
        assert_eq!(reserved(), (20_000 * H2_LIST_FACTOR) as u64);
        gate.give();
        assert!(gate.poll(&mut cx, Some(HEAD)).is_pending() && !gate.is_short());
        // Its reservation is kept for the task.
        assert!(gate.poll(&mut cx, None).is_ready() && reserved() > 0);
        drop(gate.take_given());
        assert_eq!(reserved(), 0);
        assert!(gate.poll(&mut cx, Some(TRAILERS)).is_ready());
        assert!(!gate.is_given() && gate.poll(&mut cx, None).is_ready());
        assert_eq!(reserved(), 0);
        // An eighth is left to streams that have begun.
        let others = lease.try_reserve(57 << 20).expect("room");
        assert!(gate.is_tight() && gate.poll(&mut cx, Some(HEAD)).is_pending());
        assert!(gate.is_short() && gate.poll(&mut cx, Some(TRAILERS)).is_pending());
        assert!(gate.poll(&mut cx, None).is_ready() && !gate.is_short());
        gate.set_admits(Admits::None);
        drop(others);
        assert!(gate.is_tight() && gate.poll(&mut cx, Some(HEAD)).is_pending());
        gate.set_admits(Admits::ToRefuse);
        assert!(gate.poll(&mut cx, Some(HEAD)).is_ready());
        assert_eq!(reserved(), 0);
    }
}
