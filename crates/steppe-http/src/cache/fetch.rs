//! The fetch of a response for all requests that want it at the same time (request collapsing), from its beginning
//! to its one end.
//!
//! Invariant: a [`Fetch`] ends once, by [`Fetch::finish`], which takes it; one that is dropped ends as incomplete. Its
//! end alone changes the store. Waiters are answered once: at the head of a response that they share, else at the
//! end, which changes the store, ends the place where requests join, and wakes the waiters, in this order: a waiter
//! that looks again finds the new state of the store, and never the same fetch.
//!
//! Non-goals: the exchange that fetches (`sink.rs`).

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::background::{BackgroundFetch, Reason};
use super::body::BodyWriter;
use super::credentials::{Credentials, Presented};
use super::in_flight::{FetchAnswer, FetchWaiter, InFlight};
use super::key::CacheKey;
use super::stats::ServedFrom;
use super::store::{Role, Store};
use super::stored::StoredResponse;

/// A response that is being fetched for a store.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(super) store: Arc<Store>,
    pub(super) shared: Arc<InFlight>,
    /// Set while the fetch goes on without a waiting client.
    background: Option<BackgroundFetch>,
    is_finished: bool,
}

/// A request that has joined a fetch.
#[derive(Debug)]
pub(crate) enum Joined {
    /// The first one: it is to fetch the response.
    Leader(Fetch),
    /// A later one: it waits.
    Follower(FetchWaiter),
}

/// The end of a fetch.
#[derive(Debug)]
pub(crate) enum FetchOutcome {
    /// All content of the response has arrived: it is stored.
    Complete(Arc<StoredResponse>),
    /// A 304 has validated the stored response: this one, with its new fields, takes its place.
    Revalidated(Arc<StoredResponse>),
    /// A 304 has validated this stored response, which is used as it is: the fetch was invalidated, or there is no room for
    /// the new fields.
    UsedOnce(Arc<StoredResponse>),
    /// A 304 is about another response than this stored one, which is invalid therefore (RFC 9111 §4.3.4).
    Mismatched(Arc<StoredResponse>),
    /// This stored response stands in for an error (RFC 5861 §4).
    StaleIfError(Arc<StoredResponse>),
    /// A response that must not be stored: hit-for-pass.
    Unstorable {
        response: Arc<StoredResponse>,
        /// The stored response that was to be validated, which is invalid therefore (RFC 9111 §4.3.3).
        stale: Option<Arc<StoredResponse>>,
    },
    /// A response that is not stored though another one to the same request may be.
    NotStored(Arc<StoredResponse>),
    /// Content of a response that was shared has grown too large, at this time: hit-for-pass.
    TooLarge(Instant),
    /// An error without a stored response to stand in, by its status.
    Failed(u16),
    /// No client waits, and as many fetches go on in the background as may.
    Unawaited,
    /// The response will not be stored whole: the fetch was dropped, or there is no memory for more content.
    Incomplete,
}

impl Fetch {
    /// Joins a fetch of `key` in `store` that `may_join` admits and a request with `asked` may use, or begins one.
    pub(crate) fn join(
        store: &Arc<Store>,
        key: &Arc<CacheKey>,
        asked: Presented<'_>,
        may_join: impl Fn(&InFlight) -> bool,
    ) -> Joined {
        match store.lead_or_follow(key, asked, may_join) {
            Role::Follower(fetch) => Joined::Follower(FetchWaiter::following(fetch)),
            Role::Leader(shared) => Joined::Leader(Self {
                store: Arc::clone(store),
                shared,
                background: None,
                is_finished: false,
            }),
        }
    }

    /// The place of the request that is fetched for.
    pub(crate) fn leader(&self) -> FetchWaiter {
        FetchWaiter::leading(Arc::clone(&self.shared))
    }

    /// Goes on as `background` fetch: no request waits for it from the start.
    pub(crate) fn in_background(self, background: BackgroundFetch) -> Self {
        let mut fetch = self;
        fetch.background = Some(background);
        fetch
    }

    /// Has the waiters, and requests that join from now on, read `response` while its content arrives.
    pub(super) fn share(&self, response: &Arc<StoredResponse>) {
        let response = Arc::clone(response);
        (self.shared).answer(FetchAnswer::Shared(response, ServedFrom::Miss));
    }

    /// Ready when the fetch is to end since no client waits for it, or reads `content`, and as many go on in the
    /// background as may.
    pub(super) fn poll_unawaited(
        &mut self,
        cx: &mut Context<'_>,
        content: Option<&BodyWriter>,
    ) -> Poll<()> {
        let is_unawaited = self.shared.poll_unawaited(cx).is_ready()
            && content.is_none_or(|content| content.poll_unread(cx).is_ready());
        self.background = match self.background.take() {
            _ if !is_unawaited => None,
            None => BackgroundFetch::begin(&self.store.background, Reason::ClientsLeft),
            background => background,
        };
        match is_unawaited && self.background.is_none() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ends the fetch.
    pub(crate) fn finish(mut self, outcome: FetchOutcome) {
        self.conclude(outcome);
    }

    fn conclude(&mut self, outcome: FetchOutcome) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        self.background = None;
        let published = match &outcome {
            FetchOutcome::Complete(response) | FetchOutcome::Revalidated(response) => {
                Some(Arc::clone(response))
            }
            _ => None,
        };
        let answer = self.apply(outcome);
        self.store.end_fetch(&self.shared, published);
        self.shared.answer(answer);
    }

    /// Has the store forget what `outcome` makes invalid; returns the answer for waiters that have none.
    fn apply(&self, outcome: FetchOutcome) -> FetchAnswer {
        match outcome {
            FetchOutcome::Complete(response) => FetchAnswer::Shared(response, ServedFrom::Miss),
            FetchOutcome::Revalidated(response) | FetchOutcome::UsedOnce(response) => {
                FetchAnswer::Shared(response, ServedFrom::Revalidated)
            }
            FetchOutcome::StaleIfError(stale) => FetchAnswer::Shared(stale, ServedFrom::Stale),
            FetchOutcome::Mismatched(_) if self.is_of_one_visitor() => FetchAnswer::Pass,
            FetchOutcome::Mismatched(stale) => {
                self.store.supersede(&stale);
                FetchAnswer::Retry
            }
            FetchOutcome::Unstorable { response, stale } => {
                self.mark_hit_for_pass(response.terms.received_at);
                if let Some(stale) = stale.filter(|_| !self.is_of_one_visitor()) {
                    self.store.supersede(&stale);
                }
                FetchAnswer::Private(response)
            }
            FetchOutcome::NotStored(response) => FetchAnswer::Private(response),
            FetchOutcome::TooLarge(now) => {
                self.mark_hit_for_pass(now);
                FetchAnswer::Pass
            }
            FetchOutcome::Failed(status) => FetchAnswer::Failed(status),
            FetchOutcome::Unawaited => FetchAnswer::Pass,
            FetchOutcome::Incomplete => FetchAnswer::Failed(502),
        }
    }

    fn mark_hit_for_pass(&self, now: Instant) {
        let InFlight {
            key, credentials, ..
        } = &*self.shared;
        self.store.hit_for_pass.mark(key, *credentials, now);
    }

    /// True if the response may be about the client alone that asked: it says nothing of the stored one.
    fn is_of_one_visitor(&self) -> bool {
        self.shared.credentials != Credentials::None
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.conclude(FetchOutcome::Incomplete);
    }
}

#[cfg(test)]
mod tests;
