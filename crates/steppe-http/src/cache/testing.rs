//! A store with stored responses, for tests.

use std::sync::Arc;
use std::time::Instant;

use steppe_mem::{Budget, Buffer, Chunk, Lease};

use super::body::BodyWriter;
use super::credentials::{Credentials, Presented};
use super::fetch::{Fetch, FetchOutcome, Joined};
use super::freshness::Terms;
use super::key::{CacheKey, KeyInput};
use super::store::{Found, Store};
use super::stored::{StoredHead, StoredParts, StoredResponse, take_over};
use super::variant::Variant;
use crate::config;
use crate::head::{ContentLength, RequestHead, ResponseHead};

/// A store with a budget of its own.
pub(super) struct Rig {
    pub(super) budget: Budget,
    pub(super) store: Arc<Store>,
}

impl Rig {
    pub(super) fn new(bytes: usize, budget: u64) -> Self {
        let budget = Budget::new(budget);
        let settings = config::Cache {
            bytes,
            ..config::Cache::default()
        };
        let store = Store::new("test", settings, budget.root());
        Self { budget, store }
    }

    pub(super) fn lease(&self) -> Lease {
        self.budget.root().lease()
    }

    pub(super) fn request(&self, target: &str) -> RequestHead {
        let head = RequestHead::new(b"GET", b"a.test", target.as_bytes(), &self.lease());
        head.expect("it is valid")
    }

    pub(super) fn find(&self, target: &str) -> Found {
        self.find_on("r", "http", target)
    }

    pub(super) fn find_on(&self, route: &str, scheme: &str, target: &str) -> Found {
        self.find_for(route, scheme, &self.request(target))
    }

    pub(super) fn find_for(&self, route: &str, scheme: &str, head: &RequestHead) -> Found {
        let input = KeyInput {
            route,
            scheme,
            head,
        };
        self.store.find(input).expect("it names a host")
    }

    pub(super) fn has(&self, target: &str) -> bool {
        self.find(target).stored.is_some()
    }

    /// As a hit does.
    pub(super) fn hit(&self, target: &str) -> bool {
        let stored = self.find(target).stored;
        stored.is_some_and(|stored| {
            stored.use_once();
            true
        })
    }

    pub(super) fn made(
        &self,
        target: &str,
        content: usize,
        lines: &[(&str, &str)],
    ) -> Option<Arc<StoredResponse>> {
        let lease = &self.store.lease;
        let mut head = ResponseHead::new(200, ContentLength::Unknown, &self.lease()).ok()?;
        for (name, value) in lines {
            head.fields.append(name.as_bytes(), value.as_bytes()).ok()?;
        }
        let request = self.request(target);
        let writer = BodyWriter::stored();
        let parts = StoredParts {
            key: self.find(target).key,
            variant: Variant::of(&head.fields, &request.fields)?,
            terms: Terms {
                lifetime: 60,
                ..Terms::none(&head.fields, Instant::now())
            },
            head: StoredHead::of(&head, &[]),
            body: Arc::clone(writer.body()),
        };
        let stored = StoredResponse::new(parts, lease).ok()?;
        let mut buffer = Buffer::take(&self.lease(), content).ok()?;
        buffer.put(&vec![b'x'; content]).ok()?;
        let chunk = take_over(Chunk::from(buffer), lease).ok()?;
        stored.add_bytes(chunk.charged_bytes());
        writer.push(chunk);
        writer.finish(None);
        Some(stored)
    }

    pub(super) fn store(&self, target: &str, content: usize) {
        let stored = self.made(target, content, &[]).expect("there is room");
        self.insert(stored);
    }

    /// As a fetch does at its end.
    pub(super) fn insert(&self, stored: Arc<StoredResponse>) {
        let Joined::Leader(fetch) = self.join(&stored.key, Credentials::None) else {
            panic!("no other fetch is in flight");
        };
        fetch.finish(FetchOutcome::Complete(stored));
    }

    pub(super) fn join(&self, key: &Arc<CacheKey>, credentials: Credentials) -> Joined {
        let head = self.request("/");
        let asked = Presented {
            fields: &head.fields,
            credentials,
        };
        Fetch::join(&self.store, key, asked, |_| true)
    }
}
