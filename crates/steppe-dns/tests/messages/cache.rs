//! The cache: hits and their times, eviction, and restored snapshots.

use std::collections::HashMap;
use std::time::Instant;

use proptest::prelude::*;
use steppe_dns::cache::{
    Admission, Cache, Failure, Flush, Freshness, Key, Kind, Lookup, NotCached, Refresh,
    ServePolicy, admit,
};
use steppe_dns::limits::{
    CACHED_BODY_BYTES_MAX, FAILURE_SECONDS_MAX, FAILURE_SECONDS_MIN, STALE_RECHECK_SECONDS,
};
use steppe_dns::siphash::SipKey;
use steppe_dns::wire::{Asked, Message, Rcode, Response, Rtype, Subnet};

use crate::messages::{Rr, message};
use crate::questions::{TTL, key, made, nth};
use crate::world::{SOME, STALE, STRICT, World};

#[test]
fn an_answer_ages_and_ends() {
    let mut world = World::new(1 << 20);
    world.put(1, 300, SOME, 0);
    for (seconds, ttl) in [
        (0, Some(300)),
        (1, Some(299)),
        (299, Some(1)),
        (300, None),
        (301, None),
    ] {
        let hit = world.hit(1, &STRICT, seconds);
        assert_eq!(hit.map(|hit| world.ttl(&hit)), ttl, "after {seconds} s");
    }
    assert_eq!(world.get(2, &STRICT, 0), Lookup::Miss);
}

#[test]
fn a_denial_is_forgotten_when_its_soa_says_so() {
    let mut world = World::new(1 << 20);
    world.put(1, 7, None, 0);
    let hit = world.hit(1, &STALE, 6).expect("still there");
    assert_eq!((hit.kind, world.ttl(&hit)), (Kind::Negative, 1));
    // Here, stale responses are served for positive entries only.
    assert_eq!(world.get(1, &STALE, 8), Lookup::Miss);
}

#[test]
fn what_an_answer_depends_on_tells_it_apart() {
    let world = World::new(1 << 20);
    let (text, wire) = nth(1);
    let made = made(&text, 300, SOME);
    let plain = key(&wire);
    let subnet = |prefix| Some(Subnet::of("10.1.2.3".parse().expect("an address"), prefix));
    let signed = Key {
        flags: Key::DNSSEC_OK,
        ..plain
    };
    let other = [
        Key { view: 1, ..plain },
        Key {
            flags: Key::CHECKING_DISABLED,
            ..plain
        },
        Key { flags: 3, ..plain },
        Key {
            subnet: subnet(24),
            ..plain
        },
        Key {
            subnet: subnet(16),
            ..plain
        },
        Key {
            qtype: Rtype::AAAA,
            ..plain
        },
    ];
    for kept in [plain, signed] {
        world
            .cache
            .insert(&kept, &made.entry(), &STRICT, world.start)
            .expect("small");
    }
    let mut out = vec![0; CACHED_BODY_BYTES_MAX];
    let mut look = |key: &Key<'_>| world.cache.lookup(key, &STRICT, world.start, &mut out);
    assert!(matches!(look(&plain), Lookup::Hit(_)) && matches!(look(&signed), Lookup::Hit(_)));
    let upper = wire.to_ascii_uppercase();
    assert!(
        matches!(look(&key(&upper)), Lookup::Hit(_)),
        "case is no difference"
    );
    for key in &other {
        assert_eq!(look(key), Lookup::Miss, "{key:?}");
    }
    let subnetted = other[3];
    world
        .cache
        .insert(&subnetted, &made.entry(), &STRICT, world.start)
        .expect("small");
    let mut look = |key: &Key<'_>| world.cache.lookup(key, &STRICT, world.start, &mut out);
    assert!(matches!(look(&subnetted), Lookup::Hit(_)));
    assert_eq!(look(&other[4]), Lookup::Miss);
}

#[test]
fn a_stale_answer_waits_for_servers_and_is_then_served_at_once() {
    let mut world = World::new(1 << 20);
    world.put(1, 10, SOME, 0);
    let hit = world.hit(1, &STALE, 11).expect("stale");
    assert_eq!(
        (hit.freshness, hit.refresh, world.ttl(&hit)),
        (Freshness::Stale, Refresh::Due, 30)
    );
    assert_eq!(world.get(1, &STRICT, 11), Lookup::Miss, "not if not wanted");
    world.fail(1, 12);
    let refresh =
        |world: &mut World, seconds| world.hit(1, &STALE, seconds).expect("stale").refresh;
    assert_eq!(refresh(&mut world, 13), Refresh::NotDue);
    let recheck = 12 + u64::from(STALE_RECHECK_SECONDS);
    assert_eq!(refresh(&mut world, recheck - 1), Refresh::NotDue);
    assert_eq!(refresh(&mut world, recheck), Refresh::Due);
    // Servers have recovered: the question is forwarded before the failure expires.
    world.fail(1, recheck);
    assert_eq!(refresh(&mut world, recheck + 2), Refresh::NotDue);
    world.cache.void_failures(world.at(recheck + 1));
    assert_eq!(refresh(&mut world, recheck + 2), Refresh::Due);
    assert_eq!(world.get(1, &STALE, 1010), Lookup::Miss);
}

#[test]
fn failures_are_remembered_longer_each_time() {
    let mut world = World::new(1 << 20);
    let failure = |lookup| match lookup {
        Lookup::Failure(Failure {
            rcode,
            extended_error,
            seconds_left,
        }) => {
            assert_eq!((rcode, extended_error), (Rcode::SERVFAIL, 22));
            Some(seconds_left)
        }
        _ => None,
    };
    let mut now = 0_u32;
    for expected in [1, 2, 4, 8, 16, 32, 64, 128].map(|times| times * FAILURE_SECONDS_MIN) {
        let expected = expected.min(FAILURE_SECONDS_MAX);
        world.fail(1, now.into());
        assert_eq!(failure(world.get(1, &STALE, now.into())), Some(expected));
        now += expected;
        assert_eq!(failure(world.get(1, &STALE, u64::from(now) - 1)), Some(1));
        assert_eq!(world.get(1, &STALE, now.into()), Lookup::Miss);
    }
    // After a long time it is a first failure again; and none after servers have recovered.
    now += 2 * FAILURE_SECONDS_MAX;
    world.fail(1, now.into());
    assert_eq!(
        failure(world.get(1, &STALE, now.into())),
        Some(FAILURE_SECONDS_MIN)
    );
    world.cache.void_failures(world.at(now.into()));
    assert_eq!(world.get(1, &STALE, now.into()), Lookup::Miss);
    // An answer replaces a failure.
    world.fail(2, now.into());
    world.put(2, 300, SOME, now.into());
    assert!(world.hit(2, &STALE, now.into()).is_some());
}

#[test]
fn answers_in_use_are_refreshed_once_before_they_end() {
    let mut world = World::new(1 << 20);
    let policy = ServePolicy {
        prefetch_percent: 10,
        ..STRICT
    };
    world.put(1, 100, SOME, 0);
    let mut refresh = |seconds| world.hit(1, &policy, seconds).expect("fresh").refresh;
    // Two hits before the last tenth of the TTL, then one within it.
    assert_eq!([refresh(0), refresh(89), refresh(89)], [Refresh::NotDue; 3]);
    assert_eq!(refresh(90), Refresh::Due);
    assert_eq!([refresh(90), refresh(94)], [Refresh::NotDue; 2]);
    assert_eq!(refresh(95), Refresh::Due);
    // An entry without hits is left to expire.
    world.put(2, 100, SOME, 0);
    assert_eq!(
        world.hit(2, &policy, 95).expect("fresh").refresh,
        Refresh::NotDue
    );
}

#[test]
fn entries_are_flushed_by_name_and_suffix() {
    let mut world = World::new(1 << 20);
    (0..50).for_each(|number| world.put(number, 300, SOME, 0));
    world.put(50, 300, None, 0);
    let name = |text: &str| text.parse().expect("a name");
    assert_eq!(world.cache.flush(&Flush::Name(name("N7.example"))), 1);
    assert_eq!(world.cache.flush(&Flush::Name(name("example"))), 0);
    assert_eq!(world.cache.flush(&Flush::Suffix(name("n8.example"))), 1);
    assert_eq!(
        (world.get(7, &STRICT, 0), world.get(8, &STRICT, 0)),
        (Lookup::Miss, Lookup::Miss)
    );
    assert!(world.hit(9, &STRICT, 0).is_some());
    assert_eq!(world.cache.stats().entries, 49);
    assert_eq!(world.cache.flush(&Flush::Suffix(name("Example"))), 49);
    (0..9).for_each(|number| world.put(number, 300, SOME, 0));
    assert_eq!(world.cache.flush(&Flush::All), 9);
    assert_eq!(world.cache.stats().entries, 0);
    world.put(1, 300, SOME, 0);
    assert!(world.hit(1, &STRICT, 0).is_some());
}

#[test]
fn a_scan_leaves_what_is_in_use() {
    let mut world = World::new(1 << 20);
    (0..500).for_each(|number| world.put(number, 3600, SOME, 0));
    for _ in 0..3 {
        (0..500).for_each(|number| assert!(world.hit(number, &STRICT, 0).is_some()));
    }
    // Forty times the capacity of the cache, each requested once.
    for number in 1000..400_000 {
        world.put(number, 3600, SOME, 0);
    }
    let kept = (0..500)
        .filter(|number| world.hit(*number, &STRICT, 0).is_some())
        .count();
    assert!(kept >= 495, "{kept} of 500");
    let stats = world.cache.stats();
    assert!(stats.evictions > 300_000 && stats.used_bytes <= 1 << 20);
}

#[test]
fn a_flood_of_names_that_do_not_exist_evicts_its_own_kind() {
    let mut world = World::new(1 << 20);
    // As many answers as probation alone holds, none of them requested again.
    (0..500).for_each(|number| world.put(number, 3600, SOME, 0));
    (1000..100_000).for_each(|number| world.put(number, 3600, None, 0));
    (100_000..200_000).for_each(|number| world.fail(number, 0));
    let kept = (0..500)
        .filter(|number| world.hit(*number, &STRICT, 0).is_some())
        .count();
    assert!(kept >= 495, "{kept} of 500");
}

#[test]
fn who_comes_back_soon_stays() {
    let mut world = World::new(1 << 20);
    (100_000..115_000).for_each(|number| world.put(number, 3600, SOME, 0));
    world.put(200_000, 3600, SOME, 0);
    // Enough to push it out of probation, a tenth of the cache.
    (300_000..302_000).for_each(|number| world.put(number, 3600, SOME, 0));
    assert_eq!(world.get(200_000, &STRICT, 0), Lookup::Miss);
    world.put(200_000, 3600, SOME, 0);
    (400_000..403_000).for_each(|number| world.put(number, 3600, SOME, 0));
    assert!(
        world.hit(200_000, &STRICT, 0).is_some(),
        "its ghost took it to where entries stay"
    );
}

#[test]
fn who_is_asked_for_twice_stays() {
    let mut world = World::new(1 << 20);
    (100_000..115_000).for_each(|number| world.put(number, 3600, SOME, 0));
    world.put(200_000, 3600, SOME, 0);
    world.put(200_001, 3600, SOME, 0);
    assert!((0..2).all(|_| world.hit(200_000, &STRICT, 0).is_some()));
    assert!(world.hit(200_001, &STRICT, 0).is_some());
    (300_000..302_000).for_each(|number| world.put(number, 3600, SOME, 0));
    assert!(world.hit(200_000, &STRICT, 0).is_some());
    assert!(
        world.hit(200_001, &STRICT, 0).is_none(),
        "once is not enough"
    );
}

#[test]
fn the_cache_takes_the_bytes_that_it_was_given() {
    for bytes in [1 << 20, 16 << 20, 100 << 20] {
        let cache = Cache::new(bytes, SipKey([1, 2]), Instant::now());
        let taken = cache.bytes();
        assert!(
            taken <= bytes && taken > bytes - bytes / 50,
            "{taken} of {bytes}"
        );
    }
}

#[test]
fn what_can_not_be_kept_is_refused() {
    let world = World::new(1 << 20);
    let (text, wire) = nth(1);
    let small = made(&text, 300, SOME);
    let other = nth(2).1;
    let refused = world
        .cache
        .insert(&key(&other), &small.entry(), &STRICT, world.start);
    assert_eq!(refused, Err(NotCached::OtherQuestion));
    let large = message(
        0,
        0x8180,
        (&text, 1),
        [&[Rr(&text, 16, 300, vec![0; 17_000])], &[], &[]],
    );
    let mut entry = small.entry();
    entry.message = &large;
    let refused = world
        .cache
        .insert(&key(&wire), &entry, &STRICT, world.start);
    assert_eq!(refused, Err(NotCached::TooLarge));
}

#[test]
fn a_response_is_kept_if_it_says_for_how_long() {
    let mut world = World::new(1 << 20);
    let (text, wire) = nth(1);
    let a = || Rr(&text, 1, 300, vec![192, 0, 2, 1]);
    let alias = || Rr(&text, 5, 300, crate::messages::name("web.example.net"));
    let soa = |owner| Rr(owner, 6, 3600, crate::messages::soa(7));
    let ns = || Rr("example", 2, 3600, crate::messages::name("ns.example"));
    let asked = Asked {
        cname_depth: 8,
        is_dnssec_ok: false,
    };
    let mut kept = |flags, answers: &[Rr<'_>], authorities: &[Rr<'_>]| {
        world.cache.flush(&Flush::All);
        let bytes = message(9, flags, (&text, 1), [answers, authorities, &[]]);
        let response = Response::read(Message::parse(&bytes).expect("whole"), asked);
        let now = world.start;
        let admission = Admission {
            ttl: &TTL,
            serve: &STRICT,
            now,
        };
        let response = response.expect("plain");
        let body = admit(
            &world.cache,
            &key(&wire),
            &response,
            &admission,
            &mut world.out,
        );
        Message::parse(&world.out[..body.expect("room").len]).expect("to be passed on");
        world
            .hit(1, &STRICT, 0)
            .map(|hit| (hit.kind, world.ttl(&hit)))
    };
    assert_eq!(kept(0x8180, &[a()], &[]), Some((Kind::Positive, 300)));
    assert_eq!(
        kept(0x8183, &[], &[soa("example")]),
        Some((Kind::Negative, 7))
    );
    assert_eq!(
        kept(0x8180, &[], &[soa("example")]),
        Some((Kind::Negative, 7))
    );
    assert_eq!(
        kept(0x8183, &[alias()], &[soa("example.net")]),
        Some((Kind::Negative, 7))
    );
    assert_eq!(
        kept(0x8180, &[alias()], &[]),
        None,
        "an alias to nothing, without an SOA"
    );
    assert_eq!(kept(0x8183, &[], &[]), None);
    assert_eq!(
        kept(0x8183, &[], &[soa("example.org")]),
        None,
        "the SOA of another zone"
    );
    assert_eq!(kept(0x8180, &[], &[ns()]), None, "a referral");
    assert_eq!(kept(0x8182, &[], &[]), None, "SERVFAIL");
    assert_eq!(kept(0x8380, &[a()], &[]), None, "truncated");
}

/// An operation on the cache.
#[derive(Debug, Clone)]
enum Operation {
    Put(usize, u32),
    Deny(usize, u32),
    Fail(usize),
    Look(usize),
    Wait(u64),
    Flush(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = 0..40_usize;
    prop_oneof![
        3 => (name.clone(), 1..60_u32).prop_map(|(name, ttl)| Operation::Put(name, ttl)),
        1 => (name.clone(), 1..60_u32).prop_map(|(name, ttl)| Operation::Deny(name, ttl)),
        1 => name.clone().prop_map(Operation::Fail),
        6 => name.clone().prop_map(Operation::Look),
        1 => (1..20_u64).prop_map(Operation::Wait),
        1 => name.prop_map(Operation::Flush),
    ]
}

proptest! {
    /// Compares the cache with an unbounded model: a cache with enough room has the entries of the model, with
    /// the same ages.
    #[test]
    fn the_cache_serves_what_a_map_would(operations in prop::collection::vec(operation(), 1..300)) {
        let mut world = World::new(1 << 20);
        let mut model: HashMap<usize, (u64, u32, bool)> = HashMap::new();
        let mut now = 0;
        for operation in operations {
            let is_live = |(at, ttl, _): &(u64, u32, bool)| now < at + u64::from(*ttl);
            match operation {
                Operation::Put(number, ttl) => {
                    world.put(number, ttl, SOME, now);
                    model.insert(number, (now, ttl, true));
                }
                Operation::Deny(number, ttl) => {
                    world.put(number, ttl, None, now);
                    model.insert(number, (now, ttl, false));
                }
                Operation::Fail(number) => {
                    world.fail(number, now);
                    // An entry that may still be served stays; a positive one for 1,000 seconds longer.
                    let stays = |entry: &(u64, u32, bool)| is_live(entry) || entry.2 && now < entry.0 + u64::from(entry.1) + 1000;
                    if !model.get(&number).is_some_and(stays) {
                        model.remove(&number);
                    }
                }
                Operation::Look(number) => {
                    let expected = model.get(&number).filter(|entry| is_live(entry));
                    let hit = world.hit(number, &STRICT, now);
                    let found = hit.map(|hit| (world.ttl(&hit), hit.kind == Kind::Positive));
                    let expected = expected.map(|(at, ttl, is_positive)| {
                        (ttl - u32::try_from(now - at).unwrap_or(0), *is_positive)
                    });
                    prop_assert_eq!(found, expected);
                }
                Operation::Wait(seconds) => now += seconds,
                Operation::Flush(number) => {
                    let flushed = format!("n{number}.example").parse().unwrap();
                    world.cache.flush(&Flush::Name(flushed));
                    model.remove(&number);
                }
            }
        }
    }
}

#[test]
fn workers_share_it() {
    let cache = Cache::new(1 << 20, SipKey([3, 5]), Instant::now());
    let now = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let cache = &cache;
            scope.spawn(move || {
                let mut out = vec![0; CACHED_BODY_BYTES_MAX];
                for round in 0..20_000_usize {
                    let number = (round * 7 + worker) % 5000;
                    let (text, wire) = nth(number);
                    let address = u32::try_from(number).expect("small").to_be_bytes();
                    match cache.lookup(&key(&wire), &STRICT, now, &mut out) {
                        Lookup::Hit(hit) => assert!(out[..hit.body.len].ends_with(&address)),
                        _ => {
                            let made = made(&text, 300, Some(address));
                            cache
                                .insert(&key(&wire), &made.entry(), &STRICT, now)
                                .expect("small");
                        }
                    }
                }
            });
        }
    });
}
