//! The forwarder's metrics: cells of each worker, summed when scraped.
//!
//! Invariant: no data of a peer becomes a label.

mod lists;

use std::fmt;
use std::sync::Arc;

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, Counter, DescriptorEncoder, PerWorker, Writer};

use crate::config::{Protocol, Transport};
use crate::wire::Rcode;

pub(crate) use lists::{FetchOutcome, ListHits, ListMetrics};

/// The metrics of all workers.
#[derive(Debug)]
pub struct DnsMetrics {
    workers: PerWorker<Cells>,
    pub(crate) lists: ListMetrics,
}

/// Writes the forwarder's series into a scrape.
#[derive(Debug)]
pub struct DnsCollector(Arc<DnsMetrics>);

/// What one worker counts.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    pub(crate) queries: ByProtocol,
    /// By response code; the last one has all others.
    responses: [Counter; RCODES.len()],
    /// Queries that get no response.
    pub(crate) dropped: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) cache_misses: Counter,
    pub(crate) cache_stale: Counter,
    pub(crate) cache_failures: Counter,
    pub(crate) blocked: Counter,
    /// Answered with records of hosts.
    pub(crate) hosts: Counter,
    pub(crate) list_hits: ListHits,
    pub(crate) refreshes: Counter,
    /// Questions that were in flight already.
    pub(crate) coalesced: Counter,
    pub(crate) upstream_queries: ByTransport,
    pub(crate) upstream_failures: Counter,
    pub(crate) upstream_timeouts: Counter,
    pub(crate) upstream_mismatches: Counter,
    pub(crate) upstream_by_stream: Counter,
    pub(crate) upstream_probes: Counter,
    pub(crate) rebinding: Counter,
    /// Datagrams to clients that were lost for want of room, or that the kernel refused.
    pub(crate) unsent: Counter,
    /// Datagrams whose cookie shows that the client has its address.
    pub(crate) cookies: Counter,
    /// Connections of clients that found no room, or no memory.
    pub(crate) connections_refused: Counter,
    /// Idle ones that gave way to others.
    pub(crate) connections_evicted: Counter,
    /// Connections that never came to agree on TLS.
    pub(crate) handshakes_failed: Counter,
}

/// One count a protocol of clients.
#[derive(Debug, Default)]
pub(crate) struct ByProtocol([Counter; Protocol::ALL.len()]);

/// One count a transport.
#[derive(Debug, Default)]
pub(crate) struct ByTransport([Counter; Transport::ALL.len()]);

/// Response codes with a series of their own, and the rest.
const RCODES: [(Option<Rcode>, &str); 9] = [
    (Some(Rcode::NOERROR), "NOERROR"),
    (Some(Rcode::FORMERR), "FORMERR"),
    (Some(Rcode::SERVFAIL), "SERVFAIL"),
    (Some(Rcode::NXDOMAIN), "NXDOMAIN"),
    (Some(Rcode::NOTIMP), "NOTIMP"),
    (Some(Rcode::REFUSED), "REFUSED"),
    (Some(Rcode::BADVERS), "BADVERS"),
    (Some(Rcode::BADCOOKIE), "BADCOOKIE"),
    (None, "other"),
];

const QUERIES: Family = Family::new("steppe_dns_queries", "Queries of clients, by transport");
const RESPONSES: Family = Family::new(
    "steppe_dns_responses",
    "Responses to clients, by response code",
);
const CACHE: Family = Family::new(
    "steppe_dns_cache_lookups",
    "What the cache had for a query: hit, stale, failure or miss",
);
const UPSTREAM_QUERIES: Family = Family::new(
    "steppe_dns_upstream_queries",
    "Queries to servers, by transport",
);
const UPSTREAM_TROUBLE: Family = Family::new(
    "steppe_dns_upstream_trouble",
    "What went wrong with servers: failure, timeout, mismatch, by_stream, probe, rebinding",
);
const EVENTS: Family = Family::new(
    "steppe_dns_events",
    "What became of queries otherwise: dropped, blocked, hosts, coalesced, refresh, unsent, cookie",
);
const CONNECTIONS: Family = Family::new(
    "steppe_dns_connection_events",
    "Connections of clients that were not served or gave way: refused, evicted, handshake_failed",
);

impl ByProtocol {
    pub(crate) fn of(&self, protocol: Protocol) -> &Counter {
        let at = match protocol {
            Protocol::Udp => 0,
            Protocol::Tcp => 1,
            Protocol::Tls => 2,
            Protocol::Https => 3,
        };
        &self.0[at]
    }
}

impl ByTransport {
    pub(crate) fn of(&self, transport: Transport) -> &Counter {
        match transport {
            Transport::Udp => &self.0[0],
            Transport::Tcp => &self.0[1],
            Transport::Tls => &self.0[2],
            Transport::Https => &self.0[3],
        }
    }
}

impl Cells {
    /// Counts a response of this code.
    pub(crate) fn response(&self, rcode: Rcode) {
        let known = RCODES.iter().position(|(known, _)| *known == Some(rcode));
        self.responses[known.unwrap_or(RCODES.len() - 1)].increment();
    }
}

impl DnsMetrics {
    /// Cells at zero for `workers`.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            workers: PerWorker::new(workers, Cells::default),
            lists: ListMetrics::default(),
        })
    }

    /// A collector of these metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<DnsCollector> {
        Box::new(DnsCollector(Arc::clone(self)))
    }

    /// The cells of a worker.
    ///
    /// # Panics
    /// When there is no such worker, or its cells are taken.
    pub(crate) fn worker(&self, index: usize) -> Writer<Cells> {
        let cells = self.workers.writer(index);
        cells.expect("each worker takes its own cells, once")
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let sum = |of: fn(&Cells) -> &Counter| self.workers.sum(|cells| of(cells).value());
        let by = |of: fn(&Cells) -> &ByTransport| {
            Transport::ALL.map(|(transport, name)| {
                let count = |cells: &Cells| of(cells).of(transport).value();
                ([("transport", name)], self.workers.sum(count))
            })
        };
        let queries = Protocol::ALL.map(|protocol| {
            let count = |cells: &Cells| cells.queries.of(protocol).value();
            let label = [("transport", protocol.as_str())];
            (label, self.workers.sum(count))
        });
        QUERIES.counters(encoder, queries)?;
        let responses = RCODES.iter().enumerate().map(|(index, (_, name))| {
            let count = |cells: &Cells| cells.responses[index].value();
            ([("rcode", *name)], self.workers.sum(count))
        });
        RESPONSES.counters(encoder, responses)?;
        let lookups = [
            ([("result", "hit")], sum(|cells| &cells.cache_hits)),
            ([("result", "stale")], sum(|cells| &cells.cache_stale)),
            ([("result", "failure")], sum(|cells| &cells.cache_failures)),
            ([("result", "miss")], sum(|cells| &cells.cache_misses)),
        ];
        CACHE.counters(encoder, lookups)?;
        UPSTREAM_QUERIES.counters(encoder, by(|cells| &cells.upstream_queries))?;
        let trouble = [
            ([("kind", "failure")], sum(|cells| &cells.upstream_failures)),
            ([("kind", "timeout")], sum(|cells| &cells.upstream_timeouts)),
            (
                [("kind", "mismatch")],
                sum(|cells| &cells.upstream_mismatches),
            ),
            (
                [("kind", "by_stream")],
                sum(|cells| &cells.upstream_by_stream),
            ),
            ([("kind", "probe")], sum(|cells| &cells.upstream_probes)),
            ([("kind", "rebinding")], sum(|cells| &cells.rebinding)),
        ];
        UPSTREAM_TROUBLE.counters(encoder, trouble)?;
        let events = [
            ([("event", "dropped")], sum(|cells| &cells.dropped)),
            ([("event", "blocked")], sum(|cells| &cells.blocked)),
            ([("event", "hosts")], sum(|cells| &cells.hosts)),
            ([("event", "coalesced")], sum(|cells| &cells.coalesced)),
            ([("event", "refresh")], sum(|cells| &cells.refreshes)),
            ([("event", "unsent")], sum(|cells| &cells.unsent)),
            ([("event", "cookie")], sum(|cells| &cells.cookies)),
        ];
        EVENTS.counters(encoder, events)?;
        let connections = [
            (
                [("event", "refused")],
                sum(|cells| &cells.connections_refused),
            ),
            (
                [("event", "evicted")],
                sum(|cells| &cells.connections_evicted),
            ),
            (
                [("event", "handshake_failed")],
                sum(|cells| &cells.handshakes_failed),
            ),
        ];
        CONNECTIONS.counters(encoder, connections)?;
        let hits = |place| self.workers.sum(|cells| cells.list_hits.at(place).value());
        self.lists.encode(hits, encoder)
    }
}

impl Collector for DnsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(&mut encoder)
    }
}
