//! Random mixed: one thread, a table of slots, and at each step a slot by chance.
//!
//! A full slot is freed; an empty one gets a block of 16 to 1,039 bytes, whose first byte is
//! written. One malloc or one free is one operation. The loop is kept as tight as it can be:
//! without an allocator it would take about 27 instructions a step.

use crate::meter::Meter;
use crate::random::Random;
use crate::sys::{self, Block};

/// Slots, and the generator that picks among them.
pub struct Mixed {
    slots: &'static mut [Option<Block>],
    random: Random,
}

impl Mixed {
    /// All slots empty.
    pub fn new(working_set: usize) -> Self {
        Self {
            slots: sys::slots(working_set),
            random: Random::new(SEED),
        }
    }

    /// Runs so many steps.
    #[expect(clippy::cast_possible_truncation, reason = "slots are few")]
    pub fn step(&mut self, operations: u64) {
        let count = self.slots.len() as u32;
        for _ in 0..operations {
            let drawn = self.random.draw();
            let slot = &mut self.slots[(drawn % count) as usize];
            if slot.take().is_none() {
                *slot = Some(Block::new(16 + (drawn & 0x3ff) as usize));
            }
        }
    }

    /// Bytes of all live blocks, as the allocator counts them.
    pub fn live_bytes(&self) -> usize {
        self.slots.iter().flatten().map(Block::usable_bytes).sum()
    }

    /// Frees everything.
    pub fn clear(&mut self) {
        self.slots.fill_with(|| None);
    }
}

const SEED: u32 = 2_463_534_242;

/// A tenth of the operations is done beforehand, untimed: pages are faulted in then.
pub fn run(meter: &mut Meter, working_set: usize, operations: u64) {
    let mut mixed = Mixed::new(working_set);
    mixed.step(operations / 10);
    meter.untimed(operations / 10);
    meter.start();
    mixed.step(operations);
    meter.stop(operations);
    meter.mark("live");
    mixed.clear();
    meter.mark_after_pause("idle");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_half_of_the_slots_is_full_and_all_are_cleared() {
        let mut mixed = Mixed::new(400);
        mixed.step(20_000);
        let full = mixed.slots.iter().filter(|slot| slot.is_some()).count();
        assert!((100..300).contains(&full), "{full}");
        assert!(mixed.live_bytes() > full * 16);
        mixed.clear();
        assert_eq!(mixed.live_bytes(), 0);
    }
}
