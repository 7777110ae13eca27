//! JSON Schema of the configuration, generated from the table of keys.
//!
//! Invariant: the reader accepts every file that the schema accepts, but for the contents of strings and rules between
//! keys; a key that is not supported yet is there with its description, and accepts no value. Spec: JSON Schema draft
//! 2020-12.

use serde_json::{Map, Value, json};

use crate::form::AnyForm;
use crate::table::{Absent, Kind, Needs, Spec, Support, Table, Tagged, Variant};
use crate::units::{duration_text, size_text};

/// The schema of a file with these keys, for editors.
#[must_use]
pub fn schema(title: &str, root: &'static Table) -> Value {
    let mut schema = table(root, None);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    });
    if let (Value::Object(schema), Value::Object(head)) = (&mut schema, head) {
        // The head comes first in the output.
        let keys = std::mem::take(schema);
        schema.extend(head);
        schema.extend(keys);
    }
    schema
}

fn table(table: &Table, tag: Option<(&Tagged, &Variant)>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some((tagged, variant)) = tag {
        let tag = json!({ "description": tagged.tag_doc, "const": variant.name });
        properties.insert(tagged.tag.to_owned(), tag);
        required.push(tagged.tag);
    }
    for key in table.keys {
        properties.insert(key.name.to_owned(), property(key));
        let absent = match &key.support {
            Support::Served { absent, .. } => *absent,
            Support::Later => Absent::Nothing,
        };
        if matches!(absent, Absent::Required) {
            required.push(key.name);
        }
    }
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(table.doc));
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    let keyword = match table.needs {
        Needs::Nothing => None,
        Needs::One(_) => Some("oneOf"),
        Needs::Any(_) => Some("anyOf"),
    };
    if let Some(keyword) = keyword {
        // Keys that are not supported yet count: then they are refused, not their absence.
        let names = table.needs.names().iter();
        let choices = names.map(|name| json!({ "required": [name] }));
        schema.insert(keyword.to_owned(), choices.collect());
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Value::Object(schema)
}

fn property(key: &Spec) -> Value {
    let Support::Served { kind, absent } = &key.support else {
        return later(key.doc);
    };
    let mut schema = match self::kind(kind) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.insert("description".to_owned(), json!(key.doc));
    let default = match absent {
        Absent::Required
        | Absent::Nothing
        | Absent::TextsWhere { .. }
        | Absent::TableWhere { .. } => None,
        Absent::Text(text) => Some(json!(text)),
        Absent::Number(number) => Some(json!(number)),
        Absent::No => Some(json!(false)),
        Absent::Yes => Some(json!(true)),
        Absent::Texts(texts) => Some(json!(texts)),
        Absent::Table => Some(json!({})),
    };
    if let Some(default) = default {
        schema.insert("default".to_owned(), default);
    }
    Value::Object(schema)
}

fn later(doc: &str) -> Value {
    json!({ "description": format!("{doc} Not supported yet."), "not": {} })
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text(form) => text(*form),
        Kind::Integer(min, max) => {
            or_placeholder(json!({ "type": "integer", "minimum": min, "maximum": max }))
        }
        Kind::Duration(min, max) => json!({
            "type": "string",
            "pattern": pattern("^[0-9]+(\\.[0-9]{1,9})?(us|ms|s|m|h|d)$"),
            "$comment": format!("from {} to {}", duration_text(*min), duration_text(*max)),
        }),
        Kind::Size(min, max) => json!({
            "type": "string",
            "pattern": pattern("^(0|[0-9]+(\\.[0-9]{1,9})?(B|KiB|MiB|GiB|TiB))$"),
            "$comment": format!("from {} to {}", size_text(*min), size_text(*max)),
        }),
        Kind::Share => json!({ "anyOf": [
            { "type": "string", "pattern": pattern("^[0-9]+(\\.[0-9]+)?%$") },
            { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
        ] }),
        Kind::Real(f64::MIN_POSITIVE) => {
            or_placeholder(json!({ "type": "number", "exclusiveMinimum": 0 }))
        }
        Kind::Real(min) => or_placeholder(json!({ "type": "number", "minimum": min })),
        Kind::Choice(choices) => json!({ "anyOf": [
            { "enum": choices.names() },
            { "type": "string", "pattern": PLACEHOLDER },
        ] }),
        Kind::Boolean => or_placeholder(json!({ "type": "boolean" })),
        Kind::List(item, min) => list(item, *min),
        Kind::Set(item) => list(item, 1),
        Kind::OneOrMany(item) => json!({ "anyOf": [self::kind(item), list(item, 1)] }),
        Kind::Map(form, item) => map(*form, self::kind(item)),
        Kind::Table(table) => self::table(table, None),
        Kind::Tagged(tagged) => self::tagged(tagged),
        Kind::Either(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(self::kind).collect();
            json!({ "anyOf": kinds })
        }
    }
}

/// A string with a value of the environment or of a file.
const PLACEHOLDER: &str = "\\$\\{(env|file):";

/// A pattern for strings, or for a placeholder in their place.
fn pattern(pattern: &str) -> String {
    format!("{pattern}|{PLACEHOLDER}")
}

/// The schema of a value that is no string, or of a placeholder in its place: `pattern` applies to strings alone.
fn or_placeholder(mut schema: Value) -> Value {
    let of_value = schema["type"].take();
    schema["type"] = json!([of_value, "string"]);
    schema["pattern"] = json!(PLACEHOLDER);
    schema
}

fn list(item: &Kind, min: usize) -> Value {
    let mut schema = json!({ "type": "array", "items": kind(item) });
    if min > 0 {
        schema["minItems"] = json!(min);
    }
    schema
}

fn map(form: &dyn AnyForm, item: Value) -> Value {
    json!({ "type": "object", "propertyNames": text(form), "additionalProperties": item })
}

fn tagged(tagged: &Tagged) -> Value {
    let variants = tagged.variants.iter();
    let variants = variants.map(|variant| table(variant.table, Some((tagged, variant))));
    json!({ "description": tagged.doc, "anyOf": variants.collect::<Vec<_>>() })
}

fn text(form: &dyn AnyForm) -> Value {
    match form.pattern() {
        Some(pattern) => json!({ "type": "string", "pattern": self::pattern(pattern) }),
        None => json!({ "type": "string" }),
    }
}
