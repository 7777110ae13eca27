//! Client subnets (RFC 7871): the networks that servers are sent, and the clients that get the answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steppe_dns::config::{ClientSubnet, Forwarder};
use steppe_dns::limits::SUBNETS_PER_QUESTION_MAX;
use steppe_testkit::{Port, eventually};

use crate::client::{Client, PATIENCE, answers, extended_error, forwarder, rcode};
use crate::messages::{message, with_opt};
use crate::node::Node;
use crate::server::{Asked, Server, answered};
use crate::switched::{Switched, serve_stale};

const A: u16 = 1;
const SUBNET: u16 = 8;
const NAME: &str = "a.example.org";

/// Data of a CLIENT-SUBNET option for IPv4: family, prefix, scope, and the bytes of the prefix.
fn option(address: [u8; 4], bits: u8, scope: u8) -> Vec<u8> {
    let needed = usize::from(bits.div_ceil(8));
    [&[0, 1, bits, scope], &address[..needed]].concat()
}

/// A query with the option for this network.
fn query(address: [u8; 4], bits: u8) -> Vec<u8> {
    let plain = message(7, 0x0100, (NAME, A), [&[], &[], &[]]);
    with_opt(plain, 1232, 0, &[(SUBNET, &option(address, bits, 0))])
}

/// Data of a message's CLIENT-SUBNET option.
fn subnet_of(message: &[u8]) -> Option<Vec<u8>> {
    let opt = message.windows(3).rposition(|bytes| bytes == [0, 0, 41])?;
    let mut options = message.get(opt + 11..)?;
    while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk::<4>() {
        let (data, after) = rest.split_at(usize::from(u16::from_be_bytes([l0, l1])));
        if [c0, c1] == [0, 8] {
            return Some(data.to_vec());
        }
        options = after;
    }
    None
}

/// An answer with the last byte of the network in the query, and this scope.
fn answer(asked: &Asked, scope: u8) -> Vec<u8> {
    let told = subnet_of(&asked.bytes);
    let number = told.as_ref().and_then(|told| told.get(6)).copied();
    let address = [192, 0, 2, number.unwrap_or(255)];
    let plain = answered(&asked.bytes, 0, &[(A, 3600, &address)]);
    match told {
        Some(mut told) => {
            told[3] = scope;
            with_opt(plain, 1232, 0, &[(SUBNET, &told)])
        }
        None => plain,
    }
}

/// The last byte of the address in a response.
fn number(response: &[u8]) -> u8 {
    assert_eq!((rcode(response), answers(response)), (0, 1));
    let at = response
        .windows(3)
        .position(|bytes| bytes == [192, 0, 2])
        .expect("an address");
    response[at + 3]
}

fn started(policy: ClientSubnet, scope: u8) -> (Server, SocketAddr, Node) {
    let server = Server::start(move |asked| vec![answer(asked, scope)]);
    let listen = Port::free().keep();
    let node = Node::start(config(policy, listen, &server), 1);
    (server, listen, node)
}

fn config(policy: ClientSubnet, listen: SocketAddr, server: &Server) -> Forwarder {
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].client_subnet = policy;
    config
}

/// Data of the option in each query that the server received.
fn told(server: &Server) -> Vec<Option<Vec<u8>>> {
    let asked = server.asked();
    asked.iter().map(|asked| subnet_of(&asked.bytes)).collect()
}

#[test]
fn servers_are_told_no_network_where_it_is_stripped() {
    let (server, listen, _node) = started(ClientSubnet::Strip, 24);
    let client = Client::of(listen);
    for third in 0..3 {
        let response = client.ask(&query([10, 0, third, 0], 24));
        assert_eq!(number(&response), 255);
        let want = option([10, 0, third, 0], 24, 0);
        assert_eq!(subnet_of(&response), Some(want), "for everybody");
    }
    assert_eq!(told(&server), [None]);
}

#[test]
fn an_answer_reaches_clients_of_the_network_that_it_is_for() {
    let (server, listen, _node) = started(ClientSubnet::Pass, 24);
    let client = Client::of(listen);
    for third in [1, 2, 1, 2] {
        let response = client.ask(&query([10, 0, third, 0], 24));
        assert_eq!(number(&response), third);
        let want = option([10, 0, third, 0], 24, 24);
        assert_eq!(subnet_of(&response), Some(want));
    }
    let networks = [1, 2].map(|third| Some(option([10, 0, third, 0], 24, 0)));
    assert_eq!(told(&server), networks, "once each");
    // A client without the option gets none of these answers.
    assert_eq!(number(&client.ask_for(NAME)), 255);
    assert_eq!(number(&client.ask(&query([10, 0, 1, 0], 24))), 1);
}

#[test]
fn an_answer_that_depends_on_no_network_is_for_everybody() {
    let (server, listen, _node) = started(ClientSubnet::Pass, 0);
    let client = Client::of(listen);
    for third in 1..5 {
        let response = client.ask(&query([10, 0, third, 0], 24));
        assert_eq!(number(&response), 1, "what the first one got");
        let want = option([10, 0, third, 0], 24, 0);
        assert_eq!(subnet_of(&response), Some(want));
    }
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn the_network_of_a_clients_address_is_added() {
    let policy = ClientSubnet::Add { ipv4: 24, ipv6: 56 };
    let (server, listen, _node) = started(policy, 24);
    assert_eq!(number(&Client::of(listen).ask_for(NAME)), 0);
    let other = Client::from_to([127, 0, 9, 1].into(), listen);
    assert_eq!(number(&other.ask_for(NAME)), 9);
    // The network that a client names is ignored, except a prefix of 0, which forbids sending any.
    assert_eq!(number(&other.ask(&query([10, 0, 1, 0], 24))), 9);
    assert_eq!(number(&other.ask(&query([0; 4], 0))), 255);
    let first = Some(option([127, 0, 0, 0], 24, 0));
    let second = Some(option([127, 0, 9, 0], 24, 0));
    assert_eq!(told(&server), [first, second, None]);
}

#[test]
fn a_response_for_another_network_is_dropped() {
    let server = Server::start(|asked| {
        let mut forged = answer(asked, 24);
        let network = forged.len() - 1;
        forged[network] ^= 1;
        let address = forged.windows(3).position(|bytes| bytes == [192, 0, 2]);
        forged[address.expect("an address") + 3] = 66;
        vec![forged, answer(asked, 24)]
    });
    let listen = Port::free().keep();
    let node = Node::start(config(ClientSubnet::Pass, listen, &server), 1);
    let response = Client::of(listen).ask(&query([10, 0, 7, 0], 24));
    assert_eq!(number(&response), 7);
    let mismatches = "steppe_dns_upstream_trouble_total{kind=\"mismatch\"}";
    assert_eq!((node.metric(mismatches), server.asked().len()), (1, 1));
}

#[test]
fn networks_that_clients_make_up_send_few_queries() {
    // CVE-2025-5994: fifty identical questions, each with a network of its own.
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("a lock");
    let server = {
        let gate = Arc::clone(&gate);
        Server::start(move |asked| {
            drop(gate.lock());
            vec![answer(asked, 24)]
        })
    };
    let listen = Port::free().keep();
    let mut config = config(ClientSubnet::Pass, listen, &server);
    config.upstreams[0].timeout = PATIENCE;
    let node = Node::start(config, 2);
    let clients: Vec<Client> = (0..50).map(|_| Client::of(listen)).collect();
    for (client, third) in clients.iter().zip(0..) {
        client.send(&query([10, 0, third, 0], 24));
    }
    let most = SUBNETS_PER_QUESTION_MAX as usize + 1;
    let coalesced = "steppe_dns_events_total{event=\"coalesced\"}";
    eventually("all of them wait", || {
        node.metric(coalesced) >= (50 - most) as u64
    });
    let asked = "steppe_dns_cache_lookups_total{result=\"miss\"}";
    assert_eq!(node.metric(asked), 50);
    drop(closed);
    let numbers: Vec<u8> = clients
        .iter()
        .map(|client| number(&client.receive()))
        .collect();
    let general = numbers.iter().filter(|&&number| number == 255).count();
    assert_eq!(general, 50 - SUBNETS_PER_QUESTION_MAX as usize);
    // Queries may be repeated if the server is slow, as it is here.
    let mut networks = told(&server);
    networks.sort();
    networks.dedup();
    assert_eq!(networks.len(), most);
    // The answer for all networks is not cached: the next client gets one for its own network.
    let response = Client::of(listen).ask(&query([10, 0, 99, 0], 24));
    assert_eq!(number(&response), 99);
}

/// RFC 8767 §5: a server that fails is not asked again at once, also where the stale answer is that of a network.
#[test]
fn a_stale_answer_of_a_network_is_kept_quiet_too() {
    let switched = Switched::start_with(1, |asked, ttl| {
        let plain = answered(&asked.bytes, 0, &[(A, ttl, &[192, 0, 2, 7])]);
        with_opt(plain, 1232, 0, &[(SUBNET, &option([10, 0, 1, 0], 24, 24))])
    });
    let server = &switched.server;
    let listen = Port::free().keep();
    let mut config = config(ClientSubnet::Pass, listen, server);
    config.upstreams[0].timeout = Duration::from_millis(200);
    config.cache.serve_stale = Some(serve_stale(Duration::from_millis(50)));
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    let ask = || client.ask(&query([10, 0, 1, 0], 24));
    ask();
    switched.switch_off();
    eventually("it is stale", || extended_error(&ask()) == Some(3));
    // The exchange goes on behind the stale answer, and ends.
    let quiet = || {
        let before = server.asked().len();
        ask();
        std::thread::sleep(Duration::from_millis(100));
        server.asked().len() == before
    };
    eventually("its servers are left alone", quiet);
    let before = server.asked().len();
    (0..20).for_each(|_| assert_eq!(extended_error(&ask()), Some(3)));
    assert_eq!(server.asked().len(), before);
}
