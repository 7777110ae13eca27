//! Limits of a tree of accounts, and that reserved bytes come back.

use std::thread;

use super::*;
use crate::Budget;
use crate::limits::DRAW_BYTES;

const MIB: u64 = 1 << 20;

#[test]
fn a_reservation_is_seen_in_every_account_above_and_given_back() {
    let budget = Budget::new(MIB);
    let listener = budget.root().child("listener", None);
    let route = listener.child("route", Some(MIB / 2));
    let held = route.lease().try_reserve(1000).expect("there is room");
    assert_eq!(route.reserved_bytes(), 1000);
    assert_eq!(listener.reserved_bytes(), 1000);
    assert_eq!(budget.root().reserved_bytes(), 1000);
    drop(held);
    assert_eq!(budget.root().reserved_bytes(), 0);
    assert_eq!(
        budget.root().0.drawn_bytes.load(Ordering::SeqCst),
        0,
        "the lease is gone too"
    );
}

#[test]
fn the_limit_of_each_level_holds() {
    let budget = Budget::new(MIB);
    let small = budget.root().child("small", Some(300_000)).lease();
    let large = budget.root().child("large", None).lease();
    let held = small.try_reserve(300_000).expect("just its limit");
    assert_eq!(small.try_reserve(1).err(), Some(OverBudget { bytes: 1 }));
    let rest = MIB - 300_000;
    let _rest = large
        .try_reserve(usize::try_from(rest).expect("64 bits"))
        .expect("the rest");
    assert!(large.try_reserve(1).is_err());
    drop(held);
    assert!(large.try_reserve(300_000).is_ok());
    assert_eq!(budget.report().refused, 2);
    assert_eq!(budget.report().peak_bytes, MIB);
}

#[test]
fn free_chunks_of_other_workers_are_reclaimed_before_a_refusal() {
    let budget = Budget::new(2 * DRAW_BYTES);
    let account = budget.root().child("bodies", None);
    let (first, second) = (account.lease(), account.lease());
    let a = first.try_reserve(1).expect("draws a chunk");
    let b = second.try_reserve(1).expect("draws the other");
    let most = usize::try_from(2 * DRAW_BYTES - 2).expect("small");
    let c = second.try_reserve(most).expect("reclaims what lies free");
    assert!(first.try_reserve(1).is_err(), "every byte is in use");
    drop((a, b, c));
    assert_eq!(budget.root().reserved_bytes(), 0);
}

#[test]
fn many_threads_never_exceed_the_limit_and_leave_nothing_behind() {
    let budget = Budget::new(MIB);
    let account = budget.root().child("bodies", None);
    thread::scope(|scope| {
        for worker in 0..4usize {
            let (lease, budget) = (account.lease(), &budget);
            scope.spawn(move || {
                let mut held = std::collections::VecDeque::new();
                for round in 0..20_000usize {
                    held.extend(lease.try_reserve(1 + (round * 7919 + worker) % 50_000).ok());
                    if held.len() > 40 {
                        held.pop_front();
                    }
                    assert!(budget.root().0.drawn_bytes.load(Ordering::SeqCst) <= MIB);
                }
            });
        }
    });
    assert_eq!(budget.root().0.drawn_bytes.load(Ordering::SeqCst), 0);
    assert!(
        budget.report().refused > 0,
        "the test must press against the limit"
    );
}

#[test]
fn shrinking_and_growing_keep_the_account_exact() {
    let budget = Budget::new(MIB);
    let lease = budget.root().child("queue", None).lease();
    let mut held = lease.try_reserve(100).expect("room");
    held.try_grow(50).expect("room");
    held.shrink(120);
    assert_eq!((held.bytes(), budget.root().reserved_bytes()), (30, 30));
    assert!(held.try_grow(usize::try_from(MIB).expect("small")).is_err());
    assert_eq!(held.bytes(), 30);
    let split = held.split(10);
    assert_eq!((held.bytes(), split.bytes()), (20, 10));
    assert_eq!(budget.root().reserved_bytes(), 30);
    held.join(split);
    assert_eq!((held.bytes(), budget.root().reserved_bytes()), (30, 30));
    drop(held.split(30));
    assert_eq!((held.bytes(), budget.root().reserved_bytes()), (0, 0));
}

/// A cache that gives up its memory a piece at a time.
#[derive(Debug)]
struct Kept(std::sync::Mutex<Vec<Reservation>>);

impl Evict for Kept {
    fn evict(&self, bytes: u64) -> u64 {
        let mut evicted = 0;
        while evicted < bytes {
            let Some(piece) = lock(&self.0).pop() else {
                break;
            };
            evicted += piece.bytes() as u64;
        }
        evicted
    }
}

/// An account with so many evictable bytes, and the cache that holds them.
fn keeping(budget: &Budget, bytes: usize) -> (Account, Arc<Kept>) {
    let account = budget.root().child("kept", None);
    let lease = account.lease();
    let pieces = (0..bytes / 1024).map(|_| lease.try_reserve(1024).expect("room"));
    let kept = Arc::new(Kept(std::sync::Mutex::new(pieces.collect())));
    let evicting: Weak<Kept> = Arc::downgrade(&kept);
    account.set_evicting(evicting);
    (account, kept)
}

#[test]
fn what_is_kept_for_later_goes_before_anybody_is_refused() {
    let budget = Budget::new(1 << 20);
    let (account, kept) = keeping(&budget, 1 << 20);
    let other = budget.root().child("other", None);
    let reserved = other
        .lease()
        .try_reserve(300 << 10)
        .expect("what is kept goes");
    // No more is evicted than needed, but for the chunk that a lease draws at once.
    assert!(
        account.reserved_bytes() > 500 << 10,
        "{}",
        account.reserved_bytes()
    );
    assert_eq!(budget.report().refused, 0);
    let rest = other
        .lease()
        .try_reserve(600 << 10)
        .expect("more of it goes");
    assert!(
        other.lease().try_reserve(1 << 20).is_err(),
        "there is no such room"
    );
    assert_eq!(
        lock(&kept.0).len(),
        0,
        "all of it went before that was refused"
    );
    drop((reserved, rest));
}

#[test]
fn what_an_account_keeps_makes_room_in_itself() {
    let budget = Budget::new(1 << 20);
    let account = budget.root().child("small", Some(64 << 10));
    let lease = account.lease();
    let pieces = (0..64).map(|_| lease.try_reserve(1024).expect("room"));
    let kept = Arc::new(Kept(std::sync::Mutex::new(pieces.collect())));
    let evicting: Weak<Kept> = Arc::downgrade(&kept);
    account.set_evicting(evicting);
    let more = lease.try_reserve(10 << 10).expect("its own goes");
    assert!(account.reserved_bytes() <= 64 << 10);
    drop(more);
}

#[test]
fn nothing_of_others_goes_for_who_is_at_its_own_limit() {
    let budget = Budget::new(1 << 20);
    let (account, kept) = keeping(&budget, 256 << 10);
    let small = budget.root().child("small", Some(64 << 10));
    assert!(small.lease().try_reserve(65 << 10).is_err());
    assert_eq!(
        (account.reserved_bytes(), lock(&kept.0).len()),
        (256 << 10, 256)
    );
}
