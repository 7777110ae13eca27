//! The values of keys that a file leaves out, read once for all files.
//!
//! Invariant: a default is what the reader makes of the table's own text, so it is within the
//! key's bounds; a test reads them all.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::keys::ROOT;
use super::read;
use super::table::{Key, Support, Table};
use super::typed::Node;

/// The default of a key; `None` where it has none.
pub(super) fn of(key: &'static Key) -> Option<&'static Node> {
    static DEFAULTS: LazyLock<HashMap<usize, Node>> = LazyLock::new(|| {
        let mut defaults = HashMap::new();
        collect(&ROOT, &mut defaults);
        defaults
    });
    DEFAULTS.get(&address(key))
}

fn collect(table: &'static Table, defaults: &mut HashMap<usize, Node>) {
    for key in table.keys {
        let Support::Served { kind, .. } = &key.support else {
            continue;
        };
        if let Some(node) = read::default(key) {
            defaults.insert(address(key), node);
        }
        for inner in kind.tables() {
            collect(inner, defaults);
        }
    }
}

/// What tells a key from all others: they stand in statics.
fn address(key: &'static Key) -> usize {
    std::ptr::from_ref(key).addr()
}
