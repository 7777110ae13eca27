//! Memory of a value whose size a peer decides: measured while it is built.
//!
//! A formula over the bytes that a peer sent is wrong for some peer: `{"":0}` is six bytes of text and four hundred
//! of a parsed tree. Counting is exact, and costs two reads of a thread's counter.

use crate::account::{Lease, OverBudget, Reservation};
use crate::alloc::{is_counting, thread_block_bytes};

/// Builds a value, and reserves its memory.
///
/// `bytes_max` is the most that it can take: it is reserved first, and the rest of it is given back. Counted are blocks
/// that the calling thread allocated and did not free while `build` ran; so `build` must not free blocks of other
/// threads, nor start threads. Memory that is freed before `build` returns is not counted: it is that of one step of
/// one thread. If no [`Counted`](crate::alloc::Counted) is the program's allocator, all of `bytes_max` stays reserved.
///
/// # Errors
/// [`OverBudget`]: there is no room for `bytes_max`; or `build` took more than that, and there is none for the rest.
/// The value is dropped.
pub fn measured<T>(
    lease: &Lease,
    bytes_max: usize,
    build: impl FnOnce() -> T,
) -> Result<(T, Reservation), OverBudget> {
    let mut charge = lease.try_reserve(bytes_max)?;
    let before = thread_block_bytes();
    let built = build();
    if is_counting() {
        let taken = thread_block_bytes().wrapping_sub(before);
        let taken = usize::try_from(taken).unwrap_or(0);
        match taken.checked_sub(bytes_max) {
            Some(more) => charge.try_grow(more)?,
            None => charge.shrink(bytes_max - taken),
        }
    }
    Ok((built, charge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    /// In unit tests no allocator counts.
    #[test]
    fn without_a_count_the_most_stays_reserved() {
        let budget = Budget::new(1 << 20);
        let (list, charge) =
            measured(&budget.root().lease(), 4096, || vec![0_u8; 100]).expect("room");
        assert_eq!((list.len(), charge.bytes()), (100, 4096));
        assert_eq!(budget.root().reserved_bytes(), 4096);
        drop(charge);
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn nothing_is_built_without_room_for_the_most() {
        let budget = Budget::new(1 << 20);
        let refused = measured(&budget.root().lease(), 2 << 20, || panic!("built"));
        assert_eq!(refused.map(|_| ()), Err(OverBudget { bytes: 2 << 20 }));
    }
}
