//! Records in responses that were not asked for, are malformed, or must not be believed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use steppe_dns::config::{Addresses, Policy};
use steppe_testkit::{Peer, Port, eventually};

use super::{A, REFUSED, SERVFAIL, assert_good, good, response_of};
use crate::client::{Client, answers, extended_error, forwarder, query, rcode};
use crate::messages::{Rr, message, name, soa, with_opt};
use crate::node::Node;
use crate::server::{Asked, By, Server, answered};
use crate::streams::ask;

const CNAME: u16 = 5;
const SOA: u16 = 6;
const MISMATCH: &str = "steppe_dns_upstream_trouble_total{kind=\"mismatch\"}";

/// A response with these sections to a query for `qname`, whose case it repeats.
fn response(asked: &Asked, qname: &str, flags: u16, sections: [&[Rr<'_>]; 3]) -> Vec<u8> {
    let id = u16::from_be_bytes([asked.bytes[0], asked.bytes[1]]);
    let end = 12 + name(qname).len();
    let qtype = u16::from_be_bytes([asked.bytes[end], asked.bytes[end + 1]]);
    let mut bytes = message(id, 0x8180 | flags, (qname, qtype), sections);
    bytes[12..end].copy_from_slice(&asked.bytes[12..end]);
    bytes
}

fn address(owner: &str, last: u8) -> Rr<'_> {
    Rr(owner, A, 3600, vec![192, 0, 2, last])
}

#[test]
fn a_hundred_addresses_that_fit_no_datagram_come_by_tcp() {
    let server = Server::start(|asked| match asked.by {
        By::Udp => vec![answered(&asked.bytes, 0x0200, &[])],
        By::Tcp => {
            let data: Vec<[u8; 4]> = (0..100).map(|last| [192, 0, 2, last]).collect();
            let records: Vec<(u16, u32, &[u8])> =
                data.iter().map(|data| (A, 3600, &data[..])).collect();
            vec![answered(&asked.bytes, 0, &records)]
        }
    });
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 2);
    let asked = query("a.example.org", A);
    let by_udp = Client::of(listen).ask(&asked);
    assert_eq!((by_udp[2] & 2, answers(&by_udp)), (2, 0), "truncated");
    let by_tcp = ask(&mut Peer::connect(listen), &asked);
    assert_eq!((by_tcp[2] & 2, answers(&by_tcp)), (0, 100));
    let ways: Vec<By> = server.asked().iter().map(|asked| asked.by).collect();
    assert_eq!(ways, [By::Udp, By::Tcp], "the client's TCP had the cache");
}

#[test]
fn records_of_other_names_are_neither_passed_on_nor_kept() {
    let server = Server::start(|asked| {
        if asked.bytes[12..].starts_with(b"\x06") {
            return vec![good(asked)];
        }
        let answers = [
            address("a.example.org", 7),
            address("victim.example.com", 66),
        ];
        let authority = [Rr("example.com", 2, 3600, name("ns.evil.example"))];
        let additional = [address("victim.example.com", 66)];
        vec![response(
            asked,
            "a.example.org",
            0,
            [&answers, &authority, &additional],
        )]
    });
    let listen = Port::free().keep();
    let _node = Node::start(forwarder(listen, &[server.address]), 2);
    let client = Client::of(listen);
    let response = client.ask_for("a.example.org");
    assert_good(&response);
    let others = [&b"\x06victim"[..], b"\x04evil", &[192, 0, 2, 66]];
    for other in others {
        assert!(!response.windows(other.len()).any(|bytes| bytes == other));
    }
    // The other name is not cached: its query goes to the server.
    assert_good(&client.ask_for("victim.example.com"));
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn pointers_in_a_circle_are_no_answer() {
    for pointer in [27_u16 + 4, 27 + 6, 0x3fff] {
        let (response, server) = response_of(move |asked| {
            let mut response = good(asked);
            // The owner of the answer, after a question with a name of fifteen bytes.
            let owner = 12 + 15 + 4;
            response[owner..owner + 2].copy_from_slice(&(0xc000 | pointer).to_be_bytes());
            vec![response]
        });
        assert_eq!((rcode(&response), answers(&response)), (SERVFAIL, 0));
        assert_eq!(extended_error(&response), Some(24), "{pointer}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[test]
fn a_denial_is_kept_as_long_as_the_last_field_of_its_soa_says() {
    let server = Server::start(|asked| {
        let denial = [Rr("example.org", SOA, 3600, soa(1))];
        vec![response(asked, "a.example.org", 3, [&[], &denial, &[]])]
    });
    let listen = Port::free().keep();
    let node = Node::start(forwarder(listen, &[server.address]), 2);
    let client = Client::of(listen);
    let first = client.ask_for("a.example.org");
    assert_eq!(rcode(&first), 3);
    // RFC 2308 §5: the client gets the lesser of both TTLs.
    let soa_at = first.windows(4).position(|bytes| bytes == [0, 6, 0, 1]);
    let ttl_at = soa_at.expect("an SOA") + 4;
    assert_eq!(first[ttl_at..ttl_at + 4], [0, 0, 0, 1]);
    eventually("it is asked for again", || {
        assert_eq!(rcode(&client.ask_for("a.example.org")), 3);
        server.asked().len() > 1
    });
    let hits = "steppe_dns_cache_lookups_total{result=\"hit\"}";
    assert!(node.metric(hits) > 0, "it was kept for its second");
}

#[test]
fn aliases_that_do_not_end_are_servfail_and_asked_for_once_a_server() {
    fn alias(from: &'static str, to: &str) -> Rr<'static> {
        Rr(from, CNAME, 60, name(to))
    }
    let circle = || {
        vec![
            alias("a.example.org", "b.example.org"),
            alias("b.example.org", "a.example.org"),
        ]
    };
    let names = [
        "a.example.org",
        "b.example.org",
        "c.example.org",
        "d.example.org",
        "e.example.org",
    ];
    let long = move || {
        let steps = names.windows(2).map(|two| alias(two[0], two[1]));
        steps.chain([address(names[4], 7)]).collect::<Vec<_>>()
    };
    for (depth, is_circle, want) in [(8, true, SERVFAIL), (3, false, SERVFAIL), (4, false, 0)] {
        let say = move |asked: &Asked| {
            let records = if is_circle { circle() } else { long() };
            vec![response(asked, "a.example.org", 0, [&records, &[], &[]])]
        };
        let servers = [Server::start(say), Server::start(say)];
        let listen = Port::free().keep();
        let addresses = servers.each_ref().map(|server| server.address);
        let mut config = forwarder(listen, &addresses);
        config.limits.cname_depth = depth;
        config.upstreams[0].policy = Policy::Failover;
        let _node = Node::start(config, 2);
        let response = Client::of(listen).ask_for("a.example.org");
        assert_eq!(rcode(&response), want, "{depth}");
        let counts = servers.each_ref().map(|server| server.asked().len());
        assert_eq!(counts, if want == 0 { [1, 0] } else { [1, 1] });
    }
}

#[test]
fn an_answer_that_comes_late_is_nobodys() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("a lock");
    let server = {
        let gate = Arc::clone(&gate);
        Server::start(move |asked| {
            drop(gate.lock());
            vec![good(asked)]
        })
    };
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.upstreams[0].timeout = Duration::from_secs(1);
    let node = Node::start(config, 2);
    let client = Client::of(listen);
    assert_eq!(rcode(&client.ask_for("a.example.org")), SERVFAIL);
    drop(closed);
    eventually("the answer came", || node.metric(MISMATCH) > 0);
    // Further queries are answered.
    assert_good(&client.ask_for("b.example.org"));
}

#[test]
fn private_addresses_for_public_names_are_refused_however_they_are_written() {
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let unique_local = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    // Priority 1, the owner as the target, and `ipv4hint`.
    let hint = [0, 1, 0, 0, 4, 0, 4, 10, 0, 0, 1];
    let cases: [(u16, &'static [u8]); 5] = [
        (A, &[10, 0, 0, 1]),
        (A, &[127, 0, 0, 1]),
        (28, Box::leak(Box::new(mapped))),
        (28, Box::leak(Box::new(unique_local))),
        (65, Box::leak(Box::new(hint))),
    ];
    for (rtype, data) in cases {
        for (addresses, want) in [(Addresses::Public, REFUSED), (Addresses::Any, 0)] {
            let server =
                Server::start(move |asked| vec![answered(&asked.bytes, 0, &[(rtype, 60, data)])]);
            let listen = Port::free().keep();
            let mut config = forwarder(listen, &[server.address]);
            config.upstreams[0].addresses = addresses;
            let _node = Node::start(config, 2);
            let response = Client::of(listen).ask(&query("a.example.org", rtype));
            assert_eq!(rcode(&response), want, "{data:?}");
            let reason = (want == REFUSED).then_some(15);
            assert_eq!(extended_error(&response), reason);
        }
    }
}

#[test]
fn records_of_every_type_pass_byte_for_byte_with_their_signatures() {
    const HTTPS: u16 = 65;
    const CAA: u16 = 257;
    const RRSIG: u16 = 46;
    for rtype in [HTTPS, CAA, 99, 65_280] {
        let data = [&[0, 1, 0][..], b"\x00\x01\x00\x03\x02h2", b"\xff\x00raw"].concat();
        let mut signature = rtype.to_be_bytes().to_vec();
        signature.extend([
            13, 3, 0, 0, 14, 16, 0x70, 0, 0, 0, 0x60, 0, 0, 0, 0x12, 0x34,
        ]);
        signature.extend(name("example.org"));
        signature.extend(b"signature \x00\xff");
        let (data, signature) = (Arc::new(data), Arc::new(signature));
        let server = {
            let (data, signature) = (Arc::clone(&data), Arc::clone(&signature));
            Server::start(move |asked| {
                let records: [(u16, u32, &[u8]); 2] = [(rtype, 60, &data), (RRSIG, 60, &signature)];
                vec![answered(&asked.bytes, 0x0020, &records)]
            })
        };
        let listen = Port::free().keep();
        let _node = Node::start(forwarder(listen, &[server.address]), 2);
        let client = Client::of(listen);
        let plain = message(7, 0x0120, ("a.example.org", rtype), [&[], &[], &[]]);
        let signed = with_opt(plain, 1232, 0x8000, &[]);
        // First from the server, then from the cache.
        for _ in 0..2 {
            let response = client.ask(&signed);
            assert_eq!((rcode(&response), answers(&response)), (0, 2));
            for part in [&data, &signature] {
                let is_there = response.windows(part.len()).any(|bytes| bytes == &part[..]);
                assert!(is_there, "type {rtype}");
            }
            assert_ne!(response[3] & 0x20, 0, "AD");
        }
        let asked = server.asked();
        assert_eq!(asked.len(), 1);
        let opt = asked[0]
            .bytes
            .windows(3)
            .rposition(|bytes| bytes == [0, 0, 41]);
        let flags = &asked[0].bytes[opt.expect("EDNS") + 7..][..2];
        assert_eq!(flags, [0x80, 0], "DO");
    }
}
