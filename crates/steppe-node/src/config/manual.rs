//! `steppe.toml(5)`, out of the table of keys.
//!
//! Invariant: every table and every key is there, with what it takes and what holds without it; one
//! that is not supported yet says so. Spec: `man-pages(7)`.

use roff::{Inline, Roff, bold, italic, roman};

use super::keys::ROOT;
use super::table::{Absent, Key, Kind, Support, Table};

const FORM: &str = "TOML, or JSON in a file that ends in .json. Durations are written \"250ms\", \
    \"5s\", \"1m\"; sizes \"64KiB\", \"10MiB\"; shares \"75%\". Relative paths count from the \
    file's folder. An unknown key is an error: steppe check FILE reports all errors of a \
    configuration at once, then the first file it names that can't be used.";

/// The page.
pub fn manual() -> String {
    let mut page = Roff::new();
    page.control("TH", ["steppe.toml", "5", "", "steppe", "Steppe"]);
    page.control("SH", ["NAME"]);
    page.text([roman("steppe.toml - configuration of a Steppe node")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(FORM)]);
    table(&mut page, &ROOT, "");
    page.control("SH", ["FILES"]);
    page.text([bold("/etc/steppe/steppe.toml")]);
    format!("{}{}", page.to_roff(), see_also("steppe.toml"))
}

/// A section whose text keeps its lines.
pub fn verbatim(heading: &str, text: &str) -> String {
    let mut page = Roff::new();
    page.control("SH", [heading]);
    page.control("nf", []);
    for line in text.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.to_roff()
}

/// The last section of the page `of`.
pub fn see_also(of: &str) -> String {
    let pages = [("steppe", "(1)"), ("steppe.toml", "(5)")];
    let others = pages.iter().filter(|(name, _)| *name != of);
    let inlines: Vec<Inline> = others
        .enumerate()
        .flat_map(|(index, (name, section))| {
            let comma = if index == 0 { "" } else { ", " };
            [roman(comma), bold(*name), roman(*section)]
        })
        .collect();
    let mut page = Roff::new();
    page.control("SH", ["SEE ALSO"]);
    page.text(inlines);
    page.to_roff()
}

/// One table, then those within it, each a section of its own.
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
                match variant.table {
                    Some(inner) => table(page, inner, &place),
                    None => section(page, &place, &format!("{} Not supported yet.", variant.doc)),
                }
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

fn entry(page: &mut Roff, key: &Key) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of every key below `kind`.
    fn names(kind: &Kind, found: &mut Vec<&'static str>) {
        match kind {
            Kind::Table(table) => table_names(table, found),
            Kind::List(item, _) | Kind::OneOrMany(item) | Kind::Map(_, item) => names(item, found),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| names(kind, found)),
            Kind::Tagged(tagged) => {
                found.push(tagged.tag);
                let tables = tagged.variants.iter().filter_map(|variant| variant.table);
                tables.for_each(|table| table_names(table, found));
            }
            _ => {}
        }
    }

    fn table_names(table: &'static Table, found: &mut Vec<&'static str>) {
        for key in table.keys {
            found.push(key.name);
            if let Support::Served { kind, .. } = &key.support {
                names(kind, found);
            }
        }
    }

    #[test]
    fn every_key_has_an_entry_of_its_own() {
        let page = manual();
        let entries = page.matches("\n.TP\n").count();
        let mut found = Vec::new();
        table_names(&ROOT, &mut found);
        assert!(found.len() > 60, "{found:?}");
        assert_eq!(entries, found.len());
        for name in found {
            let escaped = name.replace('-', "\\-");
            assert!(
                page.contains(&format!(".TP\n\\fB{escaped}\\fR\n")),
                "{name}"
            );
        }
        assert!(page.contains("Default: \"75%\"."), "defaults are there");
        assert!(page.contains("from 1KiB to 256KiB"), "ranges are there");
    }
}
