//! Handles of a worker's own cells.

use std::sync::Arc;
use std::time::Duration;

use steppe_telemetry::ShardWriter;

use super::calls::{CallMetrics, Methods};
use super::cells::{
    self, FilterCells, ListenerCells, OpenCells, RouteCells, TotalCells, UpstreamCells, WorkerCells,
};
use super::close_reason::CloseReason;
use super::error_line::ErrorLine;
use super::handle::{Handle, handle};
use super::handshake::Handshake;
use super::uncompressed::Uncompressed;
use crate::coding::Coding;

/// The cells of one worker, written by its thread only.
///
/// What lives longer than a snapshot takes the handle of what it counts, and
/// holds no other cells by it.
///
/// Indexes are those of the configuration; one that does not exist is a bug of
/// the caller and panics when a snapshot is built rather than unnoticed.
#[derive(Debug)]
pub struct WorkerMetrics {
    cells: ShardWriter<WorkerCells>,
    methods: Arc<Methods>,
}

impl WorkerMetrics {
    pub(super) fn new(cells: ShardWriter<WorkerCells>, methods: Arc<Methods>) -> Self {
        Self { cells, methods }
    }

    /// Counts of a route; `None`: of requests that match none.
    #[must_use]
    pub fn route(&self, route: Option<usize>) -> RouteMetrics {
        let index = route.map_or(0, |index| index + 1);
        RouteMetrics(handle(&self.cells.routes[index]))
    }

    /// Counts of a listener.
    #[must_use]
    pub fn listener(&self, listener: usize) -> ListenerMetrics {
        ListenerMetrics(handle(&self.cells.listeners[listener]))
    }

    /// Counts of an upstream.
    #[must_use]
    pub fn upstream(&self, upstream: usize) -> UpstreamMetrics {
        UpstreamMetrics(handle(&self.cells.upstreams[upstream]))
    }

    /// Counts of a filter.
    #[must_use]
    pub fn filter(&self, filter: usize) -> FilterMetrics {
        FilterMetrics(handle(&self.cells.filters[filter]))
    }

    /// Counts of calls of gRPC.
    #[must_use]
    pub fn calls(&self) -> CallMetrics {
        CallMetrics::new(handle(&self.cells.calls), Arc::clone(&self.methods))
    }

    /// Counts without a name of the configuration.
    #[must_use]
    pub fn totals(&self) -> TotalMetrics {
        TotalMetrics(handle(&self.cells.totals))
    }
}

/// The origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The upstream of its route.
    Upstream,
    /// The gateway itself: no route, a limit, a refusal.
    Gateway,
}

/// Counts of one filter.
#[derive(Debug)]
pub struct FilterMetrics(Handle<FilterCells>);

impl FilterMetrics {
    /// Counts a request that the filter answered itself.
    pub fn count_answer(&self) {
        self.0.0.answered.increment();
    }

    /// A response of `read` bytes became one of `written`.
    pub fn compressed(&self, coding: Coding, read: u64, written: u64) {
        let cells = &self.0.0.compressed[coding as usize];
        cells.responses.increment();
        cells.content.read.add(read);
        cells.content.written.add(written);
    }

    /// A response was not compressed.
    pub fn uncompressed(&self, reason: Uncompressed) {
        self.0.0.uncompressed[reason.index()].increment();
    }
}

/// Counts of one route, or of requests without one.
#[derive(Debug, Clone)]
pub struct RouteMetrics(Handle<RouteCells>);

impl RouteMetrics {
    /// A request was answered with `status`, `elapsed` after its first byte.
    #[inline]
    pub fn request(&self, answered: Answered, status: u16, elapsed: Duration) {
        let route = &self.0.0;
        let by_class = match answered {
            Answered::Upstream => &route.forwarded,
            Answered::Gateway => &route.answered,
        };
        by_class[cells::class_index(status)].increment();
        route.latency.observe(elapsed);
    }
}

/// Counts of one listener.
#[derive(Debug, Clone)]
pub struct ListenerMetrics(Handle<ListenerCells>);

impl ListenerMetrics {
    /// A client connected.
    #[inline]
    pub fn connection_opened(&self) {
        self.0.0.connections.opened.increment();
    }

    /// A client's connection was closed.
    #[inline]
    pub fn connection_closed(&self) {
        self.0.0.connections.closed.increment();
    }
}

/// Counts of one upstream.
#[derive(Debug, Clone)]
pub struct UpstreamMetrics(Handle<UpstreamCells>);

impl UpstreamMetrics {
    /// A connection to a server is established.
    #[inline]
    pub fn connection_opened(&self) {
        self.0.0.connections.opened.increment();
    }

    /// A connection to a server ended.
    #[inline]
    pub fn connection_closed(&self) {
        self.0.0.connections.closed.increment();
    }

    /// A connection to a server could not be established.
    #[inline]
    pub fn connect_failed(&self) {
        self.0.0.connect_failures.increment();
    }

    /// A request was sent again: its first connection had closed while idle.
    #[inline]
    pub fn replayed(&self) {
        self.0.0.replays.increment();
    }

    /// Sets the number of idle connections that this worker keeps to the upstream's servers.
    #[inline]
    pub fn set_idle(&self, count: usize) {
        self.0.0.idle.set(count as u64);
    }
}

/// Counts that carry no name of the configuration.
#[derive(Debug, Clone)]
pub struct TotalMetrics(Handle<TotalCells>);

impl TotalMetrics {
    /// A TLS handshake with a client ended.
    pub fn handshake(&self, handshake: Handshake) {
        self.0.0.handshakes[handshake.index()].increment();
    }

    /// A request failed at its upstream.
    pub(crate) fn error_line(&self, line: ErrorLine) {
        self.0.0.error_lines[line.index()].increment();
    }

    /// An exchange or a connection was aborted.
    #[inline]
    pub fn closed(&self, reason: CloseReason) {
        self.0.0.closed[reason.index()].increment();
    }

    /// An exchange became a tunnel.
    #[inline]
    pub fn tunnel_opened(&self) {
        self.0.0.tunnels.opened.increment();
    }

    /// A tunnel ended.
    #[inline]
    pub fn tunnel_closed(&self) {
        self.0.0.tunnels.closed.increment();
    }

    /// Counts the bytes of connections on `side`.
    #[must_use]
    pub fn traffic(&self, side: Side) -> Traffic {
        Traffic {
            totals: Some(self.0.clone()),
            side,
        }
    }
}

/// Which of a gateway's sides a connection is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Toward a client.
    Downstream,
    /// Toward a server.
    Upstream,
}

/// Counts the bytes of connections, and the streams of those that are shared.
#[derive(Debug, Clone)]
pub struct Traffic {
    totals: Option<Handle<TotalCells>>,
    side: Side,
}

impl Traffic {
    /// A connection whose bytes are not counted.
    #[must_use]
    pub fn uncounted() -> Self {
        Self {
            totals: None,
            side: Side::Upstream,
        }
    }

    /// Bytes that came.
    #[inline]
    pub fn read(&self, bytes: usize) {
        self.count(bytes, 0);
    }

    /// Bytes that went out.
    #[inline]
    pub fn written(&self, bytes: usize) {
        self.count(0, bytes);
    }

    /// A stream of a connection that several exchanges share, until what is returned is dropped.
    #[must_use]
    pub fn stream(&self) -> CountedStream {
        let counted = CountedStream(self.clone());
        if let Some(streams) = counted.cells() {
            streams.opened.increment();
        }
        counted
    }

    #[inline]
    fn count(&self, read: usize, written: usize) {
        let Some(totals) = &self.totals else { return };
        match self.side {
            Side::Downstream => totals.0.downstream.count(read, written),
            Side::Upstream => totals.0.upstream.count(read, written),
        }
    }
}

/// Counts an open stream.
#[derive(Debug)]
pub struct CountedStream(Traffic);

impl CountedStream {
    fn cells(&self) -> Option<&OpenCells> {
        let totals = &self.0.totals.as_ref()?.0;
        Some(match self.0.side {
            Side::Downstream => &totals.downstream_streams,
            Side::Upstream => &totals.upstream_streams,
        })
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        if let Some(streams) = self.cells() {
            streams.closed.increment();
        }
    }
}
