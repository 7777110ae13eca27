//! Clients on connections, with and without TLS, and the OPT records of their responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use steppe_dns::config::{Action, Block, Forwarder, Introduction, Protocol, Rule};
use steppe_dns::limits::RESPONSE_PADDING_BYTES;
use steppe_testkit::{Authority, Issued, Leaf, Peer, Port, Scratch, TlsClient, eventually};

use crate::client::{Client, answers, extended_error, forwarder, query, rcode};
use crate::messages::{message, with_opt};
use crate::node::Node;
use crate::server::{Server, answered};
use crate::streams::{ask, option, receive, send, tls_listener};

const A: u16 = 1;
const SVCB: u16 = 64;
const COOKIE: u16 = 10;
const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;

/// A forwarder at `plain` and, over TLS, at `encrypted`.
fn both(plain: SocketAddr, encrypted: SocketAddr, servers: &[SocketAddr]) -> (Forwarder, Scratch) {
    let scratch = Scratch::new("dot");
    let pair = Authority::new("ours").issue(&Leaf::named(&["dns.example.org", "127.0.0.1"]));
    let mut config = forwarder(plain, servers);
    config
        .listeners
        .push(tls_listener(encrypted, &pair, &scratch));
    (config, scratch)
}

/// A query for an address with these options.
fn asking(name: &str, options: &[(u16, &[u8])]) -> Vec<u8> {
    let query = message(7, 0x0100, (name, A), [&[], &[], &[]]);
    with_opt(query, 1232, 0, options)
}

fn address_for_all() -> Server {
    Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])])
}

fn dot() -> TlsClient {
    TlsClient::new().alpn(&["dot"])
}

#[test]
fn queries_over_tls_are_answered_in_any_order() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("a lock");
    let slow = {
        let gate = Arc::clone(&gate);
        Server::start(move |asked| {
            drop(gate.lock());
            vec![answered(&asked.bytes, 0, &[(A, 60, &[192, 0, 2, 7])])]
        })
    };
    let [plain, encrypted] = [(); 2].map(|()| Port::free().keep());
    let (config, _files) = both(plain, encrypted, &[slow.address]);
    let node = Node::start(config, 2);
    let mut peer = dot().connect(encrypted, "dns.example.org");
    assert_eq!(peer.session().alpn_protocol(), Some(&b"dot"[..]));
    // The second query is answered locally.
    let queries = [query("a.example.org", A), query("localhost", A)];
    send(&mut peer, &queries);
    assert_eq!(receive(&mut peer)[..2], queries[1][..2]);
    drop(closed);
    let response = receive(&mut peer);
    assert_eq!(response[..2], queries[0][..2]);
    assert_eq!((rcode(&response), answers(&response)), (0, 1));
    assert_eq!(
        node.metric("steppe_dns_queries_total{transport=\"tls\"}"),
        2
    );
    peer.finish();
    peer.expect_close();
}

#[test]
fn a_large_response_comes_whole_over_tls() {
    // More than a TLS record has room for.
    let data = vec![0xab; 60_000];
    let server = {
        let data = data.clone();
        Server::start(move |asked| match asked.by {
            crate::server::By::Udp => vec![answered(&asked.bytes, 0x0200, &[])],
            crate::server::By::Tcp => vec![answered(&asked.bytes, 0, &[(65_400, 60, &data)])],
        })
    };
    let [plain, encrypted] = [(); 2].map(|()| Port::free().keep());
    let (config, _files) = both(plain, encrypted, &[server.address]);
    let _node = Node::start(config, 1);
    let mut peer = dot().connect(encrypted, "dns.example.org");
    for _ in 0..3 {
        let response = ask(&mut peer, &query("a.example.org", 65_400));
        assert_eq!(answers(&response), 1);
        assert!(response.windows(data.len()).any(|bytes| bytes == data));
    }
}

#[test]
fn responses_are_padded_over_tls_where_the_query_is() {
    let (server, [plain, encrypted]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (config, _files) = both(plain, encrypted, &[server.address]);
    let _node = Node::start(config, 1);
    let mut peer = dot().connect(encrypted, "dns.example.org");
    let padded = asking("a.example.org", &[(PADDING, &[0; 20])]);
    // First from the server, then from the cache.
    for _ in 0..2 {
        let response = ask(&mut peer, &padded);
        assert_eq!(response.len(), RESPONSE_PADDING_BYTES);
        assert!(option(&response, PADDING).is_some());
        let response = ask(&mut peer, &asking("a.example.org", &[]));
        assert!(option(&response, PADDING).is_none());
    }
    // No padding without encryption.
    let response = ask(&mut Peer::connect(plain), &padded);
    assert!(option(&response, PADDING).is_none());
    assert!(option(&Client::of(plain).ask(&padded), PADDING).is_none());
}

#[test]
fn a_connection_is_told_how_long_it_may_idle() {
    let (server, [plain, encrypted]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (config, _files) = both(plain, encrypted, &[server.address]);
    let _node = Node::start(config, 1);
    let asked = asking("a.example.org", &[(KEEPALIVE, &[])]);
    let ten_seconds = Some(100_u16.to_be_bytes().to_vec());
    let mut peer = Peer::connect(plain);
    assert_eq!(option(&ask(&mut peer, &asked), KEEPALIVE), ten_seconds);
    let not_asked = asking("a.example.org", &[]);
    assert_eq!(option(&ask(&mut peer, &not_asked), KEEPALIVE), None);
    let mut peer = dot().connect(encrypted, "dns.example.org");
    assert_eq!(option(&ask(&mut peer, &asked), KEEPALIVE), ten_seconds);
    // RFC 7828 §3.2.1: not over UDP.
    assert_eq!(option(&Client::of(plain).ask(&asked), KEEPALIVE), None);
}

#[test]
fn a_cookie_is_given_and_known_again() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let node = Node::start(forwarder(listen, &[server.address]), 2);
    let proven = || node.metric("steppe_dns_events_total{event=\"cookie\"}");
    let client = Client::of(listen);
    let cookie = |data: &[u8]| {
        let response = client.ask(&asking("a.example.org", &[(COOKIE, data)]));
        assert_eq!((rcode(&response), answers(&response)), (0, 1));
        option(&response, COOKIE).expect("a cookie")
    };
    let given = cookie(&[7; 8]);
    assert_eq!((given.len(), &given[..8]), (24, &[7; 8][..]));
    assert_eq!(proven(), 0);
    // For any worker: the kernel distributes clients by their ports.
    for _ in 0..20 {
        let response = Client::of(listen).ask(&asking("a.example.org", &[(COOKIE, &given)]));
        assert_eq!(option(&response, COOKIE).as_ref(), Some(&given));
    }
    assert_eq!(proven(), 20);
    let mut forged = given.clone();
    forged[23] ^= 1;
    let renewed = cookie(&forged);
    assert_ne!(renewed, forged);
    assert_eq!(proven(), 20);
    // RFC 7873 §5.2.2.
    let malformed = client.ask(&asking("a.example.org", &[(COOKIE, &[7; 9])]));
    assert_eq!(rcode(&malformed), 1);
    let without = client.ask(&asking("a.example.org", &[]));
    assert_eq!(option(&without, COOKIE), None);
}

#[test]
fn whoever_agrees_on_no_tls_is_closed_and_counted() {
    let (server, [plain, encrypted]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (config, _files) = both(plain, encrypted, &[server.address]);
    let node = Node::start(config, 1);
    let mut peer = Peer::connect(encrypted);
    send(&mut peer, &[query("a.example.org", A)]);
    peer.drain();
    let other = TlsClient::new().alpn(&["h2"]);
    assert!(other.try_connect(encrypted, "dns.example.org").is_err());
    let failed = "steppe_dns_connection_events_total{event=\"handshake_failed\"}";
    eventually("both are counted", || node.metric(failed) == 2);
    assert_eq!(server.asked().len(), 0);
    // A client without ALPN speaks DNS.
    let mut peer = TlsClient::new().connect(encrypted, "dns.example.org");
    assert_eq!(answers(&ask(&mut peer, &query("a.example.org", A))), 1);
}

#[test]
fn a_client_is_told_of_encrypted_listeners_and_nobody_is_asked() {
    let (server, [plain, encrypted]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (mut config, _files) = both(plain, encrypted, &[server.address]);
    // Even if a rule forwards everything.
    config.rules[0].suffixes = vec![".".parse().expect("a name")];
    let mut node = Node::start(config.clone(), 1);
    let client = Client::of(plain);
    let asked = query("_dns.resolver.arpa", SVCB);
    let response = client.ask(&asked);
    assert_eq!((rcode(&response), answers(&response)), (0, 1));
    let has = |bytes: &[u8]| response.windows(bytes.len()).any(|part| part == bytes);
    assert!(has(b"\x03dns\x07example\x03org\0"), "whom to verify");
    assert!(has(b"\0\x01\0\x04\x03dot"), "what is spoken");
    let port = [&b"\0\x03\0\x02"[..], &encrypted.port().to_be_bytes()].concat();
    assert!(has(&port) && has(b"\0\x04\0\x04\x7f\0\0\x01"), "where");
    // Over any transport.
    let mut peer = dot().connect(encrypted, "dns.example.org");
    assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    for (name, code) in [("_dns.resolver.arpa", 0), ("x.resolver.arpa", 3)] {
        let response = client.ask(&query(name, A));
        assert_eq!((rcode(&response), answers(&response)), (code, 0), "{name}");
    }
    // No response without an encrypted listener.
    config.listeners.pop();
    node.change(config.clone());
    let response = client.ask(&asked);
    assert_eq!((rcode(&response), answers(&response)), (0, 0));
    // A rule may block the name.
    config.rules.insert(
        0,
        Rule {
            suffixes: vec!["resolver.arpa".parse().expect("a name")],
            action: Some(Action::Block(Block::Refused)),
            ..config.rules[0].clone()
        },
    );
    node.change(config);
    let response = client.ask(&asked);
    assert_eq!((rcode(&response), extended_error(&response)), (5, Some(15)));
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn a_client_calls_itself_by_the_name_that_it_asks_for() {
    let (server, [plain, encrypted]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (mut config, _files) = both(plain, encrypted, &[server.address]);
    let blocked = Rule {
        client_ids: vec!["kids".parse().expect("an id")],
        action: Some(Action::Block(Block::NoData)),
        ..config.rules[0].clone()
    };
    config.rules.insert(0, blocked);
    let _node = Node::start(config, 1);
    let of = |name: &str| {
        let mut peer = dot().connect(encrypted, name);
        answers(&ask(&mut peer, &query("a.example.org", A)))
    };
    assert_eq!(of("Kids.dns.example.org"), 0);
    assert_eq!(of("dns.example.org"), 1);
}

/// A header of the PROXY protocol for a client at this address.
fn header(client: &str) -> String {
    format!("PROXY TCP4 {client} 127.0.0.1 4711 53\r\n")
}

#[test]
fn a_trusted_proxy_says_whom_it_connects_for() {
    let (server, [plain, encrypted]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (mut config, _files) = both(plain, encrypted, &[server.address]);
    config.access = vec!["10.1.0.0/16".parse().expect("a network")];
    config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    config.listeners[0].protocols = vec![Protocol::Tcp];
    for listener in &mut config.listeners {
        listener.introduction = Introduction::ByProxy;
    }
    // A rule matches the client, not its proxy.
    let blocked = Rule {
        clients: vec!["10.1.2.3/32".parse().expect("a network")],
        action: Some(Action::Block(Block::NoData)),
        ..config.rules[0].clone()
    };
    config.rules.insert(0, blocked);
    let mut node = Node::start(config.clone(), 1);
    let asked = query("a.example.org", A);
    let of = |client: &str| {
        let mut peer = Peer::connect(plain);
        peer.send(header(client));
        peer
    };
    assert_eq!(answers(&ask(&mut of("10.1.2.4"), &asked)), 1);
    assert_eq!(answers(&ask(&mut of("10.1.2.3"), &asked)), 0);
    of("10.2.0.1").expect_close();
    // The header may come in one write with the query, and comes before TLS.
    let len = u16::try_from(asked.len()).expect("short").to_be_bytes();
    let mut peer = Peer::connect(plain);
    peer.send([header("10.1.2.4").as_bytes(), &len, &asked].concat());
    assert_eq!(answers(&receive(&mut peer)), 1);
    let mut peer = Peer::connect(encrypted);
    peer.send(header("10.1.2.4"));
    let mut peer = dot().over(peer, "dns.example.org").expect("a session");
    assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    // A proxy without a header is not served, and headers of other peers are rejected.
    let mut peer = Peer::connect(plain);
    send(&mut peer, std::slice::from_ref(&asked));
    peer.drain();
    config.trusted_proxies = vec!["192.0.2.0/24".parse().expect("a network")];
    node.change(config);
    let mut peer = Peer::connect(plain);
    let _ = peer.try_send(header("10.1.2.4").as_bytes());
    peer.drain();
    assert_eq!(server.asked().len(), 1, "the others were cached");
}

#[test]
fn a_reload_changes_what_is_spoken_on_a_port() {
    let (server, [plain, other]) = (address_for_all(), [(); 2].map(|()| Port::free().keep()));
    let (mut config, _files) = both(plain, other, &[server.address]);
    let over_tls = config.clone();
    config.listeners[1].protocols = vec![Protocol::Tcp];
    config.listeners[1].tls = None;
    let mut node = Node::start(config.clone(), 2);
    let asked = query("a.example.org", A);
    for _ in 0..2 {
        assert_eq!(answers(&ask(&mut Peer::connect(other), &asked)), 1);
        node.change(over_tls.clone());
        let mut peer = dot().connect(other, "dns.example.org");
        assert_eq!(answers(&ask(&mut peer, &asked)), 1);
        node.change(config.clone());
        // Open connections continue.
        assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    }
}

#[test]
fn a_certificate_that_cannot_be_read_is_refused() {
    let (plain, encrypted) = (Port::free().keep(), Port::free().keep());
    let (config, scratch) = both(plain, encrypted, &[plain]);
    let mut node = Node::start(forwarder(plain, &[plain]), 1);
    scratch.write("dns.key", Issued::self_signed("other").key);
    let error = node.try_change(config).expect_err("another key");
    assert!(error.contains("dns.listener.tls"), "{error}");
    assert!(error.contains("the private key does not match"), "{error}");
}
