//! Records which keys are read, for a test that a product leaves none out.
//!
//! Invariant: no key is recorded outside [`during`]; there the cost of a read key is one flag.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::table::{Spec, Table};

thread_local! {
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
    static TAKEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// A key with its table: `http.listener.listen`.
#[must_use]
pub fn full_name(table: &Table, key: &Spec) -> String {
    format!("{}.{}", table.name, key.name)
}

/// Names of the keys that this thread reads while `read` runs.
pub fn during(read: impl FnOnce()) -> BTreeSet<String> {
    TAKEN.take();
    IS_RECORDING.set(true);
    read();
    IS_RECORDING.set(false);
    TAKEN.take()
}

pub(crate) fn mark(table: &Table, key: &Spec) {
    if IS_RECORDING.get() {
        TAKEN.with_borrow_mut(|taken| taken.insert(full_name(table, key)));
    }
}
