//! Counts of the last minute: each total less its value of a minute ago.
//!
//! Invariant: memory is one [`Row`] a name of the configuration, reserved from the budget. Without
//! room for the rows there is no window, and the totals are unaffected.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use steppe_mem::{Lease, Reservation};

/// Time between two marks.
const MARK_EVERY: Duration = Duration::from_secs(10);

/// Marks kept. The oldest is between 50 and 60 seconds old.
const MARKS_MAX: usize = 6;

/// A name's hash. 64 bits do not collide among the names of one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(u64);

/// Totals of `N` kinds by name, as they were at the last marks.
#[derive(Debug)]
pub(super) struct Window<const N: usize> {
    rows: Vec<Row<N>>,
    /// Times of the marks, the oldest first.
    marked_at: VecDeque<Instant>,
    /// Time of the last call of [`mark`](Self::mark), which may have found no room.
    tried_at: Option<Instant>,
    lease: Lease,
    held: Option<Reservation>,
    rows_held: usize,
}

/// Totals of one name, at each mark. A name that came with a reload had none before.
#[derive(Debug, Clone, Copy)]
struct Row<const N: usize> {
    name: Name,
    totals: [[u64; N]; MARKS_MAX],
}

impl Name {
    pub(super) fn of(parts: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl<const N: usize> Window<N> {
    pub(super) fn new(lease: Lease) -> Self {
        Self {
            rows: Vec::new(),
            marked_at: VecDeque::with_capacity(MARKS_MAX),
            tried_at: None,
            lease,
            held: None,
            rows_held: 0,
        }
    }

    /// True if [`mark`](Self::mark) should be called now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let last = self.tried_at;
        last.is_none_or(|last| now.saturating_duration_since(last) >= MARK_EVERY)
    }

    /// Keeps these totals, in the order of the configuration, instead of the oldest ones.
    pub(super) fn mark(&mut self, now: Instant, totals: &[(Name, [u64; N])]) {
        self.tried_at = Some(now);
        if !self.has_room(totals.len()) {
            self.rows.clear();
            self.marked_at.clear();
            return;
        }
        if self.marked_at.len() == MARKS_MAX {
            self.marked_at.pop_front();
        }
        self.marked_at.push_back(now);
        let rows = totals.iter().enumerate().map(|(index, &(name, totals))| {
            let mut row = self.row(index, name).unwrap_or(Row {
                name,
                totals: [[0; N]; MARKS_MAX],
            });
            row.totals.rotate_left(1);
            row.totals[MARKS_MAX - 1] = totals;
            row
        });
        self.rows = rows.collect();
    }

    /// The growth of `totals`, of the name at `index` in the configuration, since the oldest mark.
    /// `None` without a mark.
    pub(super) fn growth(
        &self,
        (index, name): (usize, Name),
        totals: [u64; N],
    ) -> Option<[u64; N]> {
        let oldest = MARKS_MAX.checked_sub(self.marked_at.len())?;
        if oldest == MARKS_MAX {
            return None;
        }
        let row = self.row(index, name);
        let before = row.map_or([0; N], |row| row.totals[oldest]);
        Some(std::array::from_fn(|kind| {
            totals[kind].saturating_sub(before[kind])
        }))
    }

    /// The time that the window covers. `None` without a mark.
    pub(super) fn length(&self, now: Instant) -> Option<Duration> {
        let oldest = self.marked_at.front()?;
        Some(now.saturating_duration_since(*oldest))
    }

    fn row(&self, index: usize, name: Name) -> Option<Row<N>> {
        let same = self.rows.get(index).filter(|row| row.name == name);
        let found = same.or_else(|| self.rows.iter().find(|row| row.name == name));
        found.copied()
    }

    /// Reserves memory for as many rows; false if the budget has no room.
    fn has_room(&mut self, rows: usize) -> bool {
        if rows > self.rows_held {
            self.held = None;
            self.held = self.lease.try_reserve(rows * size_of::<Row<N>>()).ok();
            self.rows_held = if self.held.is_some() { rows } else { 0 };
        }
        rows <= self.rows_held
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    const BUDGET: u64 = 1 << 20;

    fn window() -> (Budget, Window<1>) {
        let budget = Budget::new(BUDGET);
        let lease = budget.root().child("admin", None).lease();
        (budget, Window::new(lease))
    }

    fn name(text: &str) -> Name {
        Name::of(text)
    }

    #[test]
    fn growth_is_that_of_the_last_minute() {
        let (_budget, mut window) = window();
        let start = Instant::now();
        let key = (0, name("api"));
        assert_eq!(window.growth(key, [7]), None);
        for mark in 0..20_u32 {
            let now = start + MARK_EVERY * mark;
            assert!(window.is_due(now));
            window.mark(now, &[(key.1, [u64::from(mark) * 100])]);
            assert!(!window.is_due(now + MARK_EVERY / 2));
            let marks = u64::from(mark).min(MARKS_MAX as u64 - 1);
            assert_eq!(
                window.growth(key, [u64::from(mark) * 100 + 1]),
                Some([marks * 100 + 1])
            );
        }
        let now = start + MARK_EVERY * 20;
        assert_eq!(window.length(now), Some(Duration::from_secs(60)));
    }

    #[test]
    fn names_keep_their_totals_when_their_order_changes() {
        let (_budget, mut window) = window();
        let start = Instant::now();
        window.mark(start, &[(name("a"), [10]), (name("b"), [20])]);
        window.mark(
            start + MARK_EVERY,
            &[(name("new"), [3]), (name("b"), [25]), (name("a"), [11])],
        );
        assert_eq!(window.growth((1, name("b")), [25]), Some([5]));
        assert_eq!(window.growth((2, name("a")), [12]), Some([2]));
        assert_eq!(window.growth((0, name("new")), [4]), Some([4]));
        // A name that was removed and came back counts from zero.
        assert_eq!(window.growth((2, name("a")), [1]), Some([0]));
        assert_eq!(window.growth((9, name("newer")), [6]), Some([6]));
    }

    #[test]
    fn without_room_in_the_budget_there_is_no_window() {
        let (budget, mut window) = window();
        let lease = budget.root().lease();
        let all = usize::try_from(budget.root().headroom_bytes()).expect("1 MiB");
        let held = lease.try_reserve(all).expect("is free");
        let now = Instant::now();
        window.mark(now, &[(name("a"), [1])]);
        assert_eq!(window.growth((0, name("a")), [2]), None);
        assert_eq!(window.length(now), None);
        assert!(!window.is_due(now), "a refusal is not repeated at once");
        drop((held, lease));
        window.mark(now, &[(name("a"), [1])]);
        assert_eq!(window.growth((0, name("a")), [2]), Some([1]));
    }
}
