//! Load balancing: the choice of a server for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use steppe_testkit::{Message, NodeConfig, Peer, RawOrigin, Section, Setting, Steppe, eventually};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// An origin that answers with its name.
fn named(name: &str) -> RawOrigin {
    RawOrigin::answering(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}",
        name.len()
    ))
}

/// A node in front of `origins`, with this change to its upstream.
fn node(origins: &[RawOrigin], change: impl FnOnce(Section) -> Section) -> Steppe {
    let servers: Vec<_> = origins.iter().map(RawOrigin::address).collect();
    let config = NodeConfig::plain().upstream("origin", |u| change(u.servers(servers)));
    Steppe::builder().start(&config)
}

fn three() -> [RawOrigin; 3] {
    ["a", "b", "c"].map(named)
}

/// The number of answers of each server.
fn counts(answers: impl IntoIterator<Item = Message>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        assert_eq!(answer.status(), 200, "{answer:?}");
        *counts.entry(answer.text()).or_default() += 1;
    }
    counts
}

fn gets(node: &Steppe, count: usize) -> impl Iterator<Item = Message> {
    (0..count).map(|_| node.exchange(GET))
}

#[test]
fn round_robin_follows_the_weights_exactly() {
    let origins = ["a", "b"].map(named);
    let [heavy, light] = origins.each_ref().map(RawOrigin::address);
    let heavy = Section::new().set("address", heavy).set("weight", 3);
    let config = NodeConfig::plain().upstream("origin", |u| {
        u.servers([Setting::from(heavy), light.into()])
    });
    let node = Steppe::builder().start(&config);
    let counts = counts(gets(&node, 40));
    assert_eq!([counts["a"], counts["b"]], [30, 10]);
}

/// A count of `/upstreams` by server: `requests` since the start, or `active` ones under way.
fn of_servers(node: &Steppe, count: &str) -> Vec<u64> {
    let report = node.admin_json("/upstreams");
    let servers = report["upstreams"][0]["servers"].as_array();
    let servers = servers.expect("a list of servers").iter();
    let counts = servers.map(|server| server[count].as_u64());
    counts.map(|count| count.expect("a number")).collect()
}

#[test]
fn the_least_busy_server_is_asked() {
    // The first connection of `a` gets no response until the test is over.
    let stuck = RawOrigin::start(|peer| {
        while peer.request().is_some() {
            if peer.index == 0 {
                return peer.drain();
            }
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na");
        }
    });
    let origins = [stuck, named("b")];
    let node = node(&origins, |u| u.set("balance", "least-request"));
    // Of servers with equally many requests one is chosen at random: sooner or later `a` gets a
    // request, which stays there.
    let mut clients = Vec::new();
    while of_servers(&node, "active")[0] == 0 {
        assert!(clients.len() < 64, "`a` is never asked");
        let mut client = node.connect();
        client.send(GET);
        clients.push(client);
        eventually("it is with a server, and `b` has answered", || {
            let requests: u64 = of_servers(&node, "requests").iter().sum();
            requests == clients.len() as u64 && of_servers(&node, "active")[1] == 0
        });
    }
    let counts = counts((0..10).map(|_| {
        let answer = node.exchange(GET);
        eventually("`b` has none under way", || {
            of_servers(&node, "active")[1] == 0
        });
        answer
    }));
    assert_eq!(counts.get("b"), Some(&10), "{counts:?}");
}

#[test]
fn random_is_neither_in_turn_nor_one_sided() {
    let origins = ["a", "b"].map(named);
    let node = node(&origins, |u| u.set("balance", "random"));
    let turns: Vec<_> = gets(&node, 64).map(|answer| answer.text()).collect();
    let repeats = turns.windows(2).filter(|pair| pair[0] == pair[1]).count();
    // Either happens once in 2^40 runs or less.
    assert!(repeats > 5 && repeats < 58, "{turns:?}");
    assert_eq!(turns.iter().collect::<BTreeSet<_>>().len(), 2);
}

/// Every request of a kind goes to one server, and the kinds are spread over all.
fn is_hashed(kinds: usize, mut ask: impl FnMut(usize) -> Message) {
    let first: Vec<_> = (0..kinds).map(|kind| ask(kind).text()).collect();
    for _ in 0..2 {
        let again: Vec<_> = (0..kinds).map(|kind| ask(kind).text()).collect();
        assert_eq!(again, first);
    }
    let servers: BTreeSet<_> = first.iter().collect();
    assert_eq!(servers.len(), 3, "{first:?}");
}

fn hashing(on: &str) -> ([RawOrigin; 3], Steppe) {
    let origins = three();
    let node = node(&origins, |u| {
        u.set("balance", "ring-hash").set("hash_on", on)
    });
    (origins, node)
}

#[test]
fn what_has_the_same_field_goes_to_the_same_server() {
    let (_origins, node) = hashing("header:X-User");
    is_hashed(100, |user| {
        node.exchange(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nx-user: {user}\r\n\r\n"
        ))
    });
    let without = counts(gets(&node, 60));
    assert_eq!(without.len(), 3, "what has no such field goes anywhere");
}

#[test]
fn what_has_the_same_cookie_goes_to_the_same_server() {
    let (_origins, node) = hashing("cookie:user");
    is_hashed(100, |user| {
        node.exchange(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: theme={user}0; user={user}\r\n\r\n"
        ))
    });
}

#[test]
fn what_has_the_same_path_goes_to_the_same_server() {
    let (_origins, node) = hashing("path");
    let mut round = 0;
    is_hashed(100, |path| {
        round += 1;
        node.exchange(format!("GET /{path}?{round} HTTP/1.1\r\nHost: a\r\n\r\n"))
    });
}

#[test]
fn what_comes_from_the_same_client_goes_to_the_same_server() {
    let (_origins, node) = hashing("ip");
    is_hashed(100, |client| {
        let last = u8::try_from(client + 1).expect("a few");
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        Peer::connect_from(from, node.gateway())
            .send(GET)
            .response()
    });
}

fn with_cookie(node: &Steppe, cookie: &str) -> Message {
    node.exchange(format!(
        "GET / HTTP/1.1\r\nHost: a\r\nCookie: x=y; {cookie}\r\n\r\n"
    ))
}

/// The pair of `Set-Cookie`, which is sent back.
fn pair(answer: &Message) -> String {
    let line = answer.field("set-cookie").expect("a cookie is set");
    line.split(';').next().unwrap_or_default().to_owned()
}

#[test]
fn a_cookie_keeps_a_client_at_its_server() {
    let origins = three();
    let sticky = |u: Section| u.set("sticky.cookie", "server").set("sticky.ttl", "90m");
    let node = node(&origins, sticky);
    let first = node.exchange(GET);
    let line = first.field("set-cookie").expect("a cookie is set");
    assert!(line.starts_with("server="), "{line}");
    let attributes = "; Path=/; HttpOnly; SameSite=Lax; Max-Age=5400";
    assert!(line.ends_with(attributes), "{line}");
    // The value does not reveal the server: another node has another value for it.
    let other = self::node(&origins, sticky);
    let of_same = gets(&other, 9).find(|answer| answer.text() == first.text());
    assert_ne!(pair(&of_same.expect("each has its turn")), pair(&first));
    for _ in 0..9 {
        let answer = with_cookie(&node, &pair(&first));
        assert_eq!(answer.text(), first.text());
        assert_eq!(answer.field("set-cookie"), None, "the client has it");
    }
    let without = counts(gets(&node, 9));
    assert_eq!(without.len(), 3, "{without:?}");
}

/// RFC 6265bis §5.7: without `Secure` it would be sent without TLS, too.
#[test]
fn a_cookie_is_for_tls_alone_where_its_client_speaks_tls() {
    let origins = three();
    let config = NodeConfig::plain()
        .set("http.trusted_proxies", ["127.0.0.1/32"])
        .upstream("origin", |u| {
            u.servers(
                origins
                    .each_ref()
                    .map(|origin| origin.address().to_string()),
            )
            .set("sticky.cookie", "server")
        });
    let node = Steppe::builder().start(&config);
    for (proto, is_secure) in [("https", true), ("http", false), ("http, https", false)] {
        let get = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: {proto}\r\n\r\n");
        let answer = node.exchange(&get);
        let cookie = answer.field("set-cookie").expect("a cookie is set");
        assert_eq!(cookie.ends_with("; Secure"), is_secure, "{proto}: {cookie}");
    }
}

#[test]
fn a_cookie_whose_server_is_out_of_service_is_replaced() {
    let origins = three();
    let node = node(&origins, |u| u.set("sticky.cookie", "server"));
    let first = node.exchange(GET);
    let server = origins[usize::from(first.text().as_bytes()[0] - b'a')].address();
    let path = format!("/upstreams/origin/{server}/drain");
    let host = node.admin();
    let drain = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let answer = Peer::connect(node.admin()).send(drain).response_to("POST");
    assert_eq!(answer.status(), 200, "{answer:?}");
    let second = with_cookie(&node, &pair(&first));
    assert_ne!(second.text(), first.text());
    assert_ne!(pair(&second), pair(&first));
    let forged = with_cookie(&node, "server=0123456789abcdef");
    assert_ne!(pair(&forged), "server=0123456789abcdef");
    for _ in 0..4 {
        assert_eq!(with_cookie(&node, &pair(&second)).text(), second.text());
    }
}
