//! A tree as TOML.
//!
//! Invariant: reading the text gives the tree that was written, but for the places of its values; placeholders are
//! kept. Non-goals: comments and layout, which a tree does not have.

use toml::{Table, Value as Toml};

use crate::tree::{Entry, Value, ValueKind};

/// The text of a file; `None`: it has a value that TOML lacks, which no key takes either.
#[must_use]
pub fn toml(tree: &Value) -> Option<String> {
    match &tree.kind {
        ValueKind::Table(entries) => Some(table(entries)?.to_string()),
        _ => None,
    }
}

fn table(entries: &[Entry]) -> Option<Table> {
    let entries = entries.iter();
    entries
        .map(|entry| Some((entry.name.clone(), value(&entry.value)?)))
        .collect()
}

fn value(written: &Value) -> Option<Toml> {
    if let Some(placeholder) = &written.placeholder {
        return Some(Toml::String(placeholder.written.to_string()));
    }
    Some(match &written.kind {
        ValueKind::Text(text) => Toml::String(text.clone()),
        ValueKind::Integer(number) => Toml::Integer(i64::try_from(*number).ok()?),
        ValueKind::Float(number) => Toml::Float(*number),
        ValueKind::Boolean(flag) => Toml::Boolean(*flag),
        ValueKind::Other(_) | ValueKind::Refused => return None,
        ValueKind::List(items) => Toml::Array(items.iter().map(value).collect::<Option<_>>()?),
        ValueKind::Table(entries) => Toml::Table(table(entries)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::Mistakes;
    use crate::syntax::{Syntax, parse};

    #[test]
    fn a_file_is_written_in_its_order() {
        let text = r#"{"z": {"c": {"x.y": {"k": [1, "a\nb", 0.5, true]}}, "a": [{"d": []}, {"e": {"f": "g"}}]}, "b": "c"}"#;
        let tree = |syntax, text: &str| parse(syntax, text, &mut Mistakes::default());
        let written = toml(&tree(Syntax::Json, text).expect("JSON")).expect("no null");
        assert_eq!(
            written,
            r#"b = "c"

[z.c."x.y"]
k = [1, """
a
b""", 0.5, true]

[[z.a]]
d = []

[[z.a]]

[z.a.e]
f = "g"
"#
        );
        let again = toml(&tree(Syntax::Toml, &written).expect("TOML")).expect("no date");
        assert_eq!(again, written);
    }
}
