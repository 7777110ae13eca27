//! Looks up a request: the stored response that answers it, or the fetch that it needs. Spec: RFC 9111 §4.

use std::sync::Arc;
use std::time::Instant;

use super::control::RequestControl;
use super::credentials::{Credentials, Presented};
use super::freshness::{Freshness, freshness};
use super::key::KeyInput;
use super::store::{Found, Store};
use super::stored::StoredResponse;

/// A GET or HEAD request, as a cache looks it up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheRequest<'a> {
    pub(crate) input: KeyInput<'a>,
    pub(crate) constraints: Constraints,
    pub(crate) now: Instant,
}

/// The parts of a request that constrain the responses that it may use, beside those that select one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Constraints {
    pub(crate) control: RequestControl,
    pub(crate) credentials: Credentials,
    pub(crate) has_range: bool,
}

/// The result of a look-up.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// A fresh stored response answers the request.
    Fresh(Arc<StoredResponse>),
    /// A stale stored response answers the request. Where there is a second part, it is what the response is to be
    /// revalidated for in the background (RFC 5861 §3).
    Stale(Arc<StoredResponse>, Option<Found>),
    /// A response is to be fetched, or the stored one validated.
    Miss(Found),
    /// A response would have to be fetched, and the request forbids it (RFC 9111 §5.2.1.7): 504.
    OnlyIfCached,
    /// The request is to be forwarded unchanged.
    Pass,
}

impl CacheRequest<'_> {
    /// The parts of the request that decide on the fetch that it joins.
    pub(crate) fn presented(&self) -> Presented<'_> {
        Presented {
            fields: &self.input.head.fields,
            credentials: self.constraints.credentials,
        }
    }

    /// Looks the request up in `store`.
    pub(crate) fn look_up(&self, store: &Store) -> Lookup {
        let Some(Found { key, stored }) = store.find(self.input) else {
            return Lookup::Pass;
        };
        let Some(stored) = stored else {
            return self.miss(store, Found { key, stored });
        };
        let freshness = freshness(&stored.terms, &self.constraints.control, self.now);
        if freshness != Freshness::Validate {
            stored.use_once();
        }
        let found = |stored: &Arc<StoredResponse>| Found {
            key,
            stored: Some(Arc::clone(stored)),
        };
        match freshness {
            Freshness::Fresh => Lookup::Fresh(stored),
            Freshness::Stale => Lookup::Stale(stored, None),
            Freshness::StaleWhileRevalidate => {
                let found = found(&stored);
                Lookup::Stale(stored, Some(found))
            }
            Freshness::Validate => self.miss(store, found(&stored)),
        }
    }

    fn miss(&self, store: &Store, found: Found) -> Lookup {
        let Constraints {
            control,
            credentials,
            has_range,
        } = self.constraints;
        // A response that is stored may still be valid, or stand in for an error.
        let has_stored = found.stored.is_some();
        let is_passed = || {
            let marks = &store.hit_for_pass;
            self.input.head.method() == b"HEAD"
                || has_range
                || marks.is_marked(&found.key, credentials, self.now)
        };
        if control.only_if_cached {
            return Lookup::OnlyIfCached;
        }
        if control.no_store || (!has_stored && is_passed()) {
            return Lookup::Pass;
        }
        Lookup::Miss(found)
    }
}
