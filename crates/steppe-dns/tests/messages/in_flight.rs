//! Questions in flight: coalescing of clients, and matching of datagrams with queries.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use steppe_dns::cache::Key;
use steppe_dns::in_flight::{
    AttemptId, Attempts, Case, Coalescer, Crowded, ExchangeId, Expired, Ignored, Join, Outgoing,
    Received, Sent, Sizes, Waiter,
};
use steppe_dns::limits::{
    ATTEMPTS_PER_SOCKET_MAX, COALESCER_SHARDS, MISMATCHES_PER_SOCKET_MAX, SUBNETS_PER_QUESTION_MAX,
    WAITERS_PER_QUESTION_MAX,
};
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::{Class, Question, Rtype, Subnet};

use crate::messages::{message, name};
use crate::questions::key;

fn waiter(token: u64) -> Waiter {
    Waiter {
        worker: u16::try_from(token % 4).expect("small"),
        token,
    }
}

fn completed(coalescer: &Coalescer, join: Join) -> Vec<u64> {
    let Join::Lead(ticket) = join else {
        panic!("{join:?} leads nothing");
    };
    let mut tokens = Vec::new();
    coalescer.complete(ticket, |waiter| tokens.push(waiter.token));
    tokens.sort_unstable();
    tokens
}

#[test]
fn identical_questions_are_asked_once() {
    let coalescer = Coalescer::new(1000, 10_000, SipKey([1, 2]));
    let (one, two) = (name("one.example"), name("two.example"));
    let lead = coalescer.join(&key(&one), waiter(0));
    for token in 1..50 {
        let upper = one.to_ascii_uppercase();
        assert_eq!(coalescer.join(&key(&upper), waiter(token)), Join::Wait);
    }
    let other = coalescer.join(&key(&two), waiter(50));
    let signed = Key {
        flags: Key::DNSSEC_OK,
        ..key(&one)
    };
    let with_do = coalescer.join(&signed, waiter(51));
    assert_eq!(coalescer.questions(), 3);
    assert_eq!(completed(&coalescer, lead), (0..50).collect::<Vec<_>>());
    assert_eq!(completed(&coalescer, other), [50]);
    assert_eq!(completed(&coalescer, with_do), [51]);
    assert_eq!(coalescer.questions(), 0);
    // A client after the answer leads a new question.
    let again = coalescer.join(&key(&one), waiter(7));
    assert_eq!(completed(&coalescer, again), [7]);
}

/// A refresh is for the cache alone: it takes no place of a client, however often it is due.
#[test]
fn a_question_that_no_client_waits_for_has_no_waiters() {
    let coalescer = Coalescer::new(1000, 1, SipKey([1, 2]));
    let one = name("one.example");
    let lead = coalescer.begin(&key(&one));
    for _ in 0..100 {
        assert_eq!(coalescer.begin(&key(&one)), Join::Wait);
    }
    assert_eq!(coalescer.join(&key(&one), waiter(7)), Join::Wait);
    assert_eq!(completed(&coalescer, lead), [7]);
}

#[test]
fn subnets_that_a_client_makes_up_send_few_queries() {
    let coalescer = Coalescer::new(1000, 10_000, SipKey([1, 2]));
    let one = name("one.example");
    let mut leads = Vec::new();
    let mut refused = 0;
    for index in 0..50 {
        let address = [10, 0, index, 0].into();
        let key = Key {
            subnet: Some(Subnet::of(address, 24)),
            ..key(&one)
        };
        match coalescer.join(&key, waiter(index.into())) {
            Join::Refused(crowded) => {
                assert_eq!(crowded, Crowded::Subnets);
                refused += 1;
            }
            join => leads.push(join),
        }
    }
    assert_eq!(leads.len(), SUBNETS_PER_QUESTION_MAX as usize);
    assert_eq!(refused, 50 - leads.len());
    leads
        .into_iter()
        .for_each(|lead| assert_eq!(completed(&coalescer, lead).len(), 1));
}

#[test]
fn what_has_no_room_is_refused_and_leaves_none_behind() {
    let one = name("one.example");
    let coalescer = Coalescer::new(1000, 100_000, SipKey([1, 2]));
    let lead = coalescer.join(&key(&one), waiter(0));
    let joins = (1..2000).map(|token| coalescer.join(&key(&one), waiter(token)));
    let refused = joins
        .filter(|join| *join == Join::Refused(Crowded::Waiters))
        .count();
    assert_eq!(refused, 2000 - WAITERS_PER_QUESTION_MAX as usize);
    completed(&coalescer, lead);
    // One question for each shard, and then two clients for each shard.
    for (questions, waiters) in [(1, 100_000), (1000, 1)] {
        let small = Coalescer::new(questions, waiters, SipKey([1, 2]));
        for _ in 0..3 {
            let names: Vec<_> = (0..200)
                .map(|index| name(&format!("n{index}.example")))
                .collect();
            let joins: Vec<_> = names
                .iter()
                .map(|name| small.join(&key(name), waiter(1)))
                .collect();
            let (leads, rest): (Vec<_>, Vec<_>) = joins
                .into_iter()
                .partition(|join| matches!(join, Join::Lead(_)));
            assert!(
                rest.iter()
                    .all(|join| *join == Join::Refused(Crowded::Full))
            );
            assert_eq!(
                (leads.len(), small.questions()),
                (COALESCER_SHARDS, COALESCER_SHARDS)
            );
            leads
                .into_iter()
                .for_each(|lead| assert_eq!(completed(&small, lead), [1]));
            assert_eq!(small.questions(), 0);
        }
    }
}

struct World {
    attempts: Attempts,
    start: Instant,
    random: u64,
}

const SIZES: Sizes = Sizes {
    exchanges: 8,
    attempts: 600,
    sockets: 4,
};

impl World {
    fn new() -> Self {
        let start = Instant::now();
        Self {
            attempts: Attempts::new(SIZES, start),
            start,
            random: 1,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn open(&mut self, qname: &str, due_ms: u64) -> Option<ExchangeId> {
        let qname = name(qname);
        let question = Question {
            qname: &qname,
            qtype: Rtype::A,
            qclass: Class::IN,
        };
        let due = self.at(due_ms);
        self.attempts.open(&question, 77, due)
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn send(&mut self, exchange: ExchangeId, server: u8, socket: u32, case: Case) -> Option<Sent> {
        let mut next = || {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            self.random ^ self.random >> 29
        };
        let random = [next(), next()];
        let deadline = self.at(100);
        let outgoing = Outgoing {
            server,
            socket,
            case,
            random,
            deadline,
        };
        self.attempts.send(exchange, &outgoing)
    }
}

/// The response to a query for this name, with the case of the query.
fn response(sent: &Sent, qname: &str) -> Vec<u8> {
    let mut bytes = message(sent.id, 0x8180, (qname, 1), [&[], &[], &[]]);
    let end = bytes.len() - 4;
    sent.case.apply(&mut bytes[12..end]);
    bytes
}

const QNAME: &str = "a-longer.name.example";

#[test]
fn a_response_has_all_that_its_query_had() {
    let mut world = World::new();
    let exchange = world.open(QNAME, 1000).expect("room");
    let sent = world.send(exchange, 3, 2, Case::Randomized).expect("room");
    let good = response(&sent, QNAME);
    let edit = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= byte;
        bytes
    };
    let last = good.len() - 1;
    for (what, bytes, expected) in [
        ("a query", edit(2, 0x80), Ignored::Malformed),
        ("a NOTIFY", edit(2, 0x20), Ignored::Malformed),
        ("half a message", good[..last].to_vec(), Ignored::Malformed),
        ("eleven bytes", good[..11].to_vec(), Ignored::Malformed),
        ("another id", edit(1, 1), Ignored::Id),
        ("another type", edit(last - 2, 2), Ignored::Question),
        ("another class", edit(last, 2), Ignored::Question),
        (
            "another name",
            response(&sent, "b-longer.name.example"),
            Ignored::Question,
        ),
    ] {
        let received = world.attempts.receive(2, &bytes);
        assert_eq!(received, Received::Ignored(expected), "{what}");
    }
    let on_another = world.attempts.receive(1, &good);
    assert_eq!(on_another, Received::Ignored(Ignored::Id), "another socket");
    // A difference in case only, in one letter.
    let cased = edit(13, 0x20);
    assert_eq!(
        world.attempts.receive(2, &cased),
        Received::CaseMismatch(sent.attempt)
    );
    // After all mismatches, the query still waits.
    let received = world.attempts.receive(2, &good);
    assert!(matches!(received, Received::Response(attempt, _) if attempt == sent.attempt));
    assert_eq!(world.attempts.attempt(sent.attempt), Some((exchange, 3)));
    world.attempts.close(exchange);
    assert_eq!(
        world.attempts.receive(2, &good),
        Received::Ignored(Ignored::Id),
        "too late"
    );
    assert_eq!(world.attempts.attempt(sent.attempt), None);
    assert_eq!(world.attempts.attempts_on(2), 0);
}

#[test]
fn the_same_id_on_another_socket_is_another_query() {
    let mut world = World::new();
    // With room for two attempts, hash chains are shared.
    world.attempts = Attempts::new(
        Sizes {
            attempts: 2,
            ..SIZES
        },
        world.start,
    );
    let exchange = world.open(QNAME, 1000).expect("room");
    let sent = world.send(exchange, 0, 0, Case::Randomized).expect("room");
    let good = response(&sent, QNAME);
    for socket in 1..4 {
        let received = world.attempts.receive(socket, &good);
        assert_eq!(received, Received::Ignored(Ignored::Id), "socket {socket}");
    }
    assert!(matches!(
        world.attempts.receive(0, &good),
        Received::Response(..)
    ));
}

#[test]
fn a_server_that_loses_case_is_trusted_without_it() {
    let mut world = World::new();
    let exchange = world.open("UPPER.example", 1000).expect("room");
    let sent = world.send(exchange, 0, 0, Case::Lower).expect("room");
    assert_eq!(
        world.attempts.question(exchange).expect("open").qname,
        name("upper.example")
    );
    let upper = response(&sent, "upper.example").to_ascii_uppercase();
    assert!(matches!(
        world.attempts.receive(0, &upper),
        Received::Response(..)
    ));
}

#[test]
fn a_flood_of_guesses_is_told_once() {
    let mut world = World::new();
    let exchange = world.open(QNAME, 1000).expect("room");
    let sent = world.send(exchange, 0, 0, Case::Randomized).expect("room");
    let mut forged = response(&sent, QNAME);
    let mut floods = Vec::new();
    for guess in 0..10_000_u32 {
        let id = u16::try_from(guess).expect("small");
        if id == sent.id {
            continue;
        }
        forged[..2].copy_from_slice(&id.to_be_bytes());
        match world.attempts.receive(0, &forged) {
            Received::Flood => floods.push(guess),
            received => assert_eq!(received, Received::Ignored(Ignored::Id)),
        }
    }
    assert_eq!(floods.len(), 1);
    assert!(floods[0] <= MISMATCHES_PER_SOCKET_MAX);
    assert_eq!(
        world.attempts.exchange(exchange).expect("open").pending,
        1,
        "still waiting"
    );
}

#[test]
fn ids_on_a_socket_differ_and_sockets_fill_up() {
    let mut world = World::new();
    let exchange = world.open(QNAME, 1000).expect("room");
    let mut ids = HashSet::new();
    for _ in 0..ATTEMPTS_PER_SOCKET_MAX {
        let sent = world.send(exchange, 1, 0, Case::Randomized).expect("room");
        assert!(ids.insert(sent.id), "an id twice");
    }
    assert_eq!(world.send(exchange, 1, 0, Case::Randomized), None);
    assert!(world.send(exchange, 1, 1, Case::Randomized).is_some());
    world.attempts.close(exchange);
    assert_eq!(
        (world.attempts.attempts_on(0), world.attempts.attempts_on(1)),
        (0, 0)
    );
    let again = world.open(QNAME, 1000).expect("room");
    assert!(world.send(again, 1, 0, Case::Randomized).is_some());
    assert_eq!(
        world.attempts.exchange(exchange),
        None,
        "an old number names nothing new"
    );
}

#[test]
fn exchanges_fill_up_and_come_back() {
    let mut world = World::new();
    let open: Vec<_> = (0..9).map(|_| world.open(QNAME, 1000)).collect();
    assert_eq!(open.iter().flatten().count(), 8);
    world.attempts.close(open[3].expect("open"));
    world.attempts.close(open[3].expect("open"));
    assert!(world.open(QNAME, 1000).is_some());
    assert!(world.open(QNAME, 1000).is_none());
}

#[test]
fn deadlines_end_attempts_and_wake_exchanges() {
    let mut world = World::new();
    let exchange = world.open(QNAME, 50).expect("room");
    for server in 0..3 {
        world
            .send(exchange, server, 0, Case::Randomized)
            .expect("room");
    }
    let expired = |world: &mut World, ms: u64| {
        let now = world.at(ms);
        let mut all = Vec::new();
        while let Some(expired) = world.attempts.pop_expired(now) {
            all.push(expired);
        }
        all
    };
    assert_eq!(expired(&mut world, 49), []);
    assert_eq!(expired(&mut world, 60), [Expired::Exchange(exchange)]);
    let due = world.at(80);
    world.attempts.set_due(exchange, due);
    assert_eq!(expired(&mut world, 90), [Expired::Exchange(exchange)]);
    let mut servers: Vec<u8> = expired(&mut world, 120)
        .into_iter()
        .map(|expired| match expired {
            Expired::Attempt(of, server) if of == exchange => server,
            other => panic!("{other:?}"),
        })
        .collect();
    servers.sort_unstable();
    assert_eq!(servers, [0, 1, 2]);
    let known = world.attempts.exchange(exchange).expect("still open");
    assert_eq!((known.token, known.asked, known.pending), (77, 0b111, 0));
}

proptest! {
    /// After any sequence of operations, exactly the attempts in flight are found by their ids.
    #[test]
    fn attempts_are_found_while_they_are_out(
        operations in prop::collection::vec((0..4_u8, any::<prop::sample::Index>(), 0..4_u32), 1..200),
    ) {
        let mut world = World::new();
        let mut exchanges: Vec<ExchangeId> = Vec::new();
        let mut out: Vec<(ExchangeId, AttemptId, u32, Vec<u8>)> = Vec::new();
        for (operation, which, socket) in operations {
            match operation {
                0 => exchanges.extend(world.open(QNAME, 1000)),
                1 if !exchanges.is_empty() => {
                    let exchange = *which.get(&exchanges);
                    if let Some(sent) = world.send(exchange, 1, socket, Case::Randomized) {
                        out.push((exchange, sent.attempt, socket, response(&sent, QNAME)));
                    }
                }
                2 if !out.is_empty() => {
                    let (_, attempt, _, _) = out.swap_remove(which.index(out.len()));
                    world.attempts.close_attempt(attempt);
                }
                3 if !exchanges.is_empty() => {
                    let exchange = exchanges.swap_remove(which.index(exchanges.len()));
                    world.attempts.close(exchange);
                    out.retain(|(of, ..)| *of != exchange);
                }
                _ => {}
            }
            let counts: usize = (0..4).map(|socket| usize::from(world.attempts.attempts_on(socket))).sum();
            prop_assert_eq!(counts, out.len());
        }
        for (exchange, attempt, socket, bytes) in &out {
            prop_assert_eq!(world.attempts.attempt(*attempt), Some((*exchange, 1)));
            let received = world.attempts.receive(*socket, bytes);
            prop_assert!(matches!(received, Received::Response(found, _) if found == *attempt));
        }
    }
}
