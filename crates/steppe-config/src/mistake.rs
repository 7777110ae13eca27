//! Mistakes of a configuration: the problem, its place, and a way to mend it.
//!
//! Invariant: no control character of a file reaches a terminal. Non-goals: finding mistakes, and drawing them.

use std::ops::Range;

use miette::Severity;

use crate::limits::VALUE_CHARS_SHOWN_MAX;

/// Bytes of the file, from `start` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// A mistake of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The severity, which decides whether the configuration can be used all the same.
    pub severity: Severity,
    /// The place of the mistake.
    pub span: Span,
    /// The problem.
    pub message: String,
    /// The text under the span; empty: none.
    pub label: String,
    /// A way to correct it.
    pub help: Option<String>,
    /// Other places that are related to it.
    pub also: Vec<(Span, String)>,
}

impl Span {
    /// An empty span.
    pub fn at(start: usize) -> Self {
        Self { start, end: start }
    }

    /// The same span, moved by the bytes of the files before.
    #[must_use]
    pub(crate) fn shifted(self, bytes: usize) -> Self {
        Self {
            start: self.start + bytes,
            end: self.end + bytes,
        }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self {
            start: range.start,
            end: range.end,
        }
    }
}

impl Mistake {
    /// An error.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            span,
            message: message.into(),
            label: String::new(),
            help: None,
            also: Vec::new(),
        }
    }

    /// A warning: a setting that works, but is hardly intended.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::new(span, message)
        }
    }

    /// A note: a problem of another process or another time, and no reason to refuse the file.
    pub fn note(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Advice,
            ..Self::new(span, message)
        }
    }

    /// Sets the text under the span.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Replaces control characters: a report goes to a terminal.
    pub(crate) fn blot(&mut self) {
        for text in self.texts() {
            if text.contains(is_blotted) {
                *text = blotted(text);
            }
        }
    }

    /// All texts of the mistake.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let also = self.also.iter_mut().map(|(_, label)| label);
        let texts = [&mut self.message, &mut self.label].into_iter();
        texts.chain(&mut self.help).chain(also)
    }

    /// Adds another place.
    #[must_use]
    pub fn also(mut self, span: Span, label: impl Into<String>) -> Self {
        self.also.push((span, label.into()));
        self
    }
}

/// A value in a message: escaped, and cut where it is long.
pub fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars
        .by_ref()
        .take(VALUE_CHARS_SHOWN_MAX)
        .flat_map(|char| {
            let is_plain = matches!(char, '"' | '\'');
            let escaped = (!is_plain).then(|| char.escape_debug());
            escaped
                .into_iter()
                .flatten()
                .chain(is_plain.then_some(char))
        })
        .collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// The text with control characters replaced, byte for byte: spans stay valid.
pub(crate) fn blotted(text: &str) -> String {
    let mut blotted = String::with_capacity(text.len());
    for char in text.chars() {
        if is_blotted(char) {
            blotted.extend(std::iter::repeat_n('?', char.len_utf8()));
        } else {
            blotted.push(char);
        }
    }
    blotted
}

/// True for characters that control a terminal: control characters, and marks that change the direction of text.
fn is_blotted(char: char) -> bool {
    let turns_direction =
        matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (char.is_control() && !matches!(char, '\n' | '\r' | '\t')) || turns_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_nothing_that_it_obeys_and_spans_stay() {
        let text = "a\u{1b}[2J\u{9b}\tb\u{202e}c\u{2066}d\u{200f}e";
        let shown = blotted(text);
        assert_eq!(shown, "a?[2J??\tb???c???d???e");
        assert_eq!(shown.len(), text.len());
    }
}
