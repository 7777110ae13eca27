//! Forks: a child can allocate at once, whatever other threads were doing.
//!
//! Before a fork every lock is taken, in the order in which they are nested; parent and child open
//! them. Bins of threads that the child does not have are like those of threads that sleep: they are
//! swept once the child has a thread for that, but for the top block of each, since a copy made in the
//! middle of a push can't be told from a whole one on every machine.
//!
//! Invariant: this is the order of all locks: a thread that holds one may take those after it. A heap's own lock stands
//! between `PURGE` and the depots' and is left out: the calling thread holds none of its own, and a copy that is held is
//! left alone.

use crate::chunk_map::CHUNK_MAP;
use crate::control_group::GROUP;
use crate::decay::{self, PURGE};
use crate::depot;
use crate::heap::threads::HEAPS;
use crate::heap_profile;
use crate::large::LARGE;
use crate::meta::META;
use crate::pool::POOL;
use crate::pressure::{self, WATERMARK};
use crate::sync::Lock;
use crate::sys;

/// Held while the environment is read.
pub(crate) static START: Lock = Lock::new();

/// Locks in the order in which they are taken. The `tail_lock` of a record comes before [`LARGE`]'s and is not among
/// them: it is released before its record can be found in a list again.
fn locks() -> impl DoubleEndedIterator<Item = &'static Lock> {
    [&WATERMARK.lock, &GROUP.lock, &PURGE, &START, &HEAPS.lock]
        .into_iter()
        .chain(depot::all().map(|(_, depot)| &depot.lock))
        .chain([&POOL.lock, &LARGE.lock, &CHUNK_MAP.lock])
        .chain([heap_profile::lock(), &META.lock])
}

/// Registers the functions below as fork handlers. Allocates.
pub(crate) fn register() {
    decay::register();
    sys::at_fork(prepare, parent, child);
}

unsafe extern "C" fn prepare() {
    locks().for_each(Lock::close);
}

unsafe extern "C" fn parent() {
    locks().rev().for_each(Lock::open);
}

unsafe extern "C" fn child() {
    locks().rev().for_each(Lock::reset);
    decay::after_fork();
    pressure::after_fork();
}

#[cfg(all(test, not(any(miri, loom))))]
mod tests;
