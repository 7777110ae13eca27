//! Values of keys that are read by their names.
//!
//! Invariant: a value that could not be read gives `None`, and its mistake was reported. Non-goals: keys that are
//! constants, which `steppe-config` reads.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use steppe_config::typed::{Fields, Node, Typed};
use steppe_net::ListenAddress;

/// Types that a [`Node`] may hold.
pub(super) trait FromNode: Sized {
    /// `None` when it holds something else.
    fn from_node(node: &Node) -> Option<Self>;
}

/// Reads keys by their names.
pub(super) trait ByName {
    /// A value that must be there.
    fn take<T: FromNode>(&self, name: &str) -> Option<T>;

    /// A value that need not be there: `None` only when it is invalid.
    #[expect(clippy::option_option, reason = "invalid and absent are two things")]
    fn optional<T: FromNode>(&self, name: &str) -> Option<Option<T>>;
}

impl ByName for Fields {
    fn take<T: FromNode>(&self, name: &str) -> Option<T> {
        T::from_node(self.node(name)?)
    }

    fn optional<T: FromNode>(&self, name: &str) -> Option<Option<T>> {
        match self.node(name) {
            None => Some(None),
            Some(node) => T::from_node(node).map(Some),
        }
    }
}

/// `FromNode` for types of leaves.
macro_rules! from_node {
    ($($type:ty)*) => {$(
        impl FromNode for $type {
            fn from_node(node: &Node) -> Option<Self> {
                node.typed.value().cloned()
            }
        }
    )*};
}

from_node! {
    String &'static str bool u64 f64 Duration ListenAddress IpNet PathBuf
}

impl<T: FromNode> FromNode for Vec<T> {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.typed {
            Typed::List(items) => items.iter().map(T::from_node).collect(),
            _ => None,
        }
    }
}
