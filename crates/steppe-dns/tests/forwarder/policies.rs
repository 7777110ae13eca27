//! Policies: the choice and timing of servers, and the responses to clients meanwhile.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steppe_dns::config::Policy;
use steppe_testkit::{Port, eventually};

use crate::client::{Client, answers, extended_error, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Asked, By, Server, answered};
use crate::switched::{Switched, serve_stale};

const A: u16 = 1;

fn good(asked: &Asked) -> Vec<u8> {
    answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])
}

fn answering() -> Server {
    Server::start(|asked| vec![good(asked)])
}

fn silent() -> Server {
    Server::start(|_| Vec::new())
}

/// Queries at each of these servers for ten names. If a server is late once, another one gets a query too.
fn asked_for_ten(policy: Policy, servers: &[Server]) -> Vec<usize> {
    let listen = Port::free().keep();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let mut config = forwarder(listen, &addresses);
    config.upstreams[0].policy = policy;
    config.upstreams[0].timeout = Duration::from_secs(2);
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    for number in 0..10 {
        let response = client.ask_for(&format!("{number}.example.org"));
        assert_eq!((rcode(&response), answers(&response)), (0, 1));
    }
    servers.iter().map(Server::asked_count).collect()
}

#[test]
fn failover_asks_the_first_one_that_works() {
    let counts = asked_for_ten(Policy::Failover, &[answering(), answering()]);
    assert!(counts[0] >= 10 && counts[1] < 5, "{counts:?}");
}

#[test]
fn failover_leaves_a_server_alone_that_is_silent() {
    let counts = asked_for_ten(Policy::Failover, &[silent(), answering()]);
    assert!(counts[1] >= 10 && counts[0] < 10, "{counts:?}");
}

#[test]
fn round_robin_asks_one_after_the_other() {
    let counts = asked_for_ten(Policy::RoundRobin, &[answering(), answering()]);
    let are_alike = counts.iter().all(|count| (5..10).contains(count));
    assert!(are_alike, "{counts:?}");
}

/// The servers of a `resolv_conf` that names the forwarder itself.
#[test]
fn an_upstream_without_servers_fails_each_query() {
    const NO_REACHABLE_AUTHORITY: u16 = 22;
    for policy in [
        Policy::Hedge,
        Policy::Fastest,
        Policy::Race,
        Policy::RoundRobin,
        Policy::Failover,
    ] {
        let listen = Port::free().keep();
        let mut config = forwarder(listen, &[]);
        config.upstreams[0].policy = policy;
        let _node = Node::start(config, 1);
        let client = Client::of(listen);
        for number in 0..100 {
            let response = client.ask_for(&format!("{number}.example.org"));
            let told = (rcode(&response), extended_error(&response));
            assert_eq!(told, (2, Some(NO_REACHABLE_AUTHORITY)), "{policy:?}");
        }
    }
}

#[test]
fn a_race_asks_as_many_as_it_may() {
    let listen = Port::free().keep();
    let servers = [answering(), answering(), answering()];
    let addresses = servers.each_ref().map(|server| server.address);
    let mut config = forwarder(listen, &addresses);
    config.upstreams[0].policy = Policy::Race;
    config.upstreams[0].concurrent = 2;
    let node = Node::start(config, 1);
    Client::of(listen).ask_for("a.example.org");
    let series = "steppe_dns_upstream_queries_total{transport=\"udp\"}";
    assert_eq!(node.metric(series), 2);
}

#[test]
fn hedging_and_the_fastest_pass_over_a_server_that_is_silent() {
    for policy in [Policy::Hedge, Policy::Fastest, Policy::RoundRobin] {
        let counts = asked_for_ten(policy, &[silent(), answering()]);
        assert!(counts[1] >= 10, "{policy:?}: {counts:?}");
    }
}

#[test]
fn a_query_that_is_lost_is_sent_again() {
    let is_first = AtomicBool::new(true);
    let server = Server::start(move |asked| match is_first.swap(false, Ordering::AcqRel) {
        true => Vec::new(),
        false => vec![good(asked)],
    });
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].timeout = Duration::from_secs(4);
    let _node = Node::start(config, 1);
    assert_eq!(answers(&Client::of(listen).ask_for("a.example.org")), 1);
    assert!(server.asked().len() >= 2);
}

#[test]
fn a_server_that_says_nothing_means_servfail_with_the_reason() {
    let (server, listen) = (silent(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].timeout = Duration::from_millis(100);
    let node = Node::start(config, 1);
    let response = Client::of(listen).ask_for("a.example.org");
    assert_eq!((rcode(&response), extended_error(&response)), (2, Some(22)));
    let series = "steppe_dns_upstream_trouble_total{kind=\"timeout\"}";
    assert!(node.metric(series) > 0);
}

/// RFC 9520 §3.1: at most three queries to a server over one transport.
#[test]
fn a_silent_server_is_asked_three_times_by_udp_and_then_by_tcp() {
    let (server, listen) = (silent(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].policy = Policy::Hedge;
    config.upstreams[0].timeout = Duration::from_secs(2);
    let node = Node::start(config, 1);
    assert_eq!(rcode(&Client::of(listen).ask_for("a.example.org")), 2);
    let asked = server.asked();
    let by: Vec<_> = asked.iter().map(|asked| asked.by).collect();
    assert_eq!(by, [By::Udp, By::Udp, By::Udp, By::Tcp]);
    let series = "steppe_dns_upstream_trouble_total{kind=\"by_stream\"}";
    assert_eq!(node.metric(series), 1);
}

#[test]
fn a_stale_answer_is_served_when_servers_take_too_long() {
    let switched = Switched::start(1);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[switched.server.address]);
    config.upstreams[0].timeout = Duration::from_secs(3600);
    config.cache.serve_stale = Some(serve_stale(Duration::from_millis(50)));
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    client.ask_for("a.example.org");
    switched.switch_off();
    let stale = loop {
        let response = client.ask_for("a.example.org");
        if extended_error(&response).is_some() {
            break response;
        }
    };
    assert_eq!((answers(&stale), extended_error(&stale)), (1, Some(3)));
    // Queries to servers continue, but the next client does not wait for them.
    let again = client.ask_for("a.example.org");
    assert_eq!((answers(&again), extended_error(&again)), (1, Some(3)));
}

/// Clients that find no place to wait for a fresh answer get the stale one, which is at hand.
#[test]
fn a_stale_answer_is_served_where_too_many_wait() {
    let switched = Switched::start(1);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[switched.server.address]);
    config.upstreams[0].timeout = Duration::from_secs(3600);
    config.cache.serve_stale = Some(serve_stale(Duration::from_secs(3600)));
    let _node = Node::start(config, 1);
    Client::of(listen).ask_for("a.example.org");
    switched.switch_off();
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a time");
    let query = query("a.example.org", A);
    let mut response = [0; 512];
    eventually("one is stale", || {
        for _ in 0..100 {
            client.send_to(&query, listen).expect("sent");
        }
        let mut is_stale = false;
        // Most wait for an hour.
        while let Ok(len) = client.recv(&mut response) {
            let response = &response[..len];
            assert_eq!((rcode(response), answers(response)), (0, 1));
            is_stale |= extended_error(response) == Some(3);
        }
        is_stale
    });
}

#[test]
fn an_answer_in_use_is_refreshed_before_its_end() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 4, &[7; 4])])]);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.cache.prefetch_percent = 100;
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    while node.metric("steppe_dns_events_total{event=\"refresh\"}") == 0 {
        assert_eq!(answers(&client.ask_for("a.example.org")), 1);
    }
    let misses = node.metric("steppe_dns_cache_lookups_total{result=\"miss\"}");
    assert_eq!(misses, 1, "no client has waited but the first");
}
