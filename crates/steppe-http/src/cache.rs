//! Stored responses of a shared cache. Spec: RFC 9111.
//!
//! - A request: `lookup.rs` looks it up, by its primary key (`key.rs`, `forwarded.rs`) and the variant it selects
//!   (`variant.rs`). `control.rs` reads cache directives, `freshness.rs` has the rules for storing and reuse.
//! - A fetch: `fetch.rs` is one from its beginning to its end, `in_flight.rs` its part that waiting requests share,
//!   `sink.rs` the client of the exchange that it is made in. `validation.rs` validates stored responses,
//!   `background.rs` bounds fetches without a client, `hit_for_pass.rs` marks those that are no use to others.
//! - A stored response: `stored.rs` is one with its head, `body.rs` its content, which many read while it arrives,
//!   `reader.rs` sends it. `store.rs` holds all, `queues.rs` says which is evicted next.
//! - Operators: `stats.rs` counts, `report.rs` reports and purges.
//!
//! Invariant: stored responses are charged to the store's account; they are evicted before any other user of the budget
//! is refused. Readers share content, and never copy it.
//!
//! Non-goals: the life of a request (`filter/cache.rs`), and the exchanges that fetch.

mod background;
mod body;
pub mod control;
mod credentials;
mod fetch;
mod forwarded;
mod freshness;
mod hit_for_pass;
mod in_flight;
mod key;
mod lookup;
mod queues;
mod reader;
mod report;
mod sink;
mod stats;
mod store;
mod stored;
#[cfg(test)]
mod testing;
mod validation;
mod variant;

pub(crate) use background::{BackgroundFetch, Reason};
pub(crate) use credentials::Credentials;
pub(crate) use fetch::{Fetch, FetchOutcome, Joined};
pub(crate) use freshness::{Freshness, freshness, may_stand_in};
pub(crate) use in_flight::{FetchAnswer, FetchWaiter};
pub(crate) use key::{CacheKey, KeyInput};
pub(crate) use lookup::{CacheRequest, Constraints, Lookup};
pub(crate) use reader::{CachedRequest, Reader};
pub use report::{CacheReport, Caches, CachesCollector, Lookups, Purge};
pub(crate) use sink::{FetchRequest, FetchSink};
pub use stats::ServedFrom;
pub(crate) use store::{Found, Store};
pub(crate) use stored::StoredResponse;
pub(crate) use validation::request_for;

use crate::field::FieldBlock;

/// True if a request with `fields` selects a response to itself that has the same fields: for fuzzing.
#[must_use]
pub fn selects_itself(fields: &FieldBlock) -> bool {
    variant::Variant::of(fields, fields).is_none_or(|variant| variant.matches(fields))
}
