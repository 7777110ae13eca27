//! `/events`: the node once a second, for the admin page and `steppe top`.
//!
//! Invariant: memory is fixed by the configuration. The history is a ring, a table of an event has
//! a bounded number of rows, an event waits for its readers in one place that the next one
//! overwrites (so a slow reader misses events and delays none), and all of this is reserved from
//! the budget. Without a reader, no event is made.
//!
//! Leaves out the history of single routes, which `/metrics` has.

pub(super) mod history;
mod last_minute;
mod responses;
mod snapshot;
mod window;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::State as Extract;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use steppe_mem::{Lease, OverBudget, Reservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use super::limits::{EVENT_STREAM_BYTES, EVENT_STREAM_TIME_MAX, EVENT_STREAMS_MAX, EVENTS_EVERY};
use super::{Content, State};
use history::History;
use last_minute::LastMinute;
use snapshot::Meter;

/// The sampled node, and the readers of its events.
#[derive(Debug)]
pub(super) struct Live {
    content: Arc<Content>,
    began_at: Instant,
    history: Mutex<History>,
    last_minute: Mutex<LastMinute>,
    latest: watch::Sender<Latest>,
    places: Arc<Semaphore>,
    lease: Lease,
    _held: Reservation,
}

/// The last event.
#[derive(Debug)]
struct Latest {
    event: Bytes,
    /// Set on the last event of the node.
    is_end: bool,
}

impl Live {
    /// Reserves memory for the history and the recent errors.
    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    pub(super) fn new(content: Arc<Content>) -> Result<Arc<Self>, OverBudget> {
        let lease = content.memory.budget.root().child("admin", None).lease();
        let held = lease.try_reserve(history::FIXED_BYTES)?;
        Ok(Arc::new(Self {
            content,
            began_at: Instant::now(),
            history: Mutex::default(),
            last_minute: Mutex::new(LastMinute::new(&lease)),
            latest: watch::Sender::new(Latest {
                event: Bytes::new(),
                is_end: false,
            }),
            places: Arc::new(Semaphore::new(EVENT_STREAMS_MAX)),
            lease,
            _held: held,
        }))
    }

    /// The data behind the endpoints.
    pub(super) fn content(&self) -> &Arc<Content> {
        &self.content
    }

    /// Takes a sample a second until the node drains, which ends every stream.
    pub(super) async fn run(&self) {
        let mut ticks = tokio::time::interval(EVENTS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut meter = Meter::start(&self.content);
        let mut is_end = false;
        while !is_end {
            ticks.tick().await;
            let sample = meter.sample(&self.content);
            self.history().push(sample);
            let counts = (&*self.content.memory.http, &*self.content.caches);
            self.last_minute().mark(meter.at(), counts);
            is_end = self.content.readiness.state() == State::Draining;
            if self.latest.receiver_count() > 0 {
                let event = Bytes::from(self.snapshot());
                self.latest.send_replace(Latest { event, is_end });
            }
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // A poisoned lock guards a consistent ring: no change of it can panic halfway.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_minute(&self) -> MutexGuard<'_, LastMinute> {
        // A panic in the middle of a mark leaves older rows behind, which are replaced by the next.
        self.last_minute
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    fn snapshot(&self) -> String {
        let last = self.history().last();
        let minute = self.last_minute();
        let shown = (last, &*minute);
        let snapshot = snapshot::snapshot(&self.content, self.began_at.elapsed(), shown);
        event("snapshot", &snapshot)
    }

    /// The history and the present state, for a new reader.
    fn first(&self) -> Bytes {
        let history = self.history().to_json();
        Bytes::from(event("history", &history) + &self.snapshot())
    }
}

/// An event of a stream of server-sent events. JSON in one line has no line feed to escape.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Streams the history, then an event a second.
#[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
pub(super) async fn events(Extract(live): Extract<Arc<Live>>) -> Response {
    if live.content.readiness.state() == State::Draining {
        return unavailable("the node is draining\n");
    }
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        return unavailable("the maximum number of event streams is open\n");
    };
    let Ok(held) = live.lease.try_reserve(EVENT_STREAM_BYTES) else {
        return unavailable("the memory budget has no room for another event stream\n");
    };
    let reader = Reader {
        latest: live.latest.subscribe(),
        first: Some(live.first()),
        is_ended: false,
        until: tokio::time::Instant::now() + EVENT_STREAM_TIME_MAX,
        _place: place,
        _held: held,
    };
    let events = stream::unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    let fields = [(CONTENT_TYPE, "text/event-stream")];
    (fields, Body::from_stream(events)).into_response()
}

fn unavailable(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}

/// A stream of events.
#[derive(Debug)]
struct Reader {
    latest: watch::Receiver<Latest>,
    first: Option<Bytes>,
    is_ended: bool,
    until: tokio::time::Instant,
    _place: OwnedSemaphorePermit,
    _held: Reservation,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.is_ended {
            return None;
        }
        let changed = tokio::time::timeout_at(self.until, self.latest.changed()).await;
        changed.ok()?.ok()?;
        let latest = self.latest.borrow_and_update();
        self.is_ended = latest.is_end;
        Some(latest.event.clone())
    }
}
