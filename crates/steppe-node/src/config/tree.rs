//! A configuration file as a tree of values that know where they stand.
//!
//! Invariant: TOML and JSON give the same tree, entries in the order of the file, no key twice, no
//! deeper than [`NESTING_MAX`]. Non-goals: what the values mean. Spec: TOML 1.1, RFC 8259.

mod json;
mod toml;

use std::ops::Range;

use crate::config::limits::{NESTING_MAX, TOKENS_MAX};
use crate::config::mistake::{Mistake, Span};
use crate::config::mistakes::Mistakes;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The value itself; for a table, what opens it (`[header]` or `{`).
    pub span: Span,
    /// What it is.
    pub kind: ValueKind,
}

/// What a [`Value`] is.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueKind {
    /// A string, after its escapes.
    Text(String),
    /// A number without a fraction.
    Integer(i128),
    /// A number with one.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// What no key takes: a date, `null`. Named with its article.
    Other(&'static str),
    /// A list.
    List(Vec<Value>),
    /// A table, in the order of the file.
    Table(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub name: String,
    /// Where the key stands.
    pub name_span: Span,
    /// What it is set to.
    pub value: Value,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// TOML.
    Toml,
    /// JSON without extensions.
    Json,
}

impl Syntax {
    /// By the extension `.json` or `.toml`, else by the first character.
    pub fn of(name: &str, text: &str) -> Self {
        let is_called = |ending: &str| {
            let start = name.len().saturating_sub(ending.len());
            name.as_bytes()[start..].eq_ignore_ascii_case(ending.as_bytes())
        };
        let begins_with_brace = text
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with('{');
        if is_called(".json") || (begins_with_brace && !is_called(".toml")) {
            Self::Json
        } else {
            Self::Toml
        }
    }
}

impl Value {
    /// Reads a file; `None` once what is wrong with its syntax is among the mistakes.
    #[cfg(test)]
    pub(super) fn parse(syntax: Syntax, text: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let (tree, unsure) = Self::parse_part(syntax, text, mistakes)?;
        unsure.is_empty().then_some(tree)
    }

    /// Reads as much of a file as its syntax allows, and the bytes that what is wrong with it makes
    /// unsure: none where it is whole. `None`: nothing can be read.
    pub(super) fn parse_part(
        syntax: Syntax,
        text: &str,
        mistakes: &mut Mistakes,
    ) -> Option<(Self, Vec<Range<usize>>)> {
        match syntax {
            Syntax::Toml => toml::parse(text, mistakes),
            Syntax::Json => json::parse(text, mistakes).map(|tree| (tree, Vec::new())),
        }
    }

    /// What it is, for "found …".
    pub fn describe(&self) -> String {
        match &self.kind {
            ValueKind::Text(_) => "a string".to_owned(),
            ValueKind::Integer(number) => format!("the integer {number}"),
            ValueKind::Float(number) => format!("the number {number}"),
            ValueKind::Boolean(flag) => format!("`{flag}`"),
            ValueKind::Other(what) => (*what).to_owned(),
            ValueKind::List(_) => "a list".to_owned(),
            ValueKind::Table(_) => "a table".to_owned(),
        }
    }
}

/// The mistake of a file that has more than [`TOKENS_MAX`], whose last one ends at `end`.
fn too_many_tokens(end: usize) -> Mistake {
    let message = format!("more than {TOKENS_MAX} tokens");
    Mistake::new(Span::at(end), message).label("the file is not read any further")
}

/// The mistake of a value that stands deeper than [`NESTING_MAX`].
fn too_deep(span: Span) -> Mistake {
    Mistake::new(span, format!("nested deeper than {NESTING_MAX} levels")).label("too deep")
}
