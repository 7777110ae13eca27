//! Questions whose connection to a server failed: they wait for the next connection, which follows within a moment.
//!
//! A server that resets a connection, or restarts, has not failed the questions that were about to be sent to it.
//! Other servers are asked meanwhile.

use std::time::Instant;

use super::exchanges::{Exchange, Purpose};
use crate::limits::ATTEMPTS_PER_EXCHANGE_MAX;

impl Exchange {
    /// Lets the question wait for the next connection to a server whose last one failed. False: the server is gone, or
    /// is not to be asked again.
    pub(super) fn awaits_connection(&mut self, server: usize, now: Instant) -> bool {
        let may_be_asked = (self.failed | self.exhausted) & (1 << server) == 0
            && self.sent < ATTEMPTS_PER_EXCHANGE_MAX
            && self.purpose != Purpose::Probe;
        let awaits = may_be_asked && self.upstream.servers[server].reconnects_soon(now);
        if awaits {
            self.unreached |= 1 << server;
        }
        awaits
    }

    /// Servers whose next connection may not be tried yet.
    pub(super) fn not_yet(&self, now: Instant) -> u64 {
        let servers = self.unreached_servers();
        let not_yet = servers.filter(|(_, at)| at.is_some_and(|at| now < at));
        not_yet.fold(0, |set, (bit, _)| set | bit)
    }

    /// The first time at which a connection may be tried that the question waits for. `None`: it waits for none.
    pub(super) fn connects_at(&self, now: Instant) -> Option<Instant> {
        // A server that may not be asked again is not waited for.
        let gone = match self.sent < ATTEMPTS_PER_EXCHANGE_MAX {
            true => self.failed | self.exhausted,
            false => u64::MAX,
        };
        let servers = self.unreached_servers();
        let awaited = servers.filter(|(bit, _)| gone & bit == 0);
        awaited.map(|(_, at)| at.unwrap_or(now)).min()
    }

    fn unreached_servers(&self) -> impl Iterator<Item = (u64, Option<Instant>)> {
        let servers = self.upstream.servers.iter().enumerate();
        let servers = servers.map(|(index, server)| (1_u64 << index, server));
        let unreached = servers.filter(|(bit, _)| self.unreached & bit != 0);
        unreached.map(|(bit, server)| (bit, server.connect_after()))
    }
}
