//! Times for which responses are cached, by each key that affects them, with the service on its sockets.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steppe_dns::config::{self, ServeStale, Stale};
use steppe_testkit::Port;

use crate::client::{Client, PATIENCE, answers, extended_error, forwarder, rcode};
use crate::messages::{Rr, message, soa};
use crate::node::Node;
use crate::server::{Asked, Server, answered};

const A: u16 = 1;
const SOA: u16 = 6;
const NXDOMAIN: u8 = 3;
const STALE_ANSWER: u16 = 3;
const STALE_NXDOMAIN: u16 = 19;

fn node(server: &Server, cache: config::Cache) -> (Node, Client) {
    node_within(2 * PATIENCE, server, cache)
}

/// A node with this timeout of its server.
fn node_within(timeout: Duration, server: &Server, cache: config::Cache) -> (Node, Client) {
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.cache = cache;
    config.upstreams[0].timeout = timeout;
    (Node::start(config, 1), Client::of(listen))
}

fn answering(ttl: u32) -> Server {
    Server::start(move |asked| vec![answered(&asked.bytes, 0, &[(A, ttl, &[192, 0, 2, 7])])])
}

/// An NXDOMAIN response that may be cached for `ttl` seconds.
fn denied(asked: &Asked, ttl: u32) -> Vec<u8> {
    let mut denial = answered(&asked.bytes, u16::from(NXDOMAIN), &[]);
    let authority = [Rr("example.org", SOA, ttl, soa(ttl))];
    let whole = message(0, 0, ("", A), [&[], &authority, &[]]);
    denial[8..10].copy_from_slice(&[0, 1]);
    denial.extend(&whole[12 + 1 + 4..]);
    denial
}

/// The TTL of a response's only record.
fn ttl(response: &[u8], owner_bytes: usize) -> u32 {
    let mut question_end = 12;
    while response[question_end] != 0 {
        question_end += 1 + usize::from(response[question_end]);
    }
    let at = question_end + 5 + owner_bytes + 4;
    u32::from_be_bytes(*response[at..].first_chunk().expect("a record"))
}

/// The TTLs that are possible for a record of `ttl` seconds that was cached after `since`.
fn aged(ttl: u32, since: Instant) -> RangeInclusive<u32> {
    let age = u32::try_from(since.elapsed().as_secs()).expect("a short test");
    // The boundary of a second may lie on either side.
    ttl.saturating_sub(age + 1)..=ttl
}

#[test]
fn min_ttl_keeps_what_a_server_would_have_forgotten_at_once() {
    let server = answering(0);
    let cache = config::Cache {
        min_ttl: Duration::from_secs(600),
        ..config::Cache::default()
    };
    let (_node, client) = node(&server, cache);
    let since = Instant::now();
    for _ in 0..3 {
        let response = client.ask_for("a.example.org");
        assert!(aged(600, since).contains(&ttl(&response, 2)));
    }
    assert_eq!(server.asked().len(), 1);
    // Without the minimum, each question is forwarded.
    let (_node, client) = self::node(&server, config::Cache::default());
    (0..3).for_each(|_| drop(client.ask_for("a.example.org")));
    assert_eq!(server.asked().len(), 4);
}

#[test]
fn max_ttl_and_negative_ttl_max_end_what_a_server_would_have_kept() {
    let server = Server::start(|asked| {
        let is_denied = asked.bytes[13..].to_ascii_lowercase().starts_with(b"no");
        vec![match is_denied {
            true => denied(asked, 86_400),
            false => answered(&asked.bytes, 0, &[(A, 86_400, &[192, 0, 2, 7])]),
        }]
    });
    let cache = config::Cache {
        max_ttl: Duration::from_secs(700),
        negative_ttl_max: Duration::from_secs(50),
        ..config::Cache::default()
    };
    let (_node, client) = node(&server, cache);
    let since = Instant::now();
    let response = client.ask_for("a.example.org");
    assert!(aged(700, since).contains(&ttl(&response, 2)));
    let response = client.ask_for("no.example.org");
    assert_eq!(rcode(&response), NXDOMAIN);
    assert!(
        aged(50, since).contains(&ttl(&response, 13)),
        "{}",
        ttl(&response, 13)
    );
    assert_eq!(rcode(&client.ask_for("no.example.org")), NXDOMAIN);
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn prefetch_asks_again_in_the_last_part_of_the_time_and_only_then() {
    let server = answering(60);
    let cache = config::Cache {
        prefetch_percent: 99,
        ..config::Cache::default()
    };
    let (node, client) = node(&server, cache);
    let end = Instant::now() + PATIENCE;
    while server.asked().len() < 2 {
        let response = client.ask_for("a.example.org");
        assert_eq!(answers(&response), 1);
        assert!(Instant::now() < end, "it is not refreshed");
    }
    assert_eq!(node.metric("steppe_dns_events_total{event=\"refresh\"}"), 1);
    drop(node);
    let server = answering(60);
    let (node, client) = self::node(&server, config::Cache::default());
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2500) {
        client.ask_for("a.example.org");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(node.metric("steppe_dns_events_total{event=\"refresh\"}"), 0);
}

/// Responses for two names, one of which is denied, after their expiry, while the server is silent.
fn after_the_end(stale: Option<Stale>) -> [Vec<u8>; 2] {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let server = Server::start(move |asked| {
        let is_denied = asked.bytes[13..].to_ascii_lowercase().starts_with(b"no");
        match (gone.load(Ordering::Acquire), is_denied) {
            (true, _) => Vec::new(),
            (false, true) => vec![denied(asked, 1)],
            (false, false) => vec![answered(&asked.bytes, 0, &[(A, 1, &[192, 0, 2, 7])])],
        }
    });
    let cache = config::Cache {
        serve_stale: stale.map(|only| ServeStale {
            up_to: Duration::from_secs(3600),
            after: Duration::from_millis(100),
            only,
        }),
        ..config::Cache::default()
    };
    let (_node, client) = node_within(Duration::from_secs(2), &server, cache);
    ["a.example.org", "no.example.org"].map(|name| {
        is_gone.store(false, Ordering::Release);
        client.ask_for(name);
        is_gone.store(true, Ordering::Release);
        // A fresh response has no extended error.
        let end = Instant::now() + PATIENCE;
        loop {
            let response = client.ask_for(name);
            if extended_error(&response).is_some() {
                return response;
            }
            assert!(Instant::now() < end, "its time does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

#[test]
fn serve_stale_serves_what_it_says_and_nothing_without_it() {
    let [answer, denial] = after_the_end(Some(Stale::Positive));
    assert_eq!(
        (answers(&answer), extended_error(&answer)),
        (1, Some(STALE_ANSWER))
    );
    assert_eq!(ttl(&answer, 2), 30);
    assert_eq!(rcode(&denial), 2);
    let [answer, denial] = after_the_end(Some(Stale::All));
    assert_eq!(
        (answers(&answer), extended_error(&answer)),
        (1, Some(STALE_ANSWER))
    );
    assert_eq!(
        (rcode(&denial), extended_error(&denial)),
        (NXDOMAIN, Some(STALE_NXDOMAIN))
    );
    let [answer, denial] = after_the_end(None);
    assert_eq!((rcode(&answer), rcode(&denial)), (2, 2));
}
