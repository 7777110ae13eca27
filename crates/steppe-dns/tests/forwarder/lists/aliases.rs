//! Names with an alias to a name on a list.

use std::time::Duration;

use steppe_dns::config::{Action, Block, Forwarder, Rule, ServeStale, Stale};
use steppe_testkit::{Port, Scratch, eventually};

use super::{A, AAAA, BLOCKED, FORWARDED, blocks, got, list};
use crate::client::{Client, extended_error, forwarder, query, rcode};
use crate::messages::{Rr, message, name};
use crate::node::Node;
use crate::server::{Asked, Server};

const NXDOMAIN: u8 = 3;

/// Answers for `www.site.example` and similar names with an alias to a content network, which is an alias to a
/// tracker; `own.…` has an address.
fn cloaked(asked: &Asked) -> Vec<Vec<u8>> {
    let id = u16::from_be_bytes([asked.bytes[0], asked.bytes[1]]);
    let len = usize::from(asked.bytes[12]);
    let first = std::str::from_utf8(&asked.bytes[13..13 + len]).expect("ASCII");
    let qname = format!("{first}.site.example");
    let end = 12 + name(&qname).len();
    let qtype = u16::from_be_bytes([asked.bytes[end], asked.bytes[end + 1]]);
    let https = |priority, target: &[u8]| {
        let rdata = [&[0, priority], target].concat();
        vec![Rr(&qname, qtype, 60, rdata)]
    };
    let records = match &*first.to_ascii_lowercase() {
        "alias" => https(0, &name("x.tracker.example")),
        "service" => https(1, &name("x.tracker.example")),
        "short" => https(1, &[]),
        "own" if qtype != A => https(1, &name(".")),
        "own" => vec![Rr(&qname, A, 60, vec![192, 0, 2, 7])],
        _ => vec![
            Rr(&qname, 5, 60, name("edge.cdn.example")),
            Rr("edge.cdn.example", 5, 60, name("x.tracker.example")),
            Rr("x.tracker.example", A, 60, vec![192, 0, 2, 7]),
        ],
    };
    let mut response = message(id, 0x8180, (&qname, qtype), [&records, &[], &[]]);
    response[12..end].copy_from_slice(&asked.bytes[12..end]);
    vec![response]
}

/// A node whose first rule blocks the names on the list `trackers`.
fn started(scratch: &Scratch, change: impl FnOnce(&mut Forwarder)) -> (Node, Client, Server) {
    let (server, listen) = (Server::start(cloaked), Port::free().keep());
    let mut config = forwarder(listen, &[server.address]);
    let file = scratch.write("trackers.txt", "||tracker.example^\n");
    config.lists = vec![list("trackers", vec![file])];
    config.rules.insert(0, blocks(&[0], Block::NameError));
    change(&mut config);
    (Node::start(config, 2), Client::of(listen), server)
}

fn named(text: &str, action: Action) -> Rule {
    Rule {
        names: vec![text.parse().expect("a name")],
        ..Rule::new(action)
    }
}

#[test]
fn an_alias_that_leads_to_a_listed_name_is_blocked_and_counted() {
    let scratch = Scratch::new("aliases");
    let (node, client, server) = started(&scratch, |_| ());
    // First from the server, then from the cache.
    for round in 1..=2 {
        let response = client.ask(&query("www.site.example", A));
        assert_eq!(rcode(&response), NXDOMAIN, "{round}");
        assert_eq!(extended_error(&response), Some(15));
        let secret = b"\x07tracker";
        assert!(!response.windows(secret.len()).any(|bytes| bytes == secret));
        eventually("it is counted", || {
            node.metric("steppe_dns_list_hits_total{list=\"trackers\"}") == round
                && node.metric("steppe_dns_events_total{event=\"blocked\"}") == round
        });
    }
    assert_eq!(got(&client, "own.site.example"), FORWARDED);
    assert_eq!(server.asked_count(), 2);
}

#[test]
fn a_blocked_answer_is_refreshed_as_others_are() {
    let scratch = Scratch::new("aliases-stale");
    let (_node, client, server) = started(&scratch, |config| {
        config.cache.max_ttl = Duration::from_secs(1);
        config.cache.serve_stale = Some(ServeStale {
            up_to: Duration::from_secs(3600),
            after: Duration::ZERO,
            only: Stale::Positive,
        });
    });
    eventually("its server is asked again", || {
        assert_eq!(got(&client, "www.site.example"), BLOCKED);
        server.asked_count() >= 2
    });
}

#[test]
fn targets_of_https_records_are_aliases_too() {
    const HTTPS: u16 = 65;
    let scratch = Scratch::new("aliases-https");
    let (_node, client, _server) = started(&scratch, |_| ());
    for (name, expected) in [
        ("alias.site.example", NXDOMAIN),
        ("service.site.example", NXDOMAIN),
        ("own.site.example", 0),
        ("short.site.example", 0),
    ] {
        for _ in 0..2 {
            let response = client.ask(&query(name, HTTPS));
            assert_eq!(rcode(&response), expected, "{name}");
        }
    }
}

#[test]
fn rules_above_and_the_option_of_the_list_let_an_alias_pass() {
    let forward = || named("www.site.example", Action::Forward(0));
    let allowed = |scratch: &Scratch| scratch.write("allowed.txt", "x.tracker.example\n");
    type Change<'a> = &'a dyn Fn(&mut Forwarder, &Scratch);
    let cases: [(&str, Change<'_>, u8); 6] = [
        ("by default", &|_, _| (), NXDOMAIN),
        (
            "the option",
            &|config, _| config.lists[0].aliases = false,
            0,
        ),
        (
            "a rule above has the name",
            &|config, _| config.rules.insert(0, forward()),
            0,
        ),
        (
            "a rule below has the name",
            &|config, _| config.rules.insert(1, forward()),
            NXDOMAIN,
        ),
        (
            "a rule above has a list with the target",
            &|config, scratch| {
                config.lists.push(list("allowed", vec![allowed(scratch)]));
                let rule = Rule {
                    lists: [1].into_iter().collect(),
                    ..Rule::new(Action::Forward(0))
                };
                config.rules.insert(0, rule);
            },
            0,
        ),
        (
            "for another type",
            &|config, _| {
                config.rules[0].types = vec![steppe_dns::wire::Rtype(AAAA)];
            },
            0,
        ),
    ];
    for (what, change, expected) in cases {
        let scratch = Scratch::new("aliases-pass");
        let (_node, client, _server) = started(&scratch, |config| change(config, &scratch));
        for _ in 0..2 {
            let (rcode, ..) = got(&client, "www.site.example");
            assert_eq!(rcode, expected, "{what}");
        }
    }
}

#[test]
fn what_a_rule_rewrites_a_name_to_is_an_alias_as_others_are() {
    let scratch = Scratch::new("aliases-rewritten");
    let (_node, client, _server) = started(&scratch, |config| {
        let to = "www.site.example".parse().expect("a name");
        let rewrite = named("old.example", Action::Rewrite(Box::new(to)));
        config.rules.insert(0, rewrite);
        // The rewriting rule is above the blocking one, and decides about another name.
    });
    for _ in 0..2 {
        assert_eq!(got(&client, "old.example"), BLOCKED);
    }
}
