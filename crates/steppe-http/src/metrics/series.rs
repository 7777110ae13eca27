//! The gateway's series, summed over workers when scraped.
//!
//! Series of configured names exist from the start, at zero; a route's series without an
//! upstream, of responses by the gateway itself, exist once such a response was sent, and those of
//! calls of gRPC once there was such a call.

use std::fmt;

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Counter, DescriptorEncoder, HistogramSum};

use super::cells::{ByteCells, CLASSES, FilterCells, RouteCells, TotalCells, UpstreamCells};
use super::close_reason::CloseReason;
use super::error_line::ErrorLine;
use super::generation::Generation;
use super::handshake::Handshake;
use super::labels::NONE;
use super::uncompressed::Uncompressed;
use crate::config::Coding;
use crate::grpc::Code;

const REQUESTS: Family = Family::new("steppe_http_requests", "Requests with a response");
const DURATION: Family = Family::seconds(
    "steppe_http_request_duration",
    "Time from a request's first byte to the last byte of its response",
);
const CONNECTIONS: Family = Family::new("steppe_http_connections", "Open connections from clients");
const CONNECTIONS_OPENED: Family = Family::new(
    "steppe_http_connections_opened",
    "Connections accepted from clients",
);
const UPSTREAM_CONNECTIONS: Family = Family::new(
    "steppe_http_upstream_connections",
    "Open connections to servers",
);
const UPSTREAM_OPENED: Family = Family::new(
    "steppe_http_upstream_connections_opened",
    "Connections established to servers",
);
const UPSTREAM_CONNECT_FAILURES: Family = Family::new(
    "steppe_http_upstream_connect_failures",
    "Failed connection attempts to servers",
);
const UPSTREAM_REPLAYS: Family = Family::new(
    "steppe_http_upstream_replays",
    "Requests sent again because an idle connection was closed by its server",
);
const FILTER_ANSWERS: Family = Family::new(
    "steppe_http_filter_answers",
    "Requests answered or refused by a filter",
);
const COMPRESSED: Family =
    Family::new("steppe_http_compressed", "Responses compressed by a filter");
const COMPRESSED_READ: Family = Family::new(
    "steppe_http_compressed_content_bytes",
    "Bytes of response content before compression by a filter",
);
const COMPRESSED_WRITTEN: Family = Family::new(
    "steppe_http_compressed_bytes",
    "Bytes of response content after compression by a filter",
);
const UNCOMPRESSED: Family = Family::new(
    "steppe_http_uncompressed",
    "Responses left uncompressed by a filter, by reason",
);
const DOWNSTREAM_BYTES: Family =
    Family::new("steppe_http_downstream_bytes", "Bytes from and to clients");
const UPSTREAM_BYTES: Family =
    Family::new("steppe_http_upstream_bytes", "Bytes from and to servers");
const CALLS: Family = Family::new(
    "steppe_grpc_calls",
    "Completed gRPC calls, by service, method and status",
);
const CLOSED: Family = Family::new(
    "steppe_http_closed",
    "Exchanges and connections aborted, by deadline, limit or cause",
);
const HANDSHAKES: Family = Family::new(
    "steppe_http_tls_handshakes",
    "TLS handshakes with clients, by outcome",
);
const ERROR_LINES: Family = Family::new(
    "steppe_http_error_log_lines",
    "Requests that failed at their upstream, by what became of their line of the error log",
);
const STREAMS: Family = Family::new(
    "steppe_http_streams",
    "Open streams of multiplexed connections",
);
const STREAMS_OPENED: Family = Family::new(
    "steppe_http_streams_opened",
    "Streams opened on multiplexed connections",
);
const TUNNELS: Family = Family::new("steppe_http_tunnels", "Open upgraded connections");
const TUNNELS_OPENED: Family = Family::new("steppe_http_tunnels_opened", "Connections upgraded");

impl Generation {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.requests(encoder)?;
        self.durations(encoder)?;
        self.connections(encoder)?;
        self.upstreams(encoder)?;
        self.filters(encoder)?;
        self.bytes(encoder)?;
        self.calls(encoder)?;
        self.ends(encoder)
    }

    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rows = self.route_names().flat_map(|(index, name, upstream)| {
            (0..CLASSES.len()).flat_map(move |class| {
                let forwarded = self.route_sum(index, |cells| cells.forwarded[class].value());
                let answered = self.route_sum(index, |cells| cells.answered[class].value());
                let sample = |upstream, count| {
                    let labels = [
                        ("route", name),
                        ("status", CLASSES[class]),
                        ("upstream", upstream),
                    ];
                    (labels, count)
                };
                let forwarded = upstream.map(|upstream| sample(upstream, forwarded));
                let answered = (answered > 0).then(|| sample(NONE, answered));
                forwarded.into_iter().chain(answered)
            })
        });
        REQUESTS.counters(encoder, rows)
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rows = self.route_names().map(|(index, name, _)| {
            let latencies = self
                .workers
                .cells()
                .map(|cells| &cells.routes[index].latency);
            ([("route", name)], HistogramSum::of(latencies))
        });
        DURATION.histograms(encoder, rows)
    }

    fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let names = || self.labels.listeners.iter().map(String::as_str).enumerate();
        let sums = |index| self.listener(index);
        let open = names().map(|(index, name)| ([("listener", name)], sums(index).open()));
        CONNECTIONS.gauges(encoder, open)?;
        let opened = names().map(|(index, name)| ([("listener", name)], sums(index).opened));
        CONNECTIONS_OPENED.counters(encoder, opened)
    }

    fn upstreams(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let names = || self.labels.upstreams.iter().map(String::as_str).enumerate();
        let sums = |index| self.upstream(index);
        let open = names().flat_map(|(index, name)| {
            let idle = self.upstream_sum(index, |cells| cells.idle.value());
            let active = sums(index).open().saturating_sub(idle);
            [("active", active), ("idle", idle)]
                .map(|(state, count)| ([("upstream", name), ("state", state)], count))
        });
        UPSTREAM_CONNECTIONS.gauges(encoder, open)?;
        let opened = names().map(|(index, name)| ([("upstream", name)], sums(index).opened));
        UPSTREAM_OPENED.counters(encoder, opened)?;
        let failures = names().map(|(index, name)| {
            let count = self.upstream_sum(index, |cells| cells.connect_failures.value());
            ([("upstream", name)], count)
        });
        UPSTREAM_CONNECT_FAILURES.counters(encoder, failures)?;
        let replays = names().map(|(index, name)| {
            (
                [("upstream", name)],
                self.upstream_sum(index, |cells| cells.replays.value()),
            )
        });
        UPSTREAM_REPLAYS.counters(encoder, replays)
    }

    fn filters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let names = self.labels.filters.iter().map(String::as_str).enumerate();
        let rows = names.map(|(index, name)| {
            let count = self
                .workers
                .sum(|cells| cells.filters[index].answered.value());
            ([("filter", name)], count)
        });
        FILTER_ANSWERS.counters(encoder, rows)?;
        self.compression(encoder)
    }

    fn compression(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let filters = || {
            let indexes = self.labels.compressing.iter();
            indexes.map(|&index| (index, self.labels.filters[index].as_str()))
        };
        let sum = |index: usize, count: &dyn Fn(&FilterCells) -> u64| {
            self.workers.sum(|cells| count(&cells.filters[index]))
        };
        let responses = filters().flat_map(|(index, name)| {
            Coding::ALL.into_iter().map(move |coding| {
                let labels = [("coding", coding.as_str()), ("filter", name)];
                let count =
                    |cells: &FilterCells| cells.compressed[coding as usize].responses.value();
                (labels, sum(index, &count))
            })
        });
        COMPRESSED.counters(encoder, responses)?;
        for (family, content) in [
            (
                COMPRESSED_READ,
                (|cells| &cells.read) as fn(&ByteCells) -> &Counter,
            ),
            (COMPRESSED_WRITTEN, |cells| &cells.written),
        ] {
            let rows = filters().flat_map(|(index, name)| {
                Coding::ALL.into_iter().map(move |coding| {
                    let labels = [("coding", coding.as_str()), ("filter", name)];
                    let count = |cells: &FilterCells| {
                        content(&cells.compressed[coding as usize].content).value()
                    };
                    (labels, sum(index, &count))
                })
            });
            family.counters(encoder, rows)?;
        }
        let reasons = filters().flat_map(|(index, name)| {
            Uncompressed::ALL.into_iter().map(move |reason| {
                let labels = [("filter", name), ("reason", reason.as_str())];
                let count = |cells: &FilterCells| cells.uncompressed[reason.index()].value();
                (labels, sum(index, &count))
            })
        });
        UNCOMPRESSED.counters(encoder, reasons)
    }

    fn bytes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let workers = &self.workers;
        let directions = |side: fn(&TotalCells) -> &ByteCells| {
            [
                (
                    [("direction", "read")],
                    workers.sum(|cells| side(&cells.totals).read.value()),
                ),
                (
                    [("direction", "written")],
                    workers.sum(|cells| side(&cells.totals).written.value()),
                ),
            ]
        };
        DOWNSTREAM_BYTES.counters(encoder, directions(|cells| &cells.downstream))?;
        UPSTREAM_BYTES.counters(encoder, directions(|cells| &cells.upstream))
    }

    fn calls(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rows = self.methods.all().flat_map(|(place, (service, method))| {
            Code::ALL.into_iter().filter_map(move |code| {
                let count = self.workers.sum(|cells| cells.calls.count(place, code));
                let labels = [
                    ("service", service),
                    ("method", method),
                    ("status", code.name()),
                ];
                (count > 0).then_some((labels, count))
            })
        });
        CALLS.counters(encoder, rows)
    }

    fn ends(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let workers = &self.workers;
        let closed = CloseReason::ALL.iter().map(|reason| {
            let count = workers.sum(|cells| cells.totals.closed[reason.index()].value());
            ([("reason", reason.as_str())], count)
        });
        CLOSED.counters(encoder, closed)?;
        let outcomes = Handshake::OUTCOMES.iter().enumerate();
        let handshakes = outcomes.map(|(index, &outcome)| {
            let count = workers.sum(|cells| cells.totals.handshakes[index].value());
            ([("outcome", outcome)], count)
        });
        HANDSHAKES.counters(encoder, handshakes)?;
        let lines = ErrorLine::OUTCOMES
            .iter()
            .enumerate()
            .map(|(index, &outcome)| {
                let count = workers.sum(|cells| cells.totals.error_lines[index].value());
                ([("outcome", outcome)], count)
            });
        ERROR_LINES.counters(encoder, lines)?;
        let streams = [
            (
                [("side", "downstream")],
                self.total(|totals| &totals.downstream_streams),
            ),
            (
                [("side", "upstream")],
                self.total(|totals| &totals.upstream_streams),
            ),
        ];
        let open = streams.iter().map(|(side, sum)| (*side, sum.open()));
        STREAMS.gauges(encoder, open)?;
        let opened = streams.iter().map(|(side, sum)| (*side, sum.opened));
        STREAMS_OPENED.counters(encoder, opened)?;
        let tunnels = self.total(|totals| &totals.tunnels);
        TUNNELS.gauge(encoder, tunnels.open())?;
        TUNNELS_OPENED.counter(encoder, tunnels.opened)
    }

    /// Cell index, name and upstream of each route, and of the pseudo route `-` of requests that
    /// match none.
    pub(super) fn route_names(&self) -> impl Iterator<Item = (usize, &str, Option<&str>)> {
        let labels = &self.labels;
        let routes = labels.routes.iter().map(|route| {
            let upstream = route.upstream.and_then(|index| labels.upstreams.get(index));
            let upstream = upstream.map(String::as_str);
            (route.name.as_str(), upstream)
        });
        std::iter::once((NONE, None))
            .chain(routes)
            .enumerate()
            .map(|(index, (name, upstream))| (index, name, upstream))
    }

    pub(super) fn route_sum(&self, index: usize, count: impl Fn(&RouteCells) -> u64) -> u64 {
        self.workers.sum(|cells| count(&cells.routes[index]))
    }

    fn upstream_sum(&self, index: usize, count: impl Fn(&UpstreamCells) -> u64) -> u64 {
        self.workers.sum(|cells| count(&cells.upstreams[index]))
    }
}
