//! The allocator beside its model: any sequence of operations, by up to four threads that take
//! turns, keeps contents apart and whole, and leaves the books empty.
//!
//! Five bytes are an operation: its kind, thread and slot, the kind of size, and its number. The books are the
//! process's, so no other code of the process may use the allocator meanwhile.
#![expect(unsafe_code, reason = "raw blocks are what is tested")]

#[path = "../../../crates/steppe-malloc/tests/model/world.rs"]
mod world;

use steppe_malloc::profile::{self, Profile};
use world::{Action, Op, Post, World, size};

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    profile::set(Profile::Balanced);
    let mut world = World::new(1, &Post::default());
    input
        .chunks_exact(5)
        .for_each(|bytes| world.apply(op(bytes)));
    world.finish();
    world::assert_empty(&world::settle());
}

fn op(bytes: &[u8]) -> Op {
    let &[what, place, kind, high, low] = bytes else {
        unreachable!("pieces of five bytes");
    };
    let number = u16::from_be_bytes([high, low]);
    let bytes = size(kind, number);
    let action = match what % 32 {
        0..=7 => Action::Allocate(bytes),
        8..=10 => Action::Zeroed(bytes),
        11..=12 => Action::Aligned(bytes, what / 32 + kind / 10 % 16),
        13 => Action::AlignedZeroed(bytes, what / 32 + kind / 10 % 16),
        14..=17 => Action::Reallocate(bytes),
        18..=24 => Action::Free,
        25 => Action::TooMuch(bytes),
        26 => Action::Post,
        27 => Action::Collect,
        28 => Action::Trim,
        29 => Action::Idle,
        30 => {
            Action::Profile([Profile::Speed, Profile::Balanced, Profile::Lean][kind as usize % 3])
        }
        _ => Action::EndThread,
    };
    Op {
        thread: place / 64,
        slot: place % 64,
        action,
    }
}
