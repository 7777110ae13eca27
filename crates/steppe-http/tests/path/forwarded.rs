//! The client's address, and what the origin is told about it.

use std::net::IpAddr;

use expect_test::{Expect, expect};
use ipnet::IpNet;
use proptest::prelude::*;
use steppe_http::forwarded::{ForwardedLines, Forwarding, Peer, ReceivedAuthority};
use steppe_http::limits::FORWARDED_ELEMENTS_MAX;

/// Field lines as a client sends them.
type Fields<'a> = &'a [(&'a str, &'a str)];

fn trusted() -> Vec<IpNet> {
    ["10.0.0.0/8", "2001:db8::/32"]
        .map(|net| net.parse().expect("a valid net"))
        .to_vec()
}

fn values<'a>(fields: Fields<'a>, name: &str) -> Vec<&'a [u8]> {
    fields
        .iter()
        .filter(|field| field.0 == name)
        .map(|field| field.1.as_bytes())
        .collect()
}

/// The client, and the four fields that are sent.
fn told(peer: &Peer, nets: &[IpNet], host: &str, fields: Fields<'_>) -> String {
    let [forwarded, x_for, x_proto, x_host] = [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
    ]
    .map(|name| values(fields, name));
    let incoming = ForwardedLines {
        forwarded: forwarded.iter().copied(),
        x_forwarded_for: x_for.iter().copied(),
        x_forwarded_proto: x_proto.iter().copied(),
        x_forwarded_host: x_host.iter().copied(),
    };
    let received = ReceivedAuthority {
        host: host.as_bytes(),
        proto: "http",
    };
    let forwarding = Forwarding::new(peer, nets, received, incoming);
    let mut out = format!("client {}\nForwarded: ", forwarding.client()).into_bytes();
    forwarding.write_forwarded(&mut out);
    out.extend(b"\nX-Forwarded-For: ");
    forwarding.write_x_forwarded_for(&mut out);
    out.extend(b"\nX-Forwarded-Proto: ");
    forwarding.write_x_forwarded_proto(&mut out);
    out.extend(b"\nX-Forwarded-Host: ");
    forwarding.write_x_forwarded_host(&mut out);
    out.push(b'\n');
    String::from_utf8(out).expect("all of it was text")
}

fn check(peer: &str, host: &str, fields: Fields<'_>, expected: Expect) {
    let peer = Peer::new(peer.parse().expect("a valid address"), &trusted());
    expected.assert_eq(&told(&peer, &trusted(), host, fields));
}

const SPOOFED: Fields<'static> = &[
    ("Forwarded", "for=6.6.6.6;host=evil;proto=https"),
    ("X-Forwarded-For", "6.6.6.6, 10.0.0.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "evil"),
];

#[test]
fn untrusted_peers_are_not_believed() {
    check(
        "192.0.2.1",
        "example.com",
        SPOOFED,
        expect![[r#"
        client 192.0.2.1
        Forwarded: for=192.0.2.1;host=example.com;proto=http
        X-Forwarded-For: 192.0.2.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: example.com
    "#]],
    );
    check(
        "2001:db9::1",
        "example.com:8080",
        SPOOFED,
        expect![[r#"
        client 2001:db9::1
        Forwarded: for="[2001:db9::1]";host="example.com:8080";proto=http
        X-Forwarded-For: 2001:db9::1
        X-Forwarded-Proto: http
        X-Forwarded-Host: example.com:8080
    "#]],
    );
    check(
        "::ffff:192.0.2.1",
        "",
        &[],
        expect![[r#"
        client 192.0.2.1
        Forwarded: for=192.0.2.1;proto=http
        X-Forwarded-For: 192.0.2.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: 
    "#]],
    );
}

#[test]
fn trusted_peers_are_extended() {
    let fields = [
        ("Forwarded", "for=192.0.2.43;proto=https;host=a.example"),
        ("Forwarded", "for=10.0.0.2"),
        ("X-Forwarded-For", "192.0.2.43"),
        ("X-Forwarded-For", "10.0.0.2"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "a.example"),
    ];
    check(
        "10.0.0.1",
        "b.internal",
        &fields,
        expect![[r#"
        client 192.0.2.43
        Forwarded: for=192.0.2.43;proto=https;host=a.example, for=10.0.0.2, for=10.0.0.1;host=b.internal;proto=http
        X-Forwarded-For: 192.0.2.43, 10.0.0.2, 10.0.0.1
        X-Forwarded-Proto: https
        X-Forwarded-Host: a.example
    "#]],
    );
    check(
        "::ffff:10.0.0.1",
        "b.internal",
        &fields,
        expect![[r#"
        client 192.0.2.43
        Forwarded: for=192.0.2.43;proto=https;host=a.example, for=10.0.0.2, for=10.0.0.1;host=b.internal;proto=http
        X-Forwarded-For: 192.0.2.43, 10.0.0.2, 10.0.0.1
        X-Forwarded-Proto: https
        X-Forwarded-Host: a.example
    "#]],
    );
    check(
        "2001:db8::1",
        "[2001:db8::2]:80",
        &fields,
        expect![[r#"
        client 192.0.2.43
        Forwarded: for=192.0.2.43;proto=https;host=a.example, for=10.0.0.2, for="[2001:db8::1]";host="[2001:db8::2]:80";proto=http
        X-Forwarded-For: 192.0.2.43, 10.0.0.2, 2001:db8::1
        X-Forwarded-Proto: https
        X-Forwarded-Host: a.example
    "#]],
    );
}

#[test]
fn both_fields_tell_the_same_client() {
    // A proxy that knows `X-Forwarded-For` alone passes the client's own `Forwarded` on.
    let spoofed = [
        ("Forwarded", "for=6.6.6.6"),
        ("X-Forwarded-For", "192.0.2.43"),
    ];
    check(
        "10.0.0.1",
        "a.example",
        &spoofed,
        expect![[r#"
        client 192.0.2.43
        Forwarded: for=192.0.2.43, for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 192.0.2.43, 10.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]],
    );
    check(
        "10.0.0.1",
        "a.example",
        &[("X-Forwarded-For", "192.0.2.43")],
        expect![[r#"
            client 192.0.2.43
            Forwarded: for=192.0.2.43, for=10.0.0.1;host=a.example;proto=http
            X-Forwarded-For: 192.0.2.43, 10.0.0.1
            X-Forwarded-Proto: http
            X-Forwarded-Host: a.example
        "#]],
    );
    let forwarded = [("Forwarded", "for=\"[2001:db9::17]:4711\"")];
    check(
        "10.0.0.1",
        "a.example",
        &forwarded,
        expect![[r#"
        client 2001:db9::17
        Forwarded: for="[2001:db9::17]:4711", for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 2001:db9::17, 10.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]],
    );
    check(
        "10.0.0.1",
        "a.example",
        &[],
        expect![[r#"
        client 10.0.0.1
        Forwarded: for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 10.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]],
    );
}

#[test]
fn odd_values_are_not_passed_on_as_a_list() {
    // An origin that reads from the left would find our element inside the client's quotes.
    let unbalanced = [("Forwarded", "for=\"x, for=192.0.2.43")];
    check(
        "10.0.0.1",
        "a.example",
        &unbalanced,
        expect![[r#"
        client 192.0.2.43
        Forwarded: for=192.0.2.43, for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 192.0.2.43, 10.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]],
    );
    let odd = [
        ("X-Forwarded-Proto", "https, ht tp"),
        ("X-Forwarded-Host", "a.example, b/c"),
    ];
    check(
        "10.0.0.1",
        "a.example",
        &odd,
        expect![[r#"
        client 10.0.0.1
        Forwarded: for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 10.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]],
    );
    let lists = [
        ("X-Forwarded-Proto", "https, http"),
        ("X-Forwarded-Host", "a.example"),
        ("X-Forwarded-Host", "b:80"),
    ];
    check(
        "10.0.0.1",
        "a.example",
        &lists,
        expect![[r#"
        client 10.0.0.1
        Forwarded: for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 10.0.0.1
        X-Forwarded-Proto: https, http
        X-Forwarded-Host: a.example, b:80
    "#]],
    );
    let empty = [
        ("Forwarded", ""),
        ("X-Forwarded-For", " , "),
        ("X-Forwarded-Host", ""),
    ];
    check(
        "10.0.0.1",
        "a.example",
        &empty,
        expect![[r#"
        client 10.0.0.1
        Forwarded: for=10.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 10.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]],
    );
}

fn client(peer: &str, fields: Fields<'_>) -> String {
    let peer = Peer::new(peer.parse().expect("a valid address"), &trusted());
    let told = told(&peer, &trusted(), "a.example", fields);
    let first = told.lines().next().expect("the client");
    first
        .strip_prefix("client ")
        .expect("the client")
        .to_owned()
}

#[test]
fn the_walk_ends_at_the_first_address_that_is_not_trusted() {
    for (value, expected) in [
        ("192.0.2.43", "192.0.2.43"),
        ("6.6.6.6, 192.0.2.43", "192.0.2.43"),
        ("6.6.6.6, 192.0.2.43, 10.0.0.3, 2001:db8::4", "192.0.2.43"),
        ("10.0.0.4, 10.0.0.3", "10.0.0.4"),
        ("::ffff:10.0.0.4, ::ffff:10.0.0.3", "10.0.0.4"),
        ("192.0.2.43, unknown, 10.0.0.3", "10.0.0.3"),
        ("192.0.2.43, _hidden, 10.0.0.3", "10.0.0.3"),
        ("192.0.2.43, 10.0.0.300", "10.0.0.1"),
        ("192.0.2.43, , 10.0.0.3,", "192.0.2.43"),
        ("", "10.0.0.1"),
    ] {
        assert_eq!(
            client("10.0.0.1", &[("X-Forwarded-For", value)]),
            expected,
            "{value}"
        );
    }
    for (value, expected) in [
        ("for=192.0.2.43, for=\"[2001:db8::17]\"", "192.0.2.43"),
        ("for=6.6.6.6, for=192.0.2.43;by=10.0.0.9", "192.0.2.43"),
        ("for=192.0.2.43, for=unknown, for=10.0.0.3", "10.0.0.3"),
        ("for=192.0.2.43, for=\"_a\\\"b\"", "10.0.0.1"),
        ("for=\"6.6.6.6, for=192.0.2.43", "192.0.2.43"),
        ("for=6.6.6.6;host=\"a, for=10.0.0.9\"", "6.6.6.6"),
    ] {
        assert_eq!(
            client("10.0.0.1", &[("Forwarded", value)]),
            expected,
            "{value}"
        );
    }
}

#[test]
fn the_walk_is_bounded() {
    let chain = |hops: usize| ["192.0.2.43"].into_iter().chain(vec!["10.0.0.3"; hops]);
    let joined = |hops: usize| chain(hops).collect::<Vec<_>>().join(", ");
    let within = joined(FORWARDED_ELEMENTS_MAX - 1);
    assert_eq!(
        client("10.0.0.1", &[("X-Forwarded-For", &within)]),
        "192.0.2.43"
    );
    let beyond = joined(FORWARDED_ELEMENTS_MAX);
    assert_eq!(
        client("10.0.0.1", &[("X-Forwarded-For", &beyond)]),
        "10.0.0.3"
    );
    let lines: Vec<_> = chain(FORWARDED_ELEMENTS_MAX)
        .map(|hop| ("X-Forwarded-For", hop))
        .collect();
    assert_eq!(client("10.0.0.1", &lines), "10.0.0.3");
}

#[test]
fn unix_sockets_are_this_machine() {
    let loopback = ["127.0.0.0/8".parse().expect("a valid net")];
    assert!(Peer::unix(&loopback).is_trusted());
    assert!(!Peer::unix(&trusted()).is_trusted());
    expect![[r#"
        client 10.0.0.1
        Forwarded: for=10.0.0.1, for=127.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 6.6.6.6, 10.0.0.1, 127.0.0.1
        X-Forwarded-Proto: https
        X-Forwarded-Host: evil
    "#]]
    .assert_eq(&told(
        &Peer::unix(&loopback),
        &loopback,
        "a.example",
        SPOOFED,
    ));
    expect![[r#"
        client 127.0.0.1
        Forwarded: for=127.0.0.1;host=a.example;proto=http
        X-Forwarded-For: 127.0.0.1
        X-Forwarded-Proto: http
        X-Forwarded-Host: a.example
    "#]]
    .assert_eq(&told(&Peer::unix(&[]), &[], "a.example", SPOOFED));
}

#[test]
fn every_address_fits() {
    let longest: IpAddr = "1111:2222:3333:4444:5555:6666:7777:8888"
        .parse()
        .expect("an address");
    for text in [
        longest.to_string(),
        "255.255.255.255".into(),
        "::255.255.255.255".into(),
    ] {
        let peer = Peer::new(text.parse().expect("an address"), &[]);
        let expected = peer.address().to_string();
        let told = told(&peer, &[], "", &[]);
        assert!(
            told.contains(&format!("\nX-Forwarded-For: {expected}\n")),
            "{told}"
        );
    }
}

fn odd_value() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "for=",
        "\"",
        ",",
        ";",
        " ",
        "\\",
        "10.0.0.2",
        "192.0.2.9",
        "[2001:db8::5]",
        "unknown",
        "=",
        "_x",
        ":80",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    /// A client can't choose its address by anything that it sends through a proxy that appends.
    #[test]
    fn a_client_behind_a_trusted_proxy_cannot_choose_its_address(odd in odd_value()) {
        let forwarded = format!("{odd}, for=192.0.2.43");
        prop_assert_eq!(client("10.0.0.1", &[("Forwarded", &forwarded)]), "192.0.2.43");
        let x_forwarded_for = format!("{odd}, 192.0.2.43");
        let both = [("Forwarded", &*odd), ("X-Forwarded-For", &*x_forwarded_for)];
        prop_assert_eq!(client("10.0.0.1", &both), "192.0.2.43");
    }

    /// The next Steppe, which trusts this one, finds the client that this one found.
    #[test]
    fn the_next_hop_finds_the_same_client(odd in odd_value(), odder in odd_value()) {
        let fields = [("Forwarded", &*odd), ("X-Forwarded-For", &*odder)];
        let nets = trusted();
        let peer = Peer::new("10.0.0.1".parse().expect("an address"), &nets);
        let told = told(&peer, &nets, "a.example", &fields);
        let sent: Vec<_> = told.lines().skip(1).filter_map(|line| line.split_once(": ")).collect();
        let found = client("10.0.0.1", &fields);
        prop_assert_eq!(&client("10.0.0.7", &sent), &found);
        prop_assert_eq!(client("10.0.0.7", &sent[..1]), found);
    }
}
