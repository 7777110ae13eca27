//! The configuration as it is in force, defaults included, for `/config`.
//!
//! Invariant: it is printed from what was read, by the table of keys: every key that has a value,
//! in the table's order, secrets masked. Apart from masked values, reading it as JSON gives the
//! same configuration. Non-goals: the contents of files that are named, which are never read here.

use serde_json::{Map, Value, json};

use crate::form::{AnyForm, MASK};
use crate::table::{Kind, Support};
use crate::typed::{Fields, Named, Node, Typed};
use crate::units::{duration_text, percent_text, size_text};

/// Which strings are masked.
#[derive(Clone, Copy)]
enum Masking {
    None,
    /// All of them; in a map, those whose name is one of a secret. The form makes what stands for them.
    Secret(Option<&'static dyn AnyForm>),
}

/// Every setting in force, as JSON with the keys of the file.
#[must_use]
pub fn effective(file: &Fields) -> Value {
    Value::Object(table(file))
}

fn table(fields: &Fields) -> Map<String, Value> {
    let shown = fields.table.keys.iter().filter_map(|key| {
        let masking = match &key.support {
            Support::Served { kind, .. } if key.is_secret => Masking::Secret(form(kind)),
            _ => Masking::None,
        };
        let node = fields.value(key)?;
        Some((key.name.to_owned(), value(node, masking)))
    });
    shown.collect()
}

/// The form of the strings that a key takes.
fn form(kind: &'static Kind) -> Option<&'static dyn AnyForm> {
    match kind {
        Kind::Text(form) => Some(*form),
        Kind::List(item, _) | Kind::OneOrMany(item) | Kind::Map(_, item) => form(item),
        _ => None,
    }
}

fn value(node: &Node, masking: Masking) -> Value {
    match &node.typed {
        Typed::Table(fields) => Value::Object(table(fields)),
        Typed::Variant {
            tag, name, fields, ..
        } => {
            let mut object = Map::new();
            object.insert((*tag).to_owned(), json!(name));
            object.extend(table(fields));
            Value::Object(object)
        }
        Typed::List(items) => items.iter().map(|item| value(item, masking)).collect(),
        Typed::Map(entries) => {
            let shown = entries
                .iter()
                .map(|entry| (entry.name.clone(), named(entry, masking)));
            Value::Object(shown.collect())
        }
        typed => match masking {
            Masking::Secret(form) => masked(typed, form),
            Masking::None => scalar(typed),
        },
    }
}

fn masked(typed: &Typed, form: Option<&dyn AnyForm>) -> Value {
    match (typed, form) {
        (Typed::Text(text), Some(form)) => json!(form.mask(text)),
        (Typed::Parsed(parsed), Some(form)) => json!(form.mask(&parsed.shown())),
        _ => json!(MASK),
    }
}

fn named(entry: &Named, masking: Masking) -> Value {
    let masking = match masking {
        Masking::Secret(_) if is_secret(&entry.name) => masking,
        _ => Masking::None,
    };
    value(&entry.value, masking)
}

fn scalar(typed: &Typed) -> Value {
    match typed {
        Typed::Text(text) => json!(text),
        Typed::Choice(chosen) => json!(chosen.name),
        Typed::Boolean(flag) => json!(flag),
        Typed::Number(number) => json!(number),
        Typed::Size(bytes) => json!(size_text(*bytes)),
        // A share is read by dividing by 100, which this undoes to the last digit but one.
        Typed::Share(share) => json!(percent_text(*share)),
        Typed::Real(number) => json!(number),
        Typed::Duration(duration) => json!(duration_text(*duration)),
        Typed::File(path) => json!(path.to_string_lossy()),
        Typed::Parsed(parsed) => json!(parsed.shown()),
        Typed::Invalid
        | Typed::List(_)
        | Typed::Map(_)
        | Typed::Table(_)
        | Typed::Variant { .. } => Value::Null,
    }
}

/// True if a name's value is better not shown: credentials, and whatever calls itself a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "passwd",
        "api-key",
        "apikey",
        "api_key",
        "credential",
        "signature",
        "session",
    ];
    words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::ANY;
    use crate::mistake::Span;
    use crate::table::{Needs, Spec, Table};
    use crate::typed::Field;

    static TABLE: Table = Table {
        name: "secrets",
        doc: "",
        keys: &[
            &Spec::new("token", Kind::Text(&ANY), "").secret(),
            &Spec::new("keys", Kind::List(&Kind::Text(&ANY), 0), "").secret(),
            &Spec::new("token_file", Kind::Text(&ANY), ""),
        ],
        needs: Needs::Nothing,
    };

    fn node(typed: Typed) -> Node {
        let span = Span::at(0);
        Node { span, typed }
    }

    #[test]
    fn the_table_says_which_keys_are_secret() {
        let text = || node(Typed::Text("s3cret".to_owned()));
        let values = [text(), node(Typed::List(vec![text(), text()])), text()];
        let given = TABLE.keys.iter().zip(values).map(|(key, value)| Field {
            key,
            span: Span::at(0),
            value,
        });
        let fields = Fields {
            table: &TABLE,
            span: Span::at(0),
            given: given.collect(),
        };
        assert_eq!(
            Value::Object(table(&fields)),
            json!({ "token": MASK, "keys": [MASK, MASK], "token_file": "s3cret" })
        );
    }
}
