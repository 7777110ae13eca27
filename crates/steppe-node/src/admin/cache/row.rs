//! The row of one cache in reports.

use serde_json::{Map, Value, json};
use steppe_http::cache::CacheReport;

use crate::admin::rate::share;

/// The row in JSON. The hit ratio is `null` without requests that the cache could have answered.
pub(in crate::admin) fn to_json(report: &CacheReport) -> Value {
    let lookups = report.lookups();
    let requests = report.requests.iter();
    let requests: Map<_, _> = requests
        .map(|(kind, count)| ((*kind).to_owned(), json!(count)))
        .collect();
    json!({
        "name": report.name,
        "bytes": report.bytes,
        "bytes_max": report.bytes_max,
        "responses": report.responses,
        "requests": requests,
        "hit_ratio": share(lookups.hits, lookups.hits + lookups.misses),
        "stored": report.stored,
        "evicted": report.evicted,
    })
}
