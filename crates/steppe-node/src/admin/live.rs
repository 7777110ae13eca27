//! The node once a second: what `/events` streams to the admin page and to `steppe top`.
//!
//! Invariant: memory is fixed. The history is a ring, an event waits for its readers in one place
//! that the next one overwrites (so a slow reader misses events and holds none up), and both are
//! reserved from the budget. While nobody reads, no event is made.
//!
//! Leaves out rates of single routes, which `/metrics` has.

mod history;
mod snapshot;

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
use steppe_telemetry::recent;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use super::limits::{EVENT_STREAM_BYTES, EVENT_STREAM_TIME_MAX, EVENT_STREAMS_MAX, EVENTS_EVERY};
use super::{Content, State};
use history::History;
use snapshot::Meter;

/// What is shown live, and who looks on.
#[derive(Debug)]
pub(super) struct Live {
    content: Arc<Content>,
    began_at: Instant,
    history: Mutex<History>,
    latest: watch::Sender<Latest>,
    places: Arc<Semaphore>,
    lease: Lease,
    _held: Reservation,
}

/// The last event.
#[derive(Debug)]
struct Latest {
    event: Bytes,
    /// Whether there will be no other.
    is_end: bool,
}

impl Live {
    /// Reserves what the history and the recent errors take.
    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    pub(super) fn new(content: Arc<Content>) -> Result<Arc<Self>, OverBudget> {
        let lease = content.memory.budget.root().child("admin", None).lease();
        let held = lease.try_reserve(history::BYTES + recent::BYTES_MAX)?;
        Ok(Arc::new(Self {
            content,
            began_at: Instant::now(),
            history: Mutex::default(),
            latest: watch::Sender::new(Latest {
                event: Bytes::new(),
                is_end: false,
            }),
            places: Arc::new(Semaphore::new(EVENT_STREAMS_MAX)),
            lease,
            _held: held,
        }))
    }

    /// What is shown.
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
            is_end = self.content.readiness.state() == State::Draining;
            if self.latest.receiver_count() > 0 {
                let event = Bytes::from(self.snapshot());
                self.latest.send_replace(Latest { event, is_end });
            }
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // Whoever panicked left a whole ring behind: nothing between its changes can.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    fn snapshot(&self) -> String {
        let last = self.history().last();
        let snapshot = snapshot::snapshot(&self.content, self.began_at.elapsed(), last);
        event("snapshot", &snapshot)
    }

    /// The past and the present, for somebody who comes now.
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
        return unavailable("the node drains\n");
    }
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        return unavailable("as many event streams as there may be are open\n");
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

/// One stream of events.
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
