//! A timer wheel: the deadlines of a fixed number of things, in a list for each tick.

use crate::limits::DEADLINE_TICKS;

const NONE: u32 = u32::MAX;

/// The wheel. Things are numbers below its size.
#[derive(Debug)]
pub(super) struct Wheel {
    heads: Box<[u32]>,
    links: Box<[Link]>,
    now: u64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    /// Slot of the list that it is in; [`NONE`] for none.
    slot: u32,
}

impl Wheel {
    pub(super) fn new(things: u32) -> Self {
        let free = Link {
            before: NONE,
            after: NONE,
            slot: NONE,
        };
        Self {
            heads: vec![NONE; DEADLINE_TICKS].into_boxed_slice(),
            links: vec![free; things as usize].into_boxed_slice(),
            now: 0,
        }
    }

    /// Sets the deadline of a thing, in place of the one that it had.
    pub(super) fn set(&mut self, thing: u32, tick: u64) {
        self.clear(thing);
        let tick = tick.clamp(self.now, self.now + DEADLINE_TICKS as u64 - 1);
        let slot = Self::slot(tick);
        let after = self.heads[slot];
        self.links[thing as usize] = Link {
            before: NONE,
            after,
            slot: u32::try_from(slot).unwrap_or(NONE),
        };
        if after != NONE {
            self.links[after as usize].before = thing;
        }
        self.heads[slot] = thing;
    }

    fn slot(tick: u64) -> usize {
        usize::try_from(tick % DEADLINE_TICKS as u64).unwrap_or_default()
    }

    /// Takes a thing's deadline away.
    pub(super) fn clear(&mut self, thing: u32) {
        let Link {
            before,
            after,
            slot,
        } = self.links[thing as usize];
        if slot == NONE {
            return;
        }
        match before {
            NONE => self.heads[slot as usize] = after,
            _ => self.links[before as usize].after = after,
        }
        if after != NONE {
            self.links[after as usize].before = before;
        }
        self.links[thing as usize].slot = NONE;
    }

    /// The next thing whose deadline has passed, which is removed.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<u32> {
        // After a full turn of the wheel, every list is due.
        self.now = self.now.max(now.saturating_sub(DEADLINE_TICKS as u64));
        loop {
            let thing = self.heads[Self::slot(self.now)];
            if self.now > now {
                return None;
            }
            if thing != NONE {
                self.clear(thing);
                return Some(thing);
            }
            if self.now == now {
                return None;
            }
            self.now += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_wheel_is_a_sorted_list(
            operations in prop::collection::vec((0..3_u8, 0..16_u32, 0..600_u64), 1..200),
        ) {
            let (mut wheel, mut model, mut now) = (Wheel::new(16), BTreeMap::new(), 0);
            for (operation, thing, ticks) in operations {
                match operation {
                    0 => {
                        wheel.set(thing, now + ticks);
                        model.insert(thing, now + ticks);
                    }
                    1 => {
                        wheel.clear(thing);
                        model.remove(&thing);
                    }
                    _ => {
                        now += ticks * 5;
                        let mut due: Vec<u32> = Vec::new();
                        while let Some(thing) = wheel.pop_due(now) {
                            due.push(thing);
                        }
                        due.sort_unstable();
                        let expected: Vec<u32> =
                            model.iter().filter(|(_, at)| **at <= now).map(|(thing, _)| *thing).collect();
                        model.retain(|_, at| *at > now);
                        prop_assert_eq!(due, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_deadline_beyond_the_wheel_counts_as_its_last() {
        let mut wheel = Wheel::new(1);
        wheel.set(0, 1 << 40);
        assert_eq!(wheel.pop_due(DEADLINE_TICKS as u64 - 2), None);
        assert_eq!(wheel.pop_due(DEADLINE_TICKS as u64 - 1), Some(0));
    }
}
