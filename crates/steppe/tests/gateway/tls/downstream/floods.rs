//! Many clients that begin handshakes and do not finish them, and their effect on others.
//!
//! `STEPPE_LONG=1` runs the sizes that the documentation promises.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use steppe_testkit::{
    Authority, Leaf, MemoryMeter, PATIENCE, Peer, RawOrigin, Steppe, TlsClient, eventually, heavy,
    is_left_to_long_tier, raise_file_limit, resident_bytes, skip,
};

use super::hello::{Hello, record};
use super::{GET, NAME, OK, Site, handshakes, is_long};

const HOSTILE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const GOOD: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const MIB: u64 = 1 << 20;
const BUDGET: u64 = 64 * MIB;
/// Good clients at a time: few beside those of the crowd.
const AT_A_TIME: usize = 10;
/// The memory of a node beyond its budget, at most.
const OVERHEAD: u64 = 24 * MIB;

/// The numbers of clients of each kind.
struct Sizes {
    half_open: usize,
    slow: usize,
    good: usize,
}

impl Sizes {
    fn of_tier() -> Self {
        match is_long() {
            true => Self {
                half_open: 10_000,
                slow: 2_000,
                good: 1_000,
            },
            false => Self {
                half_open: 1_000,
                slow: 500,
                good: 100,
            },
        }
    }

    /// Returns the sizes if this process may open enough files.
    fn fit(self) -> Option<Self> {
        let files = usize::try_from(raise_file_limit()).unwrap_or(usize::MAX);
        let needed = self.half_open + self.slow + 200;
        (files > needed).then_some(self)
    }
}

fn node(origin: &RawOrigin) -> Steppe {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    Site::serving(&certificate).start(origin.address())
}

/// Makes a full handshake and a request; an error says why it was not served.
fn visit(node: &Steppe) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let client = TlsClient::new();
    let peer = client.try_connect_from(GOOD, node.gateway(), NAME);
    let mut peer = peer.map_err(failed)?;
    peer.try_send(GET.as_bytes()).map_err(failed)?;
    match peer.try_head()? {
        Some(head) if head.status() == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// The number of clients that are served, of `count`, a few at a time.
fn served(node: &Steppe, count: usize) -> usize {
    let visits = || {
        let visits = (0..count / AT_A_TIME).map(|_| visit(node));
        let is_served = |visit: &Result<(), String>| {
            visit
                .as_ref()
                .inspect_err(|error| println!("{error}"))
                .is_ok()
        };
        visits.filter(is_served).count()
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(visits)).collect();
        let served = clients.into_iter().map(|client| client.join());
        served.map(|served| served.expect("it counts")).sum()
    })
}

/// Stops the other clients, also if the test fails: the scope would wait for them without end.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Begins handshakes and sends no more; goes on until `stop` is set, since the node closes the connections.
fn half_open(node: &Steppe, count: usize, stop: &AtomicBool, begun: &AtomicUsize) {
    let hello = TlsClient::new().hello(NAME);
    let mut open = std::collections::VecDeque::new();
    while !stop.load(Ordering::Acquire) {
        let mut peer = Peer::connect_from(HOSTILE, node.gateway());
        let _ = peer.try_send(&hello);
        open.push_back(peer);
        if begun.fetch_add(1, Ordering::AcqRel) >= count {
            open.pop_front();
            // The pace of a patient attacker: a new connection for each that was closed.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Sends a ClientHello byte by byte, over `count` connections.
fn slow(node: &Steppe, count: usize, stop: &AtomicBool) {
    let hello = TlsClient::new().hello(NAME);
    let connect = |_| Peer::connect_from(HOSTILE, node.gateway());
    let mut peers: Vec<Peer> = (0..count).map(connect).collect();
    let mut at = 0;
    while !stop.load(Ordering::Acquire) {
        for peer in &mut peers {
            let byte = &hello[at % hello.len()..][..1];
            if peer.try_send(byte).is_err() {
                *peer = connect(0);
            }
        }
        at += 1;
        // The pace of a slow client, a byte in 900 ms: faster ones would be another test.
        let pause = (0..18).take_while(|_| !stop.load(Ordering::Acquire));
        pause.for_each(|_| thread::sleep(Duration::from_millis(50)));
    }
}

#[test]
fn measured_handshakes_that_never_end_keep_nobody_out() {
    const TEST: &str = "measured_handshakes_that_never_end_keep_nobody_out";
    let _alone = heavy();
    let Some(sizes) = Sizes::of_tier().fit() else {
        return skip(TEST, "too few open files");
    };
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let meter = MemoryMeter::watch(node.id());
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let good = thread::scope(|scope| {
        scope.spawn(|| half_open(&node, sizes.half_open, &stop, &begun));
        scope.spawn(|| slow(&node, sizes.slow, &stop));
        let _stops = Stops(&stop);
        eventually("the crowd is there", || {
            begun.load(Ordering::Acquire) >= sizes.half_open
        });
        let good = served(&node, sizes.good);
        // More handshakes than may be in progress at once, and they stall.
        eventually("some give way", || handshakes(&node, "evicted") > 0.0);
        good
    });
    let peak = meter.finish();
    let evicted = handshakes(&node, "evicted");
    println!(
        "{good} of {} served, {evicted} evicted, {peak:?}",
        sizes.good
    );
    assert!(good * 100 >= sizes.good * 99, "{good} of {}", sizes.good);
    assert!(peak.high_water_bytes <= BUDGET + OVERHEAD, "{peak:?}");
    eventually("all are over", || {
        node.metrics().sum("steppe_http_connections", &[]) == 0.0
    });
}

/// The times of visits, one after the other, the shortest first.
fn times(node: &Steppe, count: usize) -> Vec<Duration> {
    let time = |_| {
        // The pauses make all visits together last for several bytes of a slow client.
        thread::sleep(Duration::from_millis(10));
        let began_at = Instant::now();
        visit(node).expect("it is served");
        began_at.elapsed()
    };
    let mut times: Vec<_> = (0..count).map(time).collect();
    times.sort_unstable();
    println!(
        "p50 {:?}, p90 {:?}, p99 {:?}, longest {:?}",
        percentile(&times, 50),
        percentile(&times, 90),
        percentile(&times, 99),
        times[count - 1]
    );
    times
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[times.len() * percent / 100]
}

/// Clients of one address never finish their handshakes, and there are more of them than slots. A client of another
/// address does not wait for them: it has a slot of its own at once.
#[test]
fn measured_another_address_does_not_wait_for_slow_clients() {
    const TEST: &str = "measured_another_address_does_not_wait_for_slow_clients";
    const SLOW: usize = 1_000;
    const VISITS: usize = 500;
    // A visit that waited for a slot would take as long as a handshake that stalls: a second, about a hundred times as
    // long as on a quiet machine.
    const SLOWER: u32 = 20;
    if is_left_to_long_tier(TEST) {
        return;
    }
    let _alone = heavy();
    if raise_file_limit() < 2 * SLOW as u64 {
        return skip(TEST, "too few open files");
    }
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let quiet = times(&node, VISITS);
    let stop = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        scope.spawn(|| slow(&node, SLOW, &stop));
        let _stops = Stops(&stop);
        eventually("some give way", || handshakes(&node, "evicted") > 0.0);
        times(&node, VISITS)
    });
    println!("{} evicted", handshakes(&node, "evicted"));
    let [quiet, beside] = [quiet, beside].map(|times| percentile(&times, 99));
    assert!(
        beside <= quiet * SLOWER,
        "{beside:?} beside {SLOW}, {quiet:?} alone"
    );
}

/// Clients of one address that all connect at once, as after a restart or behind a NAT.
#[test]
fn a_storm_of_clients_is_served_whole() {
    const TEST: &str = "a_storm_of_clients_is_served_whole";
    let _alone = heavy();
    // Half of the limit is in progress for one address, and the others wait.
    let (limit, counts) = match is_long() {
        true => (1_000, &[1_500, 10_000][..]),
        false => (20, &[100][..]),
    };
    let files = usize::try_from(raise_file_limit()).unwrap_or(usize::MAX);
    let origin = RawOrigin::answering(OK);
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let site = Site::serving(&certificate).listener(|l| l.set("limits.handshakes", limit));
    let node = site
        .configured(|config| config.memory_budget("1GiB"))
        .start(origin.address());
    for &count in counts {
        if files < count + 200 {
            return skip(TEST, "too few open files");
        }
        let begin = Barrier::new(count);
        let visit = || {
            begin.wait();
            let began_at = Instant::now();
            visit(&node).map(|()| began_at.elapsed())
        };
        let visits: Vec<_> = thread::scope(|scope| {
            let clients = (0..count).map(|_| {
                let client = thread::Builder::new().stack_size(256 << 10);
                client.spawn_scoped(scope, visit).expect("a thread")
            });
            let clients: Vec<_> = clients.collect();
            let visits = clients.into_iter().map(|client| client.join());
            // A client that cannot connect panics.
            visits
                .map(|visit| visit.unwrap_or_else(|_| Err("no connection".to_owned())))
                .collect()
        });
        let times = visits.iter().flatten();
        let [served, at_once] = [PATIENCE, Duration::from_secs(1)]
            .map(|limit| times.clone().filter(|time| **time <= limit).count());
        let longest = times.max();
        println!("{count}: {served} within {PATIENCE:?}, {at_once} within a second, {longest:?}");
        println!("{} evicted", handshakes(&node, "evicted"));
        let failed: Vec<_> = visits
            .iter()
            .filter_map(|visit| visit.as_ref().err())
            .collect();
        let (failures, first) = (failed.len(), failed.first());
        assert!(failed.is_empty(), "{failures} of {count}: {first:?}");
    }
    assert_eq!(handshakes(&node, "evicted"), 0.0);
}

#[test]
fn tickets_of_nobody_cost_what_any_handshake_costs() {
    let _alone = heavy();
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let client = TlsClient::new();
    let visit = || {
        let mut peer = client.connect(node.gateway(), NAME);
        assert_eq!(peer.send(GET).response().status(), 200);
        peer.is_resumed()
    };
    assert!(!visit());
    assert!(visit());
    let count = if is_long() { 10_000 } else { 500 };
    let [before, _] = resident_bytes(node.id());
    // Each ClientHello has four tickets in the node's format, none of which can be decrypted.
    let mut hello = Hello::of(&client);
    for number in 0..count {
        hello.forge_ticket(number);
        let mut peer = Peer::connect_from(HOSTILE, node.gateway());
        peer.send(record(&hello.encode()));
        let begin = peer.bytes(6);
        assert_eq!((begin[0], begin[5]), (22, 2), "{begin:?}");
    }
    assert!(visit());
    eventually("all are over", || {
        handshakes(&node, "closed") == count as f64
    });
    let [after, _] = resident_bytes(node.id());
    // The bound would show a single byte that is kept for each ticket.
    let grown = after.saturating_sub(before);
    println!("{count} tickets: {grown} bytes");
    assert!(
        after <= BUDGET + OVERHEAD && grown < 16 * MIB,
        "{grown} bytes"
    );
}

#[test]
fn a_client_that_resumes_without_end_makes_nothing_grow() {
    let _alone = heavy();
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let client = TlsClient::new();
    let visits = |count: usize| {
        (0..count)
            .filter(|_| {
                let mut peer = client.connect(node.gateway(), NAME);
                assert_eq!(peer.send(GET).response().status(), 200);
                peer.is_resumed()
            })
            .count()
    };
    visits(50);
    let [before, _] = resident_bytes(node.id());
    let count = if is_long() { 20_000 } else { 500 };
    assert_eq!(visits(count), count);
    let [after, _] = resident_bytes(node.id());
    let grown = after.saturating_sub(before);
    println!("{count} resumptions: {grown} bytes");
    assert!(grown < 8 * MIB, "{grown} bytes");
}
