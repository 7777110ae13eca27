//! Larson-like: two threads that replace random blocks of their own tables, and pass the tables on.
//!
//! After a generation each table goes to the other place, where a new thread goes on with it and
//! frees what the one before allocated. (Larson and Krishnan, Memory allocation for long-running
//! server applications, 1998.)

use std::thread;

use crate::meter::Meter;
use crate::random::Random;
use crate::sys::{self, Block};

/// One malloc or one free is an operation; a step has one of each.
pub fn run(meter: &mut Meter, operations: u64) {
    let mut tables: [&'static mut [Option<Block>]; THREADS] = [(); THREADS].map(|()| {
        let slots = sys::slots(SLOTS);
        slots.fill_with(|| Some(Block::new(BYTES_MAX)));
        slots
    });
    let turns = u64::from(GENERATIONS) * tables.len() as u64;
    let steps = (operations / 2 / turns).max(1);
    meter.start();
    for generation in 1..=GENERATIONS {
        thread::scope(|scope| {
            for (number, table) in (1_u32..).zip(&mut tables) {
                let random = Random::new(number * GENERATIONS + generation);
                scope.spawn(move || replace(table, random, steps));
            }
        });
        tables.swap(0, THREADS - 1);
    }
    meter.stop(steps * 2 * turns);
    meter.mark("live");
    for table in &mut tables {
        table.fill_with(|| None);
    }
    meter.mark_after_pause("idle");
}

fn replace(slots: &mut [Option<Block>], mut random: Random, steps: u64) {
    for _ in 0..steps {
        let drawn = random.draw();
        let slot = &mut slots[drawn as usize % SLOTS];
        *slot = None;
        *slot = Some(Block::new(
            BYTES_MIN + (drawn >> 16) as usize % (BYTES_MAX - BYTES_MIN),
        ));
    }
}

const THREADS: usize = 2;
const GENERATIONS: u32 = 20;
const SLOTS: usize = 1_000;
const BYTES_MIN: usize = 8;
const BYTES_MAX: usize = 1_000;
