//! The manual page of a file, generated from its table of keys.
//!
//! Invariant: every table and every key is there, with its type and its default; a key that is not
//! supported yet says so. Spec: `man-pages(7)`.

use roff::{Inline, Roff, bold, italic, roman};

use crate::table::{Absent, Kind, Spec, Support, Table};

/// Adds the sections of a file with these keys: one for each table.
pub fn sections(page: &mut Roff, root: &'static Table) {
    table(page, root, "");
}

/// Adds the section of a table, then those of the tables within it.
fn table(page: &mut Roff, table: &Table, place: &str) {
    let heading = if place.is_empty() { "TOP LEVEL" } else { place };
    section(page, heading, table.doc);
    table.keys.iter().for_each(|key| entry(page, key));
    for key in table.keys {
        if let Support::Served { kind, .. } = &key.support {
            let place = match place {
                "" => key.name.to_owned(),
                _ => format!("{place}.{}", key.name),
            };
            within(page, kind, &place);
        }
    }
}

fn within(page: &mut Roff, kind: &Kind, place: &str) {
    match kind {
        Kind::Table(inner) => table(page, inner, place),
        Kind::List(item, _) | Kind::Set(item) | Kind::OneOrMany(item) => within(page, item, place),
        Kind::Map(_, item) => within(page, item, &format!("{place}.NAME")),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| within(page, kind, place)),
        Kind::Tagged(tagged) => {
            section(page, place, tagged.doc);
            page.control("TP", []);
            page.text([bold(tagged.tag)]);
            page.text([roman(format!("{} Required.", tagged.tag_doc))]);
            for variant in tagged.variants {
                let place = format!("{place}, {} = \"{}\"", tagged.tag, variant.name);
                table(page, variant.table, &place);
            }
        }
        _ => {}
    }
}

fn section(page: &mut Roff, heading: &str, doc: &str) {
    page.control("SH", [heading]);
    page.text(prose(doc));
}

/// Text of the table of keys: code is bold.
fn prose(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| match at % 2 {
            0 => roman(part),
            _ => bold(part),
        })
        .collect()
}

fn entry(page: &mut Roff, key: &Spec) {
    page.control("TP", []);
    page.text([bold(key.name)]);
    let mut text = prose(key.doc);
    match &key.support {
        Support::Later => text.push(roman(" Not supported yet.")),
        Support::Served { kind, absent } => text.extend([
            roman(" It takes "),
            italic(takes(kind)),
            roman(format!(". {}", without(*absent))),
        ]),
    }
    page.text(text);
}

fn takes(kind: &Kind) -> String {
    if let Kind::Either(kinds) = kind {
        let kinds: Vec<String> = kinds.iter().map(takes).collect();
        return kinds.join(", or ");
    }
    match kind.range() {
        range if range.is_empty() || matches!(kind, Kind::Integer(..)) => kind.expects(),
        range => format!("{}, {range}", kind.expects()),
    }
}

fn without(absent: Absent) -> String {
    match absent {
        Absent::Required => "Required.".to_owned(),
        Absent::Nothing | Absent::Table | Absent::TableWhere { .. } => String::new(),
        Absent::Text(text) => format!("Default: \"{text}\"."),
        Absent::Number(number) => format!("Default: {number}."),
        Absent::No => "Default: false.".to_owned(),
        Absent::Yes => "Default: true.".to_owned(),
        Absent::Texts([]) => "Default: none.".to_owned(),
        Absent::Texts(texts) => format!("Default: {texts:?}."),
        Absent::TextsWhere { key, says, texts } => {
            format!("Default where {key} is \"{says}\": {texts:?}.")
        }
    }
}
