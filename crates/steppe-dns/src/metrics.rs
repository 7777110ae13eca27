//! The forwarder's metrics: cells of each worker, summed when scraped.
//!
//! Invariant: no data of a peer becomes a label.

mod lists;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, Counter, DescriptorEncoder, PerWorker, ShardWriter};

use crate::cache::ShardStats;
use crate::config::{Protocol, Transport};
use crate::query_log::QueryLog;
use crate::report::{Count, ListsReport, Totals};
use crate::snapshot::ChargedCache;
use crate::wire::Rcode;

pub(crate) use lists::{FetchOutcome, ListHits, ListMetrics};

/// The metrics of all workers.
#[derive(Debug)]
pub struct DnsMetrics {
    workers: PerWorker<Cells>,
    pub(crate) lists: ListMetrics,
    /// The cache in force.
    cache: Mutex<Weak<ChargedCache>>,
    /// The query log in force.
    query_log: Mutex<Weak<QueryLog>>,
}

/// Writes the forwarder's series into a scrape.
#[derive(Debug)]
pub struct DnsCollector(Arc<DnsMetrics>);

/// The counts of one worker.
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
    /// Queries that were answered with records of hosts.
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
    pub(crate) limited: ByLimit,
    /// Questions whose names look like data.
    pub(crate) encoded: Counter,
    /// Datagrams to clients that were lost because the socket had no room, or that the kernel refused.
    pub(crate) unsent: Counter,
    /// Datagrams whose cookie shows that the client has its address.
    pub(crate) cookies: Counter,
    /// Connections of clients that found no room, or no memory.
    pub(crate) connections_refused: Counter,
    /// Idle connections that were closed to make room for others.
    pub(crate) connections_evicted: Counter,
    /// Clients that disconnected while their questions waited.
    pub(crate) connections_left: Counter,
    /// Connections whose TLS handshake failed.
    pub(crate) handshakes_failed: Counter,
}

/// A count for each protocol of clients.
#[derive(Debug, Default)]
pub(crate) struct ByProtocol([Counter; Protocol::ALL.len()]);

/// A count for each limit.
#[derive(Debug, Default)]
pub(crate) struct ByLimit([Counter; LIMITS.len()]);

/// The limit that a query or a response exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// `client_qps`.
    Client,
    /// `unproven_bytes_per_s`.
    Unproven,
    /// `zone_misses_per_s`.
    Zone,
    /// The share of `zone_misses_per_s` for names that look like data.
    Tunnel,
    /// A rule's `rate`.
    Rule,
}

const LIMITS: [(Limit, &str); 5] = [
    (Limit::Client, "client_qps"),
    (Limit::Unproven, "unproven_bytes"),
    (Limit::Zone, "zone_misses"),
    (Limit::Tunnel, "tunnel"),
    (Limit::Rule, "rule"),
];

/// A count for each transport to servers.
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

const QUERIES: Family = Family::new("steppe_dns_queries", "Queries from clients, by transport");
const RESPONSES: Family = Family::new(
    "steppe_dns_responses",
    "Responses to clients, by response code",
);
const CACHE: Family = Family::new(
    "steppe_dns_cache_lookups",
    "Cache lookups, by result: hit, stale, failure or miss",
);
const CACHE_ENTRIES: Family = Family::new("steppe_dns_cache_entries", "Responses in the cache");
const CACHE_USED: Family = Family::bytes(
    "steppe_dns_cache_used",
    "Bytes of the cache in use, replaced responses included",
);
const CACHE_CHANGES: Family = Family::new(
    "steppe_dns_cache_changes",
    "Responses inserted into the cache, and evicted to make room",
);
const UPSTREAM_QUERIES: Family = Family::new(
    "steppe_dns_upstream_queries",
    "Queries to servers, by transport",
);
const UPSTREAM_TROUBLE: Family = Family::new(
    "steppe_dns_upstream_trouble",
    "Problems with servers: failure, timeout, mismatch, by_stream, probe, rebinding",
);
const LIMITED: Family = Family::new(
    "steppe_dns_limited",
    "Queries and responses above a limit: client_qps, unproven_bytes, zone_misses, tunnel, rule",
);
const LOG_LINES: Family = Family::new(
    "steppe_dns_query_log_lines",
    "Query log lines: written, or dropped because the file was too slow or a write failed",
);
const LOG_ERRORS: Family = Family::new(
    "steppe_dns_query_log_write_errors",
    "Failed writes of the query log",
);
const EVENTS: Family = Family::new(
    "steppe_dns_events",
    "Other outcomes of queries: dropped, blocked, hosts, coalesced, refresh, unsent, cookie, \
     encoded",
);
const CONNECTIONS: Family = Family::new(
    "steppe_dns_connection_events",
    "Client connections not served or closed for others: refused, evicted, handshake_failed",
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

impl ByLimit {
    pub(crate) fn of(&self, limit: Limit) -> &Counter {
        &self.0[limit as usize]
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
            cache: Mutex::default(),
            query_log: Mutex::default(),
        })
    }

    /// Sets the cache in force.
    pub(crate) fn set_cache(&self, cache: &Arc<ChargedCache>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(cache);
    }

    /// Sets the query log in force, if any.
    pub(crate) fn set_query_log(&self, log: Option<&Arc<QueryLog>>) {
        let log = log.map(Arc::downgrade).unwrap_or_default();
        *self
            .query_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = log;
    }

    /// Lines of the query log in force: written, lost, and writes that failed.
    fn query_log(&self) -> [u64; 3] {
        let log = self
            .query_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let log = log.upgrade();
        log.map_or([0; 3], |log| {
            let lines = &log.lines;
            [lines.written(), lines.dropped(), lines.write_errors()]
        })
    }

    /// Counts of the cache in force.
    pub(crate) fn cache_stats(&self) -> ShardStats {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = cache.upgrade();
        cache.map_or_else(ShardStats::default, |cache| cache.cache.stats())
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
    pub(crate) fn worker(&self, index: usize) -> ShardWriter<Cells> {
        let cells = self.workers.writer(index);
        cells.expect("each worker takes its own cells, once")
    }

    /// Counts of all workers.
    pub(crate) fn totals(&self) -> Totals {
        let sum = |of: fn(&Cells) -> &Counter| self.workers.sum(|cells| of(cells).value());
        let by = |of: fn(&Cells) -> &ByTransport| {
            let count = |transport| self.workers.sum(|cells| of(cells).of(transport).value());
            Transport::ALL.map(|(transport, name)| (name, count(transport)))
        };
        let queries = Protocol::ALL.map(|protocol| {
            let count = |cells: &Cells| cells.queries.of(protocol).value();
            (protocol.as_str(), self.workers.sum(count))
        });
        let responses = RCODES.iter().enumerate().map(|(index, (_, name))| {
            let count = |cells: &Cells| cells.responses[index].value();
            (*name, self.workers.sum(count))
        });
        let limited = LIMITS.map(|(limit, name)| {
            let count = |cells: &Cells| cells.limited.of(limit).value();
            (name, self.workers.sum(count))
        });
        Totals {
            queries: queries.into(),
            responses: responses.collect(),
            lookups: vec![
                ("hit", sum(|cells| &cells.cache_hits)),
                ("stale", sum(|cells| &cells.cache_stale)),
                ("failure", sum(|cells| &cells.cache_failures)),
                ("miss", sum(|cells| &cells.cache_misses)),
            ],
            events: vec![
                ("dropped", sum(|cells| &cells.dropped)),
                ("blocked", sum(|cells| &cells.blocked)),
                ("hosts", sum(|cells| &cells.hosts)),
                ("coalesced", sum(|cells| &cells.coalesced)),
                ("refresh", sum(|cells| &cells.refreshes)),
                ("unsent", sum(|cells| &cells.unsent)),
                ("cookie", sum(|cells| &cells.cookies)),
                ("encoded", sum(|cells| &cells.encoded)),
            ],
            connections: vec![
                ("refused", sum(|cells| &cells.connections_refused)),
                ("evicted", sum(|cells| &cells.connections_evicted)),
                ("client_gone", sum(|cells| &cells.connections_left)),
                ("handshake_failed", sum(|cells| &cells.handshakes_failed)),
            ],
            limited: limited.into(),
            upstream_queries: by(|cells| &cells.upstream_queries).into(),
            upstream_trouble: vec![
                ("failure", sum(|cells| &cells.upstream_failures)),
                ("timeout", sum(|cells| &cells.upstream_timeouts)),
                ("mismatch", sum(|cells| &cells.upstream_mismatches)),
                ("by_stream", sum(|cells| &cells.upstream_by_stream)),
                ("probe", sum(|cells| &cells.upstream_probes)),
                ("rebinding", sum(|cells| &cells.rebinding)),
            ],
            cache: self.cache_stats(),
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.totals();
        QUERIES.counters(encoder, labelled("transport", totals.queries))?;
        RESPONSES.counters(encoder, labelled("rcode", totals.responses))?;
        CACHE.counters(encoder, labelled("result", totals.lookups))?;
        CACHE_ENTRIES.gauge(encoder, totals.cache.entries)?;
        CACHE_USED.gauge(encoder, totals.cache.used_bytes)?;
        let changes = vec![
            ("inserted", totals.cache.insertions),
            ("evicted", totals.cache.evictions),
        ];
        CACHE_CHANGES.counters(encoder, labelled("change", changes))?;
        UPSTREAM_QUERIES.counters(encoder, labelled("transport", totals.upstream_queries))?;
        UPSTREAM_TROUBLE.counters(encoder, labelled("kind", totals.upstream_trouble))?;
        LIMITED.counters(encoder, labelled("limit", totals.limited))?;
        let [written, dropped, write_errors] = self.query_log();
        let lines = vec![("written", written), ("dropped", dropped)];
        LOG_LINES.counters(encoder, labelled("result", lines))?;
        LOG_ERRORS.counter(encoder, write_errors)?;
        EVENTS.counters(encoder, labelled("event", totals.events))?;
        CONNECTIONS.counters(encoder, labelled("event", totals.connections))?;
        self.lists.encode(|place| self.list_hits(place), encoder)
    }

    /// The report of the lists in force.
    pub(crate) fn lists_report(&self) -> ListsReport {
        self.lists.report(|place| self.list_hits(place))
    }

    fn list_hits(&self, place: usize) -> u64 {
        self.workers.sum(|cells| cells.list_hits.at(place).value())
    }
}

/// Rows of a family with one label.
fn labelled(
    label: &'static str,
    rows: Vec<Count>,
) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
    let row = move |(name, count)| ([(label, name)], count);
    rows.into_iter().map(row)
}

impl Collector for DnsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(&mut encoder)
    }
}
