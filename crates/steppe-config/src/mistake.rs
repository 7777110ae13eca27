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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Decides whether the configuration can be used all the same.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// The problem.
    pub message: String,
    /// Under the span; empty: nothing.
    pub label: String,
    /// A way to mend it.
    pub help: Option<String>,
    /// Other places that have to do with it.
    pub also: Vec<(Span, String)>,
}

impl Span {
    /// An empty span.
    pub fn at(start: usize) -> Self {
        Self { start, end: start }
    }

    /// The same behind so many bytes of other files.
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

    /// Something that works, and is hardly meant.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::new(span, message)
        }
    }

    /// Something that is wrong for another process, or at another time, and is no reason to refuse.
    pub fn note(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Advice,
            ..Self::new(span, message)
        }
    }

    /// Sets what stands under the span.
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

    /// Takes control characters out: a report goes to a terminal.
    pub(crate) fn blot(&mut self) {
        for text in self.texts() {
            if text.contains(is_blotted) {
                *text = blotted(text);
            }
        }
    }

    /// Everything that it says.
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

/// The text with control characters replaced, byte for byte: spans go on to hold.
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

/// True for what a terminal obeys: control characters, and marks that turn the direction of text.
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
