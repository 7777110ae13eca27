//! Reports and metrics of caches, and purging.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use steppe_mem::Account;
use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};

use super::key::{self, CacheKey};
use super::stats::RESULTS;
use super::store::Store;
use super::stored::StoredResponse;
use crate::config;
use crate::field::elements;

/// The caches of the node, of all configurations in use.
#[derive(Debug, Default)]
pub struct Caches(Mutex<Vec<Weak<Store>>>);

/// The stored responses to purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// All.
    All,
    /// Every variant of one URI.
    Uri(String),
    /// Every variant of every URI that begins with this.
    Prefix(String),
    /// Those that have this tag in `Cache-Tag` or `Surrogate-Key`.
    Tag(String),
}

/// True for a stored response that is to be purged; for a key without one, if its fetches are.
type IsMeant<'a> = dyn Fn(&CacheKey, Option<&StoredResponse>) -> bool + 'a;

/// State and counts of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheReport {
    /// The filter's name.
    pub name: String,
    /// Memory that it may use.
    pub bytes_max: u64,
    /// Memory that it uses.
    pub bytes: u64,
    /// Number of stored responses.
    pub responses: u64,
    /// Requests by result: its name, and their number.
    pub requests: Vec<(&'static str, u64)>,
    /// Number of responses stored so far.
    pub stored: u64,
    /// Number of stored responses evicted so far.
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
    /// Adds the cache of a filter, charged below `account`.
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

    /// The newest cache of each name.
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

    /// Reports of all caches.
    #[must_use]
    pub fn report(&self) -> Vec<CacheReport> {
        self.current().iter().map(|store| report(store)).collect()
    }

    /// Purges all caches; returns the number of responses. `None` where a URI or prefix is not an `http` or `https` URI.
    /// Looks at every stored response: not for workers to call.
    #[must_use]
    pub fn purge(&self, purge: &Purge) -> Option<usize> {
        let is_meant: Box<IsMeant<'_>> = match purge {
            Purge::All => Box::new(|_, _| true),
            Purge::Uri(uri) => {
                let uri = key::uri(uri)?;
                Box::new(move |key, _| *key.uri == *uri)
            }
            Purge::Prefix(prefix) => {
                let prefix = key::prefix(prefix)?;
                Box::new(move |key, _| key.uri.starts_with(&prefix))
            }
            // A response in flight may have the tag.
            Purge::Tag(tag) => {
                Box::new(|_, stored| stored.is_none_or(|stored| has_tag(stored, tag.as_bytes())))
            }
        };
        let stores = self.current();
        Some(
            stores
                .iter()
                .map(|store| store.forget_where(&is_meant))
                .sum(),
        )
    }

    /// A collector of their metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<CachesCollector> {
        Box::new(CachesCollector(Arc::clone(self)))
    }
}

/// True if a response has the tag: commas separate tags in `Cache-Tag`, spaces in `Surrogate-Key`.
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
            requests: RESULTS
                .into_iter()
                .zip([1, 20, 300, 4_000, 50_000])
                .collect(),
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
