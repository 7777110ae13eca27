//! A listener as sessions see it that are no byte streams, such as those of QUIC.

use std::fmt;
use std::rc::Rc;

use steppe_net::accept::{Admission, ConnectionEnds, Refused, SessionService};
use tokio::net::UdpSocket;

use super::client::{ClientContext, Counted, Counting, close_reason};
use super::listener::{Listener, ListenerSettings};
use super::snapshot::WorkerState;

/// The datagram socket of a listener on one worker, for a codec to serve.
#[derive(Debug)]
pub struct Endpoint {
    /// Shared by all sessions.
    pub socket: UdpSocket,
    /// Admits them.
    pub listener: SessionListener,
}

/// A listener whose sessions are no byte streams. Clones share it.
#[derive(Clone)]
pub struct SessionListener {
    state: Rc<WorkerState>,
    listener: Rc<Listener>,
}

impl SessionListener {
    pub(super) fn new(state: &Rc<WorkerState>, listener: Listener) -> Self {
        Self {
            state: Rc::clone(state),
            listener: Rc::new(listener),
        }
    }

    /// Sessions follow `settings` from now on.
    pub(super) fn follow(&self, settings: ListenerSettings) {
        self.listener.set_settings(settings);
    }

    /// Settings that the configuration has for the listener now. Its [drain](ListenerSettings::drain) begins when it is
    /// retired, and when the node drains.
    #[must_use]
    pub fn settings(&self) -> Rc<ListenerSettings> {
        self.listener.settings()
    }

    /// Admits a session, which is counted in `limits.connections` of the listener, charged, and waited for by a drain
    /// until the last clone of the result is dropped.
    ///
    /// # Errors
    /// Why there is no room for it, which is counted.
    pub fn admit(&self, ends: ConnectionEnds) -> Result<Rc<ClientContext>, Refused> {
        let counted = Counted::admit(&self.state, &self.listener, ends.peer, Counting::Now);
        let snapshot = self.state.current();
        let counted = counted.inspect_err(|refused| {
            close_reason(refused)
                .into_iter()
                .for_each(|reason| snapshot.totals.closed(reason));
        })?;
        let listener = Rc::clone(&self.listener);
        Ok(ClientContext::new(listener, &snapshot, ends, counted))
    }
}

impl SessionService for SessionListener {
    fn admission(&self) -> &Admission {
        &self.listener.admission
    }
}

impl fmt::Debug for SessionListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sessions of {}", self.listener.address)
    }
}
