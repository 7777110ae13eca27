//! The order of contestants within a round.

use crate::stats::{self, Draws};

/// One run each, or two where `--before` asks for pairs.
#[derive(Debug)]
pub enum Schedule {
    /// Each contestant once, in the order of `stats::order`.
    Single,
    /// Each contestant twice, there and back: of two contestants ABBA or BAAB, which is drawn.
    Mirrored(Draws),
}

impl Schedule {
    /// Mirrored, with the same draws each time.
    pub const fn mirrored() -> Self {
        Self::Mirrored(Draws::new(0x6a09_e667_f3bc_c908))
    }

    /// Runs make pairs, and each is to be a fresh process.
    pub const fn is_mirrored(&self) -> bool {
        matches!(self, Self::Mirrored(_))
    }

    /// The next round's order of `count` contestants.
    pub fn order(&mut self, count: usize, round: usize) -> Vec<usize> {
        let mut order: Vec<usize> = stats::order(count, round).collect();
        if let Self::Mirrored(draws) = self {
            // A fixed order could be in step with disturbances of the same period.
            if draws.below(2) == 1 {
                order.reverse();
            }
            let back: Vec<usize> = order.iter().rev().copied().collect();
            order.extend(back);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_run_there_and_back_in_either_order() {
        let mut schedule = Schedule::mirrored();
        let orders: Vec<_> = (0..20).map(|round| schedule.order(2, round)).collect();
        let count = |order: &[usize]| orders.iter().filter(|one| **one == order).count();
        let (abba, baab) = (count(&[0, 1, 1, 0]), count(&[1, 0, 0, 1]));
        assert_eq!(abba + baab, 20);
        assert!(abba >= 4 && baab >= 4, "{abba} of ABBA, {baab} of BAAB");
    }

    #[test]
    fn peers_run_twice_too() {
        let order = Schedule::mirrored().order(3, 1);
        assert_eq!(order.len(), 6);
        assert!(order.iter().eq(order.iter().rev()), "{order:?}");
    }

    #[test]
    fn a_single_schedule_has_each_contestant_once() {
        let order = Schedule::Single.order(4, 3);
        assert!(order.into_iter().eq(stats::order(4, 3)));
    }
}
