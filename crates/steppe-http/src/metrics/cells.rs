//! The cells of one worker, grouped so that those of one request share cache lines.
//!
//! A series belongs to a name, not to a configuration: a reload passes the cells of names
//! that stay to the next generation.

use std::sync::Arc;

use steppe_telemetry::{Counter, Gauge, Histogram};

use super::calls::CallCells;
use super::close_reason::CloseReason;
use super::error_line::ErrorLine;
use super::handshake::Handshake;
use super::labels::Labels;
use super::uncompressed::Uncompressed;
use crate::coding::Coding;

/// Labels of the status classes, 1xx first.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[derive(Debug)]
pub(super) struct WorkerCells {
    pub(super) listeners: Box<[Arc<ListenerCells>]>,
    /// The cells of requests without a route, then those of the routes.
    pub(super) routes: Box<[Arc<RouteCells>]>,
    pub(super) upstreams: Box<[Arc<UpstreamCells>]>,
    pub(super) filters: Box<[Arc<FilterCells>]>,
    pub(super) totals: Arc<TotalCells>,
    pub(super) calls: Arc<CallCells>,
}

/// Cells without a name of the configuration.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct TotalCells {
    pub(super) downstream: ByteCells,
    pub(super) upstream: ByteCells,
    pub(super) closed: [Counter; CloseReason::ALL.len()],
    pub(super) tunnels: OpenCells,
    pub(super) downstream_streams: OpenCells,
    pub(super) upstream_streams: OpenCells,
    pub(super) handshakes: [Counter; Handshake::OUTCOMES.len()],
    pub(super) error_lines: [Counter; ErrorLine::OUTCOMES.len()],
}

/// A gauge as two monotonic counters: a connection may be opened on one worker and closed on
/// another, and each worker writes its own cells only.
#[derive(Debug, Default)]
pub(super) struct OpenCells {
    pub(super) opened: Counter,
    pub(super) closed: Counter,
}

/// Sums of [`OpenCells`].
#[derive(Debug, Default)]
pub(super) struct OpenSum {
    pub(super) opened: u64,
    pub(super) closed: u64,
}

#[derive(Debug, Default)]
pub(super) struct ByteCells {
    pub(super) read: Counter,
    pub(super) written: Counter,
}

/// Aligned like everything that a worker's shard points to: the allocator may place boxes
/// of two workers side by side.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ListenerCells {
    pub(super) connections: OpenCells,
}

#[derive(Debug)]
#[repr(align(128))]
pub(super) struct RouteCells {
    /// By status class, where the upstream answered.
    pub(super) forwarded: [Counter; CLASSES.len()],
    /// By status class, where the gateway answered.
    pub(super) answered: [Counter; CLASSES.len()],
    pub(super) latency: Histogram,
}

#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct UpstreamCells {
    pub(super) connections: OpenCells,
    pub(super) idle: Gauge,
    pub(super) connect_failures: Counter,
    pub(super) replays: Counter,
}

#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct FilterCells {
    /// Requests that the filter answered itself.
    pub(super) answered: Counter,
    /// Responses that were compressed, by coding.
    pub(super) compressed: [CodingCells; Coding::COUNT],
    /// Responses that were not, by reason.
    pub(super) uncompressed: [Counter; Uncompressed::ALL.len()],
}

#[derive(Debug, Default)]
pub(super) struct CodingCells {
    pub(super) responses: Counter,
    /// Before, and after.
    pub(super) content: ByteCells,
}

impl WorkerCells {
    pub(super) fn new(labels: &Labels) -> Self {
        Self {
            listeners: fresh(labels.listeners.len()),
            routes: fresh(labels.routes.len() + 1),
            upstreams: fresh(labels.upstreams.len()),
            filters: fresh(labels.filters.len()),
            totals: Arc::default(),
            calls: Arc::default(),
        }
    }

    /// Cells for `labels`, which shares the cells that `self` has for the same names in `known`.
    pub(super) fn relabeled(&self, known: &Labels, labels: &Labels) -> Self {
        let routes = kept(&self.routes[1..], &known.route_keys(), &labels.route_keys());
        Self {
            listeners: kept(&self.listeners, &known.listeners, &labels.listeners),
            routes: std::iter::once(Arc::clone(&self.routes[0]))
                .chain(routes)
                .collect(),
            upstreams: kept(&self.upstreams, &known.upstreams, &labels.upstreams),
            filters: kept(&self.filters, &known.filters, &labels.filters),
            totals: Arc::clone(&self.totals),
            calls: Arc::clone(&self.calls),
        }
    }
}

fn fresh<T: Default>(count: usize) -> Box<[Arc<T>]> {
    std::iter::repeat_with(Arc::default).take(count).collect()
}

/// The cells of `names`: the existing ones of names in `known`, new ones for the others.
fn kept<T: Default, N: PartialEq>(cells: &[Arc<T>], known: &[N], names: &[N]) -> Box<[Arc<T>]> {
    let cells_of = |name: &N| {
        let at = known.iter().position(|other| other == name);
        at.map_or_else(Arc::default, |at| Arc::clone(&cells[at]))
    };
    names.iter().map(cells_of).collect()
}

impl OpenSum {
    /// Reads `closed` first: a connection that opens and closes in between is then missed
    /// entirely rather than counted as closed only.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a OpenCells>) -> Self {
        cells.fold(Self::default(), |sum, cells| {
            let closed = sum.closed + cells.closed.value();
            Self {
                opened: sum.opened + cells.opened.value(),
                closed,
            }
        })
    }

    /// The difference. Workers update concurrently, so a sum may have more closed than opened.
    pub(super) fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

impl Default for TotalCells {
    fn default() -> Self {
        Self {
            downstream: ByteCells::default(),
            upstream: ByteCells::default(),
            closed: [const { Counter::new() }; CloseReason::ALL.len()],
            tunnels: OpenCells::default(),
            downstream_streams: OpenCells::default(),
            upstream_streams: OpenCells::default(),
            handshakes: [const { Counter::new() }; Handshake::OUTCOMES.len()],
            error_lines: [const { Counter::new() }; ErrorLine::OUTCOMES.len()],
        }
    }
}

impl Default for RouteCells {
    fn default() -> Self {
        Self {
            forwarded: [const { Counter::new() }; CLASSES.len()],
            answered: [const { Counter::new() }; CLASSES.len()],
            latency: Histogram::new(),
        }
    }
}

impl RouteCells {
    pub(super) fn requests(&self) -> u64 {
        self.forwarded
            .iter()
            .chain(&self.answered)
            .map(Counter::value)
            .sum()
    }
}

impl ByteCells {
    #[inline]
    pub(super) fn count(&self, read: usize, written: usize) {
        self.read.add(read as u64);
        self.written.add(written as u64);
    }
}

/// Index of a status's class. A status beyond 5xx counts as 5xx: only a broken server sends
/// it.
#[inline]
pub(super) const fn class_index(status: u16) -> usize {
    match status {
        100..=199 => 0,
        200..=299 => 1,
        300..=399 => 2,
        400..=499 => 3,
        _ => 4,
    }
}
