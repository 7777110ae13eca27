//! The responses that the store finds, and those that it evicts.

use std::time::{Duration, Instant};

use super::*;
use crate::cache::credentials::Credentials;
use crate::cache::testing::Rig;
use crate::cache::variant::Variant;
use crate::limits::CACHE_PASS_SECONDS;

#[test]
fn what_is_stored_is_found_by_its_uri_and_route() {
    let rig = Rig::new(1 << 20, 16 << 20);
    rig.store("/x?y", 100);
    assert!(rig.has("/x?y") && !rig.has("/x") && !rig.has("/y?y"));
    assert!(rig.find_on("other", "http", "/x?y").stored.is_none());
    assert!(rig.find_on("r", "https", "/x?y").stored.is_none());
}

#[test]
fn a_response_takes_the_place_of_the_one_that_was_selected_alike() {
    let rig = Rig::new(1 << 20, 16 << 20);
    rig.store("/x", 100);
    let first = rig.find("/x").stored.expect("it is stored");
    rig.store("/x", 200);
    let second = rig.find("/x").stored.expect("it is stored");
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!((second.content_bytes(), rig.store.len()), (Some(200), 1));
}

#[test]
fn variants_are_selected_by_what_vary_names() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let vary = [("vary", "x-a")];
    let with = |value: &str| {
        let mut head = rig.request("/x");
        head.fields.append(b"x-a", value.as_bytes()).expect("room");
        head
    };
    let store = |value: &str, content| {
        let mut stored = rig.made("/x", content, &vary).expect("there is room");
        let variant = Variant::of(
            &{
                let mut head = rig.request("/");
                head.fields.append(b"vary", b"x-a").expect("room");
                head.fields
            },
            &with(value).fields,
        );
        Arc::get_mut(&mut stored)
            .expect("nobody else has it")
            .variant = variant.expect("it is selected");
        rig.insert(stored);
    };
    store("1", 100);
    store("2", 200);
    let bytes = |value: &str| {
        let found = rig.find_for("r", "http", &with(value));
        found.stored.and_then(|stored| stored.content_bytes())
    };
    assert_eq!(
        (bytes("1"), bytes("2"), bytes("3")),
        (Some(100), Some(200), None)
    );
    for at in 0..CACHE_VARIANTS_MAX {
        store(&format!("more-{at}"), 10);
    }
    assert_eq!(rig.store.len(), CACHE_VARIANTS_MAX);
    assert_eq!(bytes("1"), None, "the oldest went");
}

#[test]
fn one_fetches_and_the_others_follow() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let (key, head) = (rig.find("/x").key, rig.request("/x"));
    let role = |joins: bool| {
        let asked = Presented {
            fields: &head.fields,
            credentials: Credentials::None,
        };
        rig.store.lead_or_follow(&key, asked, |_| joins)
    };
    let Role::Leader(first) = role(true) else {
        panic!("no request fetches it yet");
    };
    assert!(matches!(role(true), Role::Follower(other) if Arc::ptr_eq(&other, &first)));
    let Role::Leader(second) = role(false) else {
        panic!("it does not follow");
    };
    rig.store.end_fetch(&first, None);
    rig.store.end_fetch(&second, None);
    assert!(matches!(role(true), Role::Leader(_)));
}

#[test]
fn what_was_not_stored_is_let_pass_for_a_while() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let key = rig.find("/x").key;
    let now = Instant::now();
    let all = [
        Credentials::None,
        Credentials::Cookie,
        Credentials::Authenticated,
    ];
    let other_route = rig.find_on("q", "http", "/x").key;
    let other_uri = rig.find("/y").key;
    for credentials in all {
        let marks = &rig.store.hit_for_pass;
        let is_passed = |key: &_, now| marks.is_marked(key, credentials, now);
        assert!(!is_passed(&key, now), "{credentials:?}");
        marks.mark(&key, credentials, now);
        assert!(is_passed(&key, now), "{credentials:?}");
        assert!(!is_passed(&other_uri, now));
        assert!(!is_passed(&other_route, now));
        let later = now + Duration::from_secs(CACHE_PASS_SECONDS + 1);
        assert!(!is_passed(&key, later));
    }
}

#[test]
fn requests_with_other_credentials_do_not_follow() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let (key, head) = (rig.find("/x").key, rig.request("/x"));
    let leads = |credentials| {
        let asked = Presented {
            fields: &head.fields,
            credentials,
        };
        let role = rig.store.lead_or_follow(&key, asked, |_| true);
        matches!(role, Role::Leader(_))
    };
    let (none, cookie) = (Credentials::None, Credentials::Cookie);
    assert_eq!(
        [cookie, none, none, cookie].map(leads),
        [true, true, false, false]
    );
}

#[test]
fn an_unsafe_request_invalidates_on_every_route() {
    let rig = Rig::new(1 << 20, 16 << 20);
    rig.store("/x", 100);
    rig.store("/y", 100);
    rig.store("/z", 100);
    let base = rig.find("/x").key;
    rig.store.invalidate(&base, &[b"http://a.test/y".to_vec()]);
    assert!(!rig.has("/x") && !rig.has("/y") && rig.has("/z"));
    assert_eq!(rig.store.len(), 1);
}

#[test]
fn it_never_takes_more_than_its_bytes_and_gives_up_what_was_not_used() {
    let rig = Rig::new(1 << 20, 64 << 20);
    for at in 0..8 {
        rig.store(&format!("/kept/{at}"), 10_000);
        assert!(rig.hit(&format!("/kept/{at}")));
    }
    // A scan of what is asked for once, many times as large.
    for at in 0..1000 {
        rig.store(&format!("/scan/{at}"), 10_000);
        assert!(rig.store.account.reserved_bytes() <= 1 << 20);
        if at % 20 == 0 {
            (0..8).for_each(|at| {
                rig.hit(&format!("/kept/{at}"));
            });
        }
    }
    let kept = (0..8).filter(|at| rig.has(&format!("/kept/{at}"))).count();
    assert_eq!(kept, 8);
    assert!(rig.store.len() < 110);
}

#[test]
fn what_comes_back_after_it_went_stays_longer() {
    let rig = Rig::new(1 << 20, 64 << 20);
    rig.store("/back", 10_000);
    for at in 0..200 {
        rig.store(&format!("/scan/{at}"), 10_000);
    }
    assert!(!rig.has("/back"), "it was asked for once");
    rig.store("/back", 10_000);
    for at in 200..260 {
        rig.store(&format!("/scan/{at}"), 10_000);
    }
    assert!(rig.has("/back"), "it is known to come back");
}

#[test]
fn it_gives_way_before_anybody_is_refused() {
    let rig = Rig::new(32 << 20, 16 << 20);
    for at in 0..200 {
        if rig.made(&format!("/{at}"), 100_000, &[]).is_some() {
            rig.store(&format!("/{at}"), 100_000);
        }
    }
    let stored = rig.store.account.reserved_bytes();
    assert!(stored > 12 << 20, "{stored}");
    let other = rig.budget.root().child("other", None).lease();
    let needed = other.try_reserve(14 << 20);
    assert!(needed.is_ok(), "the cache has what is needed");
    assert!(rig.store.account.reserved_bytes() < 3 << 20);
    assert_eq!(rig.budget.report().refused, 0);
}

#[test]
fn who_waits_for_bytes_has_those_of_the_cache() {
    use std::task::{Context, Waker};
    let rig = Rig::new(32 << 20, 16 << 20);
    for at in 0..150 {
        rig.store(&format!("/{at}"), 100_000);
    }
    let other = rig.budget.root().child("other", None).lease();
    let mut waiter = steppe_mem::Waiter::default();
    let mut cx = Context::from_waker(Waker::noop());
    let reserved = other.poll_reserve(&mut cx, 12 << 20, &mut waiter);
    assert!(reserved.is_ready());
    drop(reserved);
    let room = steppe_mem::LeavingRoom {
        bytes: 4 << 20,
        leaving: 8 << 20,
    };
    let reserved = other.poll_reserve_leaving(&mut cx, room, &mut waiter);
    assert!(reserved.is_ready());
}

#[test]
fn a_part_of_the_budget_is_left_to_others() {
    let rig = Rig::new(32 << 20, 16 << 20);
    for at in 0..300 {
        rig.store.leave_room(50_000);
        rig.store(&format!("/{at}"), 50_000);
    }
    let left = rig.budget.root().headroom_bytes();
    assert!(left > 1 << 20, "{left}");
}

#[test]
fn what_is_forgotten_leaves_nothing_behind() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let before = rig.store.account.reserved_bytes();
    for at in 0..500 {
        rig.store(&format!("/{at}"), 100);
        let base = rig.find(&format!("/{at}")).key;
        rig.store.invalidate(&base, &[]);
    }
    assert_eq!(rig.store.len(), 0);
    assert_eq!(rig.store.account.reserved_bytes(), before);
    assert!(rig.store.shards.iter().all(|shard| lock(shard).is_empty()));
    let tags = [("cache-tag", "a, b"), ("surrogate-key", "c d")];
    let stored = rig.made("/tagged", 10, &tags).expect("there is room");
    rig.insert(stored);
    rig.store("/other", 10);
    let count = rig
        .store
        .forget_where(|key, _| key.uri.ends_with(b"tagged"));
    assert_eq!(
        (count, rig.has("/tagged"), rig.has("/other")),
        (1, false, true)
    );
}

/// Another worker may take a response out between its publication and its place in a queue.
#[test]
fn what_went_before_it_was_queued_is_in_no_queue() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let stored = rig.made("/x", 100, &[]).expect("there is room");
    let mut queues = Queues::default();
    queues.forget(&stored);
    queues.push(&stored);
    assert_eq!((queues.len(), queues.bytes()), (0, 0));
    let stored = rig.made("/y", 100, &[]).expect("there is room");
    queues.push(&stored);
    assert_eq!(queues.len(), 1);
    queues.forget(&stored);
    assert_eq!((queues.len(), queues.bytes()), (0, 0));
}

#[test]
fn nothing_goes_where_it_would_make_no_room() {
    let rig = Rig::new(1 << 20, 64 << 20);
    for at in 0..10 {
        let stored = rig.made(&format!("/{at}"), 1000, &[]).expect("room");
        rig.insert(stored);
    }
    assert!(!rig.store.is_full_of_readers());
    // As readers of what was replaced do.
    let read = rig.store.lease.try_reserve(512 << 10).expect("room");
    assert!(rig.store.is_full_of_readers());
    assert!(rig.store.lease.try_reserve(768 << 10).is_err());
    assert!((0..10).all(|at| rig.has(&format!("/{at}"))));
    drop(read);
    assert!(rig.store.lease.try_reserve(1 << 20).is_err());
    assert!(rig.store.lease.try_reserve(900 << 10).is_ok());
}
