//! Allocations of a query in the protocol layer: none, on a hit and on a miss.

use std::hint::black_box;
use std::time::Instant;

use crate::messages::{message, with_opt};
use crate::questions::{TTL, key, made, nth};
use steppe_dns::cache::{Admission, Cache, Key, Lookup, ServePolicy, admit};
use steppe_dns::config::{Limits, RateOf, RuleRate};
use steppe_dns::in_flight::{Attempts, Case, Coalescer, Join, Outgoing, Received, Sizes, Waiter};
use steppe_dns::rate_limit::{RateLimiter, Verdict};
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::{
    Asked, CaseBits, ClientQuery, Flags, Message, Padding, Reply, Response, Transport,
    UpstreamQuery,
};
use steppe_mem::alloc::thread_allocations;

const POLICY: ServePolicy = ServePolicy {
    stale_positive: 1000,
    stale_negative: 0,
    prefetch_percent: 10,
};

fn allocations(run: impl FnOnce()) -> u64 {
    let before = thread_allocations();
    run();
    thread_allocations() - before
}

#[test]
fn a_hit_and_a_miss_allocate_nothing() {
    assert_eq!(
        allocations(|| drop(black_box(vec![1]))),
        1,
        "the counter counts"
    );
    let now = Instant::now();
    let cache = Cache::new(1 << 20, SipKey([1, 2]), now);
    let mut out = vec![0; 65_535];
    let mut sent = vec![0; 512];
    // More names than the cache holds, so that insertions evict and move entries.
    for number in 0..30_000 {
        let is_popular = number % 3 == 0;
        let (text, wire) = nth(number % if is_popular { 300 } else { 29_999 });
        let query = with_opt(
            message(7, 0x0100, (&text, 1), [&[], &[], &[]]),
            1232,
            0,
            &[],
        );
        let response = made(&text, 300, (number % 5 > 0).then_some([192, 0, 2, 1])).bytes;
        let counted = allocations(|| {
            let hit = serve(&cache, &query, &mut out, now);
            if !hit {
                ask(&query, &mut sent);
                answer(&cache, &key(&wire), &response, &mut out, now);
            }
        });
        assert_eq!(counted, 0, "query {number}");
    }
    let stats = cache.stats();
    assert!(stats.evictions > 1000 && stats.moves > 100, "{stats:?}");
}

/// Handles a client's query up to the response, if the cache has one.
fn serve(cache: &Cache, bytes: &[u8], out: &mut [u8], now: Instant) -> bool {
    let query = ClientQuery::parse(bytes).expect("a query");
    let question = query.question();
    match cache.lookup(&key(question.qname), &POLICY, now, out) {
        Lookup::Hit(hit) => {
            let reply = Reply::new(&query, Transport::Udp { payload_max: 1232 });
            reply.finish(out, hit.body).expect("room") > 0
        }
        _ => false,
    }
}

fn ask(bytes: &[u8], sent: &mut [u8]) {
    let query = UpstreamQuery {
        question: Message::parse(bytes).expect("a query").question(),
        flags: Flags(Flags::RD),
        edns_flags: Some(0),
        subnet: None,
        cookie: None,
        padding: Padding::None,
    };
    query.write(1, CaseBits(0x5555), sent).expect("room");
}

/// Handles a server's response up to the cache entry.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn answer(cache: &Cache, key: &Key<'_>, bytes: &[u8], out: &mut [u8], now: Instant) {
    let asked = Asked {
        cname_depth: 8,
        is_dnssec_ok: false,
    };
    let message = Message::parse(bytes).expect("a response");
    let response = Response::read(message, asked).expect("of well formed names");
    let admission = Admission {
        ttl: &TTL,
        serve: &POLICY,
        now,
    };
    admit(cache, key, &response, &admission, out).expect("room");
    let failure = (steppe_dns::wire::Rcode::SERVFAIL, 22);
    cache
        .insert_failure(key, failure, &POLICY, now)
        .expect("a name");
}

#[test]
fn a_question_in_flight_allocates_nothing_however_many_servers_it_goes_to() {
    assert_eq!(
        allocations(|| drop(black_box(vec![1]))),
        1,
        "the counter counts"
    );
    let now = Instant::now();
    let coalescer = Coalescer::new(64, 256, SipKey([1, 2]));
    let sizes = Sizes {
        exchanges: 64,
        attempts: 256,
        sockets: 64,
    };
    let mut attempts = Attempts::new(sizes, now);
    let (text, wire) = nth(1);
    let bytes = message(0, 0x8180, (&text, 1), [&[], &[], &[]]);
    let question = Message::parse(&bytes).expect("whole").question();
    let mut datagram = bytes.clone();
    for servers in [1, 4, 8, 16, 32] {
        let counted = allocations(|| {
            let waiter = Waiter {
                worker: 0,
                token: 1,
            };
            let Join::Lead(ticket) = coalescer.join(&key(&wire), waiter) else {
                panic!("nobody else asks");
            };
            assert_eq!(coalescer.join(&key(&wire), waiter), Join::Wait);
            let exchange = attempts.open(&question, 1, now).expect("room");
            for server in 0..servers {
                let outgoing = Outgoing {
                    server,
                    socket: server.into(),
                    case: Case::Lower,
                    random: [u64::from(server) << 48, 0],
                    deadline: now,
                };
                let sent = attempts.send(exchange, &outgoing).expect("room");
                datagram[..2].copy_from_slice(&sent.id.to_be_bytes());
            }
            let received = attempts.receive(u32::from(servers) - 1, &datagram);
            assert!(matches!(received, Received::Response(..)));
            attempts.close(exchange);
            let mut waiters = 0;
            coalescer.complete(ticket, |_| waiters += 1);
            assert_eq!(waiters, 2);
        });
        assert_eq!(counted, 0, "{servers} servers");
    }
}

#[test]
fn limits_allocate_nothing_however_many_networks_and_zones_there_are() {
    let now = Instant::now();
    let limiter = RateLimiter::new(SipKey([1, 2]), now);
    let limits = Limits {
        client_qps: std::num::NonZeroU32::new(5),
        unproven_bytes_per_s: std::num::NonZeroU32::new(1000),
        zone_misses_per_s: std::num::NonZeroU32::new(5),
        ..Limits::default()
    };
    let rate = RuleRate {
        queries_per_second: std::num::NonZeroU32::MIN,
        of: RateOf::Client,
    };
    let mut beyond = [0; 4];
    for number in 0..100_000_u32 {
        let client = std::net::Ipv4Addr::from_bits(number / 10 * 256).into();
        let name = format!("a{number}.zone{}.example", number / 10);
        let name = name.parse().expect("a name");
        let counted = allocations(|| {
            let verdicts = [
                limiter.query(client, &limits, now),
                limiter.response(client, 200, &limits, now),
            ];
            beyond[0] += u32::from(verdicts[0] == Verdict::Beyond);
            beyond[1] += u32::from(verdicts[1] == Verdict::Beyond);
            let of_rule = limiter.rule((number as usize / 10 % 1024, rate), client, now);
            beyond[3] += u32::from(of_rule == Verdict::Beyond);
            let (miss, _) = limiter.miss(&name, &limits, now);
            beyond[2] += u32::from(miss != steppe_dns::rate_limit::Miss::Within);
        });
        assert_eq!(counted, 0);
    }
    assert!(beyond.iter().all(|&count| count > 0), "{beyond:?}");
}
