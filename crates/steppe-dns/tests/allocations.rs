//! What a query costs in allocations: none, on a hit and on a miss.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

#[path = "support/messages.rs"]
mod messages;
#[path = "support/questions.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod questions;

use std::alloc::System;
use std::hint::black_box;
use std::time::Instant;

use messages::{message, with_opt};
use questions::{key, made, nth};
use steppe_dns::cache::{Cache, Key, Kind, Lookup, NewEntry, ServePolicy};
use steppe_dns::limits::CACHED_BODY_BYTES_MAX;
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::{
    Asked, CaseBits, ClientQuery, Flags, Message, Padding, Reply, Response, Transport, TtlOffsets,
    UpstreamQuery, apply_policy,
};
use steppe_mem::alloc::{Counted, thread_allocations};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

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
    // More names than fit, so that insertions evict and move entries.
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

/// From a client's query to its response, if there is one in the cache.
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
        edns_flags: 0,
        subnet: None,
        cookie: None,
        padding: Padding::None,
    };
    query.write(1, CaseBits(0x5555), sent).expect("room");
}

/// From a server's response to an entry.
fn answer(cache: &Cache, key: &Key<'_>, bytes: &[u8], out: &mut [u8], now: Instant) {
    let asked = Asked {
        cname_depth: 8,
        is_dnssec_ok: false,
    };
    let message = Message::parse(bytes).expect("a response");
    let response = Response::read(message, asked).expect("of well formed names");
    let body = response.write_body(out).expect("room");
    let mut offsets = TtlOffsets::default();
    let lifetime = apply_policy(&mut out[..body.len], &questions::TTL, None, &mut offsets);
    let lifetime = lifetime.expect("a message").expect("with records");
    let entry = NewEntry {
        message: &out[..body.len.min(CACHED_BODY_BYTES_MAX)],
        authority_at: body.authority_at,
        ttl_offsets: offsets.as_slice(),
        kind: Kind::Positive,
        lifetime: lifetime.seconds(),
        age: 0,
    };
    cache.insert(key, &entry, &POLICY, now).expect("small");
    let failure = (steppe_dns::wire::Rcode::SERVFAIL, 22);
    cache
        .insert_failure(key, failure, &POLICY, now)
        .expect("a name");
}
