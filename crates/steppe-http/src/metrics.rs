//! What the gateway counts.
//!
//! Each worker has cells of its own, laid out at start for every listener, route
//! and upstream: to count is an index, a load and a store, without an allocation
//! or a lock. A scrape sums the workers.
//!
//! Invariant: the number of series is fixed by the configuration. Nothing that a
//! peer sends becomes a label. A reload makes a new generation of cells, which
//! shares those of every name that stays: no count starts again.
//!
//! Leaves out budget and process metrics, which are the node's.

mod cells;
mod close_reason;
mod collector;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use steppe_telemetry::{HistogramSum, PerWorker, Writer};

use crate::config::Gateway;
use cells::{Cells, OpenSum};

pub use close_reason::CloseReason;
pub use collector::HttpCollector;

/// The label of a request that matched no route or reached no upstream.
pub const NONE: &str = "-";

/// Counts of the gateway, of all workers.
#[derive(Debug)]
pub struct HttpMetrics {
    generation: RwLock<Arc<Generation>>,
}

/// Cells as one configuration names them.
#[derive(Debug)]
pub struct Generation {
    labels: Labels,
    workers: PerWorker<Cells>,
}

/// Names that series carry, by index as in the configuration.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Addresses of listeners.
    pub listeners: Vec<String>,
    /// Routes.
    pub routes: Vec<RouteLabels>,
    /// Names of upstreams.
    pub upstreams: Vec<String>,
}

/// Names of one route.
#[derive(Debug, Clone)]
pub struct RouteLabels {
    /// The route's own.
    pub name: String,
    /// Index of its upstream, where it has one.
    pub upstream: Option<usize>,
}

impl Labels {
    /// What tells routes' series apart: the names of the route and of its upstream.
    fn route_keys(&self) -> Vec<(&str, Option<&str>)> {
        let upstream = |index: usize| self.upstreams.get(index).map(String::as_str);
        let routes = self.routes.iter();
        routes
            .map(|route| (route.name.as_str(), route.upstream.and_then(upstream)))
            .collect()
    }

    /// The names in a configuration.
    #[must_use]
    pub fn of(gateway: &Gateway) -> Self {
        let route = |route: &crate::config::Route| RouteLabels {
            name: route.name.clone(),
            upstream: route.target.upstream(),
        };
        Self {
            listeners: gateway
                .listeners
                .iter()
                .map(|listener| listener.address.to_string())
                .collect(),
            routes: gateway.routes.iter().map(route).collect(),
            upstreams: gateway
                .upstreams
                .iter()
                .map(|upstream| upstream.name.clone())
                .collect(),
        }
    }
}

/// Connections of all workers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// From clients.
    pub downstream: u64,
    /// To servers, with an exchange or a tunnel on them.
    pub upstream_active: u64,
    /// To servers, kept for the next request.
    pub upstream_idle: u64,
}

impl HttpMetrics {
    /// Cells at zero for `workers`.
    #[must_use]
    pub fn new(labels: Labels, workers: usize) -> Arc<Self> {
        let workers = PerWorker::new(workers, || Cells::new(&labels));
        Arc::new(Self {
            generation: RwLock::new(Arc::new(Generation { labels, workers })),
        })
    }

    /// What is counted now.
    #[must_use]
    pub fn generation(&self) -> Arc<Generation> {
        let generation = self.generation.read();
        Arc::clone(&generation.unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over the names of a new configuration. Counts of names that stay go on;
    /// those of names that go end, but for connections that are still open.
    pub fn relabel(&self, mut labels: Labels) -> Arc<Generation> {
        let known = self.generation();
        labels.keep_open(&known);
        let cells = known.workers.cells();
        let relabeled = cells.map(|cells| cells.relabeled(&known.labels, &labels));
        let workers = PerWorker::of(relabeled);
        let next = Arc::new(Generation { labels, workers });
        let mut generation = self
            .generation
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *generation = Arc::clone(&next);
        next
    }

    /// The cells that worker `index` writes; see [`Generation::worker`].
    ///
    /// # Panics
    /// As that.
    #[must_use]
    pub fn worker(&self, index: usize) -> WorkerMetrics {
        self.generation().worker(index)
    }

    /// What to register for scraping.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<HttpCollector> {
        Box::new(HttpCollector(Arc::clone(self)))
    }

    /// Connections open now. Workers count on meanwhile, so this is as exact as
    /// any moment is.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let generation = self.generation();
        let cells = || generation.workers.cells();
        let listeners = cells().flat_map(|cells| &cells.listeners);
        let upstreams = || cells().flat_map(|cells| &cells.upstreams);
        let upstream = OpenSum::of(upstreams().map(|upstream| &upstream.connections)).open();
        let upstream_idle = upstreams().map(|upstream| upstream.idle.value()).sum();
        Connections {
            downstream: OpenSum::of(listeners.map(|listener| &listener.connections)).open(),
            upstream_active: upstream.saturating_sub(upstream_idle),
            upstream_idle,
        }
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.generation()
            .workers
            .sum(|cells| cells.routes.iter().map(|route| route.requests()).sum())
    }

    /// How long all requests took, of all routes.
    #[must_use]
    pub fn latencies(&self) -> HistogramSum {
        let generation = self.generation();
        let routes = generation.workers.cells().flat_map(|cells| &cells.routes);
        HistogramSum::of(routes.map(|route| &route.latency))
    }

    /// Tunnels open now.
    #[must_use]
    pub fn tunnels(&self) -> u64 {
        let generation = self.generation();
        OpenSum::of(
            generation
                .workers
                .cells()
                .map(|cells| &cells.totals.tunnels),
        )
        .open()
    }
}

impl Generation {
    /// The cells that worker `index` writes.
    ///
    /// A worker may hold those of several generations: it is one thread.
    ///
    /// # Panics
    /// Where there is no such worker or another holds its cells: two writers
    /// would lose counts.
    #[must_use]
    pub fn worker(&self, index: usize) -> WorkerMetrics {
        let cells = self.workers.writer(index);
        WorkerMetrics {
            cells: cells.expect("each worker takes its own cells, once"),
        }
    }

    /// Connections of a listener, of all workers.
    fn listener(&self, index: usize) -> OpenSum {
        let cells = self.workers.cells();
        OpenSum::of(cells.map(|cells| &cells.listeners[index].connections))
    }

    /// Connections to an upstream, of all workers.
    fn upstream(&self, index: usize) -> OpenSum {
        let cells = self.workers.cells();
        OpenSum::of(cells.map(|cells| &cells.upstreams[index].connections))
    }
}

impl Labels {
    /// Adds what `known` has connections of: they are still to be counted out.
    fn keep_open(&mut self, known: &Generation) {
        let leftover = |names: &[String], known: &[String], is_open: &dyn Fn(usize) -> bool| {
            let gone = |&(index, name): &(usize, &String)| !names.contains(name) && is_open(index);
            let gone = known.iter().enumerate().filter(gone);
            gone.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let is_open = |index| known.listener(index).open() > 0;
        let listeners = leftover(&self.listeners, &known.labels.listeners, &is_open);
        let is_open = |index| known.upstream(index).open() > 0;
        let upstreams = leftover(&self.upstreams, &known.labels.upstreams, &is_open);
        self.listeners.extend(listeners);
        self.upstreams.extend(upstreams);
    }
}

/// The cells of one worker, for its thread alone.
///
/// Indexes are those of the configuration; one that does not exist is a bug of
/// the caller and panics, in a worker's first request rather than unnoticed.
#[derive(Debug)]
pub struct WorkerMetrics {
    cells: Writer<Cells>,
}

impl WorkerMetrics {
    /// A request was answered with `status`, `elapsed` after its first byte.
    ///
    /// `upstream` is the one that answered: the route's, or `None` where the
    /// gateway answered itself (no route, a limit, a refusal).
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
        by_class[cells::class_index(status)].increment();
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

    /// A client's connection ended.
    #[inline]
    pub fn connection_closed(&self, listener: usize) {
        self.cells.listeners[listener]
            .connections
            .closed
            .increment();
    }

    /// A connection to an upstream's server stands.
    #[inline]
    pub fn upstream_opened(&self, upstream: usize) {
        self.cells.upstreams[upstream]
            .connections
            .opened
            .increment();
    }

    /// A connection to an upstream's server ended.
    #[inline]
    pub fn upstream_closed(&self, upstream: usize) {
        self.cells.upstreams[upstream]
            .connections
            .closed
            .increment();
    }

    /// A connection to an upstream's server did not come to stand.
    #[inline]
    pub fn upstream_connect_failed(&self, upstream: usize) {
        self.cells.upstreams[upstream].connect_failures.increment();
    }

    /// A request went out again, its first connection having died idle.
    #[inline]
    pub fn upstream_replayed(&self, upstream: usize) {
        self.cells.upstreams[upstream].replays.increment();
    }

    /// How many connections this worker keeps idle to an upstream's servers.
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

    /// An exchange or a connection ended before its time.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        let route = |name: &str, upstream| RouteLabels {
            name: name.to_owned(),
            upstream,
        };
        Labels {
            listeners: vec!["127.0.0.1:8080".to_owned(), "unix:/run/s.sock".to_owned()],
            routes: vec![route("api", Some(1)), route("site", Some(0))],
            upstreams: vec!["files".to_owned(), "api".to_owned()],
        }
    }

    fn lines(metrics: &Arc<HttpMetrics>) -> Vec<String> {
        let mut registry = steppe_telemetry::Registry::default();
        registry.register_collector(metrics.collector());
        let text = steppe_telemetry::encode::exposition(&registry).expect("a string takes it");
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn check(metrics: &Arc<HttpMetrics>, want: &[&str]) {
        let lines = lines(metrics);
        for line in want {
            assert!(
                lines.iter().any(|have| have == line),
                "{line} in {lines:#?}"
            );
        }
    }

    #[test]
    fn requests_are_summed_over_workers_by_route_class_and_upstream() {
        let metrics = HttpMetrics::new(labels(), 2);
        let (one, other) = (metrics.worker(0), metrics.worker(1));
        let elapsed = Duration::from_millis(1);
        one.request(Some(0), Some(1), 200, elapsed);
        other.request(Some(0), Some(1), 204, elapsed);
        other.request(Some(0), None, 413, elapsed);
        other.request(Some(1), Some(0), 502, elapsed);
        one.request(None, None, 404, elapsed);
        check(
            &metrics,
            &[
                r#"steppe_http_requests_total{route="api",status="2xx",upstream="api"} 2"#,
                r#"steppe_http_requests_total{route="api",status="4xx",upstream="-"} 1"#,
                r#"steppe_http_requests_total{route="site",status="5xx",upstream="files"} 1"#,
                r#"steppe_http_requests_total{route="-",status="4xx",upstream="-"} 1"#,
                r#"steppe_http_request_duration_seconds_count{route="api"} 3"#,
                r#"steppe_http_request_duration_seconds_bucket{le="0.000768",route="api"} 0"#,
                r#"steppe_http_request_duration_seconds_bucket{le="0.001024",route="api"} 3"#,
            ],
        );
        assert_eq!(metrics.requests(), 5);
        assert_eq!(metrics.latencies().count(), 5);
    }

    #[test]
    fn open_connections_are_those_opened_less_those_closed_on_any_worker() {
        let metrics = HttpMetrics::new(labels(), 2);
        let (one, other) = (metrics.worker(0), metrics.worker(1));
        (0..5).for_each(|_| one.connection_opened(1));
        (0..2).for_each(|_| other.connection_closed(1));
        (0..4).for_each(|_| one.upstream_opened(0));
        other.upstream_opened(0);
        one.upstream_idle(0, 3);
        other.upstream_idle(0, 1);
        let want = Connections {
            downstream: 3,
            upstream_active: 1,
            upstream_idle: 4,
        };
        assert_eq!(metrics.connections(), want);
        check(
            &metrics,
            &[
                r#"steppe_http_connections{listener="unix:/run/s.sock"} 3"#,
                r#"steppe_http_connections{listener="127.0.0.1:8080"} 0"#,
                r#"steppe_http_connections_opened_total{listener="unix:/run/s.sock"} 5"#,
                r#"steppe_http_upstream_connections{upstream="files",state="active"} 1"#,
                r#"steppe_http_upstream_connections{upstream="files",state="idle"} 4"#,
                r#"steppe_http_upstream_connections_opened_total{upstream="files"} 5"#,
            ],
        );
    }

    #[test]
    fn bytes_tunnels_and_reasons_have_their_series() {
        let metrics = HttpMetrics::new(labels(), 1);
        let worker = metrics.worker(0);
        worker.downstream_bytes(10, 200);
        worker.upstream_bytes(3_000, 40_000);
        worker.tunnel_opened();
        worker.closed(CloseReason::WriteStall);
        worker.closed(CloseReason::WriteStall);
        worker.upstream_replayed(1);
        worker.upstream_connect_failed(1);
        check(
            &metrics,
            &[
                r#"steppe_http_downstream_bytes_total{direction="read"} 10"#,
                r#"steppe_http_downstream_bytes_total{direction="written"} 200"#,
                r#"steppe_http_upstream_bytes_total{direction="read"} 3000"#,
                r#"steppe_http_upstream_bytes_total{direction="written"} 40000"#,
                "steppe_http_tunnels 1",
                "steppe_http_tunnels_opened_total 1",
                r#"steppe_http_closed_total{reason="write_stall"} 2"#,
                r#"steppe_http_closed_total{reason="over_budget"} 0"#,
                r#"steppe_http_upstream_replays_total{upstream="api"} 1"#,
                r#"steppe_http_upstream_connect_failures_total{upstream="api"} 1"#,
            ],
        );
    }

    #[test]
    fn a_worker_that_ends_leaves_its_counts_and_its_place() {
        let metrics = HttpMetrics::new(labels(), 1);
        metrics.worker(0).request(None, None, 404, Duration::ZERO);
        metrics.worker(0).request(None, None, 404, Duration::ZERO);
        assert_eq!(metrics.requests(), 2);
    }

    #[test]
    fn counts_of_names_that_stay_go_on_and_open_connections_are_counted_out() {
        let metrics = HttpMetrics::new(labels(), 1);
        let old = metrics.worker(0);
        old.request(Some(0), Some(1), 200, Duration::ZERO);
        old.request(Some(1), Some(0), 200, Duration::ZERO);
        old.connection_opened(1);
        old.downstream_bytes(10, 0);
        let mut next = labels();
        next.listeners = vec!["127.0.0.1:8081".to_owned()];
        next.routes.remove(1);
        next.upstreams.reverse();
        next.routes[0].upstream = Some(0);
        let new = metrics.relabel(next).worker(0);
        // One request was still under way when the configuration changed.
        old.request(Some(0), Some(1), 200, Duration::ZERO);
        new.request(Some(0), Some(0), 200, Duration::ZERO);
        check(
            &metrics,
            &[
                r#"steppe_http_requests_total{route="api",status="2xx",upstream="api"} 3"#,
                r#"steppe_http_connections{listener="unix:/run/s.sock"} 1"#,
                r#"steppe_http_connections{listener="127.0.0.1:8081"} 0"#,
                r#"steppe_http_downstream_bytes_total{direction="read"} 10"#,
            ],
        );
        let text = lines(&metrics).join("\n");
        assert!(!text.contains("site"), "{text}");
        assert!(!text.contains("127.0.0.1:8080"), "{text}");
        old.connection_closed(1);
        assert_eq!(metrics.connections().downstream, 0);
        metrics.relabel(Labels::default());
        assert!(!lines(&metrics).join("\n").contains("s.sock"));
    }

    #[test]
    #[should_panic(expected = "each worker takes its own cells, once")]
    fn cells_have_one_writer() {
        let metrics = HttpMetrics::new(labels(), 1);
        let _first = metrics.worker(0);
        let _second = metrics.worker(0);
    }
}
