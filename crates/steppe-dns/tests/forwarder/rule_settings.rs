//! Settings of rules beside their actions, with the service on its sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steppe_dns::config::{Action, CacheBounds, CachePolicy, Rule, ServeStale, Stale, StalePolicy};
use steppe_testkit::Port;

use crate::client::{Client, PATIENCE, answers, extended_error, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Server, answered};

const A: u16 = 1;
const SERVFAIL: u8 = 2;
const STALE_ANSWER: u16 = 3;
const CACHED_ERROR: u16 = 13;

fn answering(ttl: u32) -> Server {
    Server::start(move |asked| vec![answered(&asked.bytes, 0, &[(A, ttl, &[192, 0, 2, 7])])])
}

/// A rule without an action for a name and all names below it.
fn of(suffix: &str, change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::without_action();
    rule.suffixes = vec![suffix.parse().expect("a name")];
    change(&mut rule);
    rule
}

fn kept(change: impl FnOnce(&mut CacheBounds)) -> Option<CachePolicy> {
    let mut bounds = CacheBounds::default();
    change(&mut bounds);
    Some(CachePolicy::Kept(bounds))
}

/// A forwarder with these rules before the one that forwards everything.
fn started(server: &Server, rules: impl IntoIterator<Item = Rule>) -> (Node, Client) {
    started_within(2 * PATIENCE, server, rules)
}

/// A forwarder with this timeout of its server.
fn started_within(
    timeout: Duration,
    server: &Server,
    rules: impl IntoIterator<Item = Rule>,
) -> (Node, Client) {
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    config.rules.splice(..0, rules);
    config.upstreams[0].timeout = timeout;
    (Node::start(config, 1), Client::of(listen))
}

/// The TTL of the first record, whose owner is a pointer to the question.
fn ttl(response: &[u8], name: &str) -> u32 {
    let at = 12 + name.len() + 2 + 4 + 2 + 4;
    u32::from_be_bytes(*response[at..].first_chunk().expect("a record"))
}

#[test]
fn what_a_rule_has_not_kept_is_asked_for_each_time() {
    let server = answering(3600);
    let (_node, client) = started(
        &server,
        [of("dyn.example", |it| it.cache = Some(CachePolicy::Off))],
    );
    for name in ["a.dyn.example", "a.dyn.example", "a.example", "a.example"] {
        let response = client.ask_for(name);
        assert_eq!((answers(&response), ttl(&response, name)), (1, 3600));
    }
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn a_failure_is_remembered_all_the_same() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, SERVFAIL.into(), &[])]);
    let rule = of("dyn.example", |it| it.cache = Some(CachePolicy::Off));
    let (_node, client) = started(&server, [rule]);
    assert_eq!(rcode(&client.ask_for("a.dyn.example")), SERVFAIL);
    let asked = server.asked().len();
    let again = client.ask_for("a.dyn.example");
    assert_eq!(
        (rcode(&again), extended_error(&again)),
        (SERVFAIL, Some(CACHED_ERROR))
    );
    assert_eq!(server.asked().len(), asked);
}

#[test]
fn a_rule_bounds_how_long_responses_are_kept() {
    let server = answering(3600);
    let (_node, client) = started(
        &server,
        [
            of("short.example", |it| {
                it.cache = kept(|it| it.max_ttl = Some(Duration::from_secs(10)));
            }),
            // The first rule with the setting decides.
            of("example", |it| {
                it.cache = kept(|it| it.min_ttl = Some(Duration::from_secs(7200)));
            }),
        ],
    );
    for (name, least, most) in [
        ("a.short.example", 1, 10),
        ("a.example", 7190, 7200),
        ("a.test.org", 3590, 3600),
    ] {
        for _ in 0..2 {
            let response = client.ask_for(name);
            let ttl = ttl(&response, name);
            assert!((least..=most).contains(&ttl), "{name}: {ttl}");
        }
    }
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn clients_whose_rules_differ_have_no_answers_of_each_other() {
    let server = answering(3600);
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[server.address]);
    let of_one = Rule {
        clients: vec!["127.0.0.2/32".parse().expect("a network")],
        cache: kept(|it| it.max_ttl = Some(Duration::from_secs(10))),
        ..Rule::new(Action::Forward(0))
    };
    config.rules.insert(0, of_one);
    let _node = Node::start(config, 1);
    let from = |address: &str| {
        let client = Client::from_to(address.parse().expect("an address"), listen);
        ttl(&client.ask_for("a.example"), "a.example")
    };
    assert!(from("127.0.0.1") > 3000);
    assert!(from("127.0.0.2") <= 10);
    assert!(from("127.0.0.1") > 3000);
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_rule_says_whether_responses_are_served_past_their_time() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let server = Server::start(move |asked| match gone.load(Ordering::Acquire) {
        true => Vec::new(),
        false => vec![answered(&asked.bytes, 0, &[(A, 1, &[192, 0, 2, 7])])],
    });
    let stale = ServeStale {
        up_to: Duration::from_secs(3600),
        after: Duration::from_millis(100),
        only: Stale::Positive,
    };
    let rule = of("stale.example", |it| {
        it.cache = kept(|it| it.serve_stale = Some(StalePolicy::Served(stale)));
    });
    let (_node, client) = started_within(Duration::from_secs(2), &server, [rule]);
    let names = ["a.stale.example", "a.example"];
    for name in names {
        assert_eq!(answers(&client.ask_for(name)), 1);
    }
    is_gone.store(true, Ordering::Release);
    let [stale, gone] = names.map(|name| {
        let end = Instant::now() + PATIENCE;
        loop {
            let response = client.ask_for(name);
            if extended_error(&response).is_some() {
                return response;
            }
            assert!(Instant::now() < end, "its time does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(
        (answers(&stale), extended_error(&stale)),
        (1, Some(STALE_ANSWER))
    );
    assert_eq!(rcode(&gone), SERVFAIL);
}

#[test]
fn a_rule_for_a_name_counts_for_what_it_is_rewritten_to() {
    let server = answering(3600);
    let rewrite = Action::Rewrite(Box::new("new.example".parse().expect("a name")));
    let (_node, client) = started(
        &server,
        [
            of("old.example", |it| it.cache = Some(CachePolicy::Off)),
            of("old.example", |it| it.action = Some(rewrite)),
        ],
    );
    for _ in 0..2 {
        assert_eq!(answers(&client.ask(&query("old.example", A))), 2);
    }
    assert_eq!(server.asked().len(), 2);
    for _ in 0..2 {
        client.ask_for("new.example");
    }
    assert_eq!(server.asked().len(), 3);
}
