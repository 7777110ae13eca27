//! Values of a table by the names of their keys.
//!
//! Invariant: a table keeps the keys of its file alone; what holds for the others comes from their defaults, so that
//! a thousand routes share them.

use crate::defaults;
use crate::mistake::Span;
use crate::table::{Absent, Spec, Support, Table};
use crate::taken;
use crate::typed::{Field, Fields, Named, Node, Typed};

impl Table {
    /// The table of a file that gives none of its keys.
    #[must_use]
    pub fn defaults(&'static self) -> Fields {
        let (table, span, given) = (self, Span::at(0), Vec::new());
        Fields { table, span, given }
    }
}

impl Fields {
    /// The value of a key; `None` when it is absent without a default.
    pub fn node(&self, name: &str) -> Option<&Node> {
        let key = self.table.key(name);
        debug_assert!(key.is_some(), "`{}` has no key `{name}`", self.table.name);
        self.value(key?)
    }

    /// The value of a key of its table, as [`Self::node`] gives it.
    pub fn value(&self, key: &'static Spec) -> Option<&Node> {
        self.assert_own(key);
        taken::mark(self.table, key);
        match self.field(key) {
            Some(field) => Some(&field.value),
            None if self.has_default(key) => defaults::of(key),
            None => None,
        }
    }

    /// A key of another table would be absent for ever.
    fn assert_own(&self, key: &'static Spec) {
        let mut keys = self.table.keys.iter();
        debug_assert!(
            keys.any(|own| std::ptr::eq(*own, key)),
            "`{}` is no key of `{}`",
            key.name,
            self.table.name
        );
    }

    pub(crate) fn field(&self, key: &'static Spec) -> Option<&Field> {
        self.given.iter().find(|field| std::ptr::eq(field.key, key))
    }

    /// True if the default of an absent key holds, if it has one.
    fn has_default(&self, key: &Spec) -> bool {
        let is_overruled = self.given.iter().any(|field| field.key.is_exclusive);
        match &key.support {
            _ if is_overruled => false,
            Support::Served {
                absent: Absent::TextsWhere { key, says, .. },
                ..
            } => self.node(key).and_then(Node::chosen) == Some(*says),
            Support::Served {
                absent: Absent::TableWhere { key, says },
                ..
            } => {
                let said = self.node(key).and_then(Node::chosen);
                said.is_some_and(|said| says.contains(&said))
            }
            _ => true,
        }
    }

    /// Where a key stands in the file.
    pub fn given(&self, name: &str) -> Option<Span> {
        let field = self.given.iter().find(|field| field.key.name == name)?;
        Some(field.span)
    }

    /// Puts a value in the place of what was read, or of a default.
    ///
    /// # Panics
    /// When its table has no such key.
    pub fn set(&mut self, name: &str, typed: impl Into<Typed>) {
        let key = self.table.key(name).expect("a key of the table");
        self.given.retain(|field| !std::ptr::eq(field.key, key));
        let span = self.span;
        let typed = typed.into();
        let value = Node { span, typed };
        self.given.push(Field { key, span, value });
    }

    /// The value of a key, to be changed; a default becomes the table's own.
    pub fn node_mut(&mut self, name: &str) -> Option<&mut Node> {
        if self.given(name).is_none() {
            let default = self.node(name)?.typed.clone();
            self.set(name, default);
        }
        let field = self.given.iter_mut().find(|field| field.key.name == name)?;
        Some(&mut field.value)
    }

    /// A table below this one.
    pub fn table(&self, name: &str) -> Option<&Self> {
        self.node(name)?.fields()
    }

    /// A map below this one; empty when it is absent or invalid.
    pub fn map(&self, name: &str) -> &[Named] {
        match self.node(name).map(|node| &node.typed) {
            Some(Typed::Map(entries)) => entries,
            _ => &[],
        }
    }

    /// A list below this one; empty when it is absent or invalid.
    pub fn list(&self, name: &str) -> &[Node] {
        match self.node(name).map(|node| &node.typed) {
            Some(Typed::List(items)) => items,
            _ => &[],
        }
    }
}
