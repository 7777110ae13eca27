//! Memory of connections at a worker, against their charges.

use std::net::TcpListener;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use steppe_dns::config::{Action, Policy, Rule, Server as ServerConfig, Transport, Upstream};
use steppe_dns::hosts::RecordSet;
use steppe_dns::limits::{CONNECTION_BYTES, HTTPS_STREAM_BYTES, STREAM_BYTES};
use steppe_mem::alloc::thread_live_bytes;
use steppe_mem::limits::HOLDER_BYTES;
use steppe_testkit::{Peer, Port, eventually, raise_file_limit};

use crate::client::{Client, forwarder, query};
use crate::https::{HttpsServer, Manner, Reply};
use crate::node::Node;
use crate::secure::{NAME, Site, server as by_https};
use crate::service::ONE_AT_A_TIME;
use crate::streams::ask;

/// Live bytes of the worker's thread at its last housekeeping, and the number of reports.
static LIVE: AtomicI64 = AtomicI64::new(0);
static TOLD: AtomicU64 = AtomicU64::new(0);

fn tell() {
    LIVE.store(thread_live_bytes(), Ordering::SeqCst);
    TOLD.fetch_add(1, Ordering::SeqCst);
}

/// Live bytes of the worker now. It reports them every second.
fn live() -> i64 {
    let before = TOLD.load(Ordering::SeqCst);
    eventually("the worker tells", || {
        TOLD.load(Ordering::SeqCst) > before + 1
    });
    LIVE.load(Ordering::SeqCst)
}

/// Checks that the constant covers the measured bytes, and is at most a tenth above them.
fn assert_is(constant: usize, measured: i64, what: &str) {
    let measured = usize::try_from(measured).expect("it grows");
    println!("{what}: {measured} of {constant} bytes");
    assert!(
        measured <= constant,
        "{what}: {measured} of {constant} bytes"
    );
    assert!(
        measured * 10 > constant * 9,
        "{what}: {measured} of {constant} bytes"
    );
}

#[test]
fn a_connection_takes_what_it_is_charged_with() {
    const COUNT: usize = 400;
    let _alone = ONE_AT_A_TIME.lock().expect("no test failed");
    raise_file_limit();
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[]);
    // The responses fill the buffers that a connection keeps.
    let texts: Vec<_> = (0..4)
        .map(|number| format!("TXT \"{number:0>230}\"").parse().expect("a record"))
        .collect();
    config.rules = vec![Rule::new(Action::Records(RecordSet::new(&texts)))];
    let _node = Node::start_beside(config, 1, tell);
    let asked = query("large.example", 16);
    let before = live();
    let connect = |_| {
        let mut peer = Peer::connect(listen);
        // Uses both buffers of the connection.
        for _ in 0..3 {
            assert!(ask(&mut peer, &asked).len() > 900);
        }
        peer
    };
    let peers: Vec<_> = (0..COUNT).map(connect).collect();
    let each = (live() - before) / i64::try_from(COUNT).expect("small");
    drop(peers);
    let charged = CONNECTION_BYTES + HOLDER_BYTES;
    assert_is(charged, each, "a client's connection");
}

#[test]
fn a_connection_to_a_server_takes_what_it_is_charged_with() {
    const COUNT: usize = 60;
    let _alone = ONE_AT_A_TIME.lock().expect("no test failed");
    raise_file_limit();
    let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let port = listener.local_addr().expect("is bound").port();
    thread::spawn(move || {
        // Silent, and open until the process of the test ends.
        let open: Vec<_> = listener.incoming().flatten().collect();
        drop(open);
    });
    let servers = (1..=COUNT).map(|last| {
        let last = u8::try_from(last).expect("few");
        ServerConfig::at(Transport::Tcp, ([127, 0, 1, last], port).into())
    });
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[]);
    let mut upstream = Upstream::of("silent", servers.collect());
    let first = ServerConfig::at(Transport::Tcp, ([127, 0, 2, 1], port).into());
    upstream.policy = Policy::Race;
    upstream.concurrent = u8::try_from(COUNT).expect("few");
    config.upstreams = vec![upstream, Upstream::of("first", vec![first])];
    let first = Rule {
        suffixes: vec!["first.example".parse().expect("a name")],
        ..Rule::new(Action::Forward(1))
    };
    config.rules = vec![first, Rule::new(Action::Forward(0))];
    let node = Node::start_beside(config, 1, tell);
    let client = Client::of(listen);
    let sent = "steppe_dns_upstream_queries_total{transport=\"tcp\"}";
    // The first query's allocations by the worker do not belong to a connection.
    client.send(&query("first.example", 1));
    node.wait_until(|node| node.metric(sent) >= 1);
    let (before, sent_before) = (live(), node.metric(sent));
    // Uses both buffers of each connection.
    for round in 1..=2 {
        client.send(&query(&format!("n{round}.example"), 1));
        node.wait_until(|node| node.metric(sent) >= sent_before + round * COUNT as u64);
        live();
    }
    let each = (live() - before) / i64::try_from(COUNT).expect("small");
    assert_is(STREAM_BYTES, each, "a connection to a server");
}

#[test]
fn a_query_by_https_takes_what_it_is_charged_with() {
    // Just below a size at which the tables have doubled.
    const QUERIES: usize = 250;
    let _alone = ONE_AT_A_TIME.lock().expect("no test failed");
    // The server answers only after more queries than are sent.
    let silent = Manner {
        together: 10 * QUERIES,
        ..Manner::default()
    };
    let (site, listen) = (Site::new(), Port::free().keep());
    let say = |_: &_| Reply::message(Vec::new());
    let origin = HttpsServer::start(&site.issue(NAME), silent, say);
    let server = by_https(Transport::Https, origin.address);
    let mut config = site.forwarder(listen, server);
    config.upstreams[0].timeout = Duration::from_secs(30);
    let node = Node::start_beside(config, 1, tell);
    let client = Client::of(listen);
    let sent = || node.metric("steppe_dns_upstream_queries_total{transport=\"https\"}");
    client.send(&query("first.example", 1));
    node.wait_until(|_| sent() >= 1);
    let (before, sent_before) = (live(), sent());
    // Names of nearly the maximum length.
    let label = "a".repeat(60);
    for number in 0..QUERIES {
        let name = format!("{label}.{label}.{label}.n{number:0>50}.example");
        client.send(&query(&name, 1));
        // In batches: a listener's socket has limited room for datagrams, and a connection waits five seconds.
        if number % 50 == 49 {
            node.wait_until(|_| sent() > sent_before + number as u64);
        }
    }
    let (after, more) = (live(), sent() - sent_before);
    let each = (after - before) / i64::try_from(more).expect("small");
    assert_is(HTTPS_STREAM_BYTES, each, "a query by HTTPS");
}
