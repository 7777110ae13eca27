//! Health of servers as the workers see it, for reports.
//!
//! Invariant: each worker writes only cells of its own, a store each, and takes a lock only for a server that is new to
//! it. Non-goals: decisions. Each worker determines by itself which servers are up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use steppe_telemetry::{Counter, Gauge};

use crate::config::{Server, Trust, Upstream};

/// A server with its health and counts, over all workers.
#[derive(Debug, Clone)]
pub struct ServerReport {
    /// The server as it is written in the configuration.
    pub server: String,
    /// Health of the server.
    pub state: ServerState,
    /// Queries to the server since it is in the configuration, probes included.
    pub queries: u64,
    /// Queries without a response in time.
    pub failures: u64,
    /// Smoothed latency, averaged over the workers; `None` before the first response.
    pub latency: Option<Duration>,
}

/// Health of a server. Each worker determines it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// No worker has sent a query to the server yet.
    Unasked,
    /// The server responds.
    Up,
    /// The server is down for some of the workers that use it: too many failures in a row.
    PartlyDown,
    /// The server is down for all workers that use it.
    Down,
}

impl ServerState {
    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Up => "up",
            Self::PartlyDown => "partly_down",
            Self::Down => "down",
        }
    }
}

/// The cells of all servers, of all workers.
#[derive(Debug, Default)]
pub(crate) struct ServerBoard(Mutex<Vec<Weak<ServerCells>>>);

/// State and counts of one server at one worker.
#[derive(Debug)]
pub(crate) struct ServerCells {
    config: Server,
    trust: Trust,
    pub(crate) queries: Counter,
    pub(crate) failures: Counter,
    /// Smoothed latency in microseconds; 0 before the first response.
    latency_us: Gauge,
    is_down: AtomicBool,
    /// Properties that were logged; shared by the cells of all workers.
    told: Arc<[AtomicBool; 2]>,
}

/// A property of a server that is logged once; its index in `ServerCells::told`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// The server does not support EDNS.
    Edns,
    /// The server does not preserve the case of names.
    Case,
}

impl ServerBoard {
    fn known(&self) -> MutexGuard<'_, Vec<Weak<ServerCells>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the cells for a server that is new to a worker.
    pub(crate) fn add(&self, config: &Server, trust: &Trust) -> Arc<ServerCells> {
        let mut known = self.known();
        let others = known.iter().filter_map(Weak::upgrade);
        let told = others
            .filter(|cells| cells.is(config, trust))
            .map(|cells| Arc::clone(&cells.told));
        let cells = Arc::new(ServerCells {
            told: { told }.next().unwrap_or_default(),
            config: config.clone(),
            trust: trust.clone(),
            queries: Counter::new(),
            failures: Counter::new(),
            latency_us: Gauge::new(),
            is_down: AtomicBool::new(false),
        });
        // Drops the cells of servers that no configuration has any more.
        known.retain(|cells| cells.strong_count() > 0);
        known.push(Arc::downgrade(&cells));
        cells
    }

    /// Reports on the servers of an upstream, in their order.
    pub(crate) fn report(&self, upstream: &Upstream) -> Vec<ServerReport> {
        let known: Vec<_> = self.known().iter().filter_map(Weak::upgrade).collect();
        let report = |server: &Server| {
            let of = known
                .iter()
                .filter(|cells| cells.is(server, &upstream.trust));
            summary(server, of.map(|cells| &**cells))
        };
        upstream.servers.iter().map(report).collect()
    }
}

impl ServerCells {
    /// True if the cells are those of this server, with the same trust settings if it is encrypted.
    fn is(&self, config: &Server, trust: &Trust) -> bool {
        self.config == *config && (!config.is_secure() || self.trust == *trust)
    }

    pub(crate) fn set_latency(&self, smoothed: Duration) {
        let us = u64::try_from(smoothed.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.set(us);
    }

    /// True if no worker has logged this property of the server before.
    pub(crate) fn tell(&self, what: Told) -> bool {
        !self.told[what as usize].swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set_down(&self, is_down: Down) {
        self.is_down.store(is_down == Down::Yes, Ordering::Relaxed);
    }
}

/// Down state of a server at one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Down {
    Yes,
    No,
}

fn summary<'a>(server: &Server, cells: impl Iterator<Item = &'a ServerCells>) -> ServerReport {
    let (mut queries, mut failures, mut asking, mut down) = (0, 0, 0, 0);
    let (mut latencies, mut answered) = (Duration::ZERO, 0_u32);
    // A worker that has sent no query has no state to report.
    for cells in cells.filter(|cells| cells.queries.value() > 0) {
        queries += cells.queries.value();
        failures += cells.failures.value();
        asking += 1;
        down += u32::from(cells.is_down.load(Ordering::Relaxed));
        let latency = cells.latency_us.value();
        latencies += Duration::from_micros(latency);
        answered += u32::from(latency > 0);
    }
    ServerReport {
        server: server.to_string(),
        state: match (asking, down) {
            (0, _) => ServerState::Unasked,
            (_, 0) => ServerState::Up,
            (asking, down) if asking == down => ServerState::Down,
            _ => ServerState::PartlyDown,
        },
        queries,
        failures,
        latency: (answered > 0).then(|| latencies / answered.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Transport;

    #[test]
    fn workers_together_say_whether_a_server_is_down() {
        let server = Server::at(Transport::Udp, ([192, 0, 2, 1], 53).into());
        let upstream = Upstream::of("test", vec![server.clone()]);
        let board = ServerBoard::default();
        let state = || board.report(&upstream)[0].state;
        let (one, other) = (
            board.add(&server, &upstream.trust),
            board.add(&server, &upstream.trust),
        );
        assert_eq!(state(), ServerState::Unasked);
        one.queries.increment();
        one.set_latency(Duration::from_millis(10));
        assert_eq!(state(), ServerState::Up);
        one.set_down(Down::Yes);
        assert_eq!(state(), ServerState::Down);
        other.queries.add(2);
        other.failures.increment();
        assert_eq!(state(), ServerState::PartlyDown);
        let told = &board.report(&upstream)[0];
        assert_eq!((told.queries, told.failures), (3, 1));
        assert_eq!(told.latency, Some(Duration::from_millis(10)));
        // A property is logged once, by the first worker that detects it.
        assert!(one.tell(Told::Edns) && one.tell(Told::Case));
        assert!(!other.tell(Told::Edns) && !other.tell(Told::Case));
        one.set_down(Down::No);
        drop(other);
        assert_eq!(board.report(&upstream)[0].queries, 1);
    }
}
