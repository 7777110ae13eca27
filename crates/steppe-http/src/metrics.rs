//! The gateway's metrics.
//!
//! Each worker has cells of its own, allocated at start for every listener, route and
//! upstream: an increment is an index, a load and a store, without an allocation or a
//! lock. A scrape sums the workers.
//!
//! Invariant: the configuration determines the number of series. No data of a peer
//! becomes a label, but for names of methods, of which there is a bound (`calls.rs`). A reload
//! makes a new generation of cells, which shares the cells of names that stay, so no counter is
//! reset.
//!
//! Non-goals: budget and process metrics, which are the node's.

mod calls;
mod cells;
mod close_reason;
mod error_line;
mod generation;
mod handle;
mod handshake;
mod labels;
mod responses;
mod series;
mod uncompressed;
mod worker;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use steppe_telemetry::{Collector, DescriptorEncoder, HistogramSum};

use cells::OpenSum;

pub use calls::{CallMetrics, Called};
pub use close_reason::CloseReason;
pub use error_line::ErrorLine;
pub use generation::Generation;
pub use handshake::Handshake;
pub use labels::{Labels, NONE, RouteLabels};
pub use responses::{ByClass, RouteResponses};
pub use uncompressed::Uncompressed;
pub use worker::{
    Answered, CountedStream, FilterMetrics, ListenerMetrics, RouteMetrics, Side, TotalMetrics,
    Traffic, UpstreamMetrics, WorkerMetrics,
};

/// The metrics of all workers of a gateway.
#[derive(Debug)]
pub struct HttpMetrics {
    generation: RwLock<Arc<Generation>>,
}

/// Writes the gateway's series into a scrape.
#[derive(Debug)]
pub struct HttpCollector(Arc<HttpMetrics>);

/// Connections of all workers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// From clients.
    pub downstream: u64,
    /// To servers, in use by an exchange or a tunnel.
    pub upstream_active: u64,
    /// To servers, idle in a pool.
    pub upstream_idle: u64,
    /// Streams of those from clients that carry several exchanges at a time.
    pub downstream_streams: u64,
    /// The same of those to servers.
    pub upstream_streams: u64,
    /// Exchanges that became tunnels.
    pub tunnels: u64,
}

impl HttpMetrics {
    /// Cells at zero for `workers`.
    #[must_use]
    pub fn new(labels: Labels, workers: usize) -> Arc<Self> {
        Arc::new(Self {
            generation: RwLock::new(Arc::new(Generation::new(labels, workers))),
        })
    }

    /// The current generation of cells.
    #[must_use]
    pub fn generation(&self) -> Arc<Generation> {
        let generation = self.generation.read();
        Arc::clone(&generation.unwrap_or_else(PoisonError::into_inner))
    }

    /// Switches to the names of a new configuration. Series of names that stay continue; those
    /// of removed names end, except for connections that are still open.
    pub fn relabel(&self, labels: Labels) -> Arc<Generation> {
        let next = Arc::new(self.generation().relabeled(labels));
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
    /// As [`Generation::worker`] does.
    #[must_use]
    pub fn worker(&self, index: usize) -> WorkerMetrics {
        self.generation().worker(index)
    }

    /// A collector of these metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<HttpCollector> {
        Box::new(HttpCollector(Arc::clone(self)))
    }

    /// Open connections. Workers update their cells concurrently, so this is a snapshot without
    /// a common moment.
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
            downstream_streams: generation.total(|totals| &totals.downstream_streams).open(),
            upstream_streams: generation.total(|totals| &totals.upstream_streams).open(),
            tunnels: generation.total(|totals| &totals.tunnels).open(),
        }
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.generation()
            .workers
            .sum(|cells| cells.routes.iter().map(|route| route.requests()).sum())
    }

    /// The durations of all requests of all routes.
    #[must_use]
    pub fn latencies(&self) -> HistogramSum {
        let generation = self.generation();
        let routes = generation.workers.cells().flat_map(|cells| &cells.routes);
        HistogramSum::of(routes.map(|route| &route.latency))
    }
}

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.generation().encode(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            filters: Vec::new(),
            compressing: Vec::new(),
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
        let request = |worker: &WorkerMetrics, route, answered, status| {
            worker.route(route).request(answered, status, elapsed);
        };
        request(&one, Some(0), Answered::Upstream, 200);
        request(&other, Some(0), Answered::Upstream, 204);
        request(&other, Some(0), Answered::Gateway, 413);
        request(&other, Some(1), Answered::Upstream, 502);
        request(&one, None, Answered::Gateway, 404);
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
        assert_eq!(metrics.responses_by_class(), [0, 2, 0, 2, 1]);
        let row = |route: &str, upstream: Option<&str>, forwarded, local| RouteResponses {
            route: route.to_owned(),
            upstream: upstream.map(str::to_owned),
            forwarded,
            local,
        };
        let want = [
            row(NONE, None, [0; 5], [0, 0, 0, 1, 0]),
            row("api", Some("api"), [0, 2, 0, 0, 0], [0, 0, 0, 1, 0]),
            row("site", Some("files"), [0, 0, 0, 0, 1], [0; 5]),
        ];
        assert_eq!(metrics.responses(), want);
    }

    #[test]
    fn open_connections_are_those_opened_less_those_closed_on_any_worker() {
        let metrics = HttpMetrics::new(labels(), 2);
        let (one, other) = (metrics.worker(0), metrics.worker(1));
        (0..5).for_each(|_| one.listener(1).connection_opened());
        (0..2).for_each(|_| other.listener(1).connection_closed());
        (0..4).for_each(|_| one.upstream(0).connection_opened());
        other.upstream(0).connection_opened();
        one.upstream(0).set_idle(3);
        other.upstream(0).set_idle(1);
        let want = Connections {
            downstream: 3,
            upstream_active: 1,
            upstream_idle: 4,
            ..Connections::default()
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
        let totals = worker.totals();
        totals.traffic(Side::Downstream).read(10);
        totals.traffic(Side::Downstream).written(200);
        totals.traffic(Side::Upstream).read(3_000);
        totals.traffic(Side::Upstream).written(40_000);
        let stream = totals.traffic(Side::Downstream).stream();
        drop(totals.traffic(Side::Upstream).stream());
        totals.tunnel_opened();
        let open = metrics.connections();
        let streams = (open.downstream_streams, open.upstream_streams);
        assert_eq!((streams, open.tunnels), ((1, 0), 1));
        totals.closed(CloseReason::WriteStall);
        totals.closed(CloseReason::WriteStall);
        worker.upstream(1).replayed();
        worker.upstream(1).connect_failed();
        check(
            &metrics,
            &[
                r#"steppe_http_downstream_bytes_total{direction="read"} 10"#,
                r#"steppe_http_downstream_bytes_total{direction="written"} 200"#,
                r#"steppe_http_upstream_bytes_total{direction="read"} 3000"#,
                r#"steppe_http_upstream_bytes_total{direction="written"} 40000"#,
                r#"steppe_http_streams{side="downstream"} 1"#,
                r#"steppe_http_streams_opened_total{side="upstream"} 1"#,
                "steppe_http_tunnels 1",
                "steppe_http_tunnels_opened_total 1",
                r#"steppe_http_closed_total{reason="write_stall"} 2"#,
                r#"steppe_http_closed_total{reason="over_budget"} 0"#,
                r#"steppe_http_upstream_replays_total{upstream="api"} 1"#,
                r#"steppe_http_upstream_connect_failures_total{upstream="api"} 1"#,
            ],
        );
        drop(stream);
    }

    #[test]
    fn a_worker_that_ends_leaves_its_counts_and_its_place() {
        let metrics = HttpMetrics::new(labels(), 1);
        for _ in 0..2 {
            let route = metrics.worker(0).route(None);
            route.request(Answered::Gateway, 404, Duration::ZERO);
        }
        assert_eq!(metrics.requests(), 2);
    }

    #[test]
    fn counts_of_names_that_stay_go_on_and_open_connections_are_counted_out() {
        let metrics = HttpMetrics::new(labels(), 1);
        let old = metrics.worker(0);
        let request = |worker: &WorkerMetrics, route| {
            let route = worker.route(Some(route));
            route.request(Answered::Upstream, 200, Duration::ZERO);
        };
        request(&old, 0);
        request(&old, 1);
        old.listener(1).connection_opened();
        old.totals().traffic(Side::Downstream).read(10);
        let mut next = labels();
        next.listeners = vec!["127.0.0.1:8081".to_owned()];
        next.routes.remove(1);
        next.upstreams.reverse();
        next.routes[0].upstream = Some(0);
        let new = metrics.relabel(next).worker(0);
        // One request was still under way when the configuration changed.
        request(&old, 0);
        request(&new, 0);
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
        old.listener(1).connection_closed();
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
