//! The cells of one worker, grouped so that what one request touches lies together.

use steppe_telemetry::{Counter, Gauge, Histogram};

use super::{CloseReason, Labels};

/// Labels of the status classes, 1xx first.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[derive(Debug)]
pub(super) struct Cells {
    pub(super) listeners: Box<[ListenerCells]>,
    /// Requests without a route first, then the routes.
    pub(super) routes: Box<[RouteCells]>,
    pub(super) upstreams: Box<[UpstreamCells]>,
    pub(super) downstream: ByteCells,
    pub(super) upstream: ByteCells,
    pub(super) closed: [Counter; CloseReason::ALL.len()],
    pub(super) tunnels: OpenCells,
}

/// What is open is what was opened less what was closed: two counters that never
/// go down, so that workers may open and close on each other's behalf.
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

/// Aligned like the rest that hangs off a worker's shard by pointer: the
/// allocator may put two workers' boxes side by side.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ListenerCells {
    pub(super) connections: OpenCells,
}

#[derive(Debug)]
#[repr(align(128))]
pub(super) struct RouteCells {
    pub(super) upstream: Option<usize>,
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

impl Cells {
    pub(super) fn new(labels: &Labels) -> Self {
        let routes = labels
            .routes
            .iter()
            .map(|route| RouteCells::new(Some(route.upstream)));
        Self {
            listeners: labels
                .listeners
                .iter()
                .map(|_| ListenerCells::default())
                .collect(),
            routes: std::iter::once(RouteCells::new(None))
                .chain(routes)
                .collect(),
            upstreams: labels
                .upstreams
                .iter()
                .map(|_| UpstreamCells::default())
                .collect(),
            downstream: ByteCells::default(),
            upstream: ByteCells::default(),
            closed: [const { Counter::new() }; CloseReason::ALL.len()],
            tunnels: OpenCells::default(),
        }
    }
}

impl OpenSum {
    /// Reads `closed` first: what opens and closes in between is then missed
    /// whole rather than counted as closed only.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a OpenCells>) -> Self {
        cells.fold(Self::default(), |sum, cells| {
            let closed = sum.closed + cells.closed.value();
            Self {
                opened: sum.opened + cells.opened.value(),
                closed,
            }
        })
    }

    /// Open now. Workers close on each other's behalf, so a sum that is read
    /// meanwhile may have more closed than opened.
    pub(super) fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

impl RouteCells {
    fn new(upstream: Option<usize>) -> Self {
        Self {
            upstream,
            forwarded: [const { Counter::new() }; CLASSES.len()],
            answered: [const { Counter::new() }; CLASSES.len()],
            latency: Histogram::new(),
        }
    }

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

/// Place of a status in its class; what no class knows counts as 5xx, since only
/// a broken server sends it.
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
