//! Forgery: unpredictable ids, ports and cases; wrong responses, and floods of them.

use std::collections::{HashMap, HashSet};
use std::net::UdpSocket;
use std::time::Duration;

use steppe_dns::limits::{QUERIES_PER_SOCKET_MAX, SOCKETS_PER_SERVER};
use steppe_testkit::Port;

use super::{A, assert_good, forged, good, response_of};
use crate::client::{Client, PATIENCE, forwarder, query};
use crate::node::Node;
use crate::server::{Asked, By, Server};

#[test]
fn ids_and_ports_of_forty_misses_are_random() {
    let (server, listen) = (
        Server::start(|asked| vec![good(asked)]),
        Port::free().keep(),
    );
    let _node = Node::start(forwarder(listen, &[server.address]), 2);
    // A client's queries go to one worker.
    for number in 0..40 {
        assert_good(&Client::of(listen).ask_for(&format!("{number}.example.org")));
    }
    let asked = server.asked();
    let ids: Vec<u16> = asked
        .iter()
        .map(|asked| u16::from_be_bytes([asked.bytes[0], asked.bytes[1]]))
        .collect();
    let distinct: HashSet<u16> = ids.iter().copied().collect();
    let steps: HashSet<u16> = ids
        .windows(2)
        .map(|two| two[1].wrapping_sub(two[0]))
        .collect();
    assert!(distinct.len() > 35, "ids repeat: {ids:?}");
    assert!(steps.len() > 35, "ids follow a pattern: {ids:?}");
    // 40 queries use on average 34 of twice 64 sockets.
    assert!(server.ports().len() > 20, "{} ports", server.ports().len());
    // After the name there are type, class and an OPT record: fifteen bytes.
    let spellings: HashSet<Vec<u8>> = asked
        .iter()
        .map(|asked| asked.bytes[asked.bytes.len() - 15 - 13..][..13].to_vec())
        .collect();
    assert!(spellings.len() > 30, "{} spellings", spellings.len());
}

#[test]
fn a_socket_is_replaced_after_its_share_of_queries() {
    let (server, listen) = (
        Server::start(|asked| vec![good(asked)]),
        Port::free().keep(),
    );
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    // More queries than all sockets of a server carry before they are replaced.
    let share = usize::from(QUERIES_PER_SOCKET_MAX);
    let count = SOCKETS_PER_SERVER * share * 9 / 8;
    for batch in 0..count / 64 {
        for number in 0..64 {
            client.send(&query(&format!("{number}.{batch}.example.org"), A));
        }
        for _ in 0..64 {
            assert_good(&client.receive());
        }
    }
    let mut by_port: HashMap<u16, usize> = HashMap::new();
    for asked in server.asked() {
        *by_port.entry(asked.from.port()).or_default() += 1;
    }
    // The kernel may reuse a port: one of some thousand sockets has the port of another.
    let over = by_port.values().filter(|&&count| count > share).count();
    assert!(over < 8, "{over} ports of {}", by_port.len());
    assert!(
        by_port.len() > SOCKETS_PER_SERVER,
        "{} ports",
        by_port.len()
    );
}

#[test]
fn a_worker_has_so_many_sockets_to_a_server_and_no_more() {
    let (server, listen) = (
        Server::start(|asked| vec![good(asked)]),
        Port::free().keep(),
    );
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    for number in 0..1000 {
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    // Sockets are also replaced for their age, which a slow machine sees.
    let ports = server.ports().len();
    assert!(ports > SOCKETS_PER_SERVER * 9 / 10, "{ports} ports");
    let asked = server.asked();
    let latest: HashSet<u16> = asked[asked.len() - 500..]
        .iter()
        .map(|asked| asked.from.port())
        .collect();
    assert!(latest.len() <= 2 * SOCKETS_PER_SERVER, "{}", latest.len());
}

#[test]
fn a_valid_response_is_waited_for_behind_a_malformed_one() {
    let (socket, listen) = (
        UdpSocket::bind(("127.0.0.1", 0)).expect("loopback"),
        Port::free().keep(),
    );
    let address = socket.local_addr().expect("is bound");
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 512];
        let (len, from) = socket.recv_from(&mut buffer).expect("a query");
        let asked = Asked {
            by: By::Udp,
            from,
            bytes: buffer[..len].to_vec(),
        };
        let mut cut = forged(&asked);
        cut.truncate(20);
        socket.send_to(&cut, from).expect("is sent");
        // As in the table of faults; the result is the same after any time.
        std::thread::sleep(Duration::from_millis(300));
        socket.send_to(&good(&asked), from).expect("is sent");
    });
    let mut config = forwarder(listen, &[address]);
    config.upstreams[0].timeout = PATIENCE;
    let _node = Node::start(config, 2);
    assert_good(&Client::of(listen).ask_for("a.example.org"));
    server.join().expect("it was asked");
}

#[test]
fn a_flood_of_ten_thousand_guesses_leads_to_tcp() {
    let (response, server) = response_of(|asked| match asked.by {
        By::Udp => {
            let guess = |step: u16| {
                let mut guess = forged(asked);
                let right = u16::from_be_bytes([guess[0], guess[1]]);
                guess[..2].copy_from_slice(&right.wrapping_add(step).to_be_bytes());
                guess
            };
            (1..=10_000).map(guess).collect()
        }
        By::Tcp => vec![good(asked)],
    });
    assert_good(&response);
    assert_eq!(server.asked().last().expect("a query").by, By::Tcp);
}
