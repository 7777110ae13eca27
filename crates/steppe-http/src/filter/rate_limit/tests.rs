//! Tests of the rate limit: the requests that it refuses, the store that decides, and the response to a client.

use std::future::poll_fn;
use std::time::Duration;

use steppe_mem::Budget;
use steppe_testkit::eventually;

use super::store::tests::{FakeStore, Reply, run};
use super::*;
use crate::config::RateStore;
use crate::filter::testing::{Exchange, field, responded};

fn config(entries: usize) -> RateLimit {
    RateLimit {
        name: "limit".to_owned(),
        rate: Some(Rate {
            requests: 1,
            per: Duration::from_secs(1),
            burst: 1,
        }),
        concurrent: None,
        key: RateKey::Route,
        prefix: (32, 64),
        entries,
        store: None,
    }
}

#[test]
fn a_table_is_charged_and_shrinks_to_the_budget() {
    let budget = Budget::new(64 << 10);
    let filter = RateLimitFilter::new(config(65_536), budget.root());
    let rate = filter.rate.as_ref().expect("it has one");
    assert!(rate.buckets.slots.len() >= 1024);
    let bytes = rate.buckets.slots.len() * size_of::<BucketSlot>();
    assert!(budget.root().reserved_bytes() >= bytes as u64);
    assert_eq!(bytes.count_ones(), 1);
}

#[test]
fn networks_are_told_apart_by_their_leading_bits() {
    let of = |text: &str, (v4, v6)| network(text.parse().expect("an address"), v4, v6);
    assert_eq!(of("10.1.2.3", (24, 64)), of("10.1.2.200", (24, 64)));
    assert_ne!(of("10.1.2.3", (24, 64)), of("10.1.3.3", (24, 64)));
    assert_eq!(of("10.1.2.3", (0, 0)), of("200.1.3.3", (0, 0)));
    assert_eq!(of("::ffff:10.1.2.3", (32, 64)), of("10.1.2.3", (32, 64)));
    assert_eq!(
        of("2001:db8::1", (32, 64)),
        of("2001:db8::9:a:b:c", (32, 64))
    );
    assert_ne!(of("2001:db8::1", (32, 64)), of("2001:db8:0:1::1", (32, 64)));
}

#[test]
fn a_key_of_the_store_tells_nothing_and_tells_keys_apart() {
    let text = |key: &BucketKey<'_>| key.text("f");
    let value = |text: &'static str| BucketKey::Value(Some(Cow::Borrowed(text.as_bytes())));
    assert!(!text(&value("secret")).contains("secret"));
    assert_eq!(text(&value("a")), text(&value("a")));
    assert_eq!(text(&value("a")).len(), "steppe:limit:f:".len() + 32);
    let keys = [
        value("a"),
        value(""),
        BucketKey::Value(None),
        BucketKey::Network(4, 1),
        BucketKey::Network(6, 1),
    ];
    let texts: std::collections::BTreeSet<_> = keys.iter().map(text).collect();
    assert_eq!(texts.len(), 5);
}

fn filter(config: RateLimit) -> RateLimitFilter {
    RateLimitFilter::new(config, Budget::new(1 << 20).root())
}

/// The filter's step for a request of the route.
fn step(filter: &RateLimitFilter, exchange: &Exchange) -> Step {
    exchange.begin(filter, &mut exchange.head("/", &[]))
}

#[test]
fn requests_pass_as_fast_as_their_bucket_fills() {
    let filter = filter(config(64));
    let mut exchange = Exchange::new();
    let start = exchange.now;
    assert!(matches!(step(&filter, &exchange), Step::Continue));
    for (nanos, wait) in [(0, "1"), (999_999_999, "1")] {
        exchange.now = start + Duration::from_nanos(nanos);
        let respond = responded(step(&filter, &exchange));
        assert_eq!(respond.status, 429);
        assert_eq!(field(&respond, "retry-after"), Some(wait));
        let policy = field(&respond, "ratelimit-policy");
        assert_eq!(policy, Some("\"limit\";q=1;w=1"));
        assert_eq!(field(&respond, "ratelimit"), Some("\"limit\";r=0;t=1"));
        assert_eq!(field(&respond, "content-type"), Some("text/plain"));
        assert_eq!(respond.body, b"too many requests\n");
    }
    exchange.now = start + Duration::from_secs(1);
    assert!(matches!(step(&filter, &exchange), Step::Continue));
    assert!(filter.limits().is_none(), "it decides alone");
}

#[test]
fn requests_hold_their_place_until_they_are_over() {
    let filter = filter(RateLimit {
        rate: None,
        concurrent: Some(1),
        ..config(64)
    });
    let exchange = Exchange::new();
    let first = step(&filter, &exchange);
    let Step::Attach(first) = first else {
        panic!("{first:?}");
    };
    assert_eq!(format!("{first:?}"), "Limited { asked: false }");
    let respond = responded(step(&filter, &exchange));
    assert_eq!(respond.status, 429);
    assert_eq!(field(&respond, "retry-after"), Some("1"));
    let policy = field(&respond, "ratelimit-policy");
    assert_eq!(policy, Some("\"limit\";q=1;qu=\"concurrent-requests\""));
    assert_eq!(field(&respond, "ratelimit"), Some("\"limit\";r=0;t=1"));
    drop(first);
    assert!(matches!(step(&filter, &exchange), Step::Attach(_)));
}

#[test]
fn names_that_no_string_of_a_field_has_are_left_out() {
    for name in ["limit", "a b", "~!", ""] {
        assert_eq!(plain(name), name);
    }
    for name in ["a\"b", "a\\", "caf\u{e9}", "a\nb", "\u{7f}"] {
        assert_eq!(plain(name), "limit", "{name:?}");
    }
}

#[test]
fn a_store_decides_while_it_is_there_and_the_node_while_it_is_away() {
    use Reply::{Close, Number};
    let store = FakeStore::start(&[Number(0), Number(1_500_000), Close, Number(0)]);
    let filter = filter(RateLimit {
        store: RateStore::parse(&store.url()),
        ..config(64)
    });
    assert!(format!("{filter:?}").starts_with("RateLimitFilter(RateLimit {"));
    let exchange = Exchange::new();
    let counts = filter.limits().expect("it shares its limit");
    let is_there = || counts.is_store_there.load(Ordering::Relaxed);
    let decided = || {
        let (shared, local) = (&counts.shared, &counts.local);
        (
            shared.load(Ordering::Relaxed),
            local.load(Ordering::Relaxed),
        )
    };
    // What becomes of a request that the store is asked about.
    let asked = || {
        eventually("the store is there", is_there);
        let mut head = exchange.head("/", &[]);
        let waits = exchange.begin(&filter, &mut head);
        let Step::Attach(mut waits) = waits else {
            panic!("{waits:?}");
        };
        run(async {
            let ready = poll_fn(|cx| waits.poll_ready(cx, &mut head)).await;
            ready.expect("no failure")
        })
    };
    assert!(matches!(asked(), Ready::Continue));
    let Ready::Respond(respond) = asked() else {
        panic!("it passes");
    };
    assert_eq!(respond.status, 429);
    assert_eq!(field(&respond, "retry-after"), Some("2"));
    assert_eq!(decided(), (2, 0));
    // Its connection is cut: the node's own bucket is still full.
    assert!(matches!(asked(), Ready::Continue));
    assert_eq!(decided(), (2, 1));
    // Over another connection, it decides again.
    assert!(matches!(asked(), Ready::Continue));
    assert_eq!(decided(), (3, 1));
    assert_eq!(store.connections(), 2);
}
