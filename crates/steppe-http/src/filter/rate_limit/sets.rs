//! Tables of a fixed size, in sets: a key may lie in the places of one set.

/// Keys of a set.
pub(super) const WAYS: usize = 8;

/// The set of a table that a key lies in.
pub(super) fn set_of<T>(slots: &[T], key: u64) -> &[T] {
    let sets = (slots.len() / WAYS) as u64;
    let set = u64::try_from((u128::from(key) * u128::from(sets)) >> 64).unwrap_or(0);
    let first = usize::try_from(set).unwrap_or(0) * WAYS;
    &slots[first..first + WAYS]
}
