//! What whoever keeps a connection waits for: HELLO, the end of a drain, the end of the connection.

use super::failure::Failure;
use super::link::{Link, State};
use super::stream::Opener;
use crate::connection::{Connection, OpenError, Processing, StreamId};
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
