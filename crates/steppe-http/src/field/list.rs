//! Lists of field lines, whose memory goes back to their thread.
//!
//! Invariant: what a list has beyond [`FIELD_LIST_LINES`] is charged for as long as it has it; up
//! to there its connection's own charge covers it. A thread keeps lists of just that size, and a
//! bounded number of them: nothing that a peer sends stays.

use std::cell::RefCell;
use std::ops::Deref;

use steppe_mem::{Lease, OverBudget, Reservation, pool};

use super::line::Field;
use crate::limits::{FIELD_LIST_LINES, IDLE_FIELD_LISTS_MAX};

/// A list of field lines: reading a usual head allocates only where its thread never had as many
/// heads at once.
#[derive(Debug)]
pub struct FieldList {
    fields: Vec<Field>,
    /// The charge for the whole list, once it is larger than those that come without one.
    charge: Option<Reservation>,
    has_underscore: bool,
}

thread_local! {
    static LISTS: RefCell<Vec<Vec<Field>>> = const { RefCell::new(Vec::new()) };
}

impl FieldList {
    /// An empty list.
    #[must_use]
    pub fn take() -> Self {
        let kept = LISTS.with_borrow_mut(Vec::pop);
        Self {
            fields: kept.unwrap_or_else(|| Vec::with_capacity(FIELD_LIST_LINES)),
            charge: None,
            has_underscore: false,
        }
    }

    /// Adds a line at the end. More room is charged to `lease`, that of the bytes that the
    /// lines lie in.
    ///
    /// # Errors
    /// [`OverBudget`] where there is no room for a larger list; the list is as it was.
    #[inline]
    pub fn try_push(&mut self, field: Field, lease: &Lease) -> Result<(), OverBudget> {
        if self.fields.len() == self.fields.capacity() {
            self.grow(self.fields.len() + 1, lease)?;
        }
        self.has_underscore |= field.has_underscore;
        self.fields.push(field);
        Ok(())
    }

    /// [`FieldList::try_push`] for several lines, none of which is marked for its underscore.
    ///
    /// # Errors
    /// As there.
    pub(super) fn try_extend(
        &mut self,
        fields: impl ExactSizeIterator<Item = Field>,
        lease: &Lease,
    ) -> Result<(), OverBudget> {
        let lines = self.fields.len() + fields.len();
        if lines > self.fields.capacity() {
            self.grow(lines, lease)?;
        }
        self.fields.extend(fields);
        Ok(())
    }

    /// Makes room for so many lines at least.
    #[cold]
    fn grow(&mut self, lines: usize, lease: &Lease) -> Result<(), OverBudget> {
        let capacity = (2 * self.fields.capacity())
            .max(FIELD_LIST_LINES)
            .max(lines);
        let bytes = capacity * size_of::<Field>();
        let charge = lease.try_reserve(bytes).or_else(|_| {
            // What this thread keeps for later is the first thing to go.
            pool::drain();
            lease.try_reserve(bytes)
        })?;
        self.fields.reserve_exact(capacity - self.fields.len());
        // The smaller list is gone, and its charge goes with it.
        self.charge = Some(charge);
        Ok(())
    }

    /// Removes every line.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.has_underscore = false;
    }

    /// Notes that the name of the last line has an underscore in it.
    #[cfg(test)]
    pub(super) fn mark_underscore(&mut self) {
        if let Some(last) = self.fields.last_mut() {
            *last = last.with_underscore();
            self.has_underscore = true;
        }
    }

    /// True when a line's name may have an underscore.
    pub(super) fn has_underscore(&self) -> bool {
        self.has_underscore
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Field) -> bool) {
        self.fields.retain(keep);
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Field] {
        &mut self.fields
    }
}

impl Drop for FieldList {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.fields);
        if self.charge.is_some() || list.capacity() != FIELD_LIST_LINES {
            // Before its charge, which goes after this.
            drop(list);
            return;
        }
        list.clear();
        // The thread may be ending: then the list goes with it.
        let _ = LISTS.try_with(|lists| {
            let mut lists = lists.borrow_mut();
            if lists.len() < IDLE_FIELD_LISTS_MAX {
                lists.push(list);
            }
        });
    }
}

impl Deref for FieldList {
    type Target = [Field];

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::field::Span;

    fn line() -> Field {
        Field::new(b"a", Span::new(0, 1), Span::new(1, 1))
    }

    /// A list of so many lines, charged to `lease`.
    fn list(lines: usize, lease: &Lease) -> Result<FieldList, OverBudget> {
        let mut list = FieldList::take();
        (0..lines).try_for_each(|_| list.try_push(line(), lease))?;
        Ok(list)
    }

    fn capacity_bytes(list: &FieldList) -> u64 {
        (list.fields.capacity() * size_of::<Field>()) as u64
    }

    #[test]
    fn what_a_list_has_beyond_its_free_room_is_charged() {
        let budget = Budget::new(1 << 20);
        let (root, lease) = (budget.root(), budget.root().lease());
        let usual = list(FIELD_LIST_LINES, &lease).expect("free");
        assert_eq!(root.reserved_bytes(), 0);
        let large = list(991, &lease).expect("room");
        assert!(capacity_bytes(&large) >= 991 * size_of::<Field>() as u64);
        assert_eq!(root.reserved_bytes(), capacity_bytes(&large));
        drop((usual, large));
        assert_eq!(root.reserved_bytes(), 0);
    }

    #[test]
    fn a_list_that_finds_no_room_stays_as_it_was() {
        let budget = Budget::new(4096);
        let lease = budget.root().lease();
        let mut full = list(2 * FIELD_LIST_LINES, &lease).expect("room");
        let reserved = budget.root().reserved_bytes();
        assert!(full.try_push(line(), &lease).is_err());
        assert!(full.try_extend([line()].into_iter(), &lease).is_err());
        assert_eq!(full.len(), 2 * FIELD_LIST_LINES);
        assert_eq!(budget.root().reserved_bytes(), reserved);
    }

    #[test]
    fn lines_that_come_together_are_charged_as_others_are() {
        let budget = Budget::new(1 << 20);
        let (root, lease) = (budget.root(), budget.root().lease());
        let mut list = FieldList::take();
        let lines = |count| vec![line(); count].into_iter();
        list.try_extend(lines(FIELD_LIST_LINES), &lease)
            .expect("free");
        assert_eq!(root.reserved_bytes(), 0);
        // More than twice as many at a time.
        list.try_extend(lines(3 * FIELD_LIST_LINES), &lease)
            .expect("room");
        assert_eq!(list.len(), 4 * FIELD_LIST_LINES);
        assert_eq!(root.reserved_bytes(), capacity_bytes(&list));
    }

    #[test]
    fn a_thread_keeps_few_lists_and_none_that_has_grown() {
        let budget = Budget::new(64 << 20);
        let lease = budget.root().lease();
        // Another test may have run on this thread.
        drop(LISTS.take());
        let many: Vec<_> = (0..IDLE_FIELD_LISTS_MAX + 10)
            .map(|at| list(if at % 2 == 0 { 1 } else { 1000 }, &lease).expect("room"))
            .collect();
        drop(many);
        LISTS.with_borrow(|lists| {
            assert_eq!(lists.len(), (IDLE_FIELD_LISTS_MAX + 10) / 2);
            let is_usual = |list: &Vec<Field>| list.capacity() == FIELD_LIST_LINES;
            assert!(lists.iter().all(is_usual), "none has grown");
        });
        let usual: Vec<_> = (0..2 * IDLE_FIELD_LISTS_MAX)
            .map(|_| FieldList::take())
            .collect();
        drop(usual);
        LISTS.with_borrow(|lists| assert_eq!(lists.len(), IDLE_FIELD_LISTS_MAX));
    }
}
