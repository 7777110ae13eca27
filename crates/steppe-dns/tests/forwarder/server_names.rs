//! Servers configured by name: the resolution of their addresses by bootstrap resolvers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_dns::config::{self, Transport};
use steppe_net::ServerAddress;
use steppe_testkit::{OriginPeer, Port, RawOrigin, TlsServer, eventually};

use crate::client::{Client, answers, rcode};
use crate::node::Node;
use crate::secure::{NAME, Site, read_message, server as by_tls, write_message};
use crate::server::{Asked, By, Server, answered};

const A: u16 = 1;
const SERVFAIL: u8 = 2;

fn good(query: &[u8]) -> Vec<u8> {
    answered(query, 0, &[(A, 3600, &[192, 0, 2, 7])])
}

/// Answers one query, and closes the connection.
fn answer_one(peer: &mut OriginPeer) {
    if let Some(query) = read_message(peer) {
        write_message(peer, &good(&query));
    }
}

/// Response of a resolver with an address for any name, and NODATA for AAAA.
fn addresses(asked: &Asked) -> Vec<Vec<u8>> {
    addresses_for(asked, 3600)
}

fn addresses_for(asked: &Asked, ttl: u32) -> Vec<Vec<u8>> {
    let is_a = asked.bytes.windows(4).any(|bytes| bytes == [0, 1, 0, 1]);
    let records: &[(u16, u32, &[u8])] = &[(A, ttl, &[127, 0, 0, 1])];
    vec![answered(&asked.bytes, 0, if is_a { records } else { &[] })]
}

/// A server configured by name only.
fn named(origin: &RawOrigin) -> config::Server {
    config::Server {
        address: ServerAddress::Name {
            host: NAME.to_owned(),
            port: origin.address().port(),
        },
        name: None,
        ..by_tls(Transport::Tls, origin.address())
    }
}

#[test]
fn a_name_is_asked_of_the_bootstrap_once_for_many_connections() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = RawOrigin::start_tls(TlsServer::showing(&site.issue(NAME)), answer_one);
    let bootstrap = Server::start(addresses);
    let mut config = site.forwarder(listen, named(&origin));
    // The first bootstrap resolver is dead.
    config.upstreams[0].bootstrap = vec![Port::free().keep(), bootstrap.address];
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    for name in ["a.example.org", "b.example.org", "c.example.org"] {
        let response = client.ask_for(name);
        assert_eq!((rcode(&response), answers(&response)), (0, 1));
    }
    assert_eq!(origin.accepted(), 3);
    let ways: Vec<By> = bootstrap.asked().iter().map(|asked| asked.by).collect();
    assert_eq!(ways, [By::Tcp, By::Tcp], "A and AAAA, once");
}

#[test]
fn without_a_bootstrap_servers_that_are_known_by_address_are_asked() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = RawOrigin::start_tls(TlsServer::showing(&site.issue(NAME)), answer_one);
    let other = Server::start(addresses);
    let mut config = site.forwarder(listen, named(&origin));
    let by_udp = config::Server::at(Transport::Udp, other.address);
    config.upstreams[0].servers.push(by_udp);
    config.upstreams[0].policy = config::Policy::Failover;
    let _node = Node::start(config, 1);
    let response = Client::of(listen).ask_for("a.example.org");
    assert_eq!((rcode(&response), answers(&response)), (0, 1));
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn what_was_known_of_a_name_goes_on_when_nobody_knows_it_any_more() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = RawOrigin::start_tls(TlsServer::showing(&site.issue(NAME)), answer_one);
    let count = Arc::new(AtomicUsize::new(0));
    let bootstrap = {
        let count = Arc::clone(&count);
        Server::start(move |asked| match count.fetch_add(1, Ordering::AcqRel) {
            0 | 1 => addresses_for(asked, 0),
            _ => vec![answered(&asked.bytes, 2, &[])],
        })
    };
    let mut config = site.forwarder(listen, named(&origin));
    config.upstreams[0].bootstrap = vec![bootstrap.address];
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    // The name is resolved again after its TTL.
    let mut number = 0;
    eventually("it is asked for again", || {
        number += 1;
        let response = client.ask_for(&format!("{number}.example.org"));
        assert_eq!(answers(&response), 1);
        bootstrap.asked_count() > 2
    });
    assert_eq!(answers(&client.ask_for("last.example.org")), 1);
}

#[test]
fn a_name_that_nobody_knows_fails_without_a_loop() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = RawOrigin::start_tls(TlsServer::showing(&site.issue(NAME)), answer_one);
    let bootstrap = Server::start(|asked| vec![answered(&asked.bytes, 3, &[])]);
    let mut config = site.forwarder(listen, named(&origin));
    config.upstreams[0].bootstrap = vec![bootstrap.address];
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    assert_eq!(rcode(&client.ask_for("a.example.org")), SERVFAIL);
    assert_eq!(origin.accepted(), 0);
}
