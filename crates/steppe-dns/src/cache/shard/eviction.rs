//! Eviction of entries from rings, and moves of the entries that stay.

use super::{MAIN, PROBATION, Shard};
use crate::cache::entry::{self, Facts};
use crate::cache::index::Position;
use crate::cache::lookup::ServePolicy;
use crate::cache::ring::{LIVE, Popped};

impl Shard {
    /// Reserves room in a ring for an entry that is at most half as large, and returns its offset. Entries at
    /// the ring's end are evicted or moved until there is room.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn room(
        &mut self,
        ring: usize,
        size: usize,
        now: u32,
        policy: &ServePolicy,
        moves_left: &mut usize,
    ) -> usize {
        loop {
            if let Some(at) = self.rings[ring].push(size) {
                return at;
            }
            let popped = self.rings[ring].pop().expect("an empty ring has room");
            if popped.state == LIVE {
                self.retire(ring, popped, now, policy, moves_left);
            }
        }
    }

    /// Evicts an entry that has come to the end of its ring, or moves it on.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn retire(
        &mut self,
        ring: usize,
        popped: Popped,
        now: u32,
        policy: &ServePolicy,
        moves_left: &mut usize,
    ) {
        let from = Position::new(ring, popped.at);
        let facts = self.entry(from).facts();
        let may_move = *moves_left > 0 && self.is_useful(&facts, now, policy);
        let to = match ring {
            _ if !may_move => None,
            PROBATION => self.promote(popped, &facts, now, policy, moves_left),
            _ => self.reinsert(ring, popped),
        };
        if let Some(to) = to {
            *moves_left = moves_left.saturating_sub(1);
            self.index.move_entry(facts.hash, from, to);
            self.stats.moves += 1;
            return;
        }
        if ring == PROBATION {
            self.index.add_ghost(facts.hash);
        }
        self.index.remove(facts.hash, from);
        self.stats.evictions += 1;
        self.stats.entries -= 1;
    }

    /// Moves an entry from probation to main if it has two hits, or main has free room.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn promote(
        &mut self,
        popped: Popped,
        facts: &Facts,
        now: u32,
        policy: &ServePolicy,
        moves_left: &mut usize,
    ) -> Option<Position> {
        let to = match self.rings[MAIN].push(popped.size) {
            Some(at) => at,
            None if facts.hits >= 2 => {
                *moves_left -= 1;
                self.room(MAIN, popped.size, now, policy, moves_left)
            }
            None => return None,
        };
        let [probation, main, _] = &mut self.rings;
        let bytes = probation.memory().bytes(popped.at, popped.size);
        main.memory_mut().write(to, bytes);
        entry::uncount_hit(main.memory_mut(), to);
        Some(Position::new(MAIN, to))
    }

    /// Moves an entry to the back of its ring, which uses up one hit; `None` if it has none.
    fn reinsert(&mut self, ring: usize, popped: Popped) -> Option<Position> {
        let memory = self.rings[ring].memory_mut();
        if !entry::uncount_hit(memory, popped.at) {
            return None;
        }
        let at = self.rings[ring]
            .push_again(popped)
            .expect("its own place is free");
        Some(Position::new(ring, at))
    }
}
