//! A configuration as all workers have it, with the cache that it says.
//!
//! Invariant: it is never changed; a reload makes the next one, which has the same cache unless its size
//! is another, and the same views of upstreams that stay as they are.

use std::sync::Arc;
use std::time::Duration;

use steppe_mem::Reservation;

use crate::cache::{Cache, ServePolicy};
use crate::client::Client;
use crate::config::{Forwarder, Rule, Stale, Upstream};
use crate::wire::{Name, Rtype, TtlPolicy};

/// A configuration in force.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) config: Forwarder,
    pub(crate) cache: Arc<ChargedCache>,
    /// By upstream.
    pub(crate) plans: Vec<Plan>,
    views: Views,
}

/// A cache whose bytes are those of the node's budget.
#[derive(Debug)]
pub(crate) struct ChargedCache {
    pub(crate) cache: Cache,
    pub(crate) bytes: usize,
    _reservation: Reservation,
}

/// What an upstream's responses are kept and served by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Responses of two upstreams are never mixed: each has a view of its own.
    pub(crate) view: u16,
    pub(crate) serve: ServePolicy,
    pub(crate) ttl: TtlPolicy,
}

/// Which upstream has had which view: what an upstream said is not another one's answer, however
/// often they change places.
#[derive(Debug, Clone, Default)]
struct Views {
    known: Vec<(Upstream, u16)>,
    next: u16,
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
    pub(crate) fn new(config: Forwarder, cache: Arc<ChargedCache>, last: Option<&Self>) -> Self {
        let mut views = last.map(|last| last.views.clone()).unwrap_or_default();
        let numbers = views.renew(&config.upstreams);
        let plans = config.upstreams.iter().zip(numbers);
        let plans = plans
            .map(|(upstream, view)| Plan::new(&config, upstream, view))
            .collect();
        Self {
            config,
            cache,
            plans,
            views,
        }
    }

    /// Whether a client is answered.
    pub(crate) fn admits(&self, client: &Client) -> bool {
        let mut networks = self.config.access.iter();
        networks.any(|network| network.contains(&client.address))
    }

    /// The first rule that a query matches.
    pub(crate) fn rule(&self, client: &Client, qname: &Name, qtype: Rtype) -> Option<&Rule> {
        let mut rules = self.config.rules.iter();
        rules.find(|rule| rule.matches(client, qname, qtype))
    }
}

impl Rule {
    fn matches(&self, client: &Client, qname: &Name, qtype: Rtype) -> bool {
        let is_client = self.clients.is_empty()
            || self
                .clients
                .iter()
                .any(|network| network.contains(&client.address));
        let is_type = self.types.is_empty() || self.types.contains(&qtype);
        let is_name = !self.is_by_name()
            || self.names.contains(qname)
            || self
                .suffixes
                .iter()
                .any(|suffix| qname.is_at_or_below(suffix));
        is_client && is_type && is_name
    }

    /// Whether it names names: it goes before what is known of names of special use.
    pub(crate) fn is_by_name(&self) -> bool {
        !(self.names.is_empty() && self.suffixes.is_empty())
    }
}

impl Plan {
    fn new(config: &Forwarder, upstream: &Upstream, view: u16) -> Self {
        let cache = &config.cache;
        let stale = cache.serve_stale.map_or(0, |stale| seconds(stale.up_to));
        let negatives_too = cache
            .serve_stale
            .is_some_and(|stale| stale.only == Stale::All);
        let max = upstream.max_ttl.unwrap_or(cache.max_ttl);
        Self {
            view,
            serve: ServePolicy {
                stale_positive: stale,
                stale_negative: if negatives_too { stale } else { 0 },
                prefetch_percent: cache.prefetch_percent,
            },
            ttl: TtlPolicy {
                min: seconds(cache.min_ttl.min(max)),
                max: seconds(max),
                negative_max: seconds(cache.negative_ttl_max),
            },
        }
    }
}

impl Views {
    /// The views of these upstreams; others are forgotten, and their numbers not used again soon.
    fn renew(&mut self, upstreams: &[Upstream]) -> Vec<u16> {
        let known = std::mem::take(&mut self.known);
        for upstream in upstreams {
            let before = known.iter().find(|(known, _)| known == upstream);
            let view = before.map_or_else(|| self.draw(&known), |(_, view)| *view);
            self.known.push((upstream.clone(), view));
        }
        self.known.iter().map(|(_, view)| *view).collect()
    }

    fn draw(&mut self, known: &[(Upstream, u16)]) -> u16 {
        loop {
            let drawn = self.next;
            self.next = self.next.wrapping_add(1);
            let mut taken = known.iter().chain(&self.known);
            if !taken.any(|(_, view)| *view == drawn) {
                return drawn;
            }
        }
    }
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
