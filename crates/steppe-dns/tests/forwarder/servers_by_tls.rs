//! TLS servers (RFC 7858): their authentication, and the handling of their connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use steppe_dns::config::{Server, Transport, Trust};
use steppe_net::tls::x509::Summary;
use steppe_testkit::{Issued, OriginPeer, Port, RawOrigin, TlsServer, eventually};

use crate::client::{Client, answers, query, rcode};
use crate::node::Node;
use crate::secure::{NAME, Site, read_message, server as by_tls, write_message};
use crate::server::answered;

const A: u16 = 1;
const SERVFAIL: u8 = 2;

fn good(query: &[u8]) -> Vec<u8> {
    answered(query, 0, &[(A, 3600, &[192, 0, 2, 7])])
}

/// Answers every query.
fn answer_all(peer: &mut OriginPeer) {
    while let Some(query) = read_message(peer) {
        write_message(peer, &good(&query));
    }
}

fn start(issued: &Issued, script: impl Fn(&mut OriginPeer) + Send + Sync + 'static) -> RawOrigin {
    RawOrigin::start_tls(TlsServer::showing(issued), script)
}

#[track_caller]
fn assert_good(response: &[u8]) {
    assert_eq!((rcode(response), answers(response)), (0, 1));
}

/// The response code to a client of a forwarder with this server and this trust.
fn rcode_of(server: Server, trust: Trust) -> u8 {
    let listen = Port::free().keep();
    let mut config = crate::client::forwarder(listen, &[]);
    config.upstreams[0].servers = vec![server];
    config.upstreams[0].trust = trust;
    let _node = Node::start(config, 1);
    rcode(&Client::of(listen).ask_for("a.example.org"))
}

#[test]
fn one_connection_carries_many_queries_padded() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let lengths: Arc<Mutex<Vec<usize>>> = Arc::default();
    let origin = {
        let lengths = Arc::clone(&lengths);
        start(&site.issue(NAME), move |peer| {
            while let Some(query) = read_message(peer) {
                lengths.lock().expect("a lock").push(query.len());
                write_message(peer, &good(&query));
            }
        })
    };
    let server = by_tls(Transport::Tls, origin.address());
    let node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for number in 0..20 {
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    assert_eq!(origin.accepted(), 1);
    // RFC 8467 §4.1.
    let lengths = lengths.lock().expect("a lock");
    assert!(lengths.iter().all(|len| len % 128 == 0), "{lengths:?}");
    let series = "steppe_dns_upstream_queries_total{transport=\"tls\"}";
    assert_eq!(node.metric(series), 20);
}

#[test]
fn queries_are_pipelined_and_answered_in_any_order() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = start(&site.issue(NAME), |peer| {
        let queries: Option<Vec<_>> = (0..3).map(|_| read_message(peer)).collect();
        for query in queries.expect("three, without an answer").iter().rev() {
            write_message(peer, &good(query));
        }
        answer_all(peer);
    });
    let server = by_tls(Transport::Tls, origin.address());
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for name in ["a.example.org", "b.example.org", "c.example.org"] {
        client.send(&query(name, A));
    }
    let ids: Vec<_> = (0..3).map(|_| client.receive()[..2].to_vec()).collect();
    let wanted = ["c.example.org", "b.example.org", "a.example.org"];
    assert_eq!(ids, wanted.map(|name| query(name, A)[..2].to_vec()));
}

#[test]
fn a_server_is_verified_by_its_name_or_its_address() {
    let site = Site::new();
    for (certified, name, want) in [
        (NAME, Some(NAME), 0),
        (NAME, Some("other.test"), SERVFAIL),
        (NAME, None, SERVFAIL),
        ("127.0.0.1", None, 0),
    ] {
        let origin = start(&site.issue(certified), answer_all);
        let server = Server {
            name: name.map(str::to_owned),
            ..by_tls(Transport::Tls, origin.address())
        };
        assert_eq!(
            rcode_of(server, site.trust()),
            want,
            "{certified} as {name:?}"
        );
    }
}

#[test]
fn a_server_of_another_authority_is_not_asked_unless_nothing_is_verified() {
    let (site, other) = (Site::new(), Site::new());
    let origin = start(&other.issue(NAME), |peer| {
        assert_eq!(read_message(peer), None, "no query");
    });
    let server = by_tls(Transport::Tls, origin.address());
    assert_eq!(rcode_of(server, site.trust()), SERVFAIL);
    let origin = start(&other.issue(NAME), answer_all);
    let server = by_tls(Transport::Tls, origin.address());
    let trust = Trust {
        verify: false,
        ..site.trust()
    };
    assert_eq!(rcode_of(server, trust), 0);
}

#[test]
fn a_pinned_key_is_needed_beside_an_authority_and_enough_without() {
    let (site, other) = (Site::new(), Site::new());
    let pin = |issued: &Issued| {
        let summary = Summary::of(&issued.der).expect("a certificate");
        summary.spki_fingerprint
    };
    let (certified, foreign) = (site.issue(NAME), other.issue(NAME));
    for (issued, verify, pinned, want) in [
        (&certified, true, &certified, 0),
        (&certified, true, &foreign, SERVFAIL),
        (&foreign, true, &foreign, SERVFAIL),
        (&foreign, false, &foreign, 0),
        (&foreign, false, &certified, SERVFAIL),
    ] {
        let origin = start(issued, answer_all);
        let trust = Trust {
            verify,
            pins: vec![pin(pinned)],
            ..site.trust()
        };
        let server = by_tls(Transport::Tls, origin.address());
        assert_eq!(rcode_of(server, trust), want);
    }
}

#[test]
fn a_connection_that_ends_is_followed_by_another_which_resumes_its_session() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let resumed: Arc<Mutex<Vec<bool>>> = Arc::default();
    let origin = {
        let resumed = Arc::clone(&resumed);
        start(&site.issue(NAME), move |peer| {
            resumed.lock().expect("a lock").push(peer.is_resumed());
            // The server answers one query, and closes the connection.
            if let Some(query) = read_message(peer) {
                write_message(peer, &good(&query));
            }
        })
    };
    let server = by_tls(Transport::Tls, origin.address());
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for name in ["a.example.org", "b.example.org", "c.example.org"] {
        assert_good(&client.ask_for(name));
    }
    let resumed = resumed.lock().expect("a lock");
    assert!(!resumed[0] && resumed[1..].iter().all(|resumed| *resumed));
}

#[test]
fn what_was_out_on_a_connection_that_ended_is_asked_again() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = start(&site.issue(NAME), |peer| {
        // The first connection answers one query, and loses two more.
        if peer.index == 0 {
            let first = read_message(peer).expect("a query");
            write_message(peer, &good(&first));
            let _ = (read_message(peer), read_message(peer));
            return;
        }
        answer_all(peer);
    });
    let server = by_tls(Transport::Tls, origin.address());
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    assert_good(&client.ask_for("a.example.org"));
    client.send(&query("b.example.org", A));
    client.send(&query("c.example.org", A));
    assert_good(&client.receive());
    assert_good(&client.receive());
    assert_eq!(origin.accepted(), 2);
}

#[test]
fn a_server_that_only_closes_is_tried_after_pauses() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let taken = Arc::new(AtomicUsize::new(0));
    let origin = {
        let taken = Arc::clone(&taken);
        start(&site.issue(NAME), move |peer| {
            if read_message(peer).is_some() {
                taken.fetch_add(1, Ordering::AcqRel);
            }
        })
    };
    let server = by_tls(Transport::Tls, origin.address());
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for number in 0..200 {
        let response = client.ask_for(&format!("{number}.example.org"));
        assert_eq!(rcode(&response), SERVFAIL);
    }
    // Back-off doubles from 50 ms to a second: 200 questions cause fewer than 200 connections.
    assert!(origin.accepted() < 100, "{} connections", origin.accepted());
    assert!(taken.load(Ordering::Acquire) > 0);
}

#[test]
fn a_stream_that_idles_is_closed() {
    // Over TCP, with an idle timeout of eight seconds.
    let listen = Port::free().keep();
    let origin = RawOrigin::start_plain(answer_all);
    let mut config = crate::client::forwarder(listen, &[origin.address()]);
    config.upstreams[0].servers[0].transport = Transport::Tcp;
    let _node = Node::start(config, 1);
    assert_good(&Client::of(listen).ask_for("a.example.org"));
    eventually("the connection is closed", || origin.closed() == [true]);
}

#[test]
fn answers_that_come_late_do_no_harm_to_a_connection() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = start(&site.issue(NAME), |peer| {
        while let Some(query) = read_message(peer) {
            // As many as would count as a flood of guesses on a UDP socket.
            for number in 1..100 {
                let mut late = good(&query);
                late[0] ^= number;
                write_message(peer, &late);
            }
            write_message(peer, &good(&query));
        }
    });
    let server = by_tls(Transport::Tls, origin.address());
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for name in ["a.example.org", "b.example.org"] {
        assert_good(&client.ask_for(name));
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn authorities_that_change_are_read_again() {
    let (site, other, listen) = (Site::new(), Site::new(), Port::free().keep());
    let origin = start(&other.issue(NAME), answer_all);
    let server = by_tls(Transport::Tls, origin.address());
    let node = Node::start(site.forwarder(listen, server), 2);
    let (client, mut number) = (Client::of(listen), 0);
    let mut ask = || {
        number += 1;
        rcode(&client.ask_for(&format!("{number}.example.org")))
    };
    assert_eq!(ask(), SERVFAIL);
    std::fs::copy(other.ca(), site.ca()).expect("can be replaced");
    node.wait_until(|_| ask() == 0);
}
