//! Thread churn: threads that live shortly, eight at a time, and leave a block to be freed by another.
//!
//! An allocator that keeps something of each thread grows without end here: the memory after the
//! first tenth is put beside that at the end.

use std::thread;

use crate::meter::Meter;
use crate::random::Random;
use crate::sys::{self, Block};

/// One thread is one operation.
pub fn run(meter: &mut Meter, threads: u64) {
    let left = sys::slots(TOGETHER);
    let batches = (threads / TOGETHER as u64).max(10);
    meter.start();
    for batch in 0..batches {
        if batch == batches / 10 {
            meter.mark("tenth");
        }
        thread::scope(|scope| {
            for (seed, slot) in (1_u32..).zip(left.iter_mut()) {
                scope.spawn(move || live_shortly(slot, Random::new(seed)));
            }
        });
        // The next thread frees what this one left.
        left.rotate_left(1);
    }
    meter.stop(batches * TOGETHER as u64);
    meter.mark("live");
    left.fill_with(|| None);
    meter.mark_after_pause("idle");
}

fn live_shortly(left: &mut Option<Block>, mut random: Random) {
    let mut own: [Option<Block>; BLOCKS] = [const { None }; BLOCKS];
    for _ in 0..STEPS {
        own[random.below(BLOCKS)] = Some(Block::new(16 + random.below(2_032)));
    }
    *left = own[0].take().or_else(|| Some(Block::zeroed(100)));
}

const TOGETHER: usize = 8;
const BLOCKS: usize = 32;
const STEPS: u32 = 100;
