//! Servers such as those in home routers: without EDNS, without TCP, with names in lower case. Connections that
//! are reset.

use steppe_dns::config::{Policy, Transport};
use steppe_testkit::{Port, eventually};

use super::{A, SERVFAIL, assert_good, good};
use crate::client::{Client, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Asked, By, Server, answered};

/// Reaction of a server to EDNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edns {
    Known,
    /// Rejected with this code, and the question.
    Code(u16),
    /// Rejected with this code, by a header alone.
    HeaderOfCode(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Kept,
    Lowered,
}

fn has_opt(asked: &Asked) -> bool {
    asked.bytes[10..12] != [0, 0]
}

/// Range of the qname `NUMBER.example.org` in a message.
const NAME: std::ops::Range<usize> = 12..12 + 15;

fn is_lower(asked: &Asked) -> bool {
    !asked.bytes[NAME].iter().any(u8::is_ascii_uppercase)
}

fn router(edns: Edns, case: Case) -> impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static {
    move |asked| {
        let mut response = match (has_opt(asked), edns) {
            (true, Edns::Code(code)) => answered(&asked.bytes, code, &[]),
            (true, Edns::HeaderOfCode(code)) => {
                let mut header = answered(&asked.bytes, code, &[])[..12].to_vec();
                header[5] = 0;
                header
            }
            _ => good(asked),
        };
        if case == Case::Lowered && response.len() > NAME.end {
            response[NAME].make_ascii_lowercase();
        }
        vec![response]
    }
}

#[test]
fn home_routers_are_asked_as_they_understand_it() {
    use Case::{Kept, Lowered};
    use Edns::{Code, HeaderOfCode, Known};
    // The last number is the maximum of queries for the first two questions.
    for (edns, case, has_tcp, queries_max) in [
        (Code(1), Kept, true, 4),
        (Code(4), Kept, false, 4),
        (HeaderOfCode(1), Kept, true, 4),
        (HeaderOfCode(4), Kept, false, 4),
        (Known, Lowered, true, 4),
        (Known, Lowered, false, 4),
        (Code(1), Lowered, false, 6),
        (HeaderOfCode(4), Lowered, false, 6),
    ] {
        let what = format!("{edns:?}, {case:?}, TCP {has_tcp}");
        let server = match has_tcp {
            true => Server::start(router(edns, case)),
            false => Server::start_without_tcp(router(edns, case)),
        };
        let listen = Port::free().keep();
        let _node = Node::start(forwarder(listen, &[server.address]), 1);
        let client = Client::of(listen);
        // By chance a name is in lower case, once in a thousand times, which proves nothing.
        for number in 0..4 {
            assert_good(&client.ask_for(&format!("{number}.example.org")));
        }
        let before = server.asked();
        assert!(
            before.len() <= queries_max + 3,
            "{what}: {} queries",
            before.len()
        );
        for number in 4..8 {
            assert_good(&client.ask_for(&format!("{number}.example.org")));
        }
        let asked = &server.asked()[before.len()..];
        assert_eq!(asked.len(), 4, "{what}: each is asked once");
        let is_udp = |asked: &Asked| asked.by == By::Udp;
        assert!(asked.iter().all(is_udp), "{what}");
        let has_edns = asked.iter().all(has_opt);
        assert_eq!(has_edns, edns == Known, "{what}: EDNS");
        let are_lower = asked.iter().all(is_lower);
        assert_eq!(are_lower, case == Lowered, "{what}: 0x20");
    }
}

#[test]
fn a_server_that_understands_no_question_of_a_kind_keeps_edns() {
    const TXT: u16 = 16;
    let server = Server::start(|asked| {
        let qtype = asked.bytes[NAME.end + 1];
        let notimp = answered(&asked.bytes, 4, &[]);
        vec![if u16::from(qtype) == TXT {
            notimp
        } else {
            good(asked)
        }]
    });
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    for number in 0..4 {
        let response = client.ask(&query(&format!("{number}.example.org"), TXT));
        assert_eq!(rcode(&response), 4);
    }
    assert_eq!(server.asked_count(), 8, "with EDNS, and without");
    assert_good(&client.ask_for("4.example.org"));
    assert!(server.asked().last().is_some_and(has_opt));
}

#[test]
fn a_refusal_of_a_question_is_none_of_edns_whoever_asks_it() {
    const TXT: u16 = 16;
    // The server refuses one type with EDNS, and is silent without it: the cause stays unknown.
    let server = Server::start(|asked| match asked.bytes[NAME.end + 1] {
        16 if has_opt(asked) => vec![answered(&asked.bytes, 4, &[])],
        16 => Vec::new(),
        _ => vec![good(asked)],
    });
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    for number in 0..4 {
        client.send(&query(&format!("{number}.example.org"), TXT));
    }
    eventually("all are asked without EDNS", || {
        let asked = server.asked();
        asked.iter().filter(|asked| !has_opt(asked)).count() >= 4
    });
    assert_good(&client.ask_for("4.example.org"));
    let asked = server.asked();
    let last = asked.iter().rfind(|asked| asked.bytes[NAME.end + 1] == 1);
    assert!(last.is_some_and(has_opt));
}

#[test]
fn a_router_that_refuses_a_type_is_asked_without_edns_all_the_same() {
    const HTTPS: u16 = 65;
    let router = router(Edns::Code(1), Case::Kept);
    let server = Server::start(move |asked| match asked.bytes[NAME.end + 1] {
        65 => vec![answered(&asked.bytes, 4, &[])],
        _ => router(asked),
    });
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    for number in 0..2 {
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    let before = server.asked_count();
    for number in 2..6 {
        let response = client.ask(&query(&format!("{number}.example.org"), HTTPS));
        assert_eq!(rcode(&response), 4);
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    assert_eq!(server.asked_count(), before + 8, "each is asked once");
}

#[test]
fn a_question_that_may_not_be_asked_again_waits_for_no_connection() {
    // Each server needs two queries; together these exceed the maximum for a question.
    let routers: Vec<_> = (0..40)
        .map(|_| {
            Server::start(|asked| vec![answered(&asked.bytes, 2 - u16::from(has_opt(asked)), &[])])
        })
        .collect();
    let listen = Port::free().keep();
    let mut addresses = vec![Port::free().keep()];
    addresses.extend(routers.iter().map(|router| router.address));
    let mut config = forwarder(listen, &addresses);
    config.upstreams[0].policy = Policy::Failover;
    config.upstreams[0].servers[0].transport = Transport::Tcp;
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    // The question ends, and the worker continues with others.
    assert_eq!(rcode(&client.ask_for("0.example.org")), SERVFAIL);
    assert_eq!(rcode(&client.ask_for("localhost")), 0);
}

#[test]
fn questions_outlive_connections_that_are_reset_before_any_answer() {
    for resets in [1, 2] {
        let server = Server::start_with_resets(resets, |asked| vec![good(asked)]);
        let listen = Port::free().keep();
        let mut config = forwarder(listen, &[server.address]);
        config.upstreams[0].servers[0].transport = Transport::Tcp;
        let node = Node::start(config, 1);
        let client = Client::of(listen);
        for number in 0..5 {
            client.send(&query(&format!("{number}.example.org"), A));
        }
        (0..5).for_each(|_| assert_good(&client.receive()));
        let failures = "steppe_dns_cache_lookups_total{result=\"failure\"}";
        assert_eq!(node.metric(failures), 0);
    }
}
