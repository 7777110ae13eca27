//! The budget of a node: its tree of accounts, and the clients that share it.

use crate::account::{Account, AccountReport};
use crate::clients::Clients;

/// The account of the whole node, the root of the tree, and the clients that share it. Clones name the same budget.
#[derive(Debug, Clone)]
pub struct Budget {
    root: Account,
    clients: Clients,
}

impl Budget {
    /// A budget of `limit_bytes` for the whole node.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            root: Account::root_of(limit_bytes),
            clients: Clients::default(),
        }
    }

    /// The root account.
    #[must_use]
    pub fn root(&self) -> &Account {
        &self.root
    }

    /// The clients, and the bytes that each holds.
    #[must_use]
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// A snapshot of the whole tree, for status pages and logs.
    #[must_use]
    pub fn report(&self) -> AccountReport {
        self.root.report()
    }

    /// Measures the evictable bytes, which count as free for the share of a client; to be called several times a
    /// second.
    pub fn measure_evictable(&self) {
        self.root.measure_evictable();
    }

    /// Bytes by which forced charges exceed the limit.
    #[must_use]
    pub fn debt_bytes(&self) -> u64 {
        self.root.debt_bytes()
    }

    /// Wakes tasks of clients that hold less than their share again; to be called every few milliseconds. Returns
    /// true while any wait.
    #[must_use]
    pub fn wake_held_back(&self) -> bool {
        if self.root.is_half_free() {
            self.clients.wake_all()
        } else {
            self.clients.wake_within_share()
        }
    }
}
