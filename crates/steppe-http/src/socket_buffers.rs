//! Sizes the kernel's socket buffers from the budget.
//!
//! A container's memory limit includes socket buffers, and the kernel's autotuning
//! grows each to megabytes. The more connections are open, the smaller the buffers of
//! a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_net::Transport;
use steppe_net::accept::SessionCount;

use crate::limits::{SOCKET_BUFFER_BYTES_MIN, SOCKET_BUFFER_BYTES_TUNED, SOCKET_BUFFER_SHARE};

/// The sizes of the socket buffers of one gateway.
#[derive(Debug)]
pub struct SocketBuffers {
    budget_bytes: u64,
    connections: Arc<AtomicUsize>,
}

impl SocketBuffers {
    /// Sizes for a budget, with no connection yet.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            connections: Arc::default(),
        }
    }

    /// Counts the connections of a listener, among those of all.
    #[must_use]
    pub fn listener(&self) -> SessionCount {
        SessionCount::adding_to(Arc::clone(&self.connections))
    }

    /// Connections of clients that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Sets the buffer sizes of a new connection, of a client or to a server.
    pub fn fit(&self, transport: &Transport) {
        if let Some(bytes) = self.bytes_each()
            && let Err(error) = transport.set_buffer_bytes(bytes)
        {
            tracing::debug!(%error, "cannot set the buffer sizes of a socket");
        }
    }

    /// The size for each; `None` while the kernel's autotuning fits the budget.
    fn bytes_each(&self) -> Option<usize> {
        let connections = self.connections().next_power_of_two();
        let share = self.budget_bytes / SOCKET_BUFFER_SHARE / connections as u64;
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        (share < SOCKET_BUFFER_BYTES_TUNED).then_some(share.max(SOCKET_BUFFER_BYTES_MIN))
    }
}

#[cfg(test)]
mod tests {
    use steppe_net::accept::SessionLimit;

    use super::*;

    #[test]
    fn a_crowd_gets_less_each_and_never_nothing() {
        let buffers = SocketBuffers::new(64 << 20);
        let limit = SessionLimit {
            count: Arc::new(buffers.listener()),
            max: 3000,
        };
        let (mut seen, mut open) = (Vec::new(), Vec::new());
        for count in 1..=3000 {
            open.push(limit.permit());
            let bytes = buffers.bytes_each();
            if seen.last() != Some(&bytes) {
                seen.push(bytes);
                assert!(
                    count == 1 || (count - 1usize).is_power_of_two(),
                    "changes at {count}"
                );
            }
        }
        let kib = |kib: usize| Some(kib << 10);
        assert_eq!(seen, [None, kib(128), kib(64), kib(32), kib(16), kib(8)]);
        drop(open);
        assert_eq!(buffers.bytes_each(), None);
    }
}
