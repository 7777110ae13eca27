//! Random programs: operations on the allocator beside a model of their meaning.
//!
//! Also random threads that exchange blocks, in the order of the scheduler.
#![expect(unsafe_code, reason = "raw blocks are what is tested")]

#[path = "model/world.rs"]
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use steppe_malloc::profile::{self, Profile};
use steppe_malloc::{raw, stats};
use world::{Action, Op, Post, World};

/// One test at a time: the books belong to the process.
static BOOKS: Mutex<()> = Mutex::new(());

fn books() -> MutexGuard<'static, ()> {
    let books = BOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    profile::set(Profile::Balanced);
    books
}

fn ops(count: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 0..count)
}

fn op() -> impl Strategy<Value = Op> {
    (any::<u8>(), any::<u8>(), action()).prop_map(|(thread, slot, action)| Op {
        thread,
        slot,
        action,
    })
}

fn action() -> impl Strategy<Value = Action> {
    let size = || (any::<u8>(), any::<u16>()).prop_map(|(kind, number)| world::size(kind, number));
    let shift = || prop_oneof![8 => 0_u8..17, 1 => 17_u8..24];
    let profile = prop::sample::select(vec![Profile::Speed, Profile::Balanced, Profile::Lean]);
    prop_oneof![
        20 => size().prop_map(Action::Allocate),
        8 => size().prop_map(Action::Zeroed),
        6 => (size(), shift()).prop_map(|(bytes, shift)| Action::Aligned(bytes, shift)),
        3 => (size(), shift()).prop_map(|(bytes, shift)| Action::AlignedZeroed(bytes, shift)),
        12 => size().prop_map(Action::Reallocate),
        20 => Just(Action::Free),
        1 => any::<usize>().prop_map(Action::TooMuch),
        3 => Just(Action::Post),
        3 => Just(Action::Collect),
        1 => Just(Action::Trim),
        2 => Just(Action::Idle),
        1 => profile.prop_map(Action::Profile),
        2 => Just(Action::EndThread),
    ]
}

fn run(seed: u64, ops: &[Op], post: &Post) {
    let mut world = World::new(seed, post);
    ops.iter().for_each(|&op| world.apply(op));
    world.finish();
}

/// Operations of a program. Miri takes a thousand times as long for each.
const OPS: usize = if cfg!(miri) { 25 } else { 600 };
/// Programs at once.
const WORLDS: std::ops::Range<usize> = if cfg!(miri) { 2..3 } else { 2..5 };
/// Sizes that are tried one by one are this far apart.
const STEP_BYTES: usize = if cfg!(miri) { 1_000 } else { 8 };
/// The largest alignment that is tried, as its `log2`.
const SHIFTS: u8 = if cfg!(miri) { 21 } else { 48 };

/// Few programs in the first tier: each page that a program touches is given back and faulted in
/// again.
fn config() -> ProptestConfig {
    let is_long = std::env::var_os("STEPPE_LONG").is_some_and(|value| value == "1");
    ProptestConfig {
        cases: match is_long {
            _ if cfg!(miri) => 2,
            true => 512,
            false => 24,
        },
        failure_persistence: None,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_program_gets_what_it_was_promised(ops in ops(OPS)) {
        let _books = books();
        run(1, &ops, &Post::default());
        world::assert_empty(&world::settle());
    }

    #[test]
    fn a_program_of_one_thread_does_too(ops in ops(OPS)) {
        let _books = books();
        let ops: Vec<Op> = ops.into_iter().map(|op| Op { thread: 0, ..op }).collect();
        run(1, &ops, &Post::default());
        world::assert_empty(&world::settle());
    }

    #[test]
    fn programs_at_once_exchange_blocks(scripts in prop::collection::vec(ops(OPS), WORLDS)) {
        let _books = books();
        let post = Post::default();
        std::thread::scope(|scope| {
            for (seed, ops) in scripts.iter().enumerate() {
                let post = &post;
                scope.spawn(move || run(seed as u64, ops, post));
            }
        });
        World::new(0, &post).finish();
        world::assert_empty(&world::settle());
    }
}

#[test]
fn blocks_of_each_size_are_whole() {
    let _books = books();
    let mut world = World::new(7, &Post::default());
    for bytes in (0..40_000).step_by(STEP_BYTES) {
        let slot = u8::try_from(bytes / STEP_BYTES % world::SLOTS).unwrap();
        for bytes in [bytes, bytes + 1] {
            let action = if slot % 2 == 0 {
                Action::Allocate(bytes)
            } else {
                Action::Zeroed(bytes)
            };
            world.apply(Op {
                thread: 0,
                slot,
                action,
            });
        }
    }
    world.finish();
    world::assert_empty(&world::settle());
}

/// Large blocks that were freed leave at most a tenth of their bytes, and 128 KiB, resident in
/// `lean`.
#[test]
fn lean_keeps_little_of_large_blocks() {
    const BYTES: usize = 512 << 10;
    const BLOCKS: u8 = 16;
    let _books = books();
    let _ = world::settle();
    profile::set(Profile::Lean);
    let mut world = World::new(9, &Post::default());
    for action in [Action::Allocate(BYTES), Action::Free] {
        for slot in 0..BLOCKS {
            world.apply(Op {
                thread: 0,
                slot,
                action,
            });
        }
    }
    let dirty_bytes = stats::read().dirty_bytes;
    profile::set(Profile::Balanced);
    world.finish();
    assert!(
        dirty_bytes <= BYTES * usize::from(BLOCKS) / 10 + (128 << 10),
        "{dirty_bytes} bytes"
    );
    world::assert_empty(&world::settle());
}

#[test]
fn each_alignment_is_kept_or_refused() {
    let _books = books();
    for shift in 0..SHIFTS {
        let align = 1_usize << shift;
        for bytes in [0, 1, 100, 5_000, 70_000] {
            let block = raw::allocate_aligned(align, bytes);
            let is_small = shift <= 26;
            assert!(!(is_small && block.is_null()), "2^{shift}");
            assert!(
                block.addr().is_multiple_of(align),
                "{block:p} for 2^{shift}"
            );
            // SAFETY: null, or just handed out.
            unsafe { raw::free(block) };
        }
    }
    world::assert_empty(&world::settle());
}
