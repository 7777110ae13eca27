//! A fetch in flight, as requests that wait for it share it with the task that fetches.
//!
//! Invariant: a fetch has one answer. It wakes every waiter, and is told to each that comes later.
//!
//! Non-goals: which requests join a fetch (`store.rs`), and what its end does to the store (`fetch.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::body::BodyReader;
use super::credentials::{Credentials, Presented};
use super::key::CacheKey;
use super::stats::ServedFrom;
use super::stored::{StoredResponse, WithheldLine};
use super::variant::Variant;

/// A fetch in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(super) key: Arc<CacheKey>,
    /// The credentials of the request that is fetched for.
    pub(super) credentials: Credentials,
    /// The variant that the response is likely to be.
    expected: Option<Variant>,
    /// A change of the resource has made the response out of date before it was there (RFC 9111 §4.4).
    is_invalidated: AtomicBool,
    state: Mutex<FetchState>,
}

#[derive(Debug, Default)]
struct FetchState {
    answer: Option<FetchAnswer>,
    /// Set while the leader waits.
    reserved: Option<Reserved>,
    waiting: usize,
    /// Wakers of the waiters.
    wakers: Slab<Waker>,
    /// The waker of the task that fetches.
    fetcher: Option<Waker>,
}

/// The parts of a response that are kept for the leader: the request that is fetched for.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    /// The content from its first byte on, whatever is released before the leader reads.
    pub(crate) content: Option<BodyReader>,
    /// The field lines that `private` or `no-cache` withhold from other requests (RFC 9111 §5.2.2).
    pub(crate) lines: Vec<WithheldLine>,
}

/// The result of a fetch for the requests that wait for it.
#[derive(Debug, Clone)]
pub(crate) enum FetchAnswer {
    /// A response for every waiter that may use it.
    Shared(Arc<StoredResponse>, ServedFrom),
    /// A response for the leader alone; the other waiters are forwarded.
    Private(Arc<StoredResponse>),
    /// An error with this status.
    Failed(u16),
    /// No response: every waiter is forwarded.
    Pass,
    /// No response, and the stored one is gone: every waiter is looked up again.
    Retry,
}

/// A request that waits for a fetch, until it is dropped.
#[derive(Debug)]
pub(crate) struct FetchWaiter {
    fetch: Arc<InFlight>,
    is_leader: bool,
    /// Index of the waker, which keeps memory of the waiter's task.
    waker: Option<usize>,
}

impl InFlight {
    pub(super) fn new(
        key: Arc<CacheKey>,
        credentials: Credentials,
        expected: Option<Variant>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key,
            credentials,
            expected,
            is_invalidated: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, FetchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a request with `asked` is likely to be able to use the response.
    pub(super) fn is_likely_for(&self, asked: Presented<'_>) -> bool {
        let expected = self.expected.as_ref();
        self.credentials == asked.credentials
            && expected.is_none_or(|expected| expected.matches(asked.fields))
    }

    /// True while there is no answer.
    pub(crate) fn is_pending(&self) -> bool {
        self.state().answer.is_none()
    }

    /// Keeps the response from the store. Called by the store, which forgets the fetch under the same lock.
    pub(super) fn invalidate(&self) {
        self.is_invalidated.store(true, Ordering::Release);
    }

    pub(super) fn is_invalidated(&self) -> bool {
        self.is_invalidated.load(Ordering::Acquire)
    }

    /// Ready while no request waits; wakes when that changes.
    pub(super) fn poll_unawaited(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        state.fetcher = Some(cx.waker().clone());
        match state.waiting {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Keeps `lines` for the leader.
    pub(super) fn reserve_lines(&self, lines: Vec<WithheldLine>) {
        let mut state = self.state();
        if let Some(reserved) = &mut state.reserved {
            reserved.lines = lines;
        }
    }

    /// Tells every waiter, unless there is an answer.
    pub(super) fn answer(&self, answer: FetchAnswer) {
        let mut content = match &answer {
            FetchAnswer::Shared(response, _) | FetchAnswer::Private(response) => {
                response.body.reader()
            }
            FetchAnswer::Failed(_) | FetchAnswer::Pass | FetchAnswer::Retry => None,
        };
        let mut state = self.state();
        if state.answer.is_some() {
            return;
        }
        state.answer = Some(answer);
        if let Some(reserved) = &mut state.reserved {
            reserved.content = content.take();
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl FetchWaiter {
    /// The request that is fetched for.
    pub(super) fn leading(fetch: Arc<InFlight>) -> Self {
        fetch.state().reserved = Some(Reserved::default());
        let mut waiter = Self::following(fetch);
        waiter.is_leader = true;
        waiter
    }

    /// Another request that wants the same.
    pub(super) fn following(fetch: Arc<InFlight>) -> Self {
        let mut state = fetch.state();
        state.waiting += 1;
        let fetcher = (state.waiting == 1).then(|| state.fetcher.take()).flatten();
        drop(state);
        fetcher.into_iter().for_each(Waker::wake);
        Self {
            fetch,
            is_leader: false,
            waker: None,
        }
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Ready when there is an answer.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<FetchAnswer> {
        let mut state = self.fetch.state();
        if let Some(answer) = &state.answer {
            return Poll::Ready(answer.clone());
        }
        match self.waker.and_then(|at| state.wakers.get_mut(at)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(state.wakers.insert(cx.waker().clone())),
        }
        Poll::Pending
    }

    /// The parts that are kept for the leader; nothing for any other request.
    pub(crate) fn take_reserved(&self) -> Reserved {
        let mut state = self.fetch.state();
        let reserved = state.reserved.take_if(|_| self.is_leader);
        reserved.unwrap_or_default()
    }
}

impl Drop for FetchWaiter {
    fn drop(&mut self) {
        let mut state = self.fetch.state();
        state.waiting -= 1;
        let waker = self.waker.and_then(|at| state.wakers.try_remove(at));
        let reserved = state.reserved.take_if(|_| self.is_leader);
        let fetcher = (state.waiting == 0).then(|| state.fetcher.take()).flatten();
        drop(state);
        drop((waker, reserved));
        fetcher.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::testing::Rig;

    #[test]
    fn a_waiter_that_leaves_takes_its_waker_along() {
        let rig = Rig::new(1 << 20, 16 << 20);
        let fetch = InFlight::new(rig.find("/").key, Credentials::None, None);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fetch.poll_unawaited(&mut cx).is_ready());
        let following = (1..100).map(|_| FetchWaiter::following(Arc::clone(&fetch)));
        let mut waiters = vec![FetchWaiter::leading(Arc::clone(&fetch))];
        waiters.extend(following);
        for _ in 0..3 {
            for waiter in &mut waiters {
                assert!(waiter.poll_answer(&mut cx).is_pending());
            }
        }
        assert_eq!(
            fetch.state().wakers.len(),
            100,
            "one each, however often it is asked"
        );
        let mut last = waiters.pop().expect("a hundred");
        drop(waiters);
        assert_eq!(fetch.state().wakers.len(), 1);
        assert!(fetch.state().reserved.is_none() && fetch.poll_unawaited(&mut cx).is_pending());
        fetch.answer(FetchAnswer::Failed(502));
        let answer = last.poll_answer(&mut cx);
        assert!(matches!(answer, Poll::Ready(FetchAnswer::Failed(502))));
        drop(last);
        assert!(fetch.poll_unawaited(&mut cx).is_ready());
    }

    #[test]
    fn only_a_leader_that_waits_has_parts_reserved() {
        let rig = Rig::new(1 << 20, 16 << 20);
        let response = rig.made("/", 10, &[]).expect("room");
        for is_waiting in [true, false] {
            let fetch = InFlight::new(rig.find("/").key, Credentials::None, None);
            let leader = FetchWaiter::leading(Arc::clone(&fetch));
            let follower = FetchWaiter::following(Arc::clone(&fetch));
            let leader = Some(leader).filter(|_| is_waiting);
            fetch.reserve_lines(vec![WithheldLine {
                name: b"set-cookie"[..].into(),
                value: b"a=b"[..].into(),
                is_never_indexed: false,
            }]);
            fetch.answer(FetchAnswer::Shared(Arc::clone(&response), ServedFrom::Miss));
            let of = |waiter: &FetchWaiter| {
                let reserved = waiter.take_reserved();
                (reserved.content.is_some(), reserved.lines.len())
            };
            assert_eq!(of(&follower), (false, 0));
            assert_eq!(leader.as_ref().map(of), is_waiting.then_some((true, 1)));
            assert!(fetch.state().reserved.is_none());
        }
    }
}
