//! A connection and its streams, shared by its driver and its calls.
//!
//! The lock is held for one turn of the driver, or for one command.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use steppe_mem::{OverBudget, Reservation};
use tokio::sync::Notify;

use super::failure::Failure;
use super::memory::Memory;
use super::reading::Reading;
use super::returns::Returns;
use super::stream::{Opener, Stream, wake};
use crate::connection::{Config, Connection, OpenError, Processing, SendError, Side, StreamId};
use crate::frame::{Head, Queueing, TraceParent};
use crate::limits::{
    ANSWERED_SWEPT_MIN, CONNECTION_BYTES, CONNECTION_CREDIT, CONNECTION_STREAMS_MAX, OUTPUT_BYTES,
    PATIENCE, QUIET, STANDING_CREDIT_MIN, STREAM_BYTES, block_bytes,
};
use crate::status::Status;
use crate::table::{Table, capacity_max, drain};

/// A connection and its streams, shared by its driver and its calls.
#[derive(Debug)]
pub(crate) struct Link {
    state: Mutex<State>,
    pub(super) returns: Arc<Returns>,
    pub(crate) memory: Arc<Memory>,
    /// Notified of HELLO, SERVICES, GOAWAY, a confirmed registration, a complete drain, and the end.
    pub(super) changed: Notify,
}

/// The state of a link, guarded by its lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) connection: Connection,
    pub(super) streams: Table<Stream>,
    pub(super) reading: Option<Reading>,
    /// Charges of streams whose calls are over while the connection still has an entry for them: the peer has not
    /// ended them, or does not read.
    answered: Vec<(StreamId, Reservation)>,
    /// Charge of frames that wait to be written, beyond [`OUTPUT_BYTES`].
    unread: Reservation,
    /// Tasks that wait for room to open a stream or to begin a response. These are local callers only, each of
    /// which holds the data that it sends.
    pub(super) waiting: Vec<Waker>,
    pub(super) closed: Option<Failure>,
    /// Code of the GOAWAY by which the peer has dismissed this side.
    pub(super) dismissed_by: Option<u32>,
    /// Names of the peer's services, from its last SERVICES.
    pub(super) services: Option<Vec<Box<str>>>,
    /// True once no further streams are opened: the connection closes when it is idle.
    pub(super) is_closing: bool,
    /// True once tasks that wait for the drain were notified of its end.
    pub(super) has_drained: bool,
}

/// A request that a peer opened.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) handle: Arc<Handle>,
    pub(crate) service: String,
    pub(crate) content_type: Option<String>,
    pub(crate) idempotency_key: Option<Vec<u8>>,
    pub(crate) trace_parent: Option<TraceParent>,
    pub(crate) deadline: Option<Instant>,
}

/// A value that is dropped with the call of a stream.
pub(crate) trait Kept: std::fmt::Debug + Send + Sync {
    /// Called before the drop if the peer ended the call as overloaded.
    fn refused(&self);
}

/// One stream of a link. Dropping the handle ends the stream.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) link: Arc<Link>,
    pub(crate) id: StreamId,
    pub(crate) queueing: Queueing,
    /// Value that is dropped with the handle.
    pub(crate) kept: OnceLock<Box<dyn Kept>>,
}

impl Link {
    /// A new connection, with its memory reserved.
    pub(crate) fn new(
        side: Side,
        memory: &Arc<Memory>,
        now: Instant,
    ) -> Result<Arc<Self>, OverBudget> {
        let bytes = CONNECTION_CREDIT as usize + CONNECTION_BYTES;
        let config = Config {
            side,
            streams_max: CONNECTION_STREAMS_MAX,
            stream_credit: STANDING_CREDIT_MIN,
            connection_credit: CONNECTION_CREDIT,
            quiet: QUIET,
            patience: PATIENCE,
        };
        let standing = memory.reserve_entry(bytes)?;
        Ok(Arc::new(Self {
            returns: Arc::new(Returns::new(standing)),
            state: Mutex::new(State {
                connection: Connection::new(config, now),
                streams: Table::new(),
                reading: None,
                answered: Vec::new(),
                unread: memory.reserve_entry(0)?,
                waiting: Vec::new(),
                closed: None,
                dismissed_by: None,
                services: None,
                is_closing: false,
                has_drained: false,
            }),
            memory: Arc::clone(memory),
            changed: Notify::new(),
        }))
    }

    /// Locks the state, even after a panic. Values taken from it are dropped or spawned after it is unlocked.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver, to handle a change.
    pub(crate) fn wake(&self) {
        self.returns.wake();
    }

    /// Opens a stream. `None` if there is no room now; `waker` is woken when there may be.
    pub(crate) fn open(
        self: &Arc<Self>,
        head: &Head<'_>,
        waker: &Waker,
        now: Instant,
    ) -> Result<Option<Arc<Handle>>, Failure> {
        let table = self.memory.reserve_entry(STREAM_BYTES);
        let table =
            table.map_err(|error| Failure::unprocessed(Status::Overloaded, error.to_string()))?;
        let mut state = self.lock();
        if let Some(failure) = &state.closed {
            // Nothing of this call was sent, however the connection ended.
            return Err(Failure {
                processing: Processing::None,
                ..failure.clone()
            });
        }
        let id = match state.connection.open(head, now) {
            Ok(id) => id,
            Err(OpenError::NotConnected | OpenError::Streams(_) | OpenError::Busy) => {
                state.waiting.push(waker.clone());
                return Ok(None);
            }
            Err(error @ OpenError::GoingAway) => {
                return Err(Failure::unprocessed(Status::Unavailable, error.to_string()));
            }
            Err(error @ OpenError::Fields(_)) => {
                return Err(Failure::unprocessed(Status::Invalid, error.to_string()));
            }
        };
        state.streams.add(id, Stream::new(Opener::Us, Some(table)));
        let is_last = state.connection.is_used_up();
        state.is_closing |= is_last;
        drop(state);
        if is_last {
            self.changed.notify_waiters();
        }
        self.wake();
        Ok(Some(Arc::new(Handle {
            link: Arc::clone(self),
            id,
            queueing: head.queueing,
            kept: OnceLock::new(),
        })))
    }

    /// Marks the connection as closed, and fails every stream.
    pub(super) fn close(&self, failure: &Failure) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| failure.clone());
        for stream in state.streams.values_mut() {
            stream.kill(failure.clone());
        }
        state.wake_waiting();
        let reading = state.reading.take();
        drop(state);
        drop(reading);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Wakes the tasks that wait for room.
    pub(super) fn wake_waiting(&mut self) {
        drain(&mut self.waiting, Waker::wake);
    }
}

impl Handle {
    /// Keeps `what` until the stream's call is dropped. To be called once.
    pub(crate) fn keep(&self, what: Box<dyn Kept>) {
        let kept = self.kept.set(what);
        debug_assert!(kept.is_ok(), "kept twice");
    }

    /// Closes the stream in both directions at once.
    pub(crate) fn reset(&self, failure: &Failure) {
        let mut state = self.link.lock();
        state.reset(self.id, failure);
        drop(state);
        self.link.wake();
    }

    /// Ends this side of the stream, with `failure` or as *ok*.
    pub(crate) fn end(&self, failure: Option<&Failure>) -> Result<(), Failure> {
        let mut state = self.link.lock();
        let mut reason = failure.map_or(Status::Ok.into(), Failure::reason);
        if !state.has_room_for(self.id, reason.detail_sent().len()) {
            reason.detail = "";
        }
        let ended = state.connection.end(self.id, &reason);
        if let Some(stream) = state.streams.get_mut(self.id) {
            stream.has_ended = ended.is_ok() || stream.has_ended;
            if stream.opener == Opener::Peer {
                // The rest of the request is not needed any more.
                stream.end(Ok(()));
            }
        }
        let failure = state.failure_of(self.id);
        drop(state);
        self.link.wake();
        match ended {
            Ok(()) => Ok(()),
            Err(error) => Err(failure.unwrap_or_else(|| internal(error))),
        }
    }

    /// Notes that a handler runs: the request is possibly processed from now on.
    pub(crate) fn run(&self) {
        let mut state = self.link.lock();
        if let Some(stream) = state.streams.get_mut(self.id) {
            stream.processing = Processing::Begun;
        }
    }

    /// Asks the peer to end the stream early.
    pub(crate) fn stop(&self) {
        let mut state = self.link.lock();
        // A closed stream has ended.
        let _ = state.connection.stop(self.id, &Status::Cancelled.into());
        drop(state);
        self.link.wake();
    }

    /// Waits until the stream is closed; returns the reason.
    pub(crate) async fn gone(&self) -> Failure {
        std::future::poll_fn(|cx| {
            let mut state = self.link.lock();
            let Some(stream) = state.streams.get_mut(self.id) else {
                return std::task::Poll::Pending;
            };
            if let Some(failure) = &stream.gone {
                return std::task::Poll::Ready(failure.clone());
            }
            super::stream::wait(&mut stream.wakers.gone, cx.waker());
            std::task::Poll::Pending
        })
        .await
    }
}

impl State {
    /// Resets a stream, and drops the part of it that is being read.
    pub(super) fn reset(&mut self, id: StreamId, failure: &Failure) {
        let unspent = self
            .connection
            .reset(id, &failure.reason(), failure.processing);
        if let Some(stream) = self.streams.get_mut(id)
            && unspent.is_some()
        {
            stream.kill(failure.clone());
        }
        self.abandon(id);
    }

    /// Charges the text of an END, which waits while the peer does not read. True if there is room.
    fn has_room_for(&mut self, id: StreamId, len: usize) -> bool {
        if len == 0 {
            return true;
        }
        let stream = self.streams.get_mut(id);
        let table = stream.and_then(|stream| stream.table.as_mut());
        table.is_some_and(|table| table.try_grow(block_bytes(len)).is_ok())
    }

    /// Keeps the charge of a stream whose call is over while the connection has an entry for it.
    fn keep_answered(&mut self, id: StreamId, stream: &mut Stream) {
        let table = stream.table.take();
        let Some(mut table) = table.filter(|_| self.connection.has_stream(id)) else {
            return;
        };
        table.shrink(stream.call_bytes);
        // Swept when half of them may have ended: each is checked twice on average.
        if self.answered.len() >= ANSWERED_SWEPT_MIN.max(2 * self.connection.streams()) {
            self.sweep_answered();
        }
        self.answered.push((id, table));
    }

    /// Returns the charges of streams for which the connection has no entry any more.
    fn sweep_answered(&mut self) {
        let connection = &self.connection;
        self.answered.retain(|&(id, _)| connection.has_stream(id));
        if self.answered.capacity() > capacity_max(self.answered.len()) {
            self.answered
                .shrink_to(capacity_max(self.answered.len()) / 2);
        }
    }

    /// Adjusts the charge of pending output; without open streams, returns the charges of ended ones too.
    pub(super) fn settle(&mut self) -> Result<(), OverBudget> {
        if self.connection.streams() == 0 && !self.answered.is_empty() {
            self.sweep_answered();
        }
        let bytes = self.connection.output_bytes().saturating_sub(OUTPUT_BYTES);
        let before = self.unread.bytes();
        match bytes.checked_sub(before) {
            Some(0) => Ok(()),
            Some(more) => self.unread.try_grow(more),
            None => {
                self.unread.shrink(before - bytes);
                Ok(())
            }
        }
    }

    /// Drops the part of a message of `id` that is being read.
    pub(super) fn abandon(&mut self, id: StreamId) {
        if self.reading.as_ref().is_none_or(|reading| reading.id != id) {
            return;
        }
        if self.connection.body_left().is_some_and(|(of, _)| of == id) {
            self.connection.skip_body();
        }
        if let Some(reading) = self.reading.take() {
            reading.abandon(&mut self.connection);
        }
    }

    pub(crate) fn failure_of(&self, id: StreamId) -> Option<Failure> {
        self.streams.get(id).and_then(|stream| stream.gone.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.link.lock();
        let mut stream = state.streams.remove(self.id);
        let is_unfinished = stream.as_ref().is_some_and(|stream| stream.is_unfinished());
        if is_unfinished {
            let status = match stream.as_ref().map(|stream| stream.opener) {
                Some(Opener::Peer) => Status::Internal,
                _ => Status::Cancelled,
            };
            state
                .connection
                .reset(self.id, &status.into(), Processing::Begun);
        }
        state.abandon(self.id);
        if let Some(stream) = &mut stream {
            state.keep_answered(self.id, stream);
        }
        drop(state);
        let is_overloaded = stream.as_ref().is_some_and(|stream| stream.is_overloaded);
        if is_overloaded && let Some(kept) = self.kept.get() {
            kept.refused();
        }
        if let Some(mut stream) = stream {
            stream.clear();
            self.link.lock().streams.keep_spare(stream);
        }
        self.link.wake();
    }
}

/// A failure by a mistake in this crate, or by the local sender.
pub(super) fn internal(error: SendError) -> Failure {
    Failure::new(Status::Internal, error.to_string())
}

/// Marks a stream that the peer asks to end early, and wakes its sending task.
pub(super) fn wake_stopped(stream: &mut Stream) {
    stream.is_stopped = true;
    wake(&mut stream.wakers.send);
}
