//! JSON into the tree, by the crate `jsonc-parser` with every extension off.

use jsonc_parser::ast::{Object, Value as Json};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, Scanner, ScannerOptions, parse_to_ast};

use crate::limits::{NESTING_MAX, TOKENS_MAX};
use crate::mistake::{Mistake, Span, shown};
use crate::mistakes::Mistakes;
use crate::tree::{Entry, Value, ValueKind, too_deep, too_many_tokens};

/// RFC 8259 without extensions.
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

/// The parser keeps every token: they are counted first.
const SCAN: ScannerOptions = ScannerOptions {
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str, mistakes: &mut Mistakes) -> Option<Value> {
    if let Some(end) = end_of_tokens(text) {
        mistakes.push(too_many_tokens(end));
        return None;
    }
    let parsed = match parse_to_ast(text, &CollectOptions::default(), &STRICT) {
        Ok(parsed) => parsed,
        Err(error) => {
            let what = lower_first(&error.kind().to_string());
            let mistake = Mistake::new(span(error.range()), format!("invalid JSON: {what}"));
            mistakes.push(mistake.label("here"));
            return None;
        }
    };
    let Some(Json::Object(root)) = parsed.value else {
        let found = parsed
            .value
            .map_or(Span::at(0), |value| span(value.range()));
        let mistake = Mistake::new(found, "a configuration is a JSON object");
        mistakes.push(
            mistake
                .label("not an object")
                .help("write `{ … }` around the keys"),
        );
        return None;
    };
    let mut reader = Reader {
        mistakes,
        is_broken: false,
    };
    let root = Value::new(opening(root.range), reader.object(root, 0));
    (!reader.is_broken).then_some(root)
}

/// The end of the last allowed token of a file with too many; `None`: it has fewer.
fn end_of_tokens(text: &str) -> Option<usize> {
    let mut scanner = Scanner::new(text, &SCAN);
    for _ in 0..TOKENS_MAX {
        // The parser reports invalid tokens.
        scanner.scan().ok().flatten()?;
    }
    Some(scanner.token_end())
}

struct Reader<'a> {
    mistakes: &'a mut Mistakes,
    is_broken: bool,
}

impl Reader<'_> {
    fn value(&mut self, json: Json<'_>, depth: usize) -> Value {
        let mut at = span(json.range());
        let kind = match json {
            Json::Array(_) | Json::Object(_) if depth >= NESTING_MAX => {
                self.refuse(too_deep(Span::at(at.start)));
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
        Value::new(at, kind)
    }

    fn object(&mut self, object: Object<'_>, depth: usize) -> ValueKind {
        let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
        let mut seen = std::collections::HashMap::new();
        for property in object.properties {
            let name_span = span(property.name.range());
            let name = property.name.into_string();
            if let Some(first) = seen.insert(name.clone(), name_span) {
                let message = format!("duplicate key `{}`", shown(&name));
                let mistake = Mistake::new(name_span, message).label("again here");
                self.refuse(mistake.also(first, "first here"));
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

    fn refuse(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
        self.is_broken = true;
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

/// The opening brace of an object, to quote it alone: a whole object would be quoted over all its
/// lines.
fn opening(range: Range) -> Span {
    Span::from(range.start..range.start + 1)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
