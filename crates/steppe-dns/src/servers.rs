//! What workers know of servers, for who asks about the node.
//!
//! Invariant: a worker writes cells of its own, a store each, and takes a lock only where a server is new to it.
//! Non-goals: deciding by it. Each worker finds out for itself which servers work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use steppe_telemetry::{Counter, Gauge};

use crate::config::{Server, Trust, Upstream};

/// A server, as workers know it.
#[derive(Debug, Clone)]
pub struct ServerReport {
    /// As the configuration writes it.
    pub server: String,
    /// Whether it works.
    pub state: ServerState,
    /// Queries to it since it is in the configuration, probes included.
    pub queries: u64,
    /// Those that it did not answer, or not in time.
    pub failures: u64,
    /// How long responses take of late; `None` before the first.
    pub latency: Option<Duration>,
}

/// Whether a server works. Each worker finds out for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It was not asked yet.
    Unasked,
    /// It answers.
    Up,
    /// It has failed too often in a row for some of the workers that ask it.
    PartlyDown,
    /// For all of them.
    Down,
}

impl ServerState {
    /// Its name.
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

/// The servers of all workers.
#[derive(Debug, Default)]
pub(crate) struct ServerBoard(Mutex<Vec<Weak<ServerCells>>>);

/// What one worker knows of one server.
#[derive(Debug)]
pub(crate) struct ServerCells {
    config: Server,
    trust: Trust,
    pub(crate) queries: Counter,
    pub(crate) failures: Counter,
    /// Smoothed, in microseconds; 0 before the first response.
    latency_us: Gauge,
    is_down: AtomicBool,
    /// Of all workers.
    told: Arc<[AtomicBool; 2]>,
}

/// A property of a server that the log has once, by its place in [`ServerCells`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It does not understand EDNS.
    Edns,
    /// It does not keep the case of names.
    Case,
}

impl ServerBoard {
    fn known(&self) -> MutexGuard<'_, Vec<Weak<ServerCells>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cells for a server that is new to a worker.
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
        // Servers of configurations that are over have gone with them.
        known.retain(|cells| cells.strong_count() > 0);
        known.push(Arc::downgrade(&cells));
        cells
    }

    /// What workers know of the servers of an upstream, in their order.
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
    /// What is believed of a server counts where it is verified.
    fn is(&self, config: &Server, trust: &Trust) -> bool {
        self.config == *config && (!config.is_secure() || self.trust == *trust)
    }

    pub(crate) fn set_latency(&self, smoothed: Duration) {
        let us = u64::try_from(smoothed.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.set(us);
    }

    /// True where the log does not have this of the server yet, on whatever worker.
    pub(crate) fn tell(&self, what: Told) -> bool {
        !self.told[what as usize].swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set_down(&self, is_down: Down) {
        self.is_down.store(is_down == Down::Yes, Ordering::Relaxed);
    }
}

/// Whether a server has failed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Down {
    Yes,
    No,
}

fn summary<'a>(server: &Server, cells: impl Iterator<Item = &'a ServerCells>) -> ServerReport {
    let (mut queries, mut failures, mut asking, mut down) = (0, 0, 0, 0);
    let (mut latencies, mut answered) = (Duration::ZERO, 0_u32);
    // Who has not asked it knows nothing.
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
        // The log has it once, whatever worker finds it out.
        assert!(one.tell(Told::Edns) && one.tell(Told::Case));
        assert!(!other.tell(Told::Edns) && !other.tell(Told::Case));
        one.set_down(Down::No);
        drop(other);
        assert_eq!(board.report(&upstream)[0].queries, 1);
    }
}
