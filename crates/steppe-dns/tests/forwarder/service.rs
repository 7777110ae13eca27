//! The forwarder on its sockets, with servers and clients of the test.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use steppe_dns::config::{Action, Block, Listener, Protocol, Rule, Transport};
use steppe_testkit::{Peer, Port, eventually};

use crate::client::{Client, answers, extended_error, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Server, answered};
use crate::streams::{receive, send};

const A: u16 = 1;

/// A server with one address for each name, for an hour.
fn address_for_all() -> Server {
    Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])])
}

#[test]
fn a_question_is_forwarded_once_and_answered_from_the_cache_then() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    let first = client.ask_for("www.Example.org");
    assert_eq!((rcode(&first), answers(&first)), (0, 1));
    let asked = query("www.Example.org", A);
    assert_eq!(first[..2], asked[..2], "the client's id");
    let question = 12..asked.len() - 11;
    assert_eq!(first[question.clone()], asked[question], "its spelling");
    let second = client.ask_for("WWW.example.ORG");
    assert_eq!((rcode(&second), answers(&second)), (0, 1));
    assert_eq!(server.asked().len(), 1);
    assert_eq!(
        node.metric("steppe_dns_cache_lookups_total{result=\"hit\"}"),
        1
    );
    assert_eq!(
        node.metric("steppe_dns_queries_total{transport=\"udp\"}"),
        2
    );
    assert_eq!(
        node.metric("steppe_dns_responses_total{rcode=\"NOERROR\"}"),
        2
    );
}

#[test]
fn the_next_server_is_asked_where_one_is_dead_or_fails() {
    let dead = Port::free().keep();
    let failing = Server::start(|asked| vec![answered(&asked.bytes, 2, &[])]);
    let (server, listen) = (address_for_all(), Port::free().keep());
    let servers = [dead, failing.address, server.address];
    let _node = Node::start(forwarder(listen, &servers), 1);
    let response = Client::of(listen).ask_for("a.example.org");
    assert_eq!((rcode(&response), answers(&response)), (0, 1));
    assert_eq!(failing.asked().len(), 1);
}

#[test]
fn queries_of_a_connection_are_answered_in_any_order() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("a lock");
    let slow = {
        let gate = Arc::clone(&gate);
        Server::start(move |asked| {
            drop(gate.lock());
            vec![answered(&asked.bytes, 0, &[(A, 60, &[192, 0, 2, 7])])]
        })
    };
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[slow.address]), 1);
    // The second query is answered locally.
    let queries = [query("a.example.org", A), query("localhost", A)];
    let mut peer = Peer::connect(listen);
    send(&mut peer, &queries);
    assert_eq!(receive(&mut peer)[..2], queries[1][..2]);
    drop(closed);
    let response = receive(&mut peer);
    assert_eq!(response[..2], queries[0][..2]);
    assert_eq!(answers(&response), 1);
    peer.stream().shutdown(Shutdown::Write).expect("is open");
    assert_eq!(peer.stream().read(&mut [0]).expect("it ends"), 0);
}

#[test]
fn a_connection_without_a_query_is_closed() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let mut response = query("a.example.org", A);
    response[2] |= 0x80;
    let mut peer = Peer::connect(listen);
    send(&mut peer, &[response]);
    assert_eq!(peer.stream().read(&mut [0]).expect("it ends"), 0);
}

#[test]
fn clients_that_are_not_allowed_are_refused() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    config.access = vec!["10.0.0.0/8".parse().expect("a network")];
    let _node = Node::start(config, 1);
    let response = Client::of(listen).ask_for("a.example.org");
    assert_eq!((rcode(&response), extended_error(&response)), (5, Some(18)));
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let (server, other, listen) = (address_for_all(), address_for_all(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    let mut second = config.upstreams[0].clone();
    second.name = "second".to_owned();
    second.servers = vec![steppe_dns::config::Server::at(
        Transport::Udp,
        other.address,
    )];
    config.upstreams.push(second);
    let last = config.rules.remove(0);
    let rule = |suffix: &str, action| Rule {
        suffixes: vec![suffix.parse().expect("a name")],
        action: Some(action),
        ..last.clone()
    };
    let block = |suffix, block| rule(suffix, Action::Block(block));
    config.rules = vec![
        block("ads.example.org", Block::NameError),
        block("nothing.example.org", Block::NoData),
        block("zero.example.org", Block::Zero),
        block("refused.example.org", Block::Refused),
        rule("example.org", Action::Forward(1)),
        last.clone(),
    ];
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    let got = |name| {
        let response = client.ask_for(name);
        (
            rcode(&response),
            answers(&response),
            extended_error(&response),
        )
    };
    assert_eq!(got("x.ads.example.org"), (3, 0, Some(15)));
    assert_eq!(got("nothing.example.org"), (0, 0, Some(15)));
    assert_eq!(got("zero.example.org"), (0, 1, Some(15)));
    assert_eq!(got("refused.example.org"), (5, 0, Some(15)));
    assert_eq!(got("a.example.org"), (0, 1, None));
    assert_eq!((server.asked().len(), other.asked().len()), (0, 1));
    assert_eq!(got("a.example.net"), (0, 1, None));
    assert_eq!((server.asked().len(), other.asked().len()), (1, 1));
    // Special-use names are forwarded only if a rule names them.
    assert_eq!(got("localhost"), (0, 1, None));
    assert_eq!(got("x.invalid"), (3, 0, None));
    assert_eq!((server.asked().len(), other.asked().len()), (1, 1));
}

#[test]
fn a_reload_loses_no_query_and_keeps_what_is_cached() {
    let (server, listen, added) = (address_for_all(), Port::free().keep(), Port::free().keep());
    let config = forwarder(listen, &[server.address]);
    let mut node = Node::start(config.clone(), 2);
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            let client = Client::of(listen);
            let mut count = 0;
            while !is_over.load(Ordering::Acquire) {
                // Every third name is new.
                let response = client.ask_for(&format!("{}.example.org", count / 3));
                assert_eq!((rcode(&response), answers(&response)), (0, 1));
                count += 1;
            }
            count
        })
    };
    let mut more = config.clone();
    more.listeners.push(Listener {
        address: added,
        protocols: vec![Protocol::Udp],
        tls: None,
        introduction: steppe_dns::config::Introduction::None,
    });
    for _ in 0..10 {
        node.change(more.clone());
        assert_eq!(answers(&Client::of(added).ask_for("0.example.org")), 1);
        node.change(config.clone());
        assert!(UdpSocket::bind(added).is_ok(), "it is closed");
    }
    is_over.store(true, Ordering::Release);
    let count = asking.join().expect("no query is lost");
    assert_eq!(server.asked().len(), usize::div_ceil(count, 3));
}

#[test]
fn another_server_of_an_upstream_answers_anew() {
    let (server, other, listen) = (address_for_all(), address_for_all(), Port::free().keep());
    let config = forwarder(listen, &[server.address]);
    let mut node = Node::start(config.clone(), 1);
    let client = Client::of(listen);
    client.ask_for("a.example.org");
    node.change(forwarder(listen, &[other.address]));
    client.ask_for("a.example.org");
    client.ask_for("a.example.org");
    assert_eq!((server.asked().len(), other.asked().len()), (1, 1));
}

#[test]
fn an_upstream_that_is_asked_in_another_way_keeps_its_answers() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    let mut node = Node::start(config.clone(), 1);
    let client = Client::of(listen);
    client.ask_for("a.example.org");
    config.upstreams[0].timeout *= 2;
    config.upstreams[0].policy = steppe_dns::config::Policy::Failover;
    node.change(config.clone());
    client.ask_for("a.example.org");
    assert_eq!(server.asked().len(), 1);
    config.upstreams[0].client_subnet = steppe_dns::config::ClientSubnet::Pass;
    node.change(config);
    client.ask_for("a.example.org");
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_drain_answers_who_waits_on_whatever_worker() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("a lock");
    let server = {
        let gate = Arc::clone(&gate);
        Server::start(move |asked| {
            drop(gate.lock());
            vec![answered(&asked.bytes, 0, &[(A, 60, &[192, 0, 2, 7])])]
        })
    };
    let listen = Port::free().keep();
    let node = Node::start(forwarder(listen, &[server.address]), 2);
    let clients: Vec<Client> = (0..20).map(|_| Client::of(listen)).collect();
    for client in &clients {
        client.send(&query("a.example.org", A));
    }
    eventually("all wait for one answer", || {
        node.metric("steppe_dns_events_total{event=\"coalesced\"}") >= 19
    });
    node.drain();
    drop(closed);
    for client in &clients {
        assert_eq!(answers(&client.receive()), 1);
    }
    assert_eq!(node.stop().dropped, 0);
}

#[test]
fn what_is_no_question_is_answered_as_the_standards_say() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    let asked = query("a.example.org", A);
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut query = asked.clone();
        change(&mut query);
        rcode(&client.ask(&query))
    };
    let (formerr, notimp) = (1, 4);
    assert_eq!(changed(|query| query[5] = 0), formerr, "no question");
    assert_eq!(changed(|query| query[5] = 2), formerr, "two");
    assert_eq!(changed(|query| query[2] |= 0x28), notimp, "an update");
    assert_eq!(changed(|query| query[12] = 64), formerr, "a label of 64");
    // The upper bits of BADVERS are in the OPT record.
    let version_at = asked.len() - 5;
    let mut version = asked.clone();
    version[version_at] = 1;
    let response = client.ask(&version);
    assert_eq!((rcode(&response), response[response.len() - 6]), (0, 1));
    let badvers = "steppe_dns_responses_total{rcode=\"BADVERS\"}";
    assert_eq!(node.metric(badvers), 1);
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn unknown_types_pass_byte_for_byte() {
    let data = b"\x07whatever bytes \xff\x00 it has";
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(65_400, 60, data)])]);
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    for _ in 0..2 {
        let response = client.ask(&query("a.example.org", 65_400));
        assert_eq!(answers(&response), 1);
        assert!(response.windows(data.len()).any(|bytes| bytes == data));
    }
}

#[test]
fn a_client_that_does_not_read_is_no_longer_read() {
    let large = vec![0xab; 1000];
    let server = Server::start(move |asked| vec![answered(&asked.bytes, 0, &[(16, 3600, &large)])]);
    let listen = Port::free().keep();
    let node = Node::start(forwarder(listen, &[server.address]), 1);
    let asked = query("a.example.org", 16);
    // The responses to the queries exceed the kernel's buffers in both directions.
    let mut peer = Peer::connect(listen);
    send(&mut peer, std::slice::from_ref(&asked));
    let mut stream = peer.stream();
    let framed = [
        &u16::try_from(asked.len()).expect("short").to_be_bytes()[..],
        &asked,
    ]
    .concat();
    stream
        .set_write_timeout(Some(std::time::Duration::from_millis(200)))
        .expect("is set");
    let many = framed.repeat(1000);
    while stream.write_all(&many).is_ok() {}
    let count = || node.metric("steppe_dns_queries_total{transport=\"tcp\"}");
    // Other clients are served, and soon no more queries of this one are read.
    let mut before = None;
    while before != Some(count()) {
        before = Some(count());
        assert_eq!(answers(&Client::of(listen).ask(&asked)), 1);
    }
}
