//! What caches tell operators, and what these may have them forget.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use steppe_mem::Account;
use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};

use super::key;
use super::stats::RESULTS;
use super::store::Store;
use super::stored::StoredResponse;
use crate::config;
use crate::field::elements;

/// The caches that there are, whatever the configuration that made them.
#[derive(Debug, Default)]
pub struct Caches(Mutex<Vec<Weak<Store>>>);

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Every variant of one URI.
    Uri(String),
    /// Every URI that begins with this.
    Prefix(String),
    /// What names this in `Cache-Tag` or `Surrogate-Key`.
    Tag(String),
}

/// What one cache holds and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheReport {
    /// The filter's name.
    pub name: String,
    /// Memory that it may take.
    pub bytes_max: u64,
    /// Memory that it takes.
    pub bytes: u64,
    /// Responses that are stored.
    pub responses: u64,
    /// Requests, by what they were answered from: its name, and how many.
    pub requests: Vec<(&'static str, u64)>,
    /// Responses that were stored.
    pub stored: u64,
    /// Responses that gave way to others.
    pub evicted: u64,
}

/// Requests that a cache looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lookups {
    /// Answered from the store: fresh, stale, or revalidated by the upstream.
    pub hits: u64,
    /// Forwarded to the upstream.
    pub misses: u64,
}

impl Caches {
    /// Makes the cache of a filter, charged below `account`.
    pub(crate) fn add(
        &self,
        name: &str,
        settings: &config::Cache,
        account: &Account,
    ) -> Arc<Store> {
        let store = Store::new(name, settings.clone(), account);
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(&store));
        store
    }

    /// One of each name, the one that was made last.
    fn current(&self) -> Vec<Arc<Store>> {
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current: Vec<Arc<Store>> = Vec::new();
        for store in stores.iter().rev().filter_map(Weak::upgrade) {
            if !current.iter().any(|known| known.name == store.name) {
                current.push(store);
            }
        }
        current.reverse();
        current
    }

    /// What each holds and did.
    #[must_use]
    pub fn report(&self) -> Vec<CacheReport> {
        self.current().iter().map(|store| report(store)).collect()
    }

    /// Has all of them forget what is meant; says how many responses. `None`: it names nothing that could
    /// be stored. It looks at each response but where a URI is named: not for a worker to call.
    #[must_use]
    pub fn purge(&self, purge: &Purge) -> Option<usize> {
        let forget: Box<dyn Fn(&Store) -> usize> = match purge {
            Purge::All => Box::new(|store| store.forget_where(|_, _| true)),
            Purge::Uri(uri) => {
                let uri = key::uri(uri)?;
                Box::new(move |store| store.forget_where(|key, _| *key.uri == *uri))
            }
            Purge::Prefix(prefix) => {
                let prefix = key::prefix(prefix)?;
                Box::new(move |store| {
                    store.forget_where(|key, _| key.uri.starts_with(&prefix))
                })
            }
            Purge::Tag(tag) => {
                let tag = tag.clone().into_bytes();
                Box::new(move |store| {
                    store.forget_where(|_, stored| {
                        // What is on its way may have it.
                        stored.is_none_or(|stored| has_tag(stored, &tag))
                    })
                })
            }
        };
        Some(self.current().iter().map(|store| forget(store)).sum())
    }

    /// A collector of their metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<CachesCollector> {
        Box::new(CachesCollector(Arc::clone(self)))
    }
}

/// Tags are separated by commas in `Cache-Tag`, by spaces in `Surrogate-Key`.
fn has_tag(stored: &StoredResponse, tag: &[u8]) -> bool {
    let mut commas = stored.head.values(b"cache-tag").flat_map(elements);
    let spaces = stored.head.values(b"surrogate-key");
    commas.any(|own| own == tag)
        || spaces
            .flat_map(|value| value.split(u8::is_ascii_whitespace))
            .any(|own| own == tag)
}

fn report(store: &Store) -> CacheReport {
    let stats = &store.stats;
    CacheReport {
        name: store.name.clone(),
        bytes_max: store.settings.bytes as u64,
        bytes: store.account.reserved_bytes(),
        responses: store.len() as u64,
        requests: RESULTS.into_iter().zip(stats.requests()).collect(),
        stored: stats.stored(),
        evicted: stats.evicted(),
    }
}

impl CacheReport {
    /// Hits and misses. Requests that bypassed the cache are neither.
    #[must_use]
    pub fn lookups(&self) -> Lookups {
        let mut lookups = Lookups::default();
        for &(kind, count) in &self.requests {
            match kind {
                "hit" | "stale" | "revalidated" => lookups.hits += count,
                "miss" => lookups.misses += count,
                _ => {}
            }
        }
        lookups
    }
}

/// Encodes the metrics of caches.
#[derive(Debug)]
pub struct CachesCollector(Arc<Caches>);

const REQUESTS: Family = Family::new(
    "steppe_http_cache_requests",
    "Requests to a cache, by result",
);
const BYTES: Family = Family::new("steppe_http_cache_bytes", "Memory used by a cache");
const RESPONSES: Family = Family::new("steppe_http_cache_responses", "Responses in a cache");
const STORED: Family = Family::new("steppe_http_cache_stored", "Responses stored by a cache");
const EVICTED: Family = Family::new(
    "steppe_http_cache_evicted",
    "StoredResponse responses evicted for other responses or for memory of the budget",
);

impl Collector for CachesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reports = self.0.report();
        let requests = reports.iter().flat_map(|report| {
            let name = report.name.as_str();
            let rows = report.requests.iter();
            rows.map(move |&(kind, count)| ([("filter", name), ("result", kind)], count))
        });
        REQUESTS.counters(&mut encoder, requests)?;
        let of = |value: fn(&CacheReport) -> u64| {
            reports
                .iter()
                .map(move |report| ([("filter", report.name.as_str())], value(report)))
        };
        BYTES.gauges(&mut encoder, of(|report| report.bytes))?;
        RESPONSES.gauges(&mut encoder, of(|report| report.responses))?;
        STORED.counters(&mut encoder, of(|report| report.stored))?;
        EVICTED.counters(&mut encoder, of(|report| report.evicted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_bypass_a_cache_are_neither_hits_nor_misses() {
        let report = CacheReport {
            name: "pages".to_owned(),
            bytes_max: 0,
            bytes: 0,
            responses: 0,
            requests: RESULTS.into_iter().zip([1, 20, 300, 4_000, 50_000]).collect(),
            stored: 0,
            evicted: 0,
        };
        let lookups = Lookups {
            hits: 321,
            misses: 4_000,
        };
        assert_eq!(report.lookups(), lookups);
    }
}
