//! The values of keys that a file leaves out, read once for all files.
//!
//! Invariant: a default is the value that the reader makes of the table's own text, so it is within the key's bounds; a
//! test of `steppe-node` reads them all.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::read;
use crate::table::Spec;
use crate::typed::Node;

/// Defaults by the address of their keys, which are statics. They live as long: there are as many as keys.
static DEFAULTS: RwLock<Option<HashMap<usize, Option<&'static Node>>>> = RwLock::new(None);

/// The default of a key; `None` if it has none.
pub(crate) fn of(key: &'static Spec) -> Option<&'static Node> {
    let address = std::ptr::from_ref(key).addr();
    let known = DEFAULTS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(default) = known.as_ref().and_then(|known| known.get(&address)) {
        return *default;
    }
    drop(known);
    let default = read::default(key).map(|node| &*Box::leak(Box::new(node)));
    let mut known = DEFAULTS.write().unwrap_or_else(PoisonError::into_inner);
    *known
        .get_or_insert_default()
        .entry(address)
        .or_insert(default)
}
