//! All servers of the forwarder are dead for a minute, under load, and then back. Long tier only: the same in
//! seconds is among the tests of `steppe-dns`.
//!
//! The promises are counted, not timed: queries that reach the servers' sockets, by name, and probes between their
//! return and the first answer of theirs that a client has. Times are printed.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use steppe_testkit::{DnsServer, Forwarder, Steppe, dns_query, eventually, is_left_to_long_tier};

const PATIENCE: Duration = Duration::from_secs(20);
const OUTAGE: Duration = Duration::from_secs(60);

/// Names that are cached before the outage, and names that were never queried.
const KNOWN: usize = 40;
const UNKNOWN: usize = 10;
const CLIENTS: usize = 4;
const WORKERS: usize = 2;
const SERVERS: usize = 2;

/// The TTL of fresh answers, in seconds.
const TTL: u32 = 5;

/// The TTL of a stale answer, in seconds: RFC 8767 §4.
const STALE_TTL: u32 = 30;

/// Queries for a question to one server over one transport, at most: RFC 9520 §3.1.
const QUERIES_PER_SERVER: usize = 3;

/// Seconds between two attempts to refresh a stale answer, and of the first failure that is cached; further failures
/// are cached twice as long each. RFC 8767 §5, RFC 9520 §3.2.
const STALE_RECHECK: u64 = 30;
const FIRST_FAILURE: u64 = 2;

const CONFIG: &str = r#"
[dns.cache]
serve_stale = { up_to = "1h", after = "100ms", only = "positive" }
prefetch = "off"
[dns.upstream.both]
servers = ["udp://{one}", "udp://{other}"]
timeout = "2s"
[[dns.rule]]
forward = "both"
"#;

const SERVFAIL: u8 = 2;
/// The query name of a probe.
const ROOT: &str = "";

const DEAD: u8 = 0;

/// Queries by name and server.
type Counts = HashMap<(String, usize), usize>;

/// Two servers that are dead and alive together. Alive, they answer 192.0.2.`phase` to every query.
#[derive(Default)]
struct Servers {
    phase: AtomicU8,
    /// The query names, with the index of the server.
    asked: Mutex<Vec<(String, usize)>>,
}

impl Servers {
    fn start(self: &Arc<Self>, index: usize) -> DnsServer {
        let servers = Arc::clone(self);
        DnsServer::start(move |name| {
            servers.asked().push((name.to_owned(), index));
            let phase = servers.phase.load(Ordering::Acquire);
            (phase != DEAD).then_some((Ipv4Addr::new(192, 0, 2, phase), TTL))
        })
    }

    fn asked(&self) -> MutexGuard<'_, Vec<(String, usize)>> {
        self.asked.lock().expect("no server panics")
    }

    /// Sets the answer of both servers, or makes them silent.
    fn set_phase(&self, phase: u8) {
        self.phase.store(phase, Ordering::Release);
    }

    /// Takes the queries since the last call, by name and server, and the number of probes.
    fn take(&self) -> (Counts, usize) {
        let probes = self.probes();
        let mut counts = Counts::new();
        for (name, server) in self.asked().drain(..) {
            if name != ROOT {
                *counts.entry((name, server)).or_default() += 1;
            }
        }
        (counts, probes)
    }

    /// Probes since the last [`Self::take`].
    fn probes(&self) -> usize {
        let asked = self.asked();
        asked.iter().filter(|(name, _)| name == ROOT).count()
    }
}

/// An answer that a client received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    rcode: u8,
    /// The last byte of the answer's address; 0 without an answer.
    phase: u8,
    ttl: u32,
}

/// The answers that clients received: the last one to each name, and their number.
#[derive(Default)]
struct Diary {
    last: HashMap<String, Seen>,
    answers: usize,
    stale: usize,
    /// Failures for names that were cached.
    failed: Vec<(String, Seen)>,
}

fn known(number: usize) -> String {
    format!("known{number}.example.org")
}

fn unknown(number: usize) -> String {
    format!("unknown{number}.example.org")
}

fn ask(socket: &UdpSocket, id: u16, name: &str) -> Seen {
    let query = dns_query(id, name, 1);
    socket.send(&query).expect("is sent");
    let mut response = [0; 1500];
    loop {
        let len = socket.recv(&mut response).expect("every query is answered");
        if response[..2] == query[..2] {
            let record = &response[query.len()..len];
            let has_record = response[7] > 0;
            return Seen {
                rcode: response[3] & 0x0f,
                phase: if has_record { record[15] } else { 0 },
                ttl: match has_record {
                    true => u32::from_be_bytes([record[6], record[7], record[8], record[9]]),
                    false => 0,
                },
            };
        }
    }
}

fn client(listen: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket.connect(listen).expect("loopback");
    socket
}

/// Queries its share of all names, in turn, until the scene ends.
fn load(scene: &Scene, number: usize) {
    let socket = client(scene.listen);
    let names = (0..KNOWN).map(known).chain((0..UNKNOWN).map(unknown));
    let names: Vec<_> = names.skip(number).step_by(CLIENTS).collect();
    let mut id = 0_u16;
    while !scene.ends.load(Ordering::Acquire) {
        for name in &names {
            id = id.wrapping_add(1);
            let seen = ask(&socket, id, name);
            let mut diary = scene.diary();
            diary.answers += 1;
            diary.stale += usize::from(seen.ttl == STALE_TTL);
            if name.starts_with("known") && seen.phase == 0 {
                diary.failed.push((name.clone(), seen));
            }
            diary.last.insert(name.clone(), seen);
        }
        // The pace of a client: without it, the node would be left no processor.
        thread::sleep(Duration::from_millis(10));
    }
}

/// True for a name that was cached before the outage.
fn is_known(name: &str) -> bool {
    name.starts_with("known")
}

/// Upper bound of the queries to one server for one name in `seconds` without an answer.
fn bound(name: &str, seconds: u64) -> usize {
    let times = match is_known(name) {
        true => seconds / STALE_RECHECK + 2,
        // As many as there are failures of 2 + 4 + 8 + … seconds in that time.
        false => u64::from((seconds / FIRST_FAILURE + 1).ilog2()) + 2,
    };
    QUERIES_PER_SERVER * usize::try_from(times).expect("a few")
}

/// The shared state of a test.
struct Scene {
    servers: Arc<Servers>,
    listen: SocketAddr,
    diary: Mutex<Diary>,
    ends: AtomicBool,
}

impl Scene {
    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.diary.lock().expect("no client panics")
    }

    fn are_all_known(&self, is: impl Fn(Seen) -> bool) -> bool {
        self.are_all((0..KNOWN).map(known), is)
    }

    fn are_all_unknown(&self, is: impl Fn(Seen) -> bool) -> bool {
        self.are_all((0..UNKNOWN).map(unknown), is)
    }

    fn are_all(&self, mut names: impl Iterator<Item = String>, is: impl Fn(Seen) -> bool) -> bool {
        let diary = self.diary();
        names.all(|name| diary.last.get(&name).is_some_and(|seen| is(*seen)))
    }

    /// Makes the servers dead for a minute, and checks the observations of clients and servers.
    fn outage(&self) {
        self.servers.set_phase(DEAD);
        self.servers.take();
        let died = Instant::now();
        let is_stale = |seen: Seen| (seen.phase, seen.ttl) == (1, STALE_TTL);
        eventually("every answer is a stale one", || {
            self.are_all_known(is_stale)
        });
        while died.elapsed() < OUTAGE {
            // Checks all answers of a minute, which only the clock ends.
            thread::sleep(Duration::from_millis(100));
            assert!(self.are_all_known(is_stale));
        }
        assert!(self.are_all_unknown(|seen| seen.rcode == SERVFAIL));
        let (counts, probes) = self.servers.take();
        let dead_for = died.elapsed();
        let diary = self.diary();
        let most = |of: fn(&str) -> bool| {
            let counts = counts.iter().filter(|((name, _), _)| of(name));
            counts.map(|(_, count)| *count).max().unwrap_or(0)
        };
        println!(
            "dead for {dead_for:.1?}: {} answers, {} of them stale; each server had {} queries at most for a \
             name that was cached, {} for another; {probes} probes",
            diary.answers,
            diary.stale,
            most(is_known),
            most(|name| !is_known(name)),
        );
        assert_eq!(diary.failed, [], "names that were cached");
        assert!(diary.stale > diary.answers / 2);
        assert_within(&counts, |name| bound(name, dead_for.as_secs() + 1));
        // Every worker probes each server about once a second.
        let in_turn = usize::try_from(dead_for.as_millis() / 750 + 1).expect("a minute");
        assert!((1..=in_turn * WORKERS * SERVERS).contains(&probes));
    }

    /// Brings the servers back, and checks the recovery.
    fn recovery(&self) {
        self.servers.set_phase(2);
        let returned = Instant::now();
        let is_fresh = |seen: Seen| seen.phase == 2;
        eventually("a client has an answer of theirs", || {
            !self.are_all_known(|seen| !is_fresh(seen))
        });
        let first = returned.elapsed();
        let probes = self.servers.probes();
        eventually("all names are fresh, those that had failed too", || {
            self.are_all_known(is_fresh) && self.are_all_unknown(is_fresh)
        });
        let (all, (counts, _)) = (returned.elapsed(), self.servers.take());
        println!(
            "back: the first answer after {first:.1?} and {probes} probes, all after {all:.1?} and {} queries for \
             {} names",
            counts.values().sum::<usize>(),
            KNOWN + UNKNOWN,
        );
        // The probes of a second, and those that were under way.
        assert!(probes <= 2 * WORKERS * SERVERS, "{probes} probes");
        // Each name is queried once, and again when its answer's TTL has ended.
        let times = 1 + all.as_secs() / u64::from(TTL);
        let bound = QUERIES_PER_SERVER * usize::try_from(times).expect("a few");
        assert_within(&counts, |_| bound);
    }
}

#[track_caller]
fn assert_within(counts: &Counts, bound: impl Fn(&str) -> usize) {
    for ((name, server), count) in counts {
        let bound = bound(name);
        assert!(*count <= bound, "{name} to {server}: {count} of {bound}");
    }
}

/// Ends the clients even if the test fails: a scope that waits for them would hide the failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_minute_without_servers_costs_no_answer_and_ends_without_a_storm() {
    if is_left_to_long_tier("a_minute_without_servers") {
        return;
    }
    let servers = Arc::new(Servers::default());
    let [one, other] = [servers.start(0), servers.start(1)];
    let forwarder = Steppe::builder()
        .with("workers", WORKERS)
        .with("one", one.address())
        .with("other", other.address())
        .start_forwarder(CONFIG);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    let scene = Scene {
        servers: Arc::clone(&servers),
        listen,
        diary: Mutex::default(),
        ends: AtomicBool::new(false),
    };
    servers.set_phase(1);
    let socket = client(listen);
    for number in 0..KNOWN {
        assert_eq!(ask(&socket, 1, &known(number)).phase, 1);
    }
    thread::scope(|scope| {
        let _ends = Ends(&scene.ends);
        for client in 0..CLIENTS {
            let scene = &scene;
            scope.spawn(move || load(scene, client));
        }
        scene.outage();
        scene.recovery();
    });
    assert!(node.stop().success());
}
