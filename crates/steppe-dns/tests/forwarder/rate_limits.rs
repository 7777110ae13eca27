//! Rate limits of clients and zones, with the service on its sockets and two workers.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use steppe_dns::config::{Action, Block, Limits, RateOf, Rule, RuleRate};
use steppe_dns::rate_limit::{Looks, Miss, RateLimiter, Report, Verdict};
use steppe_dns::siphash::SipKey;
use steppe_testkit::{Peer, Port};

use crate::client::{Client, PATIENCE, answers, extended_error, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Server, answered};
use crate::streams::ask;

const A: u16 = 1;
const TXT: u16 = 16;
const ANY: u16 = 255;
const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;
const CACHED_ERROR: u16 = 13;
const PROHIBITED: u16 = 18;

fn per_second(rate: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(rate)
}

/// Time without a response after which no more is expected.
const SILENCE: Duration = Duration::from_secs(1);

/// A flood from one address, by so many sockets that both workers get queries.
struct Flood {
    sockets: Vec<UdpSocket>,
    /// Start of the flood.
    start: Instant,
    sent: u64,
}

impl Flood {
    fn from(address: &str, server: SocketAddr) -> Self {
        let socket = |_| {
            let socket = UdpSocket::bind((address, 0)).expect("loopback");
            socket.connect(server).expect("is set");
            socket
        };
        Self {
            sockets: (0..16).map(socket).collect(),
            start: Instant::now(),
            sent: 0,
        }
    }

    /// Sends all queries, as fast as `node` reads them, and waits until it has read them.
    fn send(&mut self, node: &Node, queries: &[Vec<u8>]) {
        let series = "steppe_dns_queries_total{transport=\"udp\"}";
        let before = node.metric(series);
        for ((number, query), socket) in (1_u64..).zip(queries).zip(self.sockets.iter().cycle()) {
            socket.send(query).expect("is sent");
            while number % 64 == 0 && node.metric(series) < before + number - 32 {
                std::thread::yield_now();
            }
        }
        self.sent += queries.len() as u64;
        let end = Instant::now() + PATIENCE;
        while node.metric(series) < before + queries.len() as u64 {
            assert!(Instant::now() < end, "not all are read");
            std::thread::yield_now();
        }
    }

    /// Upper bound of the queries that a rate lets pass until now, with races between two workers.
    fn allowed(&self, per_second: u32) -> u64 {
        // The initial burst of one second, and the second that has begun.
        let seconds = 2 + self.start.elapsed().as_secs();
        seconds * u64::from(per_second) + self.sent / 50
    }

    /// Receives at least `least` responses, and further ones until none comes any more.
    fn responses(&self, least: usize) -> Vec<Vec<u8>> {
        self.block(false);
        let mut responses = Vec::new();
        let mut last = Instant::now();
        loop {
            let came = responses.len();
            for socket in &self.sockets {
                let mut room = [0; 4096];
                while let Ok(len) = socket.recv(&mut room) {
                    responses.push(room[..len].to_vec());
                }
            }
            if responses.len() > came {
                last = Instant::now();
            }
            let silence = if responses.len() < least {
                PATIENCE
            } else {
                SILENCE
            };
            if last.elapsed() > silence {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.block(true);
        responses
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn block(&self, blocks: bool) {
        for socket in &self.sockets {
            socket.set_nonblocking(!blocks).expect("is set");
        }
    }
}

/// The refusal of a query on a connection. Some queries before it may pass, as the rate
/// permits.
#[track_caller]
fn refused(peer: &mut Peer, query: &[u8]) -> Vec<u8> {
    let mut responses = (0..100).map(|_| ask(peer, query));
    let refused = responses.find(|response| rcode(response) == REFUSED);
    refused.expect("not all of a hundred pass")
}

fn limited(node: &Node, limit: &str) -> u64 {
    node.metric(&format!("steppe_dns_limited_total{{limit=\"{limit}\"}}"))
}

#[test]
fn measured_a_network_that_asks_too_often_is_dropped_and_others_are_not() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 60, &[7; 4])])]);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.limits.client_qps = per_second(5);
    let node = Node::start(config, 2);
    let mut flood = Flood::from("127.0.0.1", listen);
    let queries = vec![query("localhost", A); 1000];
    flood.send(&node, &queries);
    let allowed = flood.allowed(5);
    let answered = flood.responses(5).len() as u64;
    assert!((5..=allowed).contains(&answered), "{answered} of {allowed}");
    assert_eq!(limited(&node, "client_qps"), 1000 - answered);
    // The same network; a client of it on a connection would wait.
    flood.send(&node, &queries);
    refused(&mut Peer::connect(listen), &queries[0]);
    let mut other = Flood::from("127.0.1.1", listen);
    other.send(&node, &queries[..5]);
    assert_eq!(other.responses(5).len(), 5);
}

/// A server with a response of a kilobyte for every query.
fn large() -> Server {
    let text = [&[250; 251][..]; 4].concat();
    Server::start(move |asked| vec![answered(&asked.bytes, 0, &[(TXT, 3600, &text)])])
}

#[test]
fn measured_a_network_that_may_not_have_asked_gets_few_bytes() {
    let (server, listen) = (large(), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    config.limits.unproven_bytes_per_s = per_second(8 << 10);
    let node = Node::start(config, 2);
    let queries = [query("a.example.org", TXT), query("b.example.org", ANY)];
    // From another network, to fill the cache.
    let mut other = Flood::from("127.0.3.1", listen);
    other.send(&node, &queries);
    assert_eq!(other.responses(2).len(), 2);
    let mut flood = Flood::from("127.0.0.1", listen);
    flood.send(&node, &vec![queries.clone(); 1000].concat());
    let allowed = flood.allowed(8 << 10);
    let responses = flood.responses(7);
    let (short, whole): (Vec<_>, Vec<_>) = responses.iter().partition(|each| each[2] & 2 != 0);
    let bytes: usize = whole.iter().map(|each| each.len()).sum();
    assert!(whole.len() >= 7, "{} are whole", whole.len());
    assert!(bytes as u64 <= allowed, "{bytes} of {allowed} bytes");
    assert!(short.iter().all(|each| each.len() <= queries[0].len()));
    assert!(short.iter().all(|each| answers(each) == 0 && each[11] == 1));
    // Some responses slip through truncated, the others are dropped.
    let beyond = limited(&node, "unproven_bytes");
    assert_eq!(beyond, 2000 - whole.len() as u64);
    let share = short.len() as u64 * 100 / beyond;
    assert!((35..=65).contains(&share), "{share} % are truncated");
    // Another network is served, and so is this one after it has proven its address.
    other.send(&node, &queries);
    assert!(other.responses(2).iter().all(|each| answers(each) == 1));
    assert_eq!(answers(&ask(&mut Peer::connect(listen), &queries[0])), 1);
    flood.send(&node, &vec![queries.clone(); 100].concat());
    let responses = flood.responses(200);
    assert_eq!(responses.len(), 200);
    assert!(responses.iter().all(|each| answers(each) == 1));
}

#[test]
fn measured_a_flood_of_random_subdomains_is_asked_of_no_server_and_harms_no_other_zone() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[7; 4])])]);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.limits.zone_misses_per_s = per_second(20);
    let node = Node::start(config, 2);
    let client = Client::of(listen);
    assert_eq!(answers(&client.ask_for("known.flood.co.uk")), 1);
    let mut flood = Flood::from("127.0.0.1", listen);
    let name = |number: usize| format!("a{number:x}.b{}.flood.co.uk", number * 7);
    let queries: Vec<_> = (0..2000).map(|number| query(&name(number), A)).collect();
    flood.send(&node, &queries);
    let allowed = flood.allowed(20);
    let responses = flood.responses(2000);
    assert_eq!(responses.len(), 2000, "each has a response");
    let failed = responses.iter().filter(|each| rcode(each) == SERVFAIL);
    assert!(
        failed
            .clone()
            .all(|each| extended_error(each) == Some(CACHED_ERROR))
    );
    let failed = failed.count() as u64;
    assert!(
        failed >= 2000 - allowed,
        "{failed} failed, {allowed} allowed"
    );
    let asked = server.asked().len() as u64;
    assert!((20..=allowed + 1).contains(&asked), "{asked} were asked");
    assert_eq!(limited(&node, "zone_misses"), failed);
    // Cached names are answered, and so are other zones, even below the same registry.
    assert_eq!(answers(&client.ask_for("known.flood.co.uk")), 1);
    assert_eq!(answers(&client.ask_for("www.other.co.uk")), 1);
    assert_eq!(answers(&client.ask_for("flood.co")), 1);
}

#[test]
fn measured_data_in_names_is_counted_and_limited_and_plain_names_of_the_zone_are_not() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[7; 4])])]);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.limits.zone_misses_per_s = per_second(50);
    let node = Node::start(config, 2);
    let mut tunnel = Flood::from("127.0.0.1", listen);
    let name = |number: u64| {
        let data = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let more = data.wrapping_mul(0xd6e8_feb8_6659_fd93);
        format!("{data:016x}{more:016x}{:016x}.t.example", data ^ more >> 3)
    };
    let queries: Vec<_> = (1..=500).map(|number| query(&name(number), A)).collect();
    tunnel.send(&node, &queries);
    let encoded = node.metric("steppe_dns_events_total{event=\"encoded\"}");
    assert!(encoded > 450, "{encoded} look like data");
    // A tenth of the zone's rate.
    let allowed = tunnel.allowed(5) + (500 - encoded);
    let beyond = limited(&node, "tunnel");
    assert!(
        beyond >= 500 - allowed,
        "{beyond} beyond, {allowed} allowed"
    );
    assert_eq!(answers(&Client::of(listen).ask_for("www.t.example")), 1);
}

#[test]
fn without_limits_nothing_is_limited() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[7; 4])])]);
    let listen = Port::free().keep();
    let node = Node::start(forwarder(listen, &[server.address]), 2);
    let mut flood = Flood::from("127.0.0.1", listen);
    let name = |number: usize| format!("a{number:x}.flood.example");
    let queries: Vec<_> = (0..500).map(|number| query(&name(number), A)).collect();
    flood.send(&node, &queries);
    let responses = flood.responses(500);
    assert_eq!(responses.len(), 500);
    assert!(responses.iter().all(|each| answers(each) == 1));
}

/// A rule that limits the rate of queries for a name.
fn limiting(name: &str, queries_per_second: u32, of: RateOf) -> Rule {
    let queries_per_second = per_second(queries_per_second).expect("not 0");
    Rule {
        suffixes: vec![name.parse().expect("a name")],
        rate: Some(RuleRate {
            queries_per_second,
            of,
        }),
        ..Rule::without_action()
    }
}

#[test]
fn measured_a_rule_limits_the_queries_that_it_is_for_and_no_others() {
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[]);
    // No server, so that no query waits for one.
    config.upstreams.clear();
    config.rules = vec![
        limiting("each.example", 5, RateOf::Client),
        limiting("all.example", 5, RateOf::All),
        // The first rule with the setting decides.
        limiting("each.example", 1, RateOf::All),
        Rule::new(Action::Block(Block::NoData)),
    ];
    let node = Node::start(config, 2);
    let mut dropped = 0;
    for (name, is_shared) in [("a.each.example", false), ("b.all.example", true)] {
        let queries = vec![query(name, A); 500];
        let mut flood = Flood::from("127.0.0.1", listen);
        flood.send(&node, &queries);
        let allowed = flood.allowed(5);
        let answered = flood.responses(5).len() as u64;
        assert!(
            (5..=allowed).contains(&answered),
            "{name}: {answered} of {allowed}"
        );
        dropped += 500 - answered;
        assert_eq!(limited(&node, "rule"), dropped);
        // Another network has its own share, or, for a shared rate, what is left of it.
        flood.send(&node, &queries);
        let mut other = Flood::from("127.0.1.1", listen);
        other.send(&node, &queries[..5]);
        let of_other = other.responses(if is_shared { 0 } else { 5 }).len();
        assert_eq!(of_other == 5, !is_shared, "{name}: {of_other}");
        // A client on a connection would wait.
        flood.send(&node, &queries);
        let refused = refused(&mut Peer::connect(listen), &queries[0]);
        assert_eq!(extended_error(&refused), Some(PROHIBITED));
        dropped = limited(&node, "rule");
    }
    let mut others = Flood::from("127.0.0.1", listen);
    others.send(&node, &vec![query("c.example", A); 500]);
    assert_eq!(others.responses(500).len(), 500);
}

#[test]
fn a_zone_is_reported_once_and_others_few_at_a_time() {
    let start = Instant::now();
    let limiter = RateLimiter::new(SipKey([3, 5]), start);
    let limits = Limits {
        zone_misses_per_s: per_second(1),
        ..Limits::default()
    };
    let miss = |name: &str, seconds: u64| {
        let name = name.parse().expect("a name");
        limiter
            .miss(&name, &limits, start + Duration::from_secs(seconds))
            .0
    };
    assert_eq!(miss("a.example.org", 0), Miss::Within);
    assert_eq!(miss("b.EXAMPLE.org", 0), Miss::Flood(Report::Due));
    assert_eq!(miss("c.example.org", 0), Miss::Flood(Report::NotDue));
    assert_eq!(miss("a.example.org", 1), Miss::Within);
    assert_eq!(miss("b.example.org", 1), Miss::Flood(Report::NotDue));
    let due = (0..100).filter(|number| {
        let name = format!("a.zone{number}.org");
        miss(&name, 1);
        miss(&name, 1) == Miss::Flood(Report::Due)
    });
    assert_eq!(due.count(), 5);
}

#[test]
fn networks_are_24_and_56_bits_long() {
    let start = Instant::now();
    let limits = Limits {
        client_qps: per_second(1),
        ..Limits::default()
    };
    for (first, same, other) in [
        ("192.0.2.1", "192.0.2.200", "192.0.3.1"),
        ("2001:db8::1", "2001:db8:0:ff::1", "2001:db8:0:100::1"),
    ] {
        let limiter = RateLimiter::new(SipKey([3, 5]), start);
        let ask = |client: &str| limiter.query(client.parse().expect("an address"), &limits, start);
        assert_eq!(ask(first), Verdict::Within);
        assert_eq!(ask(same), Verdict::Beyond);
        assert_eq!(ask(other), Verdict::Within);
    }
    let name = "a.example".parse().expect("a name");
    let limiter = RateLimiter::new(SipKey([3, 5]), start);
    let unlimited = limiter.miss(&name, &Limits::default(), start);
    assert_eq!(unlimited, (Miss::Within, Looks::Plain));
}
