//! The cells of all workers under the names of one configuration.
//!
//! A reload makes a new generation, which shares the cells of every name that stays.

use std::sync::Arc;

use steppe_telemetry::PerWorker;

use super::calls::Methods;
use super::cells::{OpenCells, OpenSum, TotalCells, WorkerCells};
use super::labels::Labels;
use super::worker::WorkerMetrics;

/// The cells of all workers for one configuration.
#[derive(Debug)]
pub struct Generation {
    pub(super) labels: Labels,
    pub(super) workers: PerWorker<WorkerCells>,
    /// The same in every generation.
    pub(super) methods: Arc<Methods>,
}

impl Generation {
    /// Cells at zero for `workers`.
    pub(super) fn new(labels: Labels, workers: usize) -> Self {
        let methods = Arc::new(Methods::new(workers));
        let workers = PerWorker::new(workers, || WorkerCells::new(&labels));
        Self {
            labels,
            workers,
            methods,
        }
    }

    /// The cells that worker `index` writes.
    ///
    /// A worker may hold cells of several generations at once, since it is one thread.
    ///
    /// # Panics
    /// When there is no such worker, or its cells have a writer: two writers would lose
    /// increments.
    #[must_use]
    pub fn worker(&self, index: usize) -> WorkerMetrics {
        let cells = self.workers.writer(index);
        let cells = cells.expect("each worker takes its own cells, once");
        WorkerMetrics::new(cells, Arc::clone(&self.methods))
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.cells().count()
    }

    /// Unlabelled totals of all workers.
    pub(super) fn total(&self, of: fn(&TotalCells) -> &OpenCells) -> OpenSum {
        OpenSum::of(self.workers.cells().map(|cells| of(&cells.totals)))
    }

    /// Connections of a listener, of all workers.
    pub(super) fn listener(&self, index: usize) -> OpenSum {
        let cells = self.workers.cells();
        OpenSum::of(cells.map(|cells| &cells.listeners[index].connections))
    }

    /// Connections to an upstream, of all workers.
    pub(super) fn upstream(&self, index: usize) -> OpenSum {
        let cells = self.workers.cells();
        OpenSum::of(cells.map(|cells| &cells.upstreams[index].connections))
    }

    /// The generation of `labels`, which shares the cells of every name that stays. A listener or
    /// an upstream that is gone keeps its cells while it has open connections.
    pub(super) fn relabeled(&self, mut labels: Labels) -> Self {
        self.keep_open(&mut labels);
        let cells = self.workers.cells();
        let relabeled = cells.map(|cells| cells.relabeled(&self.labels, &labels));
        let workers = PerWorker::of(relabeled);
        Self {
            labels,
            workers,
            methods: Arc::clone(&self.methods),
        }
    }

    /// Adds to `labels` what has open connections: they are still to be counted out.
    fn keep_open(&self, labels: &mut Labels) {
        let leftover = |names: &[String], known: &[String], is_open: &dyn Fn(usize) -> bool| {
            let gone = |&(index, name): &(usize, &String)| !names.contains(name) && is_open(index);
            let gone = known.iter().enumerate().filter(gone);
            gone.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let is_open = |index| self.listener(index).open() > 0;
        let listeners = leftover(&labels.listeners, &self.labels.listeners, &is_open);
        let is_open = |index| self.upstream(index).open() > 0;
        let upstreams = leftover(&labels.upstreams, &self.labels.upstreams, &is_open);
        labels.listeners.extend(listeners);
        labels.upstreams.extend(upstreams);
    }
}
