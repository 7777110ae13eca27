//! Memory of a worker's tables, against their charges.

use std::time::Instant;

use steppe_dns::in_flight::{Attempts, Sizes};
use steppe_dns::limits::{ATTEMPT_BYTES, ATTEMPTS_EXCHANGE_BYTES};
use steppe_mem::alloc::thread_live_bytes;

/// The list of chains is as long as the next power of two: just above one, it takes the most for each entry.
const COUNT: u32 = (1 << 12) + 1;

/// Bytes of a table for this number of exchanges and attempts.
fn taken(exchanges: u32, attempts: u32) -> usize {
    let sizes = Sizes {
        exchanges,
        attempts,
        sockets: 0,
    };
    let before = thread_live_bytes();
    let table = Attempts::new(sizes, Instant::now());
    let taken = usize::try_from(thread_live_bytes() - before).expect("more than before");
    drop(table);
    taken
}

/// Checks that the constant covers the measured bytes, and is at most a tenth above them.
#[track_caller]
fn is_held(constant: usize, measured: usize) {
    println!("{constant} for {measured}");
    assert!(measured <= constant, "{constant} for {measured}");
    assert!(constant * 9 / 10 < measured, "{constant} for {measured}");
}

#[test]
fn an_exchange_and_an_attempt_are_charged_with_what_they_take() {
    let both = taken(2 * COUNT, COUNT) - taken(COUNT, COUNT);
    is_held(ATTEMPTS_EXCHANGE_BYTES, both / COUNT as usize);
    let both = taken(COUNT, 2 * COUNT) - taken(COUNT, COUNT);
    is_held(ATTEMPT_BYTES, both / COUNT as usize);
}
