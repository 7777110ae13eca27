//! What whoever keeps a connection waits for: HELLO, the end of a drain, the end of the connection.

use super::failure::Failure;
use super::link::{Link, State};
use super::stream::{Opener, wake};
use crate::connection::{Connection, OpenError, Processing, StreamId, Violation};
use crate::frame::Service;
use crate::status::Status;

impl Link {
    /// Names what this side serves, in place of what it named before.
    pub(crate) fn register(&self, services: &[Service<'_>]) -> Result<(), OpenError> {
        let registered = self.lock().connection.register(services);
        self.wake();
        registered
    }

    /// Ends the connection, because there is no room for what the peer wants.
    pub(crate) fn refuse(&self) {
        self.drain();
        self.close_when_idle();
    }

    /// No stream is opened any more: the connection closes with the last one.
    pub(crate) fn close_when_idle(&self) {
        self.lock().is_closing = true;
        self.wake();
    }

    /// Takes no further streams, and says so.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        // Where there is no room for it, GOAWAY says the same.
        let _ = state.connection.register(&[]);
        state.connection.drain();
        drop(state);
        self.wake();
    }

    /// Dismisses the peer: its connection is over, and so is every stream on it.
    pub(crate) fn dismiss(&self, violation: Violation) {
        self.lock().connection.dismiss(violation);
        self.wake();
    }

    /// True where the peer takes no further streams, or the connection is gone.
    pub(crate) fn is_leaving(&self) -> bool {
        let state = self.lock();
        state.closed.is_some() || state.connection.is_peer_leaving()
    }

    /// True where the peer has said that this side may not offer a service that it names.
    pub(crate) fn is_denied(&self) -> bool {
        self.lock().dismissed_by == Some(Violation::DENIED)
    }

    /// Has the task of each call that the peer has opened look at what has changed.
    pub(crate) fn wake_calls(&self) {
        for stream in self.lock().streams.values_mut() {
            wake(&mut stream.wakers.gone);
        }
    }

    /// Calls `look` with each service that the peer has named last, until it says so.
    pub(crate) fn find_named(&self, look: impl Fn(&str) -> bool) -> Option<Box<str>> {
        let state = self.lock();
        let mut named = state.services.iter().flatten();
        named.find(|name| look(name)).cloned()
    }

    /// Waits for the peer's HELLO.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) async fn connected(&self) -> Result<(), Failure> {
        self.until_open(|connection| connection.peer().is_some())
            .await
    }

    /// Waits until the peer has read which services this side names.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) async fn registered(&self) -> Result<(), Failure> {
        self.until_open(Connection::is_registered).await
    }

    /// Whether the peer serves `service`; `None`: it has named none at all.
    pub(crate) fn serves(&self, service: &str) -> Option<bool> {
        let state = self.lock();
        let named = state.services.as_ref()?;
        Some(named.iter().any(|name| **name == *service))
    }

    /// Whether the peer serves anything.
    pub(crate) fn serves_any(&self) -> bool {
        let state = self.lock();
        let named = state.services.as_ref();
        named.is_some_and(|named| !named.is_empty())
    }

    /// Waits until no further streams can be opened, or the connection is gone.
    pub(crate) async fn lost(&self) {
        self.until(|state| {
            let is_leaving = state.is_closing || state.connection.is_peer_leaving();
            let is_lost = state.closed.is_some() || is_leaving;
            is_lost.then_some(())
        })
        .await;
    }

    /// Waits until it was drained, or is gone.
    pub(crate) async fn drained(&self) {
        self.until(|state| {
            // What is written later, such as an answer to a ping, takes nothing of that back.
            let is_over = state.closed.is_some() || state.has_drained;
            is_over.then_some(())
        })
        .await;
    }

    /// Resets what the peer has open; where nothing was done for it, that is said.
    pub(crate) fn cut(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        let open = state.streams.iter();
        let open =
            open.filter(|(_, stream)| stream.opener == Opener::Peer && stream.is_unfinished());
        let open: Vec<(StreamId, Processing)> =
            open.map(|(id, stream)| (id, stream.processing)).collect();
        for (id, processing) in open {
            let failure = Failure {
                processing,
                ..Failure::new(Status::Draining, "the time to drain is over")
            };
            state.reset(id, &failure);
        }
        self.wake();
    }

    /// Waits until `holds`, or until the connection is gone.
    async fn until_open(&self, holds: impl Fn(&Connection) -> bool) -> Result<(), Failure> {
        self.until(|state| match &state.closed {
            Some(failure) => Some(Err(failure.clone())),
            None => holds(&state.connection).then_some(Ok(())),
        })
        .await
    }

    async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            // What changes after this is seen, even before it is awaited.
            let changed = self.changed.notified();
            let seen = look(&self.lock());
            if let Some(seen) = seen {
                return seen;
            }
            changed.await;
        }
    }
}
