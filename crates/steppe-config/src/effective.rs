//! The configuration as it is in force, defaults included, for `/config`.
//!
//! Invariant: it is printed from the values that were read, by the table of keys: every key that
//! has a value, in the table's order, secrets masked. Apart from masked values, reading it as JSON
//! gives the same configuration. Non-goals: the contents of files that are named, which are never
//! read here.

use serde_json::{Map, Value, json};

use crate::form::{AnyForm, MASK};
use crate::mistake::Span;
use crate::table::{Kind, Spec, Support};
use crate::typed::{Fields, Named, Node, Typed};
use crate::units::{duration_text, percent_text, size_text};

/// The strings that are masked.
#[derive(Clone, Copy)]
enum Masking {
    None,
    /// All strings; in a map, those whose name is one of a secret. The form makes the replacement.
    Secret(Option<&'static dyn AnyForm>),
}

/// Every setting in force, as JSON with the keys of the file.
#[must_use]
pub fn effective(file: &Fields) -> Value {
    Value::Object(table(file))
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The keys from the top, such as `http.listener[0].listen`.
    pub key: String,
    /// The value, masked if it is a secret.
    pub value: Value,
    /// The place of its key; `None`: it is a default.
    pub place: Option<Span>,
}

/// Every setting in force, in the order of the tables of keys, with the place of each.
#[must_use]
pub fn settings(file: &Fields) -> Vec<Setting> {
    let mut settings = Vec::new();
    collect(file, "", &mut settings);
    settings
}

fn collect(fields: &Fields, above: &str, settings: &mut Vec<Setting>) {
    for key in fields.table.keys {
        let Some(node) = fields.value(key) else {
            continue;
        };
        let name = match above {
            "" => key.name.to_owned(),
            _ => format!("{above}.{}", key.name),
        };
        let shown = Shown {
            masking: masking(key),
            place: fields.given(key),
        };
        collect_below(node, &name, shown, settings);
    }
}

/// The part of a value that is shown.
#[derive(Clone, Copy)]
struct Shown {
    masking: Masking,
    /// The place of the key that has it; `None`: it is a default.
    place: Option<Span>,
}

fn collect_below(node: &Node, key: &str, shown: Shown, settings: &mut Vec<Setting>) {
    let Shown { masking, place } = shown;
    match &node.typed {
        Typed::Table(fields) => collect(fields, key, settings),
        Typed::Variant {
            tag, name, fields, ..
        } => {
            settings.push(Setting {
                key: format!("{key}.{tag}"),
                value: json!(name),
                place: place.map(|_| node.span),
            });
            collect(fields, key, settings);
        }
        Typed::List(items) if items.iter().any(|item| item.fields().is_some()) => {
            for (number, item) in items.iter().enumerate() {
                let key = format!("{key}[{number}]");
                collect_below(item, &key, shown, settings);
            }
        }
        Typed::Map(entries) => {
            for entry in entries {
                let key = format!("{key}.{}", written(&entry.name));
                let shown = Shown {
                    masking: masking.of(&entry.name),
                    place: place.map(|_| entry.span),
                };
                collect_below(&entry.value, &key, shown, settings);
            }
        }
        _ => settings.push(Setting {
            key: key.to_owned(),
            value: value(node, masking),
            place,
        }),
    }
}

/// A name of a map in the syntax of TOML.
fn written(name: &str) -> String {
    let is_bare = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => json!(name).to_string(),
    }
}

fn table(fields: &Fields) -> Map<String, Value> {
    let shown = fields.table.keys.iter().filter_map(|key| {
        let node = fields.value(key)?;
        Some((key.name.to_owned(), value(node, masking(key))))
    });
    shown.collect()
}

fn masking(key: &'static Spec) -> Masking {
    match &key.support {
        Support::Served { kind, .. } if key.is_secret => Masking::Secret(form(kind)),
        _ => Masking::None,
    }
}

impl Masking {
    /// The masking of a value of a map, by its name.
    fn of(self, name: &str) -> Self {
        match self {
            Self::Secret(_) if is_secret(name) => self,
            _ => Self::None,
        }
    }
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
    if let Some(placeholder) = &node.placeholder {
        return json!(placeholder.written);
    }
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
    value(&entry.value, masking.of(&entry.name))
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

/// True if a name's value is better not shown: credentials, and names that contain a word for a
/// secret.
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
        Node::new(Span::at(0), typed)
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
