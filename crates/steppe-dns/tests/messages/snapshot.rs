//! Snapshots of the cache: the entries that a restart restores.

use steppe_dns::cache::Kind;
use steppe_dns::cache::snapshot::{self, Context, Restored, SnapshotError, View};

use crate::questions::TTL;
use crate::world::{SOME, STALE, STRICT, World};

const VIEWS: [View; 1] = [View {
    number: 0,
    ttl: TTL,
    serve: STALE,
}];

fn context(world: &World, seconds: u64, unix_seconds: u64) -> Context<'static> {
    Context {
        now: world.at(seconds),
        unix_seconds,
        tag: 9,
        views: &VIEWS,
    }
}

#[test]
fn a_snapshot_brings_responses_back_at_their_age() {
    let world = World::new(1 << 20);
    (0..100).for_each(|number| world.put(number, 300, SOME, 0));
    (100..150).for_each(|number| world.put(number, 300, None, 0));
    world.fail(999, 0);
    let mut file = Vec::new();
    let written = snapshot::write(&world.cache, &context(&world, 50, 10_000), &mut file);
    assert_eq!(written.expect("memory"), 150);
    let mut next = World::new(4 << 20);
    let read = |world: &World, at: Context<'_>, file: &[u8]| {
        snapshot::read(&world.cache, &at, &mut &file[..])
    };
    let restored = read(&next, context(&next, 0, 10_060), &file).expect("a snapshot");
    let expected = Restored {
        entries: 150,
        skipped: 0,
        is_whole: true,
    };
    assert_eq!(restored, expected);
    let hit = next.hit(7, &STRICT, 1).expect("restored");
    // 50 s before, 60 s between, 1 s after.
    assert_eq!(next.ttl(&hit), 300 - 50 - 60 - 1);
    assert_eq!(
        next.hit(120, &STRICT, 1).expect("restored").kind,
        Kind::Negative
    );
    // A clock that was set back makes no entry younger.
    let mut again = World::new(1 << 20);
    read(&again, context(&again, 0, 1), &file).expect("a snapshot");
    let hit = again.hit(7, &STRICT, 0).expect("restored");
    assert_eq!(again.ttl(&hit), 250);
    // The snapshot of another configuration is rejected, and so is another file.
    let other = Context {
        tag: 8,
        ..context(&world, 0, 10_060)
    };
    assert!(matches!(
        read(&again, other, &file),
        Err(SnapshotError::Tag)
    ));
    let mut newer = file.clone();
    newer[8] = 2;
    assert!(matches!(
        read(&again, other, &newer),
        Err(SnapshotError::Magic)
    ));
    assert!(matches!(
        read(&again, other, b"steppeDC"),
        Err(SnapshotError::Magic)
    ));
}

#[test]
fn a_broken_snapshot_gives_what_it_has() {
    let world = World::new(1 << 20);
    (0..100).for_each(|number| world.put(number, 300, SOME, 0));
    let mut file = Vec::new();
    snapshot::write(&world.cache, &context(&world, 0, 0), &mut file).expect("memory");
    for cut in [41, 60, file.len() / 2, file.len() - 1] {
        let next = World::new(1 << 20);
        let at = context(&next, 0, 0);
        let restored = snapshot::read(&next.cache, &at, &mut &file[..cut]);
        let restored = restored.expect("a header");
        assert!(!restored.is_whole);
        assert_eq!(restored.entries, next.cache.stats().entries);
    }
    let (middle, next) = (file.len() / 2, World::new(1 << 20));
    file[middle] ^= 1;
    let at = context(&next, 0, 0);
    let restored = snapshot::read(&next.cache, &at, &mut &file[..]);
    let restored = restored.expect("a header");
    assert!(restored.entries < 60 && !restored.is_whole, "{restored:?}");
}

#[test]
fn views_are_known_by_their_place_and_what_is_newer_stays() {
    let world = World::new(1 << 20);
    world.put(1, 300, SOME, 0);
    world.put(2, 300, SOME, 0);
    let mut file = Vec::new();
    let written = |views: &[View], file: &mut Vec<u8>| {
        let at = Context {
            views,
            ..context(&world, 0, 0)
        };
        file.clear();
        snapshot::write(&world.cache, &at, file).expect("memory")
    };
    let view = |number| View { number, ..VIEWS[0] };
    assert_eq!(
        written(&[view(7)], &mut file),
        0,
        "of an upstream that went"
    );
    assert_eq!(written(&[view(7), view(0)], &mut file), 2);
    let mut next = World::new(1 << 20);
    next.put(2, 900, SOME, 0);
    let views = [view(3), view(0)];
    let at = Context {
        views: &views,
        ..context(&next, 0, 100)
    };
    let restored = snapshot::read(&next.cache, &at, &mut &file[..]).expect("a snapshot");
    assert_eq!((restored.entries, restored.skipped), (1, 1));
    let hit = next.hit(1, &STRICT, 0).expect("restored");
    assert_eq!(next.ttl(&hit), 200);
    let hit = next.hit(2, &STRICT, 0).expect("there before");
    assert_eq!(next.ttl(&hit), 900);
}
