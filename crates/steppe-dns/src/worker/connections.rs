//! Clients' connections of a worker, by number.
//!
//! Invariant: there are [`CONNECTIONS_PER_WORKER_MAX`] at most. If there is no room for another, one without
//! questions that wait is closed: the one that has asked nothing for the longest time, as approximated by a
//! queue with second chances (CLOCK), which costs a query nothing.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::connection::{Connection, Stage};
use crate::limits::CONNECTIONS_PER_WORKER_MAX;

/// The client connections of a worker.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: HashMap<u64, Rc<Connection>>,
    /// Each open connection once, with its count of questions when it was last looked at; and some that have
    /// ended.
    order: VecDeque<(u64, u32)>,
    next: u64,
}

/// The error that there is no room for a connection: all others wait for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The effect of an added connection on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// There was room.
    Beside,
    /// An idle connection was closed to make room.
    InPlace,
}

impl Connections {
    /// Adds a connection, and returns its number.
    pub(super) fn insert(&mut self, connection: &Rc<Connection>) -> Result<(u64, Added), NoRoom> {
        self.insert_within(connection, CONNECTIONS_PER_WORKER_MAX)
    }

    fn insert_within(
        &mut self,
        connection: &Rc<Connection>,
        count_max: usize,
    ) -> Result<(u64, Added), NoRoom> {
        let mut added = Added::Beside;
        if self.open.len() >= count_max {
            self.close_oldest_idle().ok_or(NoRoom)?;
            added = Added::InPlace;
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number, Rc::clone(connection));
        self.order.push_back((number, connection.asked.get()));
        Ok((number, added))
    }

    pub(super) fn get(&self, number: u64) -> Option<&Rc<Connection>> {
        self.open.get(&number)
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.open.remove(&number);
        let open = &self.open;
        // Connections that have ended are removed from the queue once they are most of it.
        if self.order.len() > 2 * open.len() + 64 {
            self.order.retain(|(number, _)| open.contains_key(number));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The number of open connections.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.open.len()
    }

    fn close_oldest_idle(&mut self) -> Option<()> {
        for _ in 0..self.order.len() {
            let (number, asked) = self.order.pop_front()?;
            let Some(connection) = self.open.get(&number) else {
                continue;
            };
            let now_asked = connection.asked.get();
            if connection.waiting.get() > 0 || now_asked != asked {
                self.order.push_back((number, now_asked));
                continue;
            }
            connection.stage.set(Stage::Ends);
            connection.changed.notify_waiters();
            self.open.remove(&number);
            return Some(());
        }
        // All have asked since they were last looked at: the first one without questions that wait is closed.
        let is_idle = |(number, _): &(u64, u32)| {
            let connection = self.open.get(number);
            connection.is_some_and(|connection| connection.waiting.get() == 0)
        };
        let at = self.order.iter().position(is_idle)?;
        let (number, _) = self.order.remove(at)?;
        let connection = self.open.remove(&number)?;
        connection.stage.set(Stage::Ends);
        connection.changed.notify_waiters();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use steppe_mem::Budget;

    use super::*;
    use crate::client::Client;
    use crate::config::Protocol;
    use crate::worker::connection::Peer;

    fn connection() -> Rc<Connection> {
        let charge = Budget::new(1 << 20).root().lease().try_reserve(1);
        let peer = Peer {
            client: Client::at(Ipv4Addr::LOCALHOST.into()),
            protocol: Protocol::Tcp,
            local: None,
        };
        Rc::new(Connection::new(peer, charge.expect("room")))
    }

    fn ask(connection: &Connection) {
        connection.asked.set(connection.asked.get() + 1);
    }

    #[test]
    fn the_one_that_was_idle_for_the_longest_time_gives_way() {
        let mut connections = Connections::default();
        let all = [(); 3].map(|()| connection());
        for one in &all {
            let added = connections.insert_within(one, 3);
            assert_eq!(added.map(|(_, added)| added), Ok(Added::Beside));
        }
        ask(&all[0]);
        all[1].waiting.set(1);
        let added = connections.insert_within(&connection(), 3);
        assert_eq!(added, Ok((3, Added::InPlace)));
        assert_eq!(connections.len(), 3);
        let stages = all.each_ref().map(|one| one.stage.get());
        assert_eq!(stages, [Stage::Open, Stage::Open, Stage::Ends]);
        // A connection that has asked since is kept rather than one that came later and asked nothing.
        ask(&all[0]);
        let last = connection();
        let added = connections.insert_within(&last, 3).expect("one is idle");
        assert!(connections.get(0).is_some() && connections.get(3).is_none());
        connections.remove(added.0);
        assert_eq!(connections.len(), 2);
    }

    #[test]
    fn where_all_wait_there_is_no_room() {
        let mut connections = Connections::default();
        let all = [(); 2].map(|()| connection());
        for one in &all {
            one.waiting.set(1);
            connections.insert_within(one, 2).expect("room");
        }
        assert_eq!(connections.insert_within(&connection(), 2), Err(NoRoom));
        all[1].waiting.set(0);
        ask(&all[1]);
        assert!(connections.insert_within(&connection(), 2).is_ok());
        assert_eq!(all[1].stage.get(), Stage::Ends);
    }

    #[test]
    fn connections_that_ended_leave_no_trace() {
        let mut connections = Connections::default();
        for _ in 0..1000 {
            let (number, _) = connections.insert_within(&connection(), 3).expect("room");
            connections.remove(number);
        }
        assert!(connections.is_empty() && connections.order.len() < 70);
    }
}
