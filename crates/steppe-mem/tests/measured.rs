//! Values that are measured while they are built, in a program whose allocator counts.

use steppe_mem::alloc::{Counted, block_bytes, thread_block_bytes};
use steppe_mem::{Budget, OverBudget, measured};

#[global_allocator]
static ALLOCATOR: Counted<std::alloc::System> = Counted(std::alloc::System);

const KIB: usize = 1 << 10;

/// Lists of one byte each: a block of 16 bytes, and an element of 24.
fn lists(count: usize) -> Vec<Vec<u8>> {
    let mut lists = Vec::with_capacity(count);
    lists.extend((0..count).map(|_| vec![1]));
    lists
}

#[test]
fn what_is_built_is_charged_in_blocks_and_the_rest_is_given_back() {
    let budget = Budget::new(1 << 20);
    let lease = budget.root().lease();
    let (lists, charge) = measured(&lease, 64 * KIB, || lists(100)).expect("room");
    assert_eq!(charge.bytes(), 100 * 16 + block_bytes(100 * 24));
    assert_eq!(budget.root().reserved_bytes(), charge.bytes() as u64);
    drop((lists, charge));
    assert_eq!(budget.root().reserved_bytes(), 0);
}

#[test]
fn what_is_freed_again_is_not_charged() {
    let budget = Budget::new(1 << 20);
    let lease = budget.root().lease();
    let built = measured(&lease, 64 * KIB, || lists(500).len());
    let (count, charge) = built.expect("room");
    assert_eq!((count, charge.bytes()), (500, 0));
}

#[test]
fn what_takes_more_than_was_said_is_charged_or_refused() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().lease();
    let (_list, charge) = measured(&lease, KIB, || vec![0_u8; 8 * KIB]).expect("room");
    assert_eq!(charge.bytes(), 8 * KIB);
    let refused = measured(&lease, KIB, || vec![0_u8; 256 * KIB]);
    assert!(matches!(refused, Err(OverBudget { .. })));
    assert_eq!(budget.root().reserved_bytes(), 8 * KIB as u64);
}

#[test]
fn blocks_are_counted_as_they_come_and_go() {
    let before = thread_block_bytes();
    let mut grown = Vec::with_capacity(100_u8.into());
    grown.extend_from_slice(&[0_u8; 100]);
    assert_eq!(thread_block_bytes() - before, 112);
    grown.reserve_exact(900);
    assert_eq!(thread_block_bytes() - before, 1024);
    drop(grown);
    assert_eq!(thread_block_bytes(), before);
}
