//! Results of the reader: values of the types in the table of keys.
//!
//! Invariant: a value that could not be read is [`Typed::Invalid`], and its mistake was reported; so code that gets
//! `None` for a value stops without a report. Non-goals: values of absent keys, which `fields` finds.

use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

use crate::choice::Chosen;
use crate::form::{FromText, Parsed};
use crate::mistake::Span;
use crate::table::{Spec, Table, Variant};
use crate::tree::Placeholder;

/// A value that was read, and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The place in the file.
    pub span: Span,
    /// The value.
    pub typed: Typed,
    /// The string that the file has, if its placeholders were filled in.
    pub placeholder: Option<Box<Placeholder>>,
}

/// A value that was read.
#[derive(Debug, Clone)]
pub enum Typed {
    /// A value whose mistake was reported.
    Invalid,
    /// A string.
    Text(String),
    /// A choice, a string of several.
    Choice(Chosen),
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Number(u64),
    /// A number of bytes.
    Size(u64),
    /// A share of a whole.
    Share(f64),
    /// A number, with or without a fraction.
    Real(f64),
    /// A duration.
    Duration(Duration),
    /// A path.
    File(PathBuf),
    /// The value that a form parsed.
    Parsed(Parsed),
    /// A list.
    List(Vec<Node>),
    /// A table whose keys are the file's own.
    Map(Vec<Named>),
    /// A table of known keys.
    Table(Fields),
    /// A table that the value of one key selects.
    Variant {
        /// The name of that key.
        tag: &'static str,
        /// The value of that key.
        name: &'static str,
        /// The value's entry in the table of keys.
        variant: &'static Variant,
        /// The other keys.
        fields: Fields,
    },
}

/// An entry of a map: its key is the file's own.
#[derive(Debug, Clone)]
pub struct Named {
    /// The key.
    pub name: String,
    /// The place of the key.
    pub span: Span,
    /// The value.
    pub value: Node,
}

/// A table of known keys. Absent keys have their defaults.
#[derive(Debug, Clone)]
pub struct Fields {
    /// The keys of the table.
    pub table: &'static Table,
    /// The place of its header, or of its brace.
    pub span: Span,
    /// Keys that are in the file, in its order.
    pub given: Vec<Field>,
}

/// A key that is in the file.
#[derive(Debug, Clone)]
pub struct Field {
    /// The key.
    pub key: &'static Spec,
    /// The place of the key.
    pub span: Span,
    /// The value.
    pub value: Node,
}

impl From<FromText> for Typed {
    fn from(read: FromText) -> Self {
        match read {
            FromText::Text(text) => Self::Text(text),
            FromText::File(path) => Self::File(path),
            FromText::Parsed(parsed) => Self::Parsed(parsed),
        }
    }
}

impl Typed {
    /// The value as this type; `None`: it is of another, or invalid.
    pub fn value<T: 'static>(&self) -> Option<&T> {
        let any: &dyn Any = match self {
            Self::Text(text) => text,
            Self::Choice(chosen) => return chosen.value(),
            Self::Boolean(flag) => flag,
            Self::Number(number) | Self::Size(number) => number,
            Self::Share(number) | Self::Real(number) => number,
            Self::Duration(duration) => duration,
            Self::File(path) => path,
            Self::Parsed(parsed) => return parsed.value(),
            Self::Invalid
            | Self::List(_)
            | Self::Map(_)
            | Self::Table(_)
            | Self::Variant { .. } => return None,
        };
        any.downcast_ref()
    }
}

/// Items of a list with their places, but for those that are invalid.
pub fn valid<T: 'static>(items: &[Node]) -> impl Iterator<Item = (&T, Span)> {
    let valid = items.iter();
    valid.filter_map(|node| Some((node.typed.value()?, node.span)))
}

/// Items of a list that an earlier item equals: each with its value, its place, and the place of the first one. Invalid
/// items are skipped.
pub fn repeated<T: PartialEq + 'static>(items: &[Node]) -> impl Iterator<Item = (&T, Span, Span)> {
    let mut seen: Vec<(&T, Span)> = Vec::new();
    valid(items).filter_map(move |(value, span)| {
        match seen.iter().find(|(earlier, _)| *earlier == value) {
            Some((_, first)) => Some((value, span, *first)),
            None => {
                seen.push((value, span));
                None
            }
        }
    })
}

impl Fields {
    /// True if none of its values is invalid, nor any within them.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.given.iter().all(|field| field.value.is_valid())
    }
}

impl Node {
    /// A value that is in no file.
    pub fn new(span: Span, typed: Typed) -> Self {
        let placeholder = None;
        Self {
            span,
            typed,
            placeholder,
        }
    }

    /// True if neither it nor a value within it is invalid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match &self.typed {
            Typed::Invalid => false,
            Typed::List(items) => items.iter().all(Self::is_valid),
            Typed::Map(entries) => entries.iter().all(|entry| entry.value.is_valid()),
            Typed::Table(fields) | Typed::Variant { fields, .. } => fields.is_valid(),
            _ => true,
        }
    }

    /// Items of the node's list, each as `read` converts it; `None`: it holds no list, or an item is invalid.
    pub fn each<T>(&self, read: impl FnMut(&Self) -> Option<T>) -> Option<Vec<T>> {
        match &self.typed {
            Typed::List(items) => items.iter().map(read).collect(),
            _ => None,
        }
    }

    /// Entries of the node's map, each value as `read` converts it; `None`: it holds no map, or a value is invalid.
    pub fn entries<T, M: FromIterator<(String, T)>>(
        &self,
        mut read: impl FnMut(&Self) -> Option<T>,
    ) -> Option<M> {
        let Typed::Map(entries) = &self.typed else {
            return None;
        };
        let pairs = entries.iter();
        pairs
            .map(|entry| Some((entry.name.clone(), read(&entry.value)?)))
            .collect()
    }

    /// The value that the tag stands for and the other keys; `None`: it is of another type, or invalid.
    pub fn variant<K: Copy + 'static>(&self) -> Option<(K, &Fields)> {
        let Typed::Variant {
            variant, fields, ..
        } = &self.typed
        else {
            return None;
        };
        let value: &dyn Any = variant.value;
        Some((*value.downcast_ref()?, fields))
    }

    /// The table of the node, of any tag.
    pub fn fields(&self) -> Option<&Fields> {
        match &self.typed {
            Typed::Table(fields) | Typed::Variant { fields, .. } => Some(fields),
            _ => None,
        }
    }

    /// The name of the node's choice.
    pub fn chosen(&self) -> Option<&'static str> {
        match self.typed {
            Typed::Choice(chosen) => Some(chosen.name),
            _ => None,
        }
    }

    /// The table of the node, to be changed.
    pub fn fields_mut(&mut self) -> Option<&mut Fields> {
        match &mut self.typed {
            Typed::Table(fields) | Typed::Variant { fields, .. } => Some(fields),
            _ => None,
        }
    }
}
