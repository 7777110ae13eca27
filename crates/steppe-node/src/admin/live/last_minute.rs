//! Responses and cache requests of the last minute.

use std::time::Instant;

use serde_json::{Value, json};
use steppe_http::cache::{CacheReport, Caches};
use steppe_http::metrics::HttpMetrics;
use steppe_mem::Lease;

use super::responses::{self, ROWS_MAX};
use super::window::{Name, Window};
use crate::admin::cache::row;
use crate::admin::rate::{per_second, share};

/// The totals of a minute ago.
#[derive(Debug)]
pub(super) struct LastMinute {
    routes: Window<{ responses::KINDS }>,
    /// Requests by cache filter: from the store, and of the upstream.
    caches: Window<2>,
}

impl LastMinute {
    pub(super) fn new(lease: &Lease) -> Self {
        Self {
            routes: Window::new(lease.clone()),
            caches: Window::new(lease.clone()),
        }
    }

    /// Keeps the totals, every ten seconds.
    pub(super) fn mark(&mut self, now: Instant, (http, caches): (&HttpMetrics, &Caches)) {
        if !self.routes.is_due(now) {
            return;
        }
        let routes = http.responses();
        self.routes.mark(now, &responses::totals(&routes));
        let caches = caches.report();
        let totals = caches.iter().map(|report| (name(report), lookups(report)));
        self.caches.mark(now, &totals.collect::<Vec<_>>());
    }

    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    pub(super) fn responses(&self, http: &HttpMetrics) -> Value {
        responses::report(&http.responses(), &self.routes, Instant::now())
    }

    /// The caches as in `/cache`, with their hit ratio of the last minute.
    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    pub(super) fn caches(&self, caches: &Caches) -> Value {
        let seconds = self.caches.length(Instant::now());
        let seconds = seconds.map(|length| length.as_secs_f64());
        let reports = caches.report();
        let row = |(index, report): (usize, &CacheReport)| {
            let mut row = row::to_json(report);
            let key = (index, name(report));
            let growth = self.caches.growth(key, lookups(report));
            row["last_minute"] = growth.map_or(Value::Null, |[hits, misses]| {
                json!({
                    "requests_per_second": per_second(hits + misses, seconds),
                    "hit_ratio": share(hits, hits + misses),
                })
            });
            row
        };
        let rows = reports.iter().enumerate().take(ROWS_MAX).map(row);
        json!({
            "filters": rows.collect::<Vec<_>>(),
            "filters_left_off": reports.len().saturating_sub(ROWS_MAX),
        })
    }
}

fn name(report: &CacheReport) -> Name {
    Name::of(&report.name)
}

fn lookups(report: &CacheReport) -> [u64; 2] {
    let lookups = report.lookups();
    [lookups.hits, lookups.misses]
}
