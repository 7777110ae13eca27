//! TOML into the tree, by the crate `toml`, which goes on after a mistake.

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use super::{Entry, Value, ValueKind, too_deep};
use crate::config::limits::NESTING_MAX;
use crate::config::mistake::{Mistake, Span};

pub(super) fn parse(text: &str) -> Result<Value, Vec<Mistake>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(one_a_line(text, errors.iter().map(mistake)));
    }
    let mut deep = Vec::new();
    let entries = entries(root.get_ref(), 0, &mut deep);
    let root = Value {
        span: Span::at(0),
        kind: ValueKind::Table(entries),
    };
    if deep.is_empty() { Ok(root) } else { Err(deep) }
}

fn mistake(error: &::toml::de::Error) -> Mistake {
    let span = error.span().map_or(Span::at(0), Span::from);
    let (what, expected) = match error.message().split_once(", expected ") {
        Some((what, expected)) => (what, Some(expected)),
        None => (error.message(), None),
    };
    let mistake = Mistake::new(span, format!("invalid TOML: {what}"));
    match expected {
        Some(expected) if expected != "nothing" => mistake.label(format!("expected {expected}")),
        _ => mistake.label("here"),
    }
}

/// After a mistake the parser often stumbles again over the rest of the line: only the first of a
/// line says something.
fn one_a_line(text: &str, mistakes: impl Iterator<Item = Mistake>) -> Vec<Mistake> {
    let mut mistakes: Vec<Mistake> = mistakes.collect();
    mistakes.sort_by_key(|mistake| mistake.span.start);
    mistakes.dedup_by(|later, earlier| {
        let between = text.get(earlier.span.start..later.span.start);
        between.is_some_and(|between| !between.contains('\n'))
    });
    mistakes
}

fn value(value: &Spanned<DeValue<'_>>, depth: usize, deep: &mut Vec<Mistake>) -> Value {
    let span = Span::from(value.span());
    let is_nested = matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
    if is_nested && depth >= NESTING_MAX {
        deep.push(too_deep(span));
        return Value {
            span,
            kind: ValueKind::Other("a nested value"),
        };
    }
    let kind = match value.get_ref() {
        DeValue::String(text) => ValueKind::Text(text.clone().into_owned()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or(ValueKind::Other("a number"), ValueKind::Float),
        DeValue::Boolean(flag) => ValueKind::Boolean(*flag),
        DeValue::Datetime(_) => ValueKind::Other("a date or time"),
        DeValue::Array(items) => ValueKind::List(
            items
                .iter()
                .map(|item| self::value(item, depth + 1, deep))
                .collect(),
        ),
        DeValue::Table(table) => ValueKind::Table(entries(table, depth + 1, deep)),
    };
    Value { span, kind }
}

fn integer(number: &DeInteger<'_>) -> ValueKind {
    i128::from_str_radix(number.as_str(), number.radix()).map_or(
        ValueKind::Other("a number that is too large"),
        ValueKind::Integer,
    )
}

fn entries(table: &DeTable<'_>, depth: usize, deep: &mut Vec<Mistake>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(name, item)| Entry {
            name: name.get_ref().clone().into_owned(),
            name_span: Span::from(name.span()),
            value: value(item, depth, deep),
        })
        .collect();
    // The map is sorted by key.
    entries.sort_by_key(|entry| entry.name_span.start);
    entries
}
