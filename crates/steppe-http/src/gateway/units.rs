//! The parts of a gateway that have a name. Each makes its next generation of the last, so that what a configuration
//! keeps goes on with its counts, its account and its state.

use std::sync::Arc;

use steppe_mem::Account;
use steppe_net::ListenAddress;
use steppe_net::accept::{SessionCount, SessionLimit};
use steppe_net::tls::ListenerTls;

use crate::config;
use crate::socket_buffers::SocketBuffers;
use crate::upstream::UpstreamState;

/// A listener of a snapshot.
pub(super) struct ListenerUnit {
    address: ListenAddress,
    /// `limits.connections`.
    sessions_max: usize,
    sessions: Arc<SessionCount>,
    /// `None`: the listener has no TLS.
    pub(super) tls: Option<Arc<ListenerTls>>,
    pub(super) account: Account,
}

/// A route of a snapshot.
pub(super) struct RouteUnit {
    name: String,
    budget: Option<u64>,
    pub(super) account: Account,
}

/// An upstream of a snapshot.
pub(super) struct UpstreamUnit {
    name: String,
    /// `None` where responses are made here.
    pub(super) state: Option<Arc<UpstreamState>>,
    pub(super) account: Account,
}

impl ListenerUnit {
    /// The listener that `config` describes, with the account and the sessions of the one at its address in `last`.
    pub(super) fn next(
        config: &config::Listener,
        last: Option<&[Self]>,
        tls: Option<Arc<ListenerTls>>,
        new: NewParts<'_>,
    ) -> Self {
        let address = config.address.clone();
        let known = last.into_iter().flatten().find(|last| last.is_at(&address));
        let (sessions, account) = match known {
            Some(last) => (Arc::clone(&last.sessions), last.account.clone()),
            None => (
                Arc::new(new.buffers.listener()),
                new.node.child(format!("listener {address}"), None),
            ),
        };
        Self {
            sessions_max: config.limits.connections,
            address,
            sessions,
            tls,
            account,
        }
    }

    /// True for the listener at `address`.
    pub(super) fn is_at(&self, address: &ListenAddress) -> bool {
        self.address == *address
    }

    /// The most connections of the listener, and those that it has.
    pub(super) fn session_limit(&self) -> SessionLimit {
        SessionLimit {
            count: Arc::clone(&self.sessions),
            max: self.sessions_max,
        }
    }
}

impl RouteUnit {
    /// The route that `config` describes, with the account of the one of its name and budget in `last`.
    pub(super) fn next(config: &config::Route, last: Option<&[Self]>, new: NewParts<'_>) -> Self {
        let config::Route { name, budget, .. } = config;
        let mut known = last.into_iter().flatten();
        let known = known.find(|last| last.name == *name && last.budget == *budget);
        let account = known.map(|last| last.account.clone());
        Self {
            account: account.unwrap_or_else(|| new.node.child(format!("route {name}"), *budget)),
            name: name.clone(),
            budget: *budget,
        }
    }
}

impl UpstreamUnit {
    /// The upstream that `config` describes, with the account of the one of its name in `last`.
    pub(super) fn next(
        config: &config::Upstream,
        last: Option<&[Self]>,
        state: Option<Arc<UpstreamState>>,
        new: NewParts<'_>,
    ) -> Self {
        let name = &config.name;
        let known = last.into_iter().flatten().find(|last| last.name == *name);
        let account = known.map(|last| last.account.clone());
        Self {
            account: account.unwrap_or_else(|| new.node.child(format!("upstream {name}"), None)),
            name: name.clone(),
            state,
        }
    }
}

/// Everything that a unit without a last generation is made of.
#[derive(Clone, Copy)]
pub(super) struct NewParts<'a> {
    pub(super) node: &'a Account,
    pub(super) buffers: &'a SocketBuffers,
}
