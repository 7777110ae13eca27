//! Waits for events of a connection: HELLO, the end of a drain, the end of the connection.

use super::failure::Failure;
use super::link::{Link, State};
use super::stream::{Opener, wake};
use crate::connection::{Connection, OpenError, Processing, StreamId, Violation};
use crate::frame::Service;
use crate::status::Status;

impl Link {
    /// Sends SERVICES: `services` replace those that this side named before.
    pub(crate) fn register(&self, services: &[Service<'_>]) -> Result<(), OpenError> {
        let registered = self.lock().connection.register(services);
        self.wake();
        registered
    }

    /// Ends the connection, since there is no room for the services that the peer names.
    pub(crate) fn refuse(&self) {
        self.drain();
        self.close_when_idle();
    }

    /// Opens no further streams; the connection closes with the last open one.
    pub(crate) fn close_when_idle(&self) {
        self.lock().is_closing = true;
        self.wake();
    }

    /// Drains the connection: withdraws services, and sends GOAWAY.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        // If the write queue is full, GOAWAY suffices.
        let _ = state.connection.register(&[]);
        state.connection.drain();
        drop(state);
        self.wake();
    }

    /// Dismisses the peer, which ends the connection and every stream on it.
    pub(crate) fn dismiss(&self, violation: Violation) {
        self.lock().connection.dismiss(violation);
        self.wake();
    }

    /// True if the peer accepts no further streams, or the connection is closed.
    pub(crate) fn is_leaving(&self) -> bool {
        let state = self.lock();
        state.closed.is_some() || state.connection.is_peer_leaving()
    }

    /// True if the peer has dismissed this side because it may not offer a service that it names.
    pub(crate) fn is_denied(&self) -> bool {
        self.lock().dismissed_by == Some(Violation::DENIED)
    }

    /// Wakes the task of each call, to check for changes.
    pub(crate) fn wake_calls(&self) {
        for stream in self.lock().streams.values_mut() {
            wake(&mut stream.wakers.gone);
        }
    }

    /// The first service in the peer's last SERVICES for which `look` returns true.
    pub(crate) fn find_named(&self, look: impl Fn(&str) -> bool) -> Option<Box<str>> {
        let state = self.lock();
        let mut named = state.services.iter().flatten();
        named.find(|name| look(name)).cloned()
    }

    /// Waits for the peer's HELLO.
    ///
    /// # Errors
    /// If the connection is closed.
    pub(crate) async fn connected(&self) -> Result<(), Failure> {
        self.until_open(|connection| connection.peer().is_some())
            .await
    }

    /// Waits until the peer has read the last SERVICES of this side.
    ///
    /// # Errors
    /// If the connection is closed.
    pub(crate) async fn registered(&self) -> Result<(), Failure> {
        self.until_open(Connection::is_registered).await
    }

    /// True if the peer offers `service`; `None` if it has sent no SERVICES.
    pub(crate) fn serves(&self, service: &str) -> Option<bool> {
        let state = self.lock();
        let named = state.services.as_ref()?;
        Some(named.iter().any(|name| **name == *service))
    }

    /// True if the peer offers any service.
    pub(crate) fn serves_any(&self) -> bool {
        let state = self.lock();
        let named = state.services.as_ref();
        named.is_some_and(|named| !named.is_empty())
    }

    /// Waits until no further streams can be opened, or the connection is closed.
    pub(crate) async fn lost(&self) {
        self.until(|state| {
            let is_leaving = state.is_closing || state.connection.is_peer_leaving();
            let is_lost = state.closed.is_some() || is_leaving;
            is_lost.then_some(())
        })
        .await;
    }

    /// Waits until the connection is drained or closed.
    pub(crate) async fn drained(&self) {
        self.until(|state| {
            // Later output, such as the ACK of a PING, does not undo that.
            let is_over = state.closed.is_some() || state.has_drained;
            is_over.then_some(())
        })
        .await;
    }

    /// Resets the open calls of the peer, as UNPROCESSED if no handler has run.
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

    /// Waits until `holds` returns true; fails if the connection is closed before.
    async fn until_open(&self, holds: impl Fn(&Connection) -> bool) -> Result<(), Failure> {
        self.until(|state| match &state.closed {
            Some(failure) => Some(Err(failure.clone())),
            None => holds(&state.connection).then_some(Ok(())),
        })
        .await
    }

    async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            // Created before the check, so that a change in between wakes this wait.
            let changed = self.changed.notified();
            let seen = look(&self.lock());
            if let Some(seen) = seen {
                return seen;
            }
            changed.await;
        }
    }
}
