//! A configuration as all workers have it, with the cache that it says.
//!
//! Invariant: it is never changed; a reload makes the next one, which has the same cache unless its size
//! is another, and the same views of upstreams whose responses stay what they are. Files that change make
//! one too, with all else as it was.

mod aliases;
mod plan;
mod views;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use steppe_mem::Reservation;
use steppe_net::tls::ListenerTls;

use crate::cache::Cache;
use crate::cache::snapshot::View;
use crate::client::Client;
use crate::config::{CachePolicy, Forwarder, Upstream};
use crate::designation::Designation;
use crate::files::{HostsInForce, ListsInForce};
use crate::hosts::Records;
use crate::query_log::QueryLog;
use crate::rules::{Asked, Found, ListSet, Program};
use crate::tls::Sessions;
use crate::wire::Name;
use plan::Plans;
use views::Views;

pub(crate) use aliases::BlockedAlias;
pub(crate) use plan::{Keeps, Plan};

/// A configuration in force.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) config: Arc<Forwarder>,
    pub(crate) cache: Arc<ChargedCache>,
    pub(crate) query_log: Option<Arc<QueryLog>>,
    pub(crate) plans: Plans,
    /// By upstream.
    pub(crate) sessions: Vec<Sessions>,
    /// By listener; `None` where there is none, or the gateway has it.
    pub(crate) tls: Vec<Option<Arc<ListenerTls>>>,
    /// What clients are told of encrypted listeners.
    pub(crate) designations: Vec<Designation>,
    views: Views,
    program: Arc<Program>,
    files: Files,
    /// Where hits are counted, by list.
    list_places: Arc<[u8]>,
    /// Those by which aliases are blocked.
    alias_lists: ListSet,
}

/// What was read of files that a configuration names.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) lists: Arc<ListsInForce>,
    pub(crate) hosts: Arc<HostsInForce>,
}

/// TLS of a configuration's listeners.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    /// By listener; `None` where there is none, or the gateway has it.
    pub(crate) listeners: Vec<Option<Arc<ListenerTls>>>,
    pub(crate) designations: Vec<Designation>,
}

/// A cache whose bytes are those of the node's budget.
#[derive(Debug)]
pub(crate) struct ChargedCache {
    pub(crate) cache: Cache,
    pub(crate) bytes: usize,
    _reservation: Reservation,
}

impl ChargedCache {
    pub(crate) fn new(cache: Cache, bytes: usize, reservation: Reservation) -> Self {
        Self {
            cache,
            bytes,
            _reservation: reservation,
        }
    }
}

impl Snapshot {
    /// The snapshot that follows `last`.
    pub(crate) fn new(
        (config, sessions, tls): (Forwarder, Vec<Sessions>, Tls),
        (cache, query_log): (Arc<ChargedCache>, Option<Arc<QueryLog>>),
        (files, program): (Files, Program),
        last: Option<&Self>,
    ) -> Self {
        let mut views = last.map(|last| last.views.clone()).unwrap_or_default();
        let plans = Plans::new(&config, &mut views);
        let alias_lists = (0..).zip(&config.lists);
        let alias_lists = alias_lists.filter(|(_, list)| list.aliases);
        let alias_lists = alias_lists.map(|(number, _)| number).collect();
        Self {
            config: Arc::new(config),
            cache,
            query_log,
            plans,
            sessions,
            tls: tls.listeners,
            designations: tls.designations,
            views,
            program: Arc::new(program),
            files,
            list_places: Arc::default(),
            alias_lists,
        }
    }

    /// The same with other files, whose lists count their hits at these places.
    pub(crate) fn with_files(&self, files: Files, list_places: Vec<u8>) -> Self {
        Self {
            files,
            list_places: list_places.into(),
            ..self.clone()
        }
    }

    /// The same with what servers are spoken with, by upstream.
    pub(crate) fn with_sessions(&self, sessions: Vec<Sessions>) -> Self {
        Self {
            sessions,
            ..self.clone()
        }
    }

    /// What was read of files.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// TLS of the listener at this address.
    pub(crate) fn tls_at(&self, address: SocketAddr) -> Option<&ListenerTls> {
        let mut listeners = self.config.listeners.iter().zip(&self.tls);
        let found = listeners.find(|(listener, _)| listener.address == address);
        found.and_then(|(_, tls)| tls.as_deref())
    }

    /// Whether a peer is believed whom it connects for.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let mut proxies = self.config.trusted_proxies.iter();
        proxies.any(|network| network.contains(&peer.to_canonical()))
    }

    /// The views of all that may be kept, in an order that [`Self::origins`] tells.
    pub(crate) fn views(&self) -> Vec<View> {
        self.plans.views()
    }

    /// What [`Self::views`] are, in text: the same after a restart, as long as that has the same ones.
    pub(crate) fn origins(&self) -> String {
        let upstreams = self.config.upstreams.iter().map(Upstream::source);
        let policies = CachePolicy::distinct(&self.config.rules);
        let policies = policies.into_iter().map(CachePolicy::of_what_is_kept);
        format!(
            "{:?}",
            (upstreams.collect::<Vec<_>>(), policies.collect::<Vec<_>>())
        )
    }

    /// Whether a client is answered.
    pub(crate) fn admits(&self, client: &Client) -> bool {
        let mut networks = self.config.access.iter();
        networks.any(|network| network.contains(&client.address))
    }

    /// What rules say of a question.
    pub(crate) fn rule(&self, asked: Asked<'_>) -> Found<'_> {
        let lists = || self.files.lists.index.matches(asked.qname);
        self.program.find(&self.config.rules, asked, lists)
    }

    /// Whether rules have times.
    pub(crate) fn has_times(&self) -> bool {
        self.program.has_times()
    }

    /// Has those rules count whose time it is. It looks at time zones, which workers need not wait for.
    pub(crate) fn look_at_the_clock(&self) {
        self.program
            .set_time(&self.config.rules, jiff::Timestamp::now());
    }

    /// Where hits of these lists are counted.
    pub(crate) fn list_places(&self, lists: ListSet) -> impl Iterator<Item = u8> {
        let place = |list: u8| self.list_places.get(usize::from(list)).copied();
        lists.iter().filter_map(place)
    }

    /// The records of a name that is answered here.
    pub(crate) fn host(&self, qname: &Name) -> Option<Records<'_>> {
        self.files.hosts.table.find(qname)
    }
}
