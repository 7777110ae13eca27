//! Allocations of queries on real sockets.
//!
//! The allocator counts by thread, and the worker's thread reports its count.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, answers, forwarder, query};
use crate::node::Node;
use crate::server::{Server, answered};
use crate::streams::ask;
use steppe_dns::config::{CacheBounds, CachePolicy, Policy, RateOf, Rule, RuleLog, RuleRate};
use steppe_dns::limits::{SOCKET_TIME_MAX, SOCKETS_PER_SERVER};
use steppe_mem::alloc::thread_allocations;
use steppe_testkit::{Peer, Port, eventually};

/// Allocations of the worker's thread at its last housekeeping.
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// Held by a test whose worker reports: one at a time.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Number of reports.
static TOLD: AtomicU64 = AtomicU64::new(0);

fn tell() {
    COUNTED.store(thread_allocations(), Ordering::SeqCst);
    TOLD.fetch_add(1, Ordering::SeqCst);
}

/// Allocations of the worker until now. It reports them every second.
fn counted() -> u64 {
    let before = TOLD.load(Ordering::SeqCst);
    eventually("the worker tells", || TOLD.load(Ordering::SeqCst) > before);
    COUNTED.load(Ordering::SeqCst)
}

/// The number of UDP sockets that are connected to an IPv4 address.
fn sockets_to(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else {
        panic!("{address} is one of IPv6");
    };
    // proc_net_tcp(5): the address in host memory order, and the port.
    let ip = u32::from_ne_bytes(address.ip().octets());
    let remote = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/self/net/udp").expect("Linux");
    let lines = table.lines().skip(1);
    lines
        .filter(|line| line.split_whitespace().nth(2) == Some(remote.as_str()))
        .count()
}

/// A rule with every setting, which lets all queries pass.
fn with_settings() -> Rule {
    let bounds = CacheBounds {
        min_ttl: Some(Duration::from_secs(60)),
        ..CacheBounds::default()
    };
    Rule {
        cache: Some(CachePolicy::Kept(bounds)),
        log: Some(RuleLog::Tagged("all".into())),
        rate: Some(RuleRate {
            queries_per_second: NonZeroU32::MAX,
            of: RateOf::Client,
        }),
        ..Rule::without_action()
    }
}

#[test]
fn a_hit_allocates_nothing() {
    let _alone = ONE_AT_A_TIME.lock().expect("no test failed");
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(1, 3600, &[7; 4])])]);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.rules.insert(0, with_settings());
    let _node = Node::start_beside(config, 1, tell);
    let client = Client::of(listen);
    let start = counted();
    assert_eq!(answers(&client.ask_for("a.example.org")), 1);
    assert!(counted() > start, "the counter counts: a socket was opened");
    // The miss has opened a socket, which must close before hits are counted.
    eventually("no socket to the server is open", || {
        sockets_to(server.address) == 0
    });
    const HITS: u64 = 20_000;
    let asked = query("a.example.org", 1);
    // On a busy machine, housekeeping may allocate once; an allocating hit would do so in every round.
    let rounds = (0..3).map(|_| {
        let before = counted();
        for _ in 0..HITS {
            assert_eq!(answers(&client.ask(&asked)), 1);
        }
        counted() - before
    });
    let least = rounds.min();
    assert_eq!(least, Some(0), "allocations for {HITS} hits");
    let mut peer = Peer::connect(listen);
    assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    let connected = counted();
    for _ in 0..HITS {
        assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    }
    let hits = counted() - connected;
    // The count includes the housekeeping of a few seconds.
    assert!(
        hits < HITS / 100,
        "{hits} allocations for {HITS} hits by TCP"
    );
}

/// Clients with one question each at a time, and questions of each client.
const CLIENTS: usize = 100;
const QUESTIONS: usize = 20;
/// Upper bound of the allocations to open a socket.
const ALLOCATIONS_PER_SOCKET: u64 = 8;

/// Allocations for questions that are not in the cache, each of which goes to all `servers` at once.
///
/// The second number is the part that may be due to sockets closed for their age: none if the run takes less
/// time than a socket lives.
fn allocations_with(servers: usize) -> (u64, u64) {
    let start = Instant::now();
    let servers: Vec<Server> = (0..servers)
        .map(|_| Server::start(|asked| vec![answered(&asked.bytes, 0, &[(1, 3600, &[7; 4])])]))
        .collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &addresses);
    config.upstreams[0].policy = Policy::Race;
    config.upstreams[0].concurrent = u8::try_from(servers.len()).expect("few");
    let sockets = (servers.len() * SOCKETS_PER_SERVER) as u64;
    let _node = Node::start_beside(config, 1, tell);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| Client::of(listen)).collect();
    let ask_all = |part: &str, before: usize| {
        for question in 0..QUESTIONS {
            for (client, number) in clients.iter().zip(0..) {
                client.send(&query(&format!("{part}{question}-{number}.example.org"), 1));
            }
            for client in &clients {
                assert_eq!(answers(&client.receive()), 1);
            }
            // A client needs one response only. Without this wait, the socket of a slower server
            // would overflow. A very slow server is sent the query again.
            let all = before + (question + 1) * CLIENTS;
            eventually("every server is asked every question", || {
                servers.iter().all(|server| server.asked_count() >= all)
            });
        }
    };
    ask_all("first", 0);
    let warm = counted();
    ask_all("then", CLIENTS * QUESTIONS);
    let counted = counted() - warm;
    let lives = start.elapsed().as_secs() / SOCKET_TIME_MAX.as_secs();
    (counted, lives * sockets * ALLOCATIONS_PER_SOCKET)
}

/// Prints the allocations of a forwarder that sends each question to all servers. A published one had 29 for each
/// question with 4 servers, and 225 with 32; with one message shared by all servers, 5 and 33.
#[test]
fn measured_a_question_costs_no_more_allocations_with_more_servers() {
    let _alone = ONE_AT_A_TIME.lock().expect("no test failed");
    let questions = CLIENTS * QUESTIONS;
    println!("servers  questions  allocations  a question");
    for servers in [4, 8, 16, 32] {
        let (counted, of_age) = allocations_with(servers);
        #[expect(clippy::cast_precision_loss, reason = "it is printed")]
        let each = counted as f64 / questions as f64;
        println!("{servers:>7}  {questions:>9}  {counted:>11}  {each:>10.3}");
        // Sockets are opened, each for hundreds of queries or some seconds. Nothing else allocates.
        let queries = (servers * questions) as u64;
        assert!(
            counted < queries / 8 + of_age,
            "{counted} allocations for {queries} queries"
        );
    }
}
