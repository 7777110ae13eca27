//! A configuration file as a tree of values with their places.
//!
//! Invariant: TOML and JSON give the same tree, entries in the order of the file, no key twice, no
//! deeper than [`NESTING_MAX`]. Non-goals: what the values mean. Spec: TOML 1.1, RFC 8259.

use crate::limits::{NESTING_MAX, TOKENS_MAX};
use crate::mistake::{Mistake, Span};

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The place of the value itself; for a table, of its opening (`[header]` or `{`).
    pub span: Span,
    /// The value.
    pub kind: ValueKind,
    /// The string that the file has, if its placeholders were filled in.
    pub placeholder: Option<Box<Placeholder>>,
}

/// The kind of a [`Value`].
#[derive(Debug, Clone, PartialEq)]
pub enum ValueKind {
    /// A string, after its escapes.
    Text(String),
    /// A number without a fraction.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A value whose mistake was reported.
    Refused,
    /// A value that no key takes: a date, `null`. Named with its article.
    Other(&'static str),
    /// A list.
    List(Vec<Value>),
    /// A table, in the order of the file.
    Table(Vec<Entry>),
}

/// A string as it was written, before its placeholders were filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// The string with its placeholders.
    pub written: Box<str>,
    /// True if it has escapes alone, so that its value is no secret.
    pub is_escaped: bool,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub name: String,
    /// The place of the key.
    pub name_span: Span,
    /// The value of the key.
    pub value: Value,
}

impl Entry {
    /// A key and its value; `name_span` is the key's place in a file.
    pub fn new(name: impl Into<String>, name_span: Span, value: Value) -> Self {
        let name = name.into();
        Self {
            name,
            name_span,
            value,
        }
    }
}

impl Value {
    /// A value as a file has it.
    pub fn new(span: Span, kind: ValueKind) -> Self {
        let placeholder = None;
        Self {
            span,
            kind,
            placeholder,
        }
    }

    /// Moves all places by the bytes of the files before.
    pub(crate) fn shift(&mut self, bytes: usize) {
        self.span = self.span.shifted(bytes);
        match &mut self.kind {
            ValueKind::List(items) => items.iter_mut().for_each(|item| item.shift(bytes)),
            ValueKind::Table(entries) => {
                for entry in entries {
                    entry.name_span = entry.name_span.shifted(bytes);
                    entry.value.shift(bytes);
                }
            }
            _ => {}
        }
    }

    /// A string in place of the file's value at `span`.
    pub fn text(span: Span, text: impl Into<String>) -> Self {
        let kind = ValueKind::Text(text.into());
        Self::new(span, kind)
    }

    /// A list in place of the file's value at `span`.
    pub fn list(span: Span, items: Vec<Self>) -> Self {
        let kind = ValueKind::List(items);
        Self::new(span, kind)
    }

    /// A table in place of the file's value at `span`.
    pub fn table(span: Span, entries: Vec<Entry>) -> Self {
        let kind = ValueKind::Table(entries);
        Self::new(span, kind)
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            ValueKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list; none if it is no list.
    pub fn items(&self) -> &[Self] {
        match &self.kind {
            ValueKind::List(items) => items,
            _ => &[],
        }
    }

    /// The entries of a table; none if it is no table.
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            ValueKind::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The entry of a table.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name == name)
    }

    /// Takes an entry out of a table.
    pub fn take(&mut self, name: &str) -> Option<Entry> {
        let ValueKind::Table(entries) = &mut self.kind else {
            return None;
        };
        let at = entries.iter().position(|entry| entry.name == name)?;
        Some(entries.remove(at))
    }

    /// The value of an entry, which is added if there is none; `None`: this is no table.
    pub fn at_or_insert(&mut self, absent: Entry) -> Option<&mut Self> {
        let ValueKind::Table(entries) = &mut self.kind else {
            return None;
        };
        let at = entries.iter().position(|entry| entry.name == absent.name);
        let at = at.unwrap_or_else(|| {
            entries.push(absent);
            entries.len() - 1
        });
        Some(&mut entries[at].value)
    }

    /// The value at a path: names of keys and numbers of items, from 0, between dots, such as `http.listener.0`.
    pub fn at_mut(&mut self, path: &str) -> Option<&mut Self> {
        path.split('.')
            .try_fold(self, |value, step| match &mut value.kind {
                ValueKind::Table(entries) => {
                    let mut entries = entries.iter_mut();
                    let entry = entries.find(|entry| entry.name == step);
                    entry.map(|entry| &mut entry.value)
                }
                ValueKind::List(items) => items.get_mut(step.parse::<usize>().ok()?),
                _ => None,
            })
    }

    /// A description of the value, for "found …".
    pub fn describe(&self) -> String {
        match &self.kind {
            ValueKind::Text(_) => "a string".to_owned(),
            ValueKind::Integer(number) => format!("the integer {number}"),
            ValueKind::Float(number) => format!("the number {number}"),
            ValueKind::Boolean(flag) => format!("`{flag}`"),
            ValueKind::Refused => "a value that was refused".to_owned(),
            ValueKind::Other(what) => (*what).to_owned(),
            ValueKind::List(_) => "a list".to_owned(),
            ValueKind::Table(_) => "a table".to_owned(),
        }
    }
}

/// The mistake of a file that has more than [`TOKENS_MAX`], whose last one ends at `end`.
pub(crate) fn too_many_tokens(end: usize) -> Mistake {
    let message = format!("more than {TOKENS_MAX} tokens");
    Mistake::new(Span::at(end), message).label("the file is not read any further")
}

/// The mistake of a value that is nested deeper than [`NESTING_MAX`].
pub(crate) fn too_deep(span: Span) -> Mistake {
    Mistake::new(span, format!("nested deeper than {NESTING_MAX} levels")).label("too deep")
}
