//! The syntaxes of a file: TOML and JSON give the same tree.
//!
//! Invariant: entries stand in the order of the file, no key twice, no deeper than
//! [`NESTING_MAX`](crate::limits::NESTING_MAX). Spec: TOML 1.1, RFC 8259.

mod json;
mod toml;

use std::ops::Range;

use crate::mistakes::Mistakes;
use crate::tree::Value;

/// Syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// TOML.
    Toml,
    /// JSON without extensions.
    Json,
}

impl Syntax {
    /// The syntax by the extension `.json` or `.toml`, else by the first character.
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

/// Reads a file; `None` if its syntax is wrong, and the mistakes are reported.
pub fn parse(syntax: Syntax, text: &str, mistakes: &mut Mistakes) -> Option<Value> {
    let (tree, unsure) = parse_part(syntax, text, mistakes)?;
    unsure.is_empty().then_some(tree)
}

/// Reads as much of a file as its syntax allows, and the bytes around mistakes of the syntax, which
/// may be misread: none if the file is whole. `None`: nothing can be read.
pub fn parse_part(
    syntax: Syntax,
    text: &str,
    mistakes: &mut Mistakes,
) -> Option<(Value, Vec<Range<usize>>)> {
    match syntax {
        Syntax::Toml => toml::parse(text, mistakes),
        Syntax::Json => json::parse(text, mistakes).map(|tree| (tree, Vec::new())),
    }
}
