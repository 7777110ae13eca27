//! Keys behind a URL.
//!
//! Invariant: whatever tokens say, the set is fetched once at a time and no more than once a cooldown; the
//! last good set stays until there is a better one; and no worker waits for a fetch but by exchanges that
//! need it, whose number is bounded. Fetches are made by a task of the control thread.
//!
//! Spec: RFC 7517 §5. Left out: how a set is fetched, which is the node's business ([`FetchKeys`]).

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Instant;

use steppe_mem::alloc::block_bytes;
use steppe_mem::{Account, Lease, Reservation, measured};
use steppe_net::{LocalFuture, clock};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::keys::{Key, parse_set};
use crate::config::JwksUrl;
use crate::filter::json_bytes::json_bytes_max;
use crate::limits::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, JWKS_WAITERS_MAX, JWT_KEY_BYTES};

/// A client that fetches sets of keys.
pub trait FetchKeys: Send + Sync {
    /// Fetches at most `bytes_max` from the URL. Called within the control thread's runtime. The
    /// error
    /// is a text for people.
    fn fetch(&self, source: &JwksUrl, bytes_max: usize) -> LocalFuture<Result<Vec<u8>, String>>;
}

/// The set of one filter.
pub struct RemoteKeys {
    filter: String,
    source: JwksUrl,
    known: RwLock<Arc<KeySet>>,
    flight: Mutex<FetchProgress>,
    /// Tells the task of a request that needs a fetch.
    asked: Notify,
    /// Tells those that wait that a fetch has ended.
    ended: watch::Sender<()>,
    waiting: Arc<AtomicUsize>,
    counts: FetchCounts,
    lease: Lease,
}

/// Keys of one state of the set.
#[derive(Default)]
pub(super) struct KeySet {
    pub(super) keys: Vec<Key>,
    /// Tells this state from others; 0: nothing was ever fetched.
    pub(super) generation: u64,
    text: Vec<u8>,
    _charge: Option<Reservation>,
}

/// Where fetching is at.
#[derive(Debug, Default)]
struct FetchProgress {
    is_under_way: bool,
    began_at: Option<Instant>,
    /// No configuration has the set any more: nobody fetches it.
    has_ended: bool,
}

#[derive(Debug, Default)]
struct FetchCounts {
    changed: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
}

/// The report of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteReport {
    pub(crate) keys: usize,
    pub(crate) waiting: usize,
    pub(crate) changed: u64,
    pub(crate) unchanged: u64,
    pub(crate) failed: u64,
}

/// The response to a request that needs another state of the set.
pub(super) enum KeySetAnswer {
    /// A fetch is under way.
    Wait(Wait),
    /// The last one was a moment ago, or no other one will be.
    Cooling,
    /// One has just brought another state.
    Changed,
    /// As many wait as may.
    Full,
}

/// Until a fetch has ended.
pub(super) struct Wait {
    ended: Pin<Box<dyn Future<Output = ()>>>,
    _place: WaitPlace,
}

/// One of those that wait.
struct WaitPlace(Arc<AtomicUsize>);

impl RemoteKeys {
    /// The set of the filter of this name, of which nothing is known yet. What it keeps is charged to
    /// `account`.
    #[must_use]
    pub(crate) fn new(filter: &str, source: JwksUrl, account: &Account) -> Self {
        Self {
            filter: filter.to_owned(),
            source,
            known: RwLock::default(),
            // The task begins with one.
            flight: Mutex::new(FetchProgress {
                is_under_way: true,
                ..FetchProgress::default()
            }),
            asked: Notify::new(),
            ended: watch::Sender::new(()),
            waiting: Arc::default(),
            counts: FetchCounts::default(),
            lease: account.lease(),
        }
    }

    /// True when it is the set of that filter, from the same place.
    pub(crate) fn is(&self, filter: &str, source: &JwksUrl) -> bool {
        self.filter == filter && self.source == *source
    }

    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    pub(crate) fn report(&self) -> RemoteReport {
        RemoteReport {
            keys: self.known().keys.len(),
            waiting: self.waiting.load(Ordering::Relaxed),
            changed: self.counts.changed.load(Ordering::Relaxed),
            unchanged: self.counts.unchanged.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
        }
    }

    /// The last good state of the set.
    pub(super) fn known(&self) -> Arc<KeySet> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for another state than that of `generation`, on behalf of a request that it has no key for.
    pub(super) fn ask(&self, generation: u64, now: Instant) -> KeySetAnswer {
        let place = WaitPlace::take(&self.waiting);
        let mut flight = self.flight();
        if self.known().generation != generation {
            return KeySetAnswer::Changed;
        }
        if flight.has_ended {
            return KeySetAnswer::Cooling;
        }
        if !flight.is_under_way {
            let cools_until = flight
                .began_at
                .and_then(|at| at.checked_add(self.source.cooldown));
            if cools_until.is_some_and(|until| now < until) {
                return KeySetAnswer::Cooling;
            }
            flight.is_under_way = true;
            self.asked.notify_one();
        }
        // Subscribed to while the fetch can't end.
        let mut ended = self.ended.subscribe();
        drop(flight);
        match place {
            None => KeySetAnswer::Full,
            Some(place) => KeySetAnswer::Wait(Wait {
                ended: Box::pin(async move {
                    let _ = ended.changed().await;
                }),
                _place: place,
            }),
        }
    }

    /// Retires the set: no further fetch begins, and waiting requests are woken.
    pub(crate) fn end(&self) {
        self.flight().has_ended = true;
        self.ended.send_replace(());
    }

    /// Fetches the set whenever it is due, or asked for. Never ends.
    pub(crate) async fn keep_current(self: Arc<Self>, fetch: Arc<dyn FetchKeys>) {
        loop {
            let is_good = self.fetch(&*fetch).await;
            let pause = match is_good {
                true => self.source.refresh,
                false => self.source.refresh.min(self.source.cooldown),
            };
            let asked = async {
                // What is left of an earlier wish is none.
                while !self.flight().is_under_way {
                    self.asked.notified().await;
                }
            };
            let _ = timeout(pause, asked).await;
        }
    }

    /// One fetch; whether it brought a set.
    #[expect(
        clippy::disallowed_methods,
        reason = "the task that fetches a set of keys: a fetch begins"
    )]
    async fn fetch(&self, fetch: &dyn FetchKeys) -> bool {
        let _landing = self.take_off(clock::now());
        let fetched = match self.lease.try_reserve(JWKS_BYTES_MAX) {
            Err(_) => Err("no room in the memory budget".to_owned()),
            Ok(_room) => fetch.fetch(&self.source, JWKS_BYTES_MAX).await,
        };
        let taken = fetched.and_then(|text| self.take(text));
        let count = match taken {
            Ok(true) => &self.counts.changed,
            Ok(false) => &self.counts.unchanged,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        match &taken {
            Ok(true) => tracing::info!(filter = self.filter, "key set changed"),
            Ok(false) => {}
            Err(error) => tracing::warn!(filter = self.filter, error, "cannot update the key set"),
        }
        taken.is_ok()
    }

    /// Makes a fetched text the set; whether it is another one.
    fn take(&self, text: Vec<u8>) -> Result<bool, String> {
        let last = self.known();
        if last.generation > 0 && last.text == text {
            return Ok(false);
        }
        // While it is read there is a tree of it, which takes far more than its keys.
        let bytes_max = json_bytes_max(&text) + JWKS_KEYS_MAX * JWT_KEY_BYTES;
        let parsed = measured(&self.lease, bytes_max, || parse_set(&text));
        let no_room = |_| "no room in the memory budget".to_owned();
        let (set, mut charge) = parsed.map_err(no_room)?;
        let set = set?;
        for problem in &set.unfit {
            tracing::warn!(
                filter = self.filter,
                problem,
                "unusable key in the key set ignored"
            );
        }
        // Beside them: their text, and what the library of C has of them.
        let beside = block_bytes(text.capacity()) + set.keys.len() * JWT_KEY_BYTES;
        charge.try_grow(beside).map_err(no_room)?;
        let set = KeySet {
            keys: set.keys,
            generation: last.generation + 1,
            text,
            _charge: Some(charge),
        };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(set);
        Ok(true)
    }

    fn take_off(&self, now: Instant) -> Landing<'_> {
        let mut flight = self.flight();
        flight.is_under_way = true;
        flight.began_at = Some(now);
        Landing(self)
    }

    fn flight(&self) -> MutexGuard<'_, FetchProgress> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a fetch, whatever became of it: who waits goes on, also when the task ends with the filter.
struct Landing<'a>(&'a RemoteKeys);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let mut flight = self.0.flight();
        flight.is_under_way = false;
        self.0.ended.send_replace(());
    }
}

impl WaitPlace {
    fn take(waiting: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(waiting));
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        (before < JWKS_WAITERS_MAX).then_some(place)
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Wait {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ended.as_mut().poll(cx)
    }
}

impl fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteKeys")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
