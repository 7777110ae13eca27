//! Values of a table by the names of their keys.
//!
//! Invariant: a table keeps the keys of its file alone; the values of absent keys come from their defaults, so that a
//! thousand routes share them.

use crate::defaults;
use crate::mistake::Span;
use crate::table::{Absent, Spec, Support, Table};
use crate::taken;
use crate::typed::{Field, Fields, Node, Typed};

impl Table {
    /// The table of a file that gives none of its keys.
    #[must_use]
    pub fn defaults(&'static self) -> Fields {
        let (table, span, given) = (self, Span::at(0), Vec::new());
        Fields { table, span, given }
    }
}

impl Fields {
    /// The value of a key of this name; `None` when it is absent without a default.
    fn node(&self, name: &str) -> Option<&Node> {
        let key = self.table.key(name);
        debug_assert!(key.is_some(), "`{}` has no key `{name}`", self.table.name);
        self.value(key?)
    }

    /// The value of a key of its table; `None` when it is absent without a default.
    pub fn value(&self, key: &'static Spec) -> Option<&Node> {
        self.assert_own(key);
        taken::mark(self.table, key);
        match self.field(key) {
            Some(field) => Some(&field.value),
            None if self.has_default(key) => defaults::of(key),
            None => None,
        }
    }

    /// Panics for a key of another table, which would be absent for ever.
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

    /// The place of a key in the file; `None`: it is absent.
    pub fn given(&self, key: &'static Spec) -> Option<Span> {
        self.field(key).map(|field| field.span)
    }

    /// Sets the value of a key, instead of the one that was read, or of a default.
    pub fn set(&mut self, key: &'static Spec, typed: Typed) {
        self.assert_own(key);
        self.given.retain(|field| !std::ptr::eq(field.key, key));
        let span = self.span;
        let value = Node::new(span, typed);
        self.given.push(Field { key, span, value });
    }

    /// The value of a key, to be changed; a default becomes the table's own.
    pub fn value_mut(&mut self, key: &'static Spec) -> Option<&mut Node> {
        if self.field(key).is_none() {
            let default = self.value(key)?.typed.clone();
            self.set(key, default);
        }
        let mut given = self.given.iter_mut();
        let field = given.find(|field| std::ptr::eq(field.key, key))?;
        Some(&mut field.value)
    }
}
