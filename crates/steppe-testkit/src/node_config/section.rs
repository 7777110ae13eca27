//! A table of a configuration.

use toml::{Table, Value};

use super::setting::Setting;
use super::tree;

/// A table of a configuration: a listener, an upstream, a route, a filter or a part of one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    table: Table,
}

impl Section {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key at a path such as `timeouts.header`, with the tables on the way; a value that stands there is
    /// replaced.
    ///
    /// # Panics
    /// When something on the way isn't a table.
    #[must_use]
    #[track_caller]
    pub fn set(mut self, path: &str, value: impl Into<Setting>) -> Self {
        tree::set(&mut self.table, path, value.into().into());
        self
    }

    /// The text of the key at `path`.
    ///
    /// # Panics
    /// When it is absent or isn't text.
    #[track_caller]
    pub fn text(&self, path: &str) -> &str {
        let value = tree::find(&self.table, path).and_then(Value::as_str);
        value.unwrap_or_else(|| panic!("there is no text {path}"))
    }

    /// Removes the key at `path`.
    ///
    /// # Panics
    /// When it is absent.
    #[must_use]
    #[track_caller]
    pub fn remove(mut self, path: &str) -> Self {
        tree::remove(&mut self.table, path);
        self
    }

    /// Adds keys written in TOML, as a table of cases has them.
    ///
    /// # Panics
    /// When they aren't TOML, or one stands already.
    #[must_use]
    #[track_caller]
    pub fn with_toml(mut self, toml: &str) -> Self {
        tree::add(&mut self.table, tree::parse(toml));
        self
    }

    /// Sets what a listener speaks.
    #[must_use]
    #[track_caller]
    pub fn protocols<const N: usize>(self, protocols: [&str; N]) -> Self {
        self.set("protocols", protocols)
    }

    /// Sets the servers of an upstream.
    #[must_use]
    #[track_caller]
    pub fn servers(self, servers: impl Into<Setting>) -> Self {
        self.set("servers", servers)
    }

    /// Sets the path that a route takes.
    #[must_use]
    #[track_caller]
    pub fn path(self, pattern: &str) -> Self {
        self.set("path", pattern)
    }

    /// Sets the upstream of a route.
    #[must_use]
    #[track_caller]
    pub fn upstream(self, name: &str) -> Self {
        self.set("upstream", name)
    }

    /// Sets the filters of a route, in their order.
    #[must_use]
    #[track_caller]
    pub fn filters(self, names: impl Into<Setting>) -> Self {
        self.set("filters", names)
    }

    pub(super) fn into_table(self) -> Table {
        self.table
    }

    pub(super) fn change(table: &mut Table, change: impl FnOnce(Self) -> Self) {
        let section = Self {
            table: std::mem::take(table),
        };
        *table = change(section).table;
    }
}

impl From<Section> for Setting {
    fn from(section: Section) -> Self {
        section.table.into()
    }
}
