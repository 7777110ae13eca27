//! One worker's state of a server: its latency and health, and the sockets and connection to it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_net::tls::ServerTls;

use super::addresses::KnownAddresses;
use super::fallback::Fallback;
use crate::config;
use crate::limits::{
    CONNECT_AGAIN_MAX, CONNECT_AGAIN_MIN, CONNECTS_AWAITED_MAX, PROBE_EVERY, SERVER_FAILURES_MAX,
    SERVER_REST,
};
use crate::servers::{self, ServerBoard, ServerCells};

/// A server, whose state is kept over a change of snapshots.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: config::Server,
    trust: config::Trust,
    /// Resolvers for the addresses of its name.
    pub(super) bootstrap: Box<[SocketAddr]>,
    pub(super) addresses: KnownAddresses,
    /// TLS, with the files as they were read last.
    tls: RefCell<Option<Arc<ServerTls>>>,
    latency: Cell<Latency>,
    /// Failures in a row.
    failures: Cell<u32>,
    down: Cell<Option<Down>>,
    /// Connections that failed in a row, and the time from which the next one may be tried.
    connect_failures: Cell<u32>,
    connect_after: Cell<Option<Instant>>,
    /// Fallback to queries without EDNS.
    pub(super) without_edns: Fallback,
    /// Fallback to queries in lower case.
    pub(super) in_lower_case: Fallback,
    /// Numbers of its UDP sockets.
    pub(super) sockets: RefCell<Vec<u32>>,
    /// Number of its connection.
    pub(super) stream: Cell<Option<u32>>,
    /// State of the server for reports.
    pub(super) cells: Arc<ServerCells>,
}

/// The state of a server that is down, since it has failed too often.
#[derive(Debug, Clone, Copy)]
struct Down {
    /// Time until which clients' questions go to it only if no other server is left.
    rests_until: Instant,
    /// Time of the next probe.
    probe_at: Instant,
}

/// The latency of responses, estimated as RFC 6298 does for TCP.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latency {
    pub(super) smoothed: Duration,
    deviation: Duration,
}

/// A change of a server's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// No change.
    Same,
    /// The server has failed too often.
    Down,
    /// The server works again.
    Up,
}

/// The place of a failure in a row of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    First,
    Further,
}

impl Latency {
    fn add(self, sample: Duration) -> Self {
        if self.smoothed.is_zero() {
            return Self {
                smoothed: sample,
                deviation: sample / 2,
            };
        }
        Self {
            smoothed: self.smoothed * 7 / 8 + sample / 8,
            deviation: self.deviation * 3 / 4 + self.smoothed.abs_diff(sample) / 4,
        }
    }

    /// About the 95th percentile of latencies lately.
    pub(super) fn mostly(self) -> Duration {
        self.smoothed + 2 * self.deviation
    }
}

impl Server {
    pub(super) fn new(
        config: config::Server,
        upstream: &config::Upstream,
        board: &ServerBoard,
    ) -> Self {
        Self {
            cells: board.add(&config, &upstream.trust),
            config,
            trust: upstream.trust.clone(),
            bootstrap: bootstrap(upstream),
            addresses: KnownAddresses::default(),
            tls: RefCell::default(),
            latency: Cell::default(),
            failures: Cell::new(0),
            down: Cell::new(None),
            connect_failures: Cell::new(0),
            connect_after: Cell::new(None),
            without_edns: Fallback::default(),
            in_lower_case: Fallback::default(),
            sockets: RefCell::default(),
            stream: Cell::new(None),
        }
    }

    /// True if it is this server of an upstream, with the same authentication and resolvers.
    pub(super) fn is(&self, config: &config::Server, upstream: &config::Upstream) -> bool {
        let is_secure = self.config.is_secure();
        self.config == *config
            && (!is_secure || self.trust == upstream.trust)
            && (!is_secure || *self.bootstrap == *bootstrap(upstream))
    }

    /// TLS to the server. `None`: its transport has none.
    pub(super) fn tls(&self) -> Option<Arc<ServerTls>> {
        self.tls.borrow().clone()
    }

    pub(super) fn set_tls(&self, tls: Option<Arc<ServerTls>>) {
        *self.tls.borrow_mut() = tls;
    }

    pub(super) fn latency(&self) -> Latency {
        self.latency.get()
    }

    /// True if it is asked last.
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.down.get().is_some_and(|down| now < down.rests_until)
    }

    /// Notes an answer, and the time that it took.
    pub(super) fn succeeded(&self, took: Duration) -> Health {
        let took = took.max(Duration::from_micros(1));
        self.set_latency(self.latency.get().add(took));
        self.failures.set(0);
        match self.down.take() {
            Some(_) => {
                self.cells.set_down(servers::Down::No);
                Health::Up
            }
            None => Health::Same,
        }
    }

    /// Notes that the server has not answered for so long, and may still do so.
    pub(super) fn takes_longer_than(&self, waited: Duration) {
        let latency = self.latency.get();
        if waited > latency.smoothed {
            self.set_latency(latency.add(waited));
        }
    }

    fn set_latency(&self, latency: Latency) {
        self.latency.set(latency);
        self.cells.set_latency(latency.smoothed);
    }

    /// Notes that the server has not answered. `random` spreads the probes of workers.
    pub(super) fn failed(&self, now: Instant, random: u32) -> Health {
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        self.cells.failures.increment();
        if failures < SERVER_FAILURES_MAX {
            return Health::Same;
        }
        let before = self.down.get();
        self.down.set(Some(Down {
            rests_until: now + SERVER_REST,
            probe_at: before.map_or(now + spread(PROBE_EVERY, random), |down| down.probe_at),
        }));
        match before {
            Some(_) => Health::Same,
            None => {
                self.cells.set_down(servers::Down::Yes);
                Health::Down
            }
        }
    }

    /// The time of the next probe; `None` while the server works.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.down.get().map(|down| down.probe_at)
    }

    /// Notes a probe that is sent `now`, for which a connection may be opened at once.
    pub(super) fn probed(&self, now: Instant, random: u32) {
        if let Some(down) = self.down.get() {
            self.down.set(Some(Down {
                probe_at: now + spread(PROBE_EVERY, random),
                ..down
            }));
            self.connect_after.set(None);
        }
    }

    /// True if a connection to the server may be tried.
    pub(super) fn may_connect(&self, now: Instant) -> bool {
        self.connect_after.get().is_none_or(|after| now >= after)
    }

    pub(super) fn connected(&self) {
        self.connect_failures.set(0);
        self.connect_after.set(None);
    }

    /// Notes a connection that failed, or never answered: the next one is tried after a pause.
    pub(super) fn connect_failed(&self, now: Instant, random: u32) -> Failure {
        let failures = self.connect_failures.get();
        self.connect_failures.set(failures.saturating_add(1));
        let doubled = CONNECT_AGAIN_MIN * 2_u32.saturating_pow(failures.min(16));
        let pause = spread(doubled.min(CONNECT_AGAIN_MAX), random);
        self.connect_after.set(Some(now + pause));
        match failures {
            0 => Failure::First,
            _ => Failure::Further,
        }
    }

    /// True if a connection failed, and the next one is tried within a moment.
    pub(super) fn reconnects_soon(&self, now: Instant) -> bool {
        let failures = self.connect_failures.get();
        (1..=CONNECTS_AWAITED_MAX).contains(&failures) && !self.may_connect(now)
    }

    /// The time from which a connection may be tried; `None`: at once.
    pub(super) fn connect_after(&self) -> Option<Instant> {
        self.connect_after.get()
    }
}

/// The resolvers for addresses of an upstream's servers. They are known by address, so that no question waits for
/// itself.
fn bootstrap(upstream: &config::Upstream) -> Box<[SocketAddr]> {
    if !upstream.bootstrap.is_empty() {
        return upstream.bootstrap.as_slice().into();
    }
    let by_address = upstream.servers.iter();
    by_address
        .filter(|server| !server.is_secure())
        .filter_map(config::Server::socket_address)
        .collect()
}

/// A time between three quarters and five quarters of `time`, so that workers do not act at once.
fn spread(time: Duration, random: u32) -> Duration {
    let share = f64::from(random) / f64::from(u32::MAX);
    time.mul_f64(0.75 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Transport;

    fn server() -> Server {
        let config = config::Server::at(Transport::Tcp, SocketAddr::from(([192, 0, 2, 1], 53)));
        let upstream = config::Upstream::of("test", Vec::new());
        Server::new(config, &upstream, &ServerBoard::default())
    }

    #[test]
    fn a_server_rests_after_failures_in_a_row_and_is_probed_meanwhile() {
        let (server, now) = (server(), Instant::now());
        for _ in 1..SERVER_FAILURES_MAX {
            assert_eq!(server.failed(now, 0), Health::Same);
        }
        assert_eq!(server.probe_at(), None);
        assert_eq!(server.failed(now, 0), Health::Down);
        assert!(server.rests(now));
        let first = server.probe_at().expect("it is down");
        assert_eq!(first, now + PROBE_EVERY * 3 / 4);
        // Further failures put nothing off.
        assert_eq!(server.failed(now + PROBE_EVERY / 2, u32::MAX), Health::Same);
        assert_eq!(server.probe_at(), Some(first));
        server.probed(first, u32::MAX);
        assert_eq!(server.probe_at(), Some(first + PROBE_EVERY * 5 / 4));
        assert_eq!(server.succeeded(Duration::ZERO), Health::Up);
        assert_eq!((server.probe_at(), server.rests(now)), (None, false));
    }

    #[test]
    fn connections_are_tried_after_pauses_that_grow_to_a_bound() {
        let (server, now) = (server(), Instant::now());
        assert!(server.may_connect(now));
        assert_eq!(server.connect_failed(now, 0), Failure::First);
        assert!(!server.may_connect(now));
        assert!(server.may_connect(now + CONNECT_AGAIN_MIN));
        for _ in 0..40 {
            assert_eq!(server.connect_failed(now, u32::MAX), Failure::Further);
        }
        assert!(!server.may_connect(now + CONNECT_AGAIN_MAX));
        assert!(server.may_connect(now + CONNECT_AGAIN_MAX * 5 / 4));
        server.connected();
        assert!(server.may_connect(now));
    }
}
