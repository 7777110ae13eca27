//! A configuration in force, as all workers share it, with its cache.
//!
//! Invariant: a snapshot is immutable. A reload creates the next one, with the same cache unless its size
//! differs, and with the same views of upstreams whose responses stay valid. Changed files create one too,
//! with everything else unchanged.

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
    /// TLS sessions of servers, by upstream.
    pub(crate) sessions: Vec<Sessions>,
    /// TLS by listener; `None` without TLS, or if the gateway serves it.
    pub(crate) tls: Vec<Option<Arc<ListenerTls>>>,
    /// Records of `_dns.resolver.arpa`: the encrypted listeners, for discovery (RFC 9462).
    pub(crate) designations: Vec<Designation>,
    views: Views,
    program: Arc<Program>,
    files: Files,
    /// Index of the hit counter, by list.
    list_places: Arc<[u8]>,
    /// Lists that block the targets of aliases.
    alias_lists: ListSet,
}

/// The loaded files of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) lists: Arc<ListsInForce>,
    pub(crate) hosts: Arc<HostsInForce>,
}

/// TLS of a configuration's listeners.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    /// TLS by listener; `None` without TLS, or if the gateway serves it.
    pub(crate) listeners: Vec<Option<Arc<ListenerTls>>>,
    pub(crate) designations: Vec<Designation>,
}

/// A cache with the reservation of its memory.
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
    /// The snapshot of a new configuration, after `last`.
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

    /// This snapshot with other files, whose lists count hits in these counters.
    pub(crate) fn with_files(&self, files: Files, list_places: Vec<u8>) -> Self {
        Self {
            files,
            list_places: list_places.into(),
            ..self.clone()
        }
    }

    /// This snapshot with other TLS sessions, by upstream.
    pub(crate) fn with_sessions(&self, sessions: Vec<Sessions>) -> Self {
        Self {
            sessions,
            ..self.clone()
        }
    }

    /// The loaded files.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// TLS of the listener at this address.
    pub(crate) fn tls_at(&self, address: SocketAddr) -> Option<&ListenerTls> {
        let mut listeners = self.config.listeners.iter().zip(&self.tls);
        let found = listeners.find(|(listener, _)| listener.address == address);
        found.and_then(|(_, tls)| tls.as_deref())
    }

    /// True if the peer is a trusted proxy: the client in its PROXY header is used.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let mut proxies = self.config.trusted_proxies.iter();
        proxies.any(|network| network.contains(&peer.to_canonical()))
    }

    /// The views of all responses that may be cached, in the order of [`Self::origins`].
    pub(crate) fn views(&self) -> Vec<View> {
        self.plans.views()
    }

    /// The origins of [`Self::views`] in text: equal after a restart with the same origins.
    pub(crate) fn origins(&self) -> String {
        let upstreams = self.config.upstreams.iter().map(Upstream::source);
        let policies = CachePolicy::distinct(&self.config.rules);
        let policies = policies.into_iter().map(CachePolicy::of_what_is_kept);
        format!(
            "{:?}",
            (upstreams.collect::<Vec<_>>(), policies.collect::<Vec<_>>())
        )
    }

    /// True if the client may send queries (`dns.access`).
    pub(crate) fn admits(&self, client: &Client) -> bool {
        let mut networks = self.config.access.iter();
        networks.any(|network| network.contains(&client.address))
    }

    /// The result of the rules for a question.
    pub(crate) fn rule(&self, asked: Asked<'_>) -> Found<'_> {
        let lists = || self.files.lists.index.matches(asked.qname);
        self.program.find(&self.config.rules, asked, lists)
    }

    /// True if any rule has a schedule.
    pub(crate) fn has_times(&self) -> bool {
        self.program.has_times()
    }

    /// Updates the rules that their schedules put in force. Workers need not wait for the reading of time zones.
    pub(crate) fn look_at_the_clock(&self) {
        self.program
            .set_time(&self.config.rules, jiff::Timestamp::now());
    }

    /// Indexes of the hit counters of these lists.
    pub(crate) fn list_places(&self, lists: ListSet) -> impl Iterator<Item = u8> {
        let place = |list: u8| self.list_places.get(usize::from(list)).copied();
        lists.iter().filter_map(place)
    }

    /// The local records of a name.
    pub(crate) fn host(&self, qname: &Name) -> Option<Records<'_>> {
        self.files.hosts.table.find(qname)
    }
}
