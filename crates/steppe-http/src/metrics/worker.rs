//! The metrics that one worker writes.

use std::time::Duration;

use steppe_telemetry::Writer;

use super::cells::{Cells, class_index};
use super::close_reason::CloseReason;

/// The cells of one worker, written by its thread only.
///
/// Indexes are those of the configuration. An index out of range is a bug of the caller and
/// panics.
#[derive(Debug)]
pub struct WorkerMetrics {
    cells: Writer<Cells>,
}

impl WorkerMetrics {
    pub(super) fn new(cells: Writer<Cells>) -> Self {
        Self { cells }
    }

    /// A request was responded to with `status`, `elapsed` after its first byte.
    ///
    /// `upstream` is the route's if it responded, and `None` if the gateway did (no route, a
    /// limit, a refusal).
    #[inline]
    pub fn request(
        &self,
        route: Option<usize>,
        upstream: Option<usize>,
        status: u16,
        elapsed: Duration,
    ) {
        let route = &self.cells.routes[route.map_or(0, |index| index + 1)];
        let by_class = if upstream.is_some() {
            &route.forwarded
        } else {
            &route.answered
        };
        by_class[class_index(status)].increment();
        route.latency.observe(elapsed);
    }

    /// A client connected to a listener.
    #[inline]
    pub fn connection_opened(&self, listener: usize) {
        self.cells.listeners[listener]
            .connections
            .opened
            .increment();
    }

    /// A client's connection was closed.
    #[inline]
    pub fn connection_closed(&self, listener: usize) {
        self.cells.listeners[listener]
            .connections
            .closed
            .increment();
    }

    /// A connection to an upstream's server was established.
    #[inline]
    pub fn upstream_opened(&self, upstream: usize) {
        self.cells.upstreams[upstream]
            .connections
            .opened
            .increment();
    }

    /// A connection to an upstream's server was closed.
    #[inline]
    pub fn upstream_closed(&self, upstream: usize) {
        self.cells.upstreams[upstream]
            .connections
            .closed
            .increment();
    }

    /// A connection to an upstream's server could not be established.
    #[inline]
    pub fn upstream_connect_failed(&self, upstream: usize) {
        self.cells.upstreams[upstream].connect_failures.increment();
    }

    /// A request was sent again because its idle connection had been closed.
    #[inline]
    pub fn upstream_replayed(&self, upstream: usize) {
        self.cells.upstreams[upstream].replays.increment();
    }

    /// Sets the number of idle connections of this worker to an upstream's servers.
    #[inline]
    pub fn upstream_idle(&self, upstream: usize, count: usize) {
        self.cells.upstreams[upstream].idle.set(count as u64);
    }

    /// Bytes that came from and went to clients.
    #[inline]
    pub fn downstream_bytes(&self, read: usize, written: usize) {
        self.cells.totals.downstream.count(read, written);
    }

    /// Bytes that came from and went to servers.
    #[inline]
    pub fn upstream_bytes(&self, read: usize, written: usize) {
        self.cells.totals.upstream.count(read, written);
    }

    /// An exchange or a connection was aborted.
    #[inline]
    pub fn closed(&self, reason: CloseReason) {
        self.cells.totals.closed[reason.index()].increment();
    }

    /// An exchange became a tunnel.
    #[inline]
    pub fn tunnel_opened(&self) {
        self.cells.totals.tunnels.opened.increment();
    }

    /// A tunnel ended.
    #[inline]
    pub fn tunnel_closed(&self) {
        self.cells.totals.tunnels.closed.increment();
    }
}
