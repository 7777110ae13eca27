//! Memory of header lists that come, reserved before they are read.
//!
//! The `h2` crate takes all frames that there are and keeps the lists until somebody asks for them: one byte of a
//! list can become a field of a hundred. While the budget has plenty, a connection is read in large pieces, and what
//! a piece can bring is free. When it is short, or a client's share is, a connection is read frame by frame, and the
//! payload of a list only when the most that the list can take is reserved. A list that came in part keeps that until
//! it is whole.

use std::task::{Context, Poll, ready};

use steppe_mem::{Lease, Reservation, Waiter};

use super::frames::List;
use crate::limits::{H2_LIST_FACTOR, H2_READ_GROWTH_BYTES, LISTS_LEAVE};

#[derive(Debug)]
pub(super) struct Gate {
    lease: Lease,
    /// The most that one list takes.
    list_bytes: usize,
    /// While so much is free, nothing is reserved before it comes.
    plenty_bytes: u64,
    room: Option<Reservation>,
    waiter: Waiter,
}

impl Gate {
    /// A gate of a connection whose lists have at most `list_bytes` (RFC 9113 §6.5.2).
    pub(super) fn new(lease: Lease, list_bytes: usize) -> Self {
        let limit = lease.account().limit_bytes();
        Self {
            plenty_bytes: limit / LISTS_LEAVE + H2_READ_GROWTH_BYTES as u64,
            lease,
            list_bytes: list_bytes * H2_LIST_FACTOR,
            room: None,
            waiter: Waiter::default(),
        }
    }

    /// The most that one list takes.
    pub(super) fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// True while the connection is to be read frame by frame. To be asked in the scope of the connection: its client
    /// may hold its share.
    pub(super) fn is_tight(&self) -> bool {
        self.lease.account().headroom_bytes() < self.plenty_bytes
            || !self.lease.has_share_for(self.list_bytes)
    }

    /// True while a list waits for memory.
    pub(super) fn is_short(&self) -> bool {
        self.waiter.is_waiting()
    }

    /// Ready when more of `list` may be read, which is under way.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, list: Option<List>) -> Poll<()> {
        if list.is_none() {
            self.waiter = Waiter::default();
            self.room = None;
            return Poll::Ready(());
        }
        if self.room.is_some() {
            self.waiter = Waiter::default();
            return Poll::Ready(());
        }
        let leaving = self.lease.account().limit_bytes() / LISTS_LEAVE;
        let wanted = (self.list_bytes, leaving);
        let room = ready!(
            self.lease
                .poll_reserve_leaving(cx, wanted, &mut self.waiter)
        );
        self.room = Some(room);
        Poll::Ready(())
    }

    /// So much of what was reserved for a list, if there is.
    pub(super) fn split_room(&mut self, bytes: usize) -> Option<Reservation> {
        let room = self.room.as_mut().filter(|room| room.bytes() >= bytes)?;
        Some(room.split(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::task::Waker;

    use steppe_mem::{Budget, ClientAddress};

    use super::*;

    const LIST: List = List { stream: 1 };

    #[test]
    fn a_connection_of_a_client_at_its_share_is_read_frame_by_frame() {
        let budget = Budget::new(256 << 20);
        let clients = budget.clients();
        clients.set_share(Some(16 << 20));
        let _others = budget.root().lease().try_reserve(140 << 20).expect("room");
        let lease = budget.root().client_lease();
        let gate = Gate::new(lease.clone(), 20_000);
        let connection = clients.open(ClientAddress::Shared(IpAddr::from([192, 0, 2, 1])), "http");
        let is_tight = || connection.holder().within(|| gate.is_tight());
        assert!(!is_tight());
        let taken = connection.holder().within(|| lease.try_reserve(12 << 20));
        assert!(is_tight(), "it holds three quarters of its share");
        connection.holder().within(|| drop(taken));
        assert!(!is_tight());
    }

    #[test]
    fn a_list_is_read_when_there_is_room() {
        let budget = Budget::new(64 << 20);
        let lease = budget.root().lease();
        let mut gate = Gate::new(lease.clone(), 20_000);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!gate.is_tight() && gate.poll(&mut cx, Some(LIST)).is_ready());
        let reserved = || budget.root().reserved_bytes();
        assert_eq!(reserved(), (20_000 * H2_LIST_FACTOR) as u64);
        assert!(gate.poll(&mut cx, None).is_ready());
        assert_eq!(reserved(), 0);
        // An eighth is left to streams that have begun.
        let others = lease.try_reserve(57 << 20).expect("room");
        assert!(gate.is_tight() && gate.poll(&mut cx, Some(LIST)).is_pending());
        assert!(gate.is_short());
        assert!(gate.poll(&mut cx, None).is_ready() && !gate.is_short());
        drop(others);
        assert!(gate.poll(&mut cx, Some(LIST)).is_ready());
    }
}
