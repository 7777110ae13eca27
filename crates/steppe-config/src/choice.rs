//! Choices: strings of which a key takes one, and the values that they stand for.
//!
//! Invariant: a choice that the table names has its value beside it, so nothing maps strings to values elsewhere.

use std::any::Any;
use std::fmt;

/// Strings, each with the value that it stands for.
pub struct Choices<E: 'static> {
    served: &'static [(&'static str, E)],
    later: &'static [&'static str],
}

impl<E> Choices<E> {
    /// These strings with their values.
    pub const fn of(served: &'static [(&'static str, E)]) -> Self {
        Self { served, later: &[] }
    }

    /// Adds strings that are known and not supported yet.
    #[must_use]
    pub const fn and_later(mut self, later: &'static [&'static str]) -> Self {
        self.later = later;
        self
    }
}

impl<E> fmt::Debug for Choices<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.served.iter().map(|choice| choice.0);
        f.debug_list().entries(names).finish()
    }
}

/// The string that was chosen.
#[derive(Clone, Copy)]
pub struct Chosen {
    /// The string, as a file has it.
    pub name: &'static str,
    value: &'static (dyn Any + Sync),
}

impl Chosen {
    /// The value that the string stands for; `None`: it is of another type.
    #[must_use]
    pub fn value<E: 'static>(&self) -> Option<&'static E> {
        let any: &'static dyn Any = self.value;
        any.downcast_ref()
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chosen").field(&self.name).finish()
    }
}

/// Choices of any type.
pub trait AnyChoices: fmt::Debug + Sync {
    /// Names, in the order of the table.
    fn names(&self) -> Vec<&'static str>;
    /// Names that are known and not supported yet.
    fn later(&self) -> &'static [&'static str] {
        &[]
    }
    /// The choice of this name.
    fn named(&'static self, name: &str) -> Option<Chosen>;
}

impl<E: Any + Sync> AnyChoices for Choices<E> {
    fn names(&self) -> Vec<&'static str> {
        self.served.iter().map(|choice| choice.0).collect()
    }

    fn later(&self) -> &'static [&'static str] {
        self.later
    }

    fn named(&'static self, name: &str) -> Option<Chosen> {
        let (name, value) = self.served.iter().find(|choice| choice.0 == name)?;
        Some(Chosen { name, value })
    }
}

/// Names alone, which stand for themselves.
impl<const N: usize> AnyChoices for [&'static str; N] {
    fn names(&self) -> Vec<&'static str> {
        self.to_vec()
    }

    fn named(&'static self, name: &str) -> Option<Chosen> {
        let value = self.iter().find(|each| **each == name)?;
        Some(Chosen { name: value, value })
    }
}
