//! Keys of upstreams that no other test has: their effects on clients and servers.

use std::time::Duration;

use steppe_dns::config::{CaseRandomization, Truncated};
use steppe_testkit::{Peer, Port, eventually};

use crate::client::{Client, answers, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{By, Server, answered};
use crate::streams::ask;

const A: u16 = 1;
const NAME: &str = "a-name-of-many-letters.example.org";

#[test]
fn a_truncated_response_is_passed_on_where_tcp_is_not_to_be_tried() {
    for (truncated, ways) in [
        (Truncated::AskByTcp, &[By::Udp, By::Tcp][..]),
        (Truncated::Pass, &[By::Udp]),
    ] {
        let server = Server::start(|asked| match asked.by {
            By::Udp => vec![answered(&asked.bytes, 0x0200, &[])],
            By::Tcp => vec![answered(&asked.bytes, 0, &[(A, 60, &[192, 0, 2, 7])])],
        });
        let listen = Port::free().keep();
        let mut config = forwarder(listen, &[server.address]);
        config.upstreams[0].truncated = truncated;
        let _node = Node::start(config, 1);
        let response = Client::of(listen).ask_for(NAME);
        let is_truncated = response[2] & 2 != 0;
        assert_eq!(is_truncated, truncated == Truncated::Pass);
        let asked: Vec<By> = server.asked().iter().map(|asked| asked.by).collect();
        assert_eq!(asked, ways);
        // As a client does after a truncated response (RFC 7766 §5).
        let by_stream = ask(&mut Peer::connect(listen), &query(NAME, A));
        assert_eq!((rcode(&by_stream), answers(&by_stream)), (0, 1));
    }
}

#[test]
fn names_are_in_lower_case_where_their_case_is_not_randomized() {
    for (case, is_lower) in [
        (CaseRandomization::On, false),
        (CaseRandomization::Off, true),
    ] {
        let server =
            Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 60, &[192, 0, 2, 7])])]);
        let listen = Port::free().keep();
        let mut config = forwarder(listen, &[server.address]);
        config.upstreams[0].case = case;
        let _node = Node::start(config, 1);
        let response = Client::of(listen).ask_for(&NAME.to_uppercase());
        assert_eq!((rcode(&response), answers(&response)), (0, 1));
        let asked = &server.asked()[0].bytes;
        let qname = &asked[12..12 + NAME.len()];
        // Twenty-eight letters are all in lower case by chance once in 268 million times.
        assert_eq!(
            qname.is_ascii() && qname.to_ascii_lowercase() == qname,
            is_lower
        );
    }
}

#[test]
fn answers_of_an_upstream_are_kept_for_its_time_at_most() {
    let server =
        Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])]);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].max_ttl = Some(Duration::from_secs(1));
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    let response = client.ask_for(NAME);
    // The TTL is before the length and the address of the answer, and before the OPT record.
    let ttl = &response[response.len() - 11 - 4 - 2 - 4..][..4];
    assert_eq!(ttl, [0, 0, 0, 1]);
    eventually("it is asked for again", || {
        assert_eq!(answers(&client.ask_for(NAME)), 1);
        server.asked().len() > 1
    });
}
