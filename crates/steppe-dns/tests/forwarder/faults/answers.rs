//! Unusual but valid queries and responses.

use std::time::Duration;

use steppe_dns::config::{Action, Policy, Rule};
use steppe_testkit::{Peer, Port, eventually};

use super::{A, FORMERR, SERVFAIL, assert_good, good, response_of};
use crate::client::{Client, PATIENCE, extended_error, forwarder, query, rcode};
use crate::messages::{message, name, with_opt};
use crate::node::Node;
use crate::server::{Server, answered};
use crate::streams::ask;

#[test]
fn a_long_query_is_answered_whether_its_answer_is_cached_or_not() {
    let server = Server::start(|asked| vec![good(asked)]);
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 2);
    let client = Client::of(listen);
    for (number, padding) in [600, 1100, 3000].into_iter().enumerate() {
        let padding = vec![0; padding];
        let plain = message(
            7,
            0x0100,
            (&format!("n{number}.example.org"), A),
            [&[], &[], &[]],
        );
        let long = with_opt(plain, 1232, 0, &[(12, &padding)]);
        for _ in 0..2 {
            let response = match long.len() <= 1232 {
                true => client.ask(&long),
                false => ask(&mut Peer::connect(listen), &long),
            };
            assert_eq!(rcode(&response), 0, "{} bytes", long.len());
            assert_good(&response);
        }
    }
    assert_eq!(server.asked_count(), 3);
    // A datagram of more than 1,232 bytes is rejected.
    let plain = message(7, 0x0100, ("a.example.org", A), [&[], &[], &[]]);
    let response = client.ask(&with_opt(plain, 1232, 0, &[(12, &[0; 1400])]));
    assert_eq!(rcode(&response), FORMERR);
}

#[test]
fn a_servers_extended_code_is_no_other_code_to_a_client_nor_from_the_cache() {
    let server = Server::start(|asked| {
        let mut response = with_opt(answered(&asked.bytes, 0, &[]), 1232, 0, &[]);
        let high = response.len() - 6;
        response[high] = 1;
        vec![response]
    });
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let client = Client::of(listen);
    let plain = message(7, 0x0100, ("a.example.org", A), [&[], &[], &[]]);
    // First from the server, then from the cache.
    for _ in 0..2 {
        assert_eq!(rcode(&client.ask(&plain)), SERVFAIL);
        let response = client.ask_for("a.example.org");
        let opt = response.windows(3).rposition(|bytes| bytes == [0, 0, 41]);
        let high = response[opt.expect("EDNS") + 5];
        assert_eq!((high, rcode(&response)), (1, 0), "BADVERS");
    }
    assert_eq!(server.asked_count(), 1);
}

#[test]
fn an_alias_by_a_rule_shows_no_letters_that_were_drawn() {
    let (server, listen) = (
        Server::start(|asked| {
            // The target of an alias below the qname: `x`, then a pointer to the qname.
            let target = [&b"\x01x"[..], &[0xc0, 12]].concat();
            vec![answered(&asked.bytes, 0, &[(5, 60, &target)])]
        }),
        Port::free().keep(),
    );
    let mut config = forwarder(listen, &[server.address]);
    let to = "target-of-an-alias.example.net".parse().expect("a name");
    let rewrite = Rule {
        names: vec!["a.example.org".parse().expect("a name")],
        ..Rule::new(Action::Rewrite(Box::new(to)))
    };
    config.rules.insert(0, rewrite);
    let _node = Node::start(config, 1);
    let response = Client::of(listen).ask(&query("a.example.org", 28));
    let drawn = |bytes: &[u8]| {
        bytes
            .windows(3)
            .any(|three| three.eq_ignore_ascii_case(b"-of") && three != b"-of")
    };
    assert!(!drawn(&response), "{response:?}");
    let whole = name("x.target-of-an-alias.example.net");
    assert!(response.windows(whole.len()).any(|bytes| bytes == whole));
}

#[test]
fn a_race_is_not_won_by_a_denial_without_an_soa() {
    for denial in [0, 3] {
        let fast = Server::start(move |asked| vec![answered(&asked.bytes, denial, &[])]);
        let slow = Server::start(|asked| {
            std::thread::sleep(Duration::from_millis(30));
            vec![good(asked)]
        });
        let listen = Port::free().keep();
        let mut config = forwarder(listen, &[fast.address, slow.address]);
        config.upstreams[0].policy = Policy::Race;
        config.upstreams[0].timeout = 2 * PATIENCE;
        let _node = Node::start(config, 1);
        assert_good(&Client::of(listen).ask_for("a.example.org"));
    }
}

#[test]
fn a_denial_without_an_soa_counts_where_nothing_better_comes() {
    for denial in [0, 3] {
        let fast = Server::start(move |asked| vec![answered(&asked.bytes, denial, &[])]);
        let fails = Server::start(|asked| {
            std::thread::sleep(Duration::from_millis(30));
            vec![answered(&asked.bytes, 2, &[])]
        });
        let silent = Server::start(|_| Vec::new());
        for other in [&fails, &silent] {
            let listen = Port::free().keep();
            let mut config = forwarder(listen, &[fast.address, other.address]);
            config.upstreams[0].policy = Policy::Race;
            config.upstreams[0].timeout = Duration::from_secs(2);
            let node = Node::start(config, 1);
            let client = Client::of(listen);
            let response = client.ask_for("a.example.org");
            assert_eq!(rcode(&response), denial.to_be_bytes()[1]);
            assert_eq!(extended_error(&response), None);
            // The denial is no failure, and is not cached: the question is forwarded again.
            let before = fast.asked_count();
            eventually("it is asked for again", || {
                client.ask_for("a.example.org");
                fast.asked_count() > before
            });
            drop(node);
        }
        // A denial by the only server is passed on at once.
        let (response, _) = response_of(move |asked| vec![answered(&asked.bytes, denial, &[])]);
        assert_eq!(rcode(&response), denial.to_be_bytes()[1]);
    }
}
