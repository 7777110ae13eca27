//! TOML into the tree, by the crate `toml`, which continues after a mistake.
//!
//! Invariant: memory for a broken file does not grow with its mistakes. The parser of `toml` keeps
//! an error for each, so a long file first goes through `toml_parser`, the grammar below it, which
//! reports errors one by one; only a text that it finds well-formed is parsed.

use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};
use toml_parser::parser::{RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{Expected, ParseError, Source};

use crate::limits::{NESTING_MAX, RECOVERED_TOKENS_MAX, TOKENS_MAX};
use crate::mistake::{Mistake, Span, shown};
use crate::mistakes::Mistakes;
use crate::tree::{Entry, Value, ValueKind, too_deep, too_many_tokens};

/// Reads as much as the syntax allows. The second part has the bytes around mistakes of the syntax:
/// empty if there are none.
pub(super) fn parse(text: &str, mistakes: &mut Mistakes) -> Option<(Value, Vec<Range<usize>>)> {
    let tokens = Source::new(text).lex().take(TOKENS_MAX + 1).count();
    if tokens > TOKENS_MAX {
        let last = Source::new(text).lex().nth(TOKENS_MAX);
        mistakes.push(too_many_tokens(last.map_or(0, |last| last.span().start())));
        return None;
    }
    if tokens > RECOVERED_TOKENS_MAX && !is_well_formed(text, mistakes) {
        return None;
    }
    let (root, mut errors) = DeTable::parse_recoverable(text);
    let mut unsure = Vec::new();
    if !errors.is_empty() {
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        let mut lines = Lines::new(text);
        for error in &errors {
            let span = error.span().map_or(Span::at(0), Span::from);
            if lines.is_first_at(span) {
                unsure.push(statement(text, span.start));
                let message = error.message().split_once(", expected ");
                let (what, expected) = message
                    .map_or((error.message(), None), |(what, expected)| {
                        (what, Some(expected))
                    });
                mistakes.error_at(span, || mistake((text, span), what, expected));
            }
        }
    }
    let mut deep = Deep {
        mistakes,
        is_found: false,
    };
    let root = Value::new(
        Span::at(0),
        ValueKind::Table(entries(root.into_inner(), 0, &mut deep)),
    );
    (!deep.is_found).then_some((root, unsure))
}

/// The bytes of a key and its value around `at`; behind a header, also those of its table.
fn statement(text: &str, at: usize) -> Range<usize> {
    let before = text.get(..at).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let lines = text.get(start..).unwrap_or_default().split_inclusive('\n');
    let mut lines = lines.enumerate();
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let of_header = text.get(start..).is_some_and(is_header);
    let mut end = start;
    for (number, line) in &mut lines {
        let begins = is_header(line) || (!of_header && line.contains('='));
        if number > 0 && begins {
            break;
        }
        end += line.len();
    }
    start..end
}

/// True if the grammar accepts a text; if not, every error is among the mistakes.
fn is_well_formed(text: &str, mistakes: &mut Mistakes) -> bool {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let mut lines = Lines::new(text);
    let mut is_well_formed = true;
    let mut sink = |error: ParseError| {
        is_well_formed = false;
        let span = error
            .unexpected()
            .map_or(Span::at(0), |span| Span::from(span.start()..span.end()));
        if lines.is_first_at(span) {
            mistakes.error_at(span, || {
                let expected = error.expected().map(expected);
                mistake((text, span), error.description(), expected.as_deref())
            });
        }
    };
    let mut nothing = ();
    let mut receiver = ValidateWhitespace::new(&mut nothing, source);
    let mut receiver = RecursionGuard::new(&mut receiver, DEPTH_MAX);
    parse_document(&tokens, &mut receiver, &mut sink);
    is_well_formed
}

/// The nesting depth at which `toml` stops.
const DEPTH_MAX: u32 = 80;

fn mistake((text, span): (&str, Span), what: &str, expected: Option<&str>) -> Mistake {
    if let Some((word, span)) = unquoted(text, span) {
        return Mistake::new(span, "invalid TOML: a string without quotes")
            .label("not in quotes")
            .help(format!("write \"{}\"", shown(word)));
    }
    let mistake = Mistake::new(span, format!("invalid TOML: {what}"));
    match expected {
        Some(expected) if expected != "nothing" => mistake.label(format!("expected {expected}")),
        _ => mistake.label("here"),
    }
}

/// A value around a span that can only be intended as a string: an address, a URL, a path, a word.
fn unquoted(text: &str, span: Span) -> Option<(&str, Span)> {
    let is_delimiter = |char: char| "=[]{},\"'#".contains(char) || char.is_whitespace();
    let before = text.get(..span.start)?;
    let start = before.rfind(is_delimiter).map_or(0, |at| {
        at + before
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .map_or(1, char::len_utf8)
    });
    let rest = text.get(start..)?;
    let word = rest.get(..rest.find(is_delimiter).unwrap_or(rest.len()))?;
    let before = text.get(..start)?.trim_end_matches([' ', '\t']);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_header = line.trim_start().starts_with('[');
    let is_value = before.ends_with(['=', '[', ',']) && !is_header;
    let is_line_end = rest.get(word.len()..)?.trim_start_matches([' ', '\t']);
    let is_alone =
        is_line_end.is_empty() || is_line_end.starts_with(['\r', '\n', ',', ']', '}', '#']);
    let is_number = word
        .chars()
        .all(|char| char.is_ascii_digit() || "+-_.eE".contains(char))
        && word.matches('.').count() < 2;
    let is_meant = is_value && is_alone && !is_number && !word.is_empty();
    let end = start + word.len();
    is_meant.then_some((word, Span { start, end }))
}

/// The expected tokens in the words of `toml`.
fn expected(expected: &[Expected]) -> String {
    let names = expected.iter().map(|each| match each {
        Expected::Literal("\n") => "newline".to_owned(),
        Expected::Literal("`") => "'`'".to_owned(),
        Expected::Literal(literal) => format!("`{}`", literal.escape_debug()),
        Expected::Description(what) => (*what).to_owned(),
        _ => "etc".to_owned(),
    });
    match expected {
        [] => "nothing".to_owned(),
        _ => names.collect::<Vec<_>>().join(", "),
    }
}

/// The lines of mistakes. After a mistake the parser often stumbles again over the rest of the
/// line: only the first of a line is of use.
struct Lines<'a> {
    text: &'a [u8],
    /// The line of the last mistake ends before this byte.
    end: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.as_bytes();
        Self { text, end: 0 }
    }

    /// True if a mistake is the first of its line; they come in the order of the file.
    fn is_first_at(&mut self, span: Span) -> bool {
        if span.start < self.end {
            return false;
        }
        let rest = self.text.get(span.start..).unwrap_or_default();
        let newline = rest.iter().position(|&byte| byte == b'\n');
        self.end = newline.map_or(usize::MAX, |newline| span.start + newline + 1);
        true
    }
}

/// Values that are nested too deep.
struct Deep<'a> {
    mistakes: &'a mut Mistakes,
    is_found: bool,
}

fn value(value: Spanned<DeValue<'_>>, depth: usize, deep: &mut Deep<'_>) -> Value {
    let span = Span::from(value.span());
    let is_nested = matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
    if is_nested && depth >= NESTING_MAX {
        deep.mistakes.push(too_deep(span));
        deep.is_found = true;
        return Value::new(span, ValueKind::Other("a nested value"));
    }
    let kind = match value.into_inner() {
        DeValue::String(text) => ValueKind::Text(text.into_owned()),
        DeValue::Integer(number) => integer(&number),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or(ValueKind::Other("a number"), ValueKind::Float),
        DeValue::Boolean(flag) => ValueKind::Boolean(flag),
        DeValue::Datetime(_) => ValueKind::Other("a date or time"),
        DeValue::Array(items) => ValueKind::List(
            items
                .into_iter()
                .map(|item| self::value(item, depth + 1, deep))
                .collect(),
        ),
        DeValue::Table(table) => ValueKind::Table(entries(table, depth + 1, deep)),
    };
    Value::new(span, kind)
}

fn integer(number: &DeInteger<'_>) -> ValueKind {
    i128::from_str_radix(number.as_str(), number.radix()).map_or(
        ValueKind::Other("a number that is too large"),
        ValueKind::Integer,
    )
}

fn entries(table: DeTable<'_>, depth: usize, deep: &mut Deep<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(name, item)| Entry {
            name_span: Span::from(name.span()),
            name: name.into_inner().into_owned(),
            value: value(item, depth, deep),
        })
        .collect();
    // The place of a table is that of the last key read.
    entries.sort_by_key(|entry| entry.name_span.start);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        if let Some((_, unsure)) = parse(text, &mut mistakes) {
            assert!(!unsure.is_empty(), "{text}");
        }
        mistakes.finish().0
    }

    /// Both parsers report the same mistakes.
    #[test]
    fn a_long_file_is_told_its_errors_as_a_short_one() {
        let comments = "# a comment\n".repeat(RECOVERED_TOKENS_MAX);
        for broken in [
            "a = = 2\n",
            "a = \"x\n",
            "a = 1 b\n",
            "= 1\n",
            "a\n",
            "[a]]\n",
            "[a\nb = 1\n",
            "a = [1 2]\n",
            "a = {b = 1, , c = 2}\n",
            "x y z\nx y\n",
            "a.. = 1\n",
            "a = 1\r b = 2\n",
            "# \u{7}\na = ]\n",
        ] {
            let short = mistakes(broken);
            assert!(!short.is_empty());
            assert_eq!(mistakes(&format!("{broken}{comments}")), short);
        }
    }

    #[test]
    fn what_the_grammar_accepts_is_judged_in_a_long_file_too() {
        let comments = "# a comment\n".repeat(RECOVERED_TOKENS_MAX);
        let broken = "a = 1\na = 2\n[b]\n[b]\n";
        let short = mistakes(broken);
        assert_eq!(short.len(), 2);
        assert_eq!(mistakes(&format!("{broken}{comments}")), short);
    }
}
