//! Servers that fail and recover: responses to clients meanwhile, and the time until recovery is detected.

use std::net::UdpSocket;
use std::time::Duration;

use steppe_dns::config::Policy;
use steppe_testkit::{Port, eventually};

use crate::client::{Client, answers, extended_error, forwarder, rcode};
use crate::node::Node;
use crate::server::Asked;
use crate::switched::{Switched, serve_stale};

const SERVFAIL: u8 = 2;
const PROBES: &str = "steppe_dns_upstream_trouble_total{kind=\"probe\"}";

/// True for a query of a probe: the name servers of the root.
fn is_probe(asked: &Asked) -> bool {
    asked.bytes[12..17] == [0, 0, 2, 0, 1]
}

#[test]
fn a_server_that_was_down_is_asked_again_when_a_probe_finds_it_back() {
    let (first, second) = (Switched::start(3600), Switched::start(3600));
    let listen = Port::free().keep();
    let servers = [first.server.address, second.server.address];
    let mut config = forwarder(listen, &servers);
    config.upstreams[0].policy = Policy::Failover;
    config.upstreams[0].timeout = Duration::from_secs(2);
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    let mut number = 0;
    let mut ask = || {
        number += 1;
        let response = client.ask_for(&format!("{number}.example.org"));
        assert_eq!((rcode(&response), answers(&response)), (0, 1));
    };
    first.switch_off();
    eventually("a probe is sent", || {
        ask();
        node.metric(PROBES) > 0
    });
    // A query is counted before its server receives it.
    eventually("the probe arrives", || {
        first.server.asked().iter().any(is_probe)
    });
    // Clients no longer wait for this server: it gets a query only if the other one is late once.
    let before = second.server.asked().len();
    let asked_first = |is_wanted: fn(&Asked) -> bool| {
        let asked = first.server.asked();
        asked.iter().filter(|asked| is_wanted(asked)).count()
    };
    let questions = asked_first(|asked| !is_probe(asked));
    (0..20).for_each(|_| ask());
    assert!(second.server.asked().len() >= before + 20);
    let since = asked_first(|asked| !is_probe(asked)) - questions;
    assert!(since < 10, "{since} of 20 questions");
    // The server answers again, and only a probe can detect it.
    first.switch_on();
    eventually("it is asked first again", || {
        let before = second.server.asked_count();
        ask();
        second.server.asked_count() == before
    });
    let after = second.server.asked().len();
    (0..20).for_each(|_| ask());
    let since = second.server.asked().len() - after;
    assert!(since < 10, "{since} of 20 questions");
}

#[test]
fn probes_hold_up_no_drain() {
    // With this number of servers, at least one is always being probed.
    let servers: Vec<Switched> = (0..24).map(|_| Switched::start(1)).collect();
    servers.iter().for_each(Switched::switch_off);
    let listen = Port::free().keep();
    let addresses: Vec<_> = servers.iter().map(|each| each.server.address).collect();
    let mut config = forwarder(listen, &addresses);
    config.upstreams[0].policy = Policy::Race;
    config.upstreams[0].concurrent = 24;
    config.upstreams[0].timeout = Duration::from_millis(300);
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    let mut number = 0;
    eventually("all of them are probed", || {
        number += 1;
        client.ask_for(&format!("{number}.example.org"));
        let is_probed = |each: &Switched| each.server.asked().iter().any(is_probe);
        servers.iter().all(is_probed)
    });
    node.drain();
    // The socket closes when the worker has ended.
    eventually("the worker ends", || UdpSocket::bind(listen).is_ok());
}

#[test]
fn while_all_servers_are_dead_stale_answers_are_served_and_then_fresh_ones_without_a_storm() {
    const NAMES: usize = 100;
    let switched = Switched::start(1);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[switched.server.address]);
    config.upstreams[0].timeout = Duration::from_secs(2);
    config.cache.serve_stale = Some(serve_stale(Duration::from_millis(50)));
    let node = Node::start(config, 2);
    let clients = [Client::of(listen), Client::of(listen), Client::of(listen)];
    let names: Vec<String> = (0..NAMES)
        .map(|number| format!("{number}.example.org"))
        .collect();
    let ask = |number: usize| clients[number % clients.len()].ask_for(&names[number]);
    let ask_all = || -> Vec<Option<u16>> {
        let responses = (0..NAMES).map(ask);
        responses
            .map(|response| {
                assert_eq!((rcode(&response), answers(&response)), (0, 1));
                extended_error(&response)
            })
            .collect()
    };
    ask_all();
    switched.switch_off();
    // All responses become stale, and no query is left without a response.
    eventually("all answers are stale", || {
        ask_all().iter().all(Option::is_some)
    });
    eventually("a probe is sent", || {
        ask_all();
        node.metric(PROBES) > 0
    });
    // Each name is refreshed once in half a minute; some queries are repeated for loss.
    let before = switched.server.asked().len();
    for _ in 0..20 {
        assert!(ask_all().iter().all(Option::is_some));
    }
    let meanwhile = switched.server.asked().len() - before;
    assert!(meanwhile < 2 * NAMES, "{meanwhile} queries");
    let new = clients[0].ask_for("new.example.org");
    assert_eq!(rcode(&new), SERVFAIL);
    // The server answers again. After a probe has detected it, failed questions are forwarded at once.
    let before = switched.server.asked().len();
    switched.switch_on();
    eventually("a name that has failed is answered", || {
        rcode(&clients[0].ask_for("new.example.org")) == 0
    });
    eventually("all answers are fresh", || {
        ask_all().iter().all(Option::is_none)
    });
    let after = switched.server.asked().len() - before;
    assert!(after < 6 * NAMES, "{after} queries, for {NAMES} names");
}
