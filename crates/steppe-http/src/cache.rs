//! Stored responses, as a shared cache has them. Spec: RFC 9111.
//!
//! `control.rs` reads what messages say of caching, `freshness.rs` says what may be stored and for how long
//! it may be used, `key.rs` what a stored response is for, with
//! `forwarded.rs`; `credentials.rs` tells visitors from others. `body.rs` is content that is stored while it
//! streams, `stored.rs` a response with its content, `reader.rs` one that is being sent; `fill.rs` is a
//! response on its way into the store, which others follow; `store.rs` holds them, and `queues.rs` says
//! which of them go first.
//!
//! Invariant: whatever is stored is charged to the store's account; it gives way before anybody else is
//! refused. Content is shared with whoever reads it, never copied for that.
//!
//! Non-goals: what a filter does with it (`filter/cache.rs`), and where responses come from.

mod background;
mod body;
pub mod control;
mod credentials;
mod fill;
mod forwarded;
mod freshness;
mod hit_for_pass;
mod key;
mod queues;
mod reader;
mod report;
mod stats;
mod store;
mod stored;
mod validation;
mod variant;

pub(crate) use background::{BackgroundFetch, Reason};
pub(crate) use credentials::{Credentials, Presented};
pub(crate) use fill::{Ask, Fill, Filling, Outcome, Place};
pub(crate) use freshness::{Judged, judge, may_stand_in};
pub(crate) use key::{CacheKey, KeyInput};
pub(crate) use reader::{Reader, Reading};
pub use report::{CacheReport, Caches, CachesCollector, Lookups, Purge};
pub use stats::ServedFrom;
pub(crate) use store::{Found, Role, Store};
pub(crate) use stored::StoredResponse;

use crate::field::FieldBlock;

/// True if a request with `fields` selects a response to itself that has the same fields: for fuzzing.
#[must_use]
pub fn selects_itself(fields: &FieldBlock) -> bool {
    variant::Variant::of(fields, fields).is_none_or(|variant| variant.matches(fields))
}
