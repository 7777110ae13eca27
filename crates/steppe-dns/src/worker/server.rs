//! A server as one worker knows it: how fast it is, whether it works, and what leads there.

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

/// A server, whatever the snapshot.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: config::Server,
    trust: config::Trust,
    /// Who knows the addresses of its name.
    pub(super) bootstrap: Box<[SocketAddr]>,
    pub(super) addresses: KnownAddresses,
    /// By the files as they were read last.
    tls: RefCell<Option<Arc<ServerTls>>>,
    latency: Cell<Latency>,
    /// Failures in a row.
    failures: Cell<u32>,
    down: Cell<Option<Down>>,
    /// Connections that failed in a row, and when the next one may be tried.
    connect_failures: Cell<u32>,
    connect_after: Cell<Option<Instant>>,
    /// It does not understand EDNS.
    pub(super) without_edns: Fallback,
    /// It does not repeat the case of names.
    pub(super) in_lower_case: Fallback,
    /// Numbers of its sockets.
    pub(super) sockets: RefCell<Vec<u32>>,
    /// The number of its connection.
    pub(super) stream: Cell<Option<u32>>,
    /// What is told of it.
    pub(super) cells: Arc<ServerCells>,
}

/// A server has failed too often.
#[derive(Debug, Clone, Copy)]
struct Down {
    /// Until when no client's question tries it where another server is left.
    rests_until: Instant,
    /// When it is asked whether it is back.
    probe_at: Instant,
}

/// How long responses take, as RFC 6298 has it for TCP.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latency {
    pub(super) smoothed: Duration,
    deviation: Duration,
}

/// What became of a server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// As before.
    Same,
    /// It has failed too often.
    Down,
    /// It works again.
    Up,
}

/// Whether a failure is the first of several.
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

    /// About the 95th percentile of what was seen lately.
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

    /// Whether it is the server that an upstream names so: what leads there, and what is believed of it.
    pub(super) fn is(&self, config: &config::Server, upstream: &config::Upstream) -> bool {
        let is_secure = self.config.is_secure();
        self.config == *config
            && (!is_secure || self.trust == upstream.trust)
            && (!is_secure || *self.bootstrap == *bootstrap(upstream))
    }

    /// What is spoken below its protocol.
    pub(super) fn tls(&self) -> Option<Arc<ServerTls>> {
        self.tls.borrow().clone()
    }

    pub(super) fn set_tls(&self, tls: Option<Arc<ServerTls>>) {
        *self.tls.borrow_mut() = tls;
    }

    pub(super) fn latency(&self) -> Latency {
        self.latency.get()
    }

    /// Whether it is asked last.
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.down.get().is_some_and(|down| now < down.rests_until)
    }

    /// It has answered.
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

    /// It has not answered for so long, and may still do so.
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

    /// It has not, or with a failure. `random` spreads what workers do about it.
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

    /// When it is to be asked whether it is back; `None` while it works.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.down.get().map(|down| down.probe_at)
    }

    /// It is asked `now` whether it is back. That needs a connection, if any.
    pub(super) fn probed(&self, now: Instant, random: u32) {
        if let Some(down) = self.down.get() {
            self.down.set(Some(Down {
                probe_at: now + spread(PROBE_EVERY, random),
                ..down
            }));
            self.connect_after.set(None);
        }
    }

    /// Whether a connection to it may be tried.
    pub(super) fn may_connect(&self, now: Instant) -> bool {
        self.connect_after.get().is_none_or(|after| now >= after)
    }

    pub(super) fn connected(&self) {
        self.connect_failures.set(0);
        self.connect_after.set(None);
    }

    /// There is no connection to it, or none that answers: the next one is tried after a while.
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

    /// True where a connection came to nothing, and the next one is tried within a moment.
    pub(super) fn reconnects_soon(&self, now: Instant) -> bool {
        let failures = self.connect_failures.get();
        (1..=CONNECTS_AWAITED_MAX).contains(&failures) && !self.may_connect(now)
    }

    /// The time from which a connection may be tried; `None`: at once.
    pub(super) fn connect_after(&self) -> Option<Instant> {
        self.connect_after.get()
    }
}

/// Who is asked for addresses: nobody who is himself known by name, so that no question waits for itself.
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

/// A time between three quarters and five quarters of `time`: so that workers do not act as one.
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
