//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic while a list of weak handles was edited leaves it usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
