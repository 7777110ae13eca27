//! Regular expressions that names are matched against.
//!
//! Invariant: matching reads each byte of a name once, allocates nothing and takes no lock: expressions are
//! compiled to a table of states, whose size is bounded. Non-goals: features that need more than that, such as
//! look-around and back-references, and letters beyond ASCII, which names have in Punycode.

use std::fmt;
use std::sync::Arc;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use crate::limits::{NAME_BYTES_MAX, PATTERN_BYTES_MAX};
use crate::wire::Name;

/// Regular expressions, any of which may match.
#[derive(Clone)]
pub struct NamePatterns {
    texts: Arc<[String]>,
    states: Arc<dense::DFA<Vec<u32>>>,
}

/// The reason why expressions can't be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The syntax is invalid, or not supported.
    #[error("{0}")]
    Syntax(String),
    /// The table of states is too large.
    #[error(
        "the expression needs more than {} KiB of states: split it, or use names and suffixes",
        PATTERN_BYTES_MAX >> 10
    )]
    TooLarge,
}

/// A name as text, on the stack.
struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

/// Bytes of a name's text: a byte that can't be printed takes four.
const TEXT_BYTES_MAX: usize = 4 * NAME_BYTES_MAX;

impl NamePatterns {
    /// Compiles expressions.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn new(texts: &[String]) -> Result<Self, PatternError> {
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .match_kind(MatchKind::All)
            .minimize(false)
            .dfa_size_limit(Some(PATTERN_BYTES_MAX))
            .determinize_size_limit(Some(PATTERN_BYTES_MAX));
        let syntax = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .case_insensitive(true);
        let thompson = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(PATTERN_BYTES_MAX));
        let mut compiler = thompson::Compiler::new();
        let compiled = compiler
            .syntax(syntax)
            .configure(thompson)
            .build_many(texts);
        let automaton = compiled.map_err(|error| match error.size_limit() {
            Some(_) => PatternError::TooLarge,
            None => PatternError::Syntax(reason(&error)),
        })?;
        let built = dense::Builder::new()
            .configure(config)
            .build_from_nfa(&automaton);
        let states = built.map_err(|error| match error.is_size_limit_exceeded() {
            true => PatternError::TooLarge,
            false => PatternError::Syntax(reason(&error)),
        })?;
        Ok(Self {
            texts: texts.into(),
            states: Arc::new(states),
        })
    }

    /// True if one of the expressions matches a name, written in lower case and without its last dot. The root is
    /// the empty text.
    #[must_use]
    pub fn is_match(&self, name: &Name) -> bool {
        let text = Text::of(name);
        let input = Input::new(&text.bytes[..text.len]).earliest(true);
        // No byte makes the search fail: none is configured to quit.
        self.states
            .try_search_fwd(&input)
            .is_ok_and(|found| found.is_some())
    }
}

impl PartialEq for NamePatterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl fmt::Debug for NamePatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamePatterns").field(&self.texts).finish()
    }
}

/// The message of an error: that of the last one in its chain of sources.
fn reason(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

impl Text {
    fn of(name: &Name) -> Self {
        let mut text = Self {
            bytes: [0; TEXT_BYTES_MAX],
            len: 0,
        };
        for label in name.labels() {
            if text.len > 0 {
                text.push(b'.');
            }
            for &byte in label {
                match byte {
                    b'.' | b'\\' => [b'\\', byte].map(|byte| text.push(byte)).len(),
                    b'!'..=b'~' => [byte.to_ascii_lowercase()]
                        .map(|byte| text.push(byte))
                        .len(),
                    _ => {
                        let digits = [byte / 100, byte / 10 % 10, byte % 10];
                        text.push(b'\\');
                        digits.map(|digit| text.push(b'0' + digit)).len()
                    }
                };
            }
        }
        text
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Result<NamePatterns, PatternError> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        NamePatterns::new(&texts)
    }

    #[test]
    fn names_are_matched_as_text_whatever_their_case() {
        let patterns = patterns(&[
            r"^ads?[0-9]*\.",
            r"(^|\.)tracker\.example$",
            r"^x\\\.y\.",
            r"\\007",
        ]);
        let patterns = patterns.expect("expressions");
        for (name, expected) in [
            ("ads12.example.org", true),
            ("AD.Example.org", true),
            ("bads.example.org", false),
            ("a.TRACKER.example", true),
            ("tracker.example.org", false),
            (r"x\.y.example", true),
            ("x.y.example", false),
            (r"bell\007.example", true),
            (".", false),
        ] {
            let name = name.parse().expect("a name");
            assert_eq!(patterns.is_match(&name), expected, "{name}");
        }
        let all = super::tests::patterns(&["^$"]).expect("an expression");
        assert!(all.is_match(&Name::ROOT));
    }

    #[test]
    fn what_is_no_expression_or_takes_too_much_is_refused() {
        let error = patterns(&["a(b"]).expect_err("unclosed");
        assert_eq!(error, PatternError::Syntax("unclosed group".to_owned()));
        assert!(matches!(patterns(&["(?=a)"]), Err(PatternError::Syntax(_))));
        let many_states = "a[ab]{60}b{60}(a|b){40}c".repeat(20);
        for large in [r"(a|b){1000}{1000}", "[ab]*a[ab]{20}$", &many_states] {
            assert_eq!(patterns(&[large]), Err(PatternError::TooLarge), "{large}");
        }
    }
}
