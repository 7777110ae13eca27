//! A stream to a server, and the counts and charges that it holds.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use steppe_mem::Reservation;

use super::channel::UpstreamStream;
use super::state::Target;
use super::target::TargetState;
use crate::age::ages_at;
use crate::metrics::UpstreamMetrics;

/// A stream to a server, for one exchange.
#[derive(Debug)]
pub struct PooledStream {
    pub(super) stream: Box<dyn UpstreamStream>,
    pub(super) state: Arc<TargetState>,
    /// Index of its server.
    pub(super) server: usize,
    /// The pool has it too where the connection is shared.
    pub(super) open: Rc<Open>,
    pub(super) in_flight: ExchangeInFlight,
}

/// Counts an exchange at its server.
#[derive(Debug)]
pub(super) struct ExchangeInFlight(Arc<TargetState>);

/// Counts a request that waits for a connection.
#[derive(Debug)]
pub(super) struct Pending(Arc<TargetState>);

/// Counts a connection for as long as the pool or a stream has it.
#[derive(Debug)]
pub(super) struct Open {
    metrics: UpstreamMetrics,
    /// The time up to which it is kept.
    pub(super) ages_at: Instant,
    /// When it was of use last.
    pub(super) used_at: Cell<Instant>,
    _charge: Reservation,
}

impl PooledStream {
    pub(super) fn new(
        stream: Box<dyn UpstreamStream>,
        state: Arc<TargetState>,
        server: usize,
        open: Rc<Open>,
    ) -> Self {
        state.begin();
        Self {
            stream,
            in_flight: ExchangeInFlight(Arc::clone(&state)),
            state,
            server,
            open,
        }
    }

    /// The stream itself, and the server that it goes to.
    pub fn split(&mut self) -> (&mut dyn UpstreamStream, &Arc<TargetState>) {
        (&mut *self.stream, &self.state)
    }

    /// The server that it goes to.
    #[must_use]
    pub fn state(&self) -> &Arc<TargetState> {
        &self.state
    }

    /// The server's name, as a request without a host gives it.
    #[must_use]
    pub fn authority(&self) -> String {
        self.state.server.to_string()
    }

    /// The server, for another connection to it.
    #[must_use]
    pub(crate) fn target(&self) -> Target {
        Target {
            state: Arc::clone(&self.state),
            server: self.server,
        }
    }
}

impl Drop for ExchangeInFlight {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Open {
    pub(super) fn new(metrics: UpstreamMetrics, charge: Reservation, now: Instant) -> Self {
        metrics.connection_opened();
        Self {
            metrics,
            ages_at: ages_at(now),
            used_at: Cell::new(now),
            _charge: charge,
        }
    }
}

impl Pending {
    pub(super) fn new(state: &Arc<TargetState>) -> Self {
        state.wait();
        Self(Arc::clone(state))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.wait_over();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.connection_closed();
    }
}
