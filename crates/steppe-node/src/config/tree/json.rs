//! JSON into the tree, by the crate `jsonc-parser` with every extension off.

use jsonc_parser::ast::{Object, Value as Json};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Entry, Value, ValueKind, too_deep};
use crate::config::limits::NESTING_MAX;
use crate::config::mistake::{Mistake, Span};

/// RFC 8259, nothing more.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str) -> Result<Value, Vec<Mistake>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT).map_err(|error| {
        let what = error.kind().to_string();
        vec![
            Mistake::new(
                span(error.range()),
                format!("invalid JSON: {}", lower_first(&what)),
            )
            .label("here"),
        ]
    })?;
    let Some(Json::Object(root)) = parsed.value else {
        let found = parsed
            .value
            .map_or(Span::at(0), |value| span(value.range()));
        return Err(vec![
            Mistake::new(found, "a configuration is a JSON object").label("not an object"),
        ]);
    };
    let mut reader = Reader::default();
    let root = Value {
        span: opening(root.range),
        kind: reader.object(root, 0),
    };
    if reader.mistakes.is_empty() {
        Ok(root)
    } else {
        Err(reader.mistakes)
    }
}

#[derive(Default)]
struct Reader {
    mistakes: Vec<Mistake>,
}

impl Reader {
    fn value(&mut self, json: Json<'_>, depth: usize) -> Value {
        let mut at = span(json.range());
        let kind = match json {
            Json::Array(_) | Json::Object(_) if depth >= NESTING_MAX => {
                self.mistakes.push(too_deep(Span::at(at.start)));
                ValueKind::Other("a nested value")
            }
            Json::Object(object) => {
                at = opening(object.range);
                self.object(object, depth + 1)
            }
            Json::Array(array) => {
                let items = array.elements.into_iter();
                ValueKind::List(items.map(|item| self.value(item, depth + 1)).collect())
            }
            Json::StringLit(text) => ValueKind::Text(text.value.into_owned()),
            Json::NumberLit(number) => self::number(number.value),
            Json::BooleanLit(flag) => ValueKind::Boolean(flag.value),
            Json::NullKeyword(_) => ValueKind::Other("null"),
        };
        Value { span: at, kind }
    }

    fn object(&mut self, object: Object<'_>, depth: usize) -> ValueKind {
        let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
        let mut seen = std::collections::HashMap::new();
        for property in object.properties {
            let name_span = span(property.name.range());
            let name = property.name.into_string();
            if let Some(first) = seen.insert(name.clone(), name_span) {
                self.mistakes.push(
                    Mistake::new(name_span, format!("duplicate key `{name}`"))
                        .label("again here")
                        .also(first, "first here"),
                );
            }
            let value = self.value(property.value, depth);
            entries.push(Entry {
                name,
                name_span,
                value,
            });
        }
        ValueKind::Table(entries)
    }
}

fn number(text: &str) -> ValueKind {
    if text.contains(['.', 'e', 'E']) {
        return text
            .parse()
            .map_or(ValueKind::Other("a number"), ValueKind::Float);
    }
    text.parse().map_or(
        ValueKind::Other("a number that is too large"),
        ValueKind::Integer,
    )
}

fn span(range: Range) -> Span {
    Span::from(range.start..range.end)
}

/// A whole object would be quoted over all its lines: its brace says where it stands.
fn opening(range: Range) -> Span {
    Span::from(range.start..range.start + 1)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
