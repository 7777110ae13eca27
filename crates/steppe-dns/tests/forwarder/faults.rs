//! Faults between the forwarder and its servers, and its reactions: rows of the table
//! of faults that were seen in other forwarders (RFC 5452 has the reasons).

mod answers;
mod forgery;
mod path;
mod records;
mod routers;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use steppe_dns::config::{Policy, ServeStale, Stale, Transport};
use steppe_testkit::{Port, eventually};

use crate::client::{Client, PATIENCE, answers, extended_error, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Asked, By, Server, answered};

const A: u16 = 1;
const FORMERR: u8 = 1;
const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;

fn good(asked: &Asked) -> Vec<u8> {
    answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])
}

/// The response to a client, from a forwarder whose server answers with `say`.
fn response_of(say: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static) -> (Vec<u8>, Server) {
    let (server, listen) = (Server::start(say), Port::free().keep());
    let _node = Node::start(forwarder(listen, &[server.address]), 2);
    (Client::of(listen).ask_for("a.example.org"), server)
}

#[track_caller]
fn assert_good(response: &[u8]) {
    assert_eq!((rcode(response), answers(response)), (0, 1));
    assert_eq!(response[response.len() - 11 - 4..][..4], [192, 0, 2, 7]);
}

/// A response with a forged address, which no client may receive.
fn forged(asked: &Asked) -> Vec<u8> {
    answered(&asked.bytes, 0, &[(A, 3600, &[203, 0, 113, 66])])
}

#[test]
fn a_response_with_another_id_is_ignored_and_the_right_one_waited_for() {
    let (response, server) = response_of(|asked| {
        let mut wrong = forged(asked);
        wrong[0] ^= 1;
        vec![wrong, good(asked)]
    });
    assert_good(&response);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_response_to_another_question_is_ignored() {
    let (response, _) = response_of(|asked| {
        let mut name = forged(asked);
        name[13] ^= 3;
        let mut rtype = forged(asked);
        rtype[12 + 15 + 1] = 28;
        vec![name, rtype, good(asked)]
    });
    assert_good(&response);
}

#[test]
fn bytes_that_are_no_message_are_ignored() {
    let (response, _) = response_of(|asked| {
        let cut = forged(asked)[..20].to_vec();
        let mut query = forged(asked);
        query[2] &= 0x7f;
        vec![Vec::new(), vec![0; 5], cut, query, good(asked)]
    });
    assert_good(&response);
}

#[test]
fn a_truncated_response_has_the_question_asked_again_by_tcp() {
    let (response, server) = response_of(|asked| match asked.by {
        By::Udp => vec![answered(&asked.bytes, 0x0200, &[])],
        By::Tcp => vec![good(asked)],
    });
    assert_good(&response);
    let ways: Vec<By> = server.asked().iter().map(|asked| asked.by).collect();
    assert_eq!(ways, [By::Udp, By::Tcp]);
}

#[test]
fn a_name_in_another_case_has_the_question_asked_again_by_tcp() {
    let (response, server) = response_of(|asked| {
        let mut answer = good(asked);
        answer[12..27].make_ascii_lowercase();
        vec![answer]
    });
    assert_good(&response);
    // By chance the name is in lower case, once in two thousand times.
    let ways: Vec<By> = server.asked().iter().map(|asked| asked.by).collect();
    assert!(ways == [By::Udp, By::Tcp] || ways == [By::Udp], "{ways:?}");
}

#[test]
fn fifty_clients_with_one_question_have_it_asked_once() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("a lock");
    let (server, listen) = {
        let gate = Arc::clone(&gate);
        let server = Server::start(move |asked| {
            drop(gate.lock());
            vec![good(asked)]
        });
        (server, Port::free().keep())
    };
    let node = Node::start(forwarder(listen, &[server.address]), 2);
    let clients: Vec<Client> = (0..50).map(|_| Client::of(listen)).collect();
    for client in &clients {
        client.send(&query("a.example.org", A));
    }
    // The server answers when all clients wait, at any worker.
    eventually("all wait for one answer", || {
        node.metric("steppe_dns_events_total{event=\"coalesced\"}") >= 49
    });
    drop(closed);
    for client in &clients {
        assert_good(&client.receive());
    }
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_response_that_comes_to_a_listener_is_dropped() {
    let (server, listen) = (
        Server::start(|asked| vec![good(asked)]),
        Port::free().keep(),
    );
    let node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    let mut response = query("loop.example.org", A);
    response[2] |= 0x80;
    client.send(&response);
    // The next response belongs to the next query.
    assert_good(&client.ask_for("a.example.org"));
    assert_eq!(node.metric("steppe_dns_events_total{event=\"dropped\"}"), 1);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_race_is_not_won_by_a_failure_or_a_refusal() {
    for bad in [2, 5] {
        let fast = Server::start(move |asked| vec![answered(&asked.bytes, bad, &[])]);
        let (release, released) = mpsc::sync_channel::<()>(1);
        let released = Mutex::new(released);
        let slow = Server::start(move |asked| {
            let _ = released.lock().expect("a lock").recv_timeout(PATIENCE);
            vec![good(asked)]
        });
        let listen = Port::free().keep();
        let mut config = forwarder(listen, &[fast.address, slow.address]);
        config.upstreams[0].policy = Policy::Race;
        config.upstreams[0].timeout = PATIENCE;
        let node = Node::start(config, 1);
        let client = Client::of(listen);
        client.send(&query("a.example.org", A));
        eventually("the failure has come", || {
            node.metric("steppe_dns_upstream_trouble_total{kind=\"failure\"}") >= 1
        });
        release.send(()).expect("it waits");
        assert_good(&client.receive());
    }
}

#[test]
fn a_server_that_only_fails_has_its_failure_passed_on_and_remembered() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 2, &[])]);
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    for _ in 0..3 {
        assert_eq!(rcode(&client.ask_for("a.example.org")), SERVFAIL);
    }
    assert_eq!(server.asked().len(), 1, "RFC 9520");
}

#[test]
fn a_stale_answer_is_better_than_none() {
    let is_dead = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = {
        let is_dead = Arc::clone(&is_dead);
        Server::start(move |asked| {
            let is_dead = is_dead.load(std::sync::atomic::Ordering::Acquire);
            let fails = answered(&asked.bytes, 2, &[]);
            let answers = answered(&asked.bytes, 0, &[(A, 1, &[192, 0, 2, 7])]);
            vec![if is_dead { fails } else { answers }]
        })
    };
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.cache.serve_stale = Some(ServeStale {
        up_to: std::time::Duration::from_secs(3600),
        after: std::time::Duration::from_secs(1),
        only: Stale::Positive,
    });
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    assert_good(&client.ask_for("a.example.org"));
    is_dead.store(true, std::sync::atomic::Ordering::Release);
    // A fresh response has no extended error.
    let response = loop {
        let response = client.ask_for("a.example.org");
        if extended_error(&response).is_some() {
            break response;
        }
    };
    assert_eq!((rcode(&response), answers(&response)), (0, 1));
    assert_eq!(extended_error(&response), Some(3));
}

#[test]
fn servers_are_asked_by_tcp_where_they_are_to_be() {
    let (server, listen) = (
        Server::start(|asked| vec![good(asked)]),
        Port::free().keep(),
    );
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].servers[0].transport = Transport::Tcp;
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    for name in ["a.example.org", "b.example.org"] {
        assert_good(&client.ask_for(name));
    }
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.by == By::Tcp));
    assert_eq!(server.ports().len(), 1, "one connection");
    let again = "steppe_dns_upstream_trouble_total{kind=\"by_stream\"}";
    assert_eq!(node.metric(again), 0, "nothing was asked again");
}
