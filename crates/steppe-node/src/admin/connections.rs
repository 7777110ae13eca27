//! Admin's open connections: a bounded number, with a place for each new one.
//!
//! When all places are taken, the connection that has waited longest for its peer loses its place
//! to the new one. A connection waits for its peer while no request of it is in flight (the peer
//! has sent no head, half a head, or nothing since the last response), and while the peer does not
//! read. So no number of slow or silent peers delays a health probe.
//!
//! Invariant: a connection with a request in progress is never dropped for another one.
//!
//! Non-goals: fairness between addresses. A peer that opens connections faster than another sends
//! its head can crowd that other out.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

/// The connections of a listener. Dropping them ends each.
#[derive(Debug)]
pub(super) struct Connections {
    count_max: usize,
    tasks: JoinSet<()>,
    open: Vec<(AbortHandle, Activity)>,
    clock: Arc<Clock>,
}

/// Orders the events of a listener's connections.
#[derive(Debug, Default)]
struct Clock {
    ticks: AtomicU64,
    /// Notified when a connection begins to wait for its peer.
    began_to_wait: Notify,
}

/// The state of a connection. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity {
    clock: Arc<Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    requests_in_flight: usize,
    is_write_blocked: bool,
    /// The tick at which the connection began to wait for its peer. `None`: the peer waits for the
    /// node.
    waits_since: Option<u64>,
}

/// A request in flight, until its response was handed to the connection.
#[derive(Debug)]
pub(super) struct InFlight(Activity);

/// Content of a response, whose request is in flight until the content is dropped.
#[derive(Debug)]
pub(super) struct Content<B> {
    content: B,
    _in_flight: InFlight,
}

impl Connections {
    /// No connections yet; at most `count_max` at once.
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            count_max,
            tasks: JoinSet::new(),
            open: Vec::new(),
            clock: Arc::default(),
        }
    }

    /// Waits until there is a place; drops the longest-waiting connection if all are taken.
    pub(super) async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.open.retain(|(task, _)| !task.is_finished());
            if self.tasks.len() < self.count_max {
                return;
            }
            if let Some(task) = self.longest_waiting() {
                tracing::debug!(
                    "admin connection limit reached: the longest-waiting connection is dropped"
                );
                task.abort();
                self.tasks.join_next().await;
            } else {
                tokio::select! {
                    _ = self.tasks.join_next() => {}
                    () = self.clock.began_to_wait.notified() => {}
                }
            }
        }
    }

    /// Serves a connection in a task of its own.
    pub(super) fn spawn<F>(&mut self, serve: impl FnOnce(Activity) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let activity = Activity {
            clock: Arc::clone(&self.clock),
            state: Arc::default(),
        };
        // No request came on it yet, so it waits from now on.
        activity.change(|_| {});
        let task = self.tasks.spawn(serve(activity.clone()));
        self.open.push((task, activity));
    }

    fn longest_waiting(&self) -> Option<&AbortHandle> {
        let waiting = self.open.iter().filter_map(|(task, activity)| {
            let since = activity.waits_since()?;
            Some((since, task))
        });
        let longest = waiting.min_by_key(|(since, _)| *since);
        longest.map(|(_, task)| task)
    }
}

impl Activity {
    /// Notes a request: its connection waits for the node.
    pub(super) fn begin_request(&self) -> InFlight {
        self.change(|state| state.requests_in_flight += 1);
        InFlight(self.clone())
    }

    /// Notes that the peer does not read.
    pub(super) fn block_write(&self) {
        self.change(|state| state.is_write_blocked = true);
    }

    /// Notes that the peer reads again.
    pub(super) fn unblock_write(&self) {
        self.change(|state| state.is_write_blocked = false);
    }

    fn waits_since(&self) -> Option<u64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waits_since
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        // A poisoned lock guards correct counts: no code between their changes can panic.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let is_waiting = state.requests_in_flight == 0 || state.is_write_blocked;
        if !is_waiting {
            state.waits_since = None;
        } else if state.waits_since.is_none() {
            state.waits_since = Some(self.clock.ticks.fetch_add(1, Ordering::Relaxed));
            self.clock.began_to_wait.notify_one();
        }
    }
}

impl InFlight {
    /// Keeps the request in flight as long as the response has content.
    pub(super) fn with_content<B>(self, content: B) -> Content<B> {
        Content {
            content,
            _in_flight: self,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.change(|state| state.requests_in_flight -= 1);
    }
}

impl<B: Body + Unpin> Body for Content<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.content).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::yield_now;

    use super::*;

    /// Opens a connection that never ends by itself.
    fn open(connections: &mut Connections) -> (AbortHandle, Activity) {
        connections.spawn(|_| pending());
        connections.open.last().expect("was opened").clone()
    }

    /// True if `make_room` returned within a hundred yields to the other tasks.
    async fn is_room_made(connections: &mut Connections) -> bool {
        let mut room = std::pin::pin!(connections.make_room());
        for _ in 0..100 {
            tokio::select! {
                biased;
                () = &mut room => return true,
                () = yield_now() => {}
            }
        }
        false
    }

    #[tokio::test]
    async fn the_one_that_has_waited_longest_makes_room() {
        let mut connections = Connections::new(3);
        let (first, first_activity) = open(&mut connections);
        let (second, _) = open(&mut connections);
        let (third, _) = open(&mut connections);
        // The first connection has been served since, and waits for less long than the others.
        drop(first_activity.begin_request());
        assert!(is_room_made(&mut connections).await);
        assert!(!first.is_finished() && second.is_finished() && !third.is_finished());
        open(&mut connections);
        assert!(is_room_made(&mut connections).await);
        assert!(!first.is_finished() && third.is_finished());
    }

    #[tokio::test]
    async fn requests_in_flight_keep_their_places_while_the_peer_reads() {
        let mut connections = Connections::new(2);
        let (first, first_activity) = open(&mut connections);
        let (second, second_activity) = open(&mut connections);
        let in_flight = (
            first_activity.begin_request(),
            second_activity.begin_request(),
        );
        assert!(!is_room_made(&mut connections).await);
        second_activity.block_write();
        assert!(is_room_made(&mut connections).await);
        assert!(!first.is_finished() && second.is_finished());
        drop(in_flight);
    }

    #[tokio::test]
    async fn a_request_is_in_flight_until_its_content_is_dropped() {
        let activity = Activity::default();
        activity.change(|_| {});
        let began = activity.waits_since();
        let content = activity.begin_request().with_content(String::new());
        assert_eq!(activity.waits_since(), None);
        activity.block_write();
        assert!(activity.waits_since().is_some());
        activity.unblock_write();
        assert_eq!(activity.waits_since(), None);
        drop(content);
        assert!(activity.waits_since() > began);
    }
}
