//! `docs/reference/configuration/`, generated from the table of keys.
//!
//! Invariant: every key has a row with its values, its default and its meaning, and every section an example that the
//! checker accepts. A test compares the pages with their files; `make docs` writes them. Left out: tasks, which the
//! guides explain.

mod cells;
mod pages;

use std::fs;
use std::path::Path;

use steppe_config::table::{Kind, Needs, Spec, Support, Table, Tagged, Variant, summary};

use super::keys::ROOT;
use cells::{default, prose, takes, wrapped};
use pages::{PAGES, Page, file_of};

/// The second line of generated pages.
pub(crate) const MARK: &str = "<!-- Generated from the code by `make docs`. -->";

/// Compares a page with its file below `docs/reference/`, or writes the file if `STEPPE_WRITE_DOCS` is set.
///
/// # Panics
/// If they differ, or the file can't be written.
pub(crate) fn hold(name: &str, page: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let file = folder.join(name);
    if std::env::var_os("STEPPE_WRITE_DOCS").is_some() {
        let folder = file.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).expect("the folder of the pages");
        fs::write(&file, page).expect("the page can be written");
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "docs/reference/{name} is out of date: run `make docs`"
    );
}

/// The page of one section.
fn page(page: &Page) -> String {
    let kind = kind_at(page.place);
    let mut writer = Writer {
        text: format!("# `{}`\n{MARK}\n\n", title(kind, page.place)),
        tables: Vec::new(),
    };
    let tasks: Vec<String> = page
        .tasks
        .iter()
        .map(|(title, path)| format!("[{title}](../../{path})"))
        .collect();
    let tasks = format!(
        "Tasks: {}. Notation: [values](README.md#values).",
        tasks.join(", ")
    );
    let needs = match kind.tables()[..] {
        [table] => needs(table),
        _ => String::new(),
    };
    writer.paragraph(&format!("{}{needs}", doc_of(kind)));
    writer.text += &format!("{}\n\n", wrapped(&tasks));
    writer.text += &format!("## Example\n```toml\n{}```\n\n## Keys\n", page.example);
    writer.keys_of(kind, page.place);
    writer.text.truncate(writer.text.trim_end().len());
    writer.text + "\n"
}

/// A page while it is written.
struct Writer {
    text: String,
    /// Keys of tables that are on the page, with the titles of these tables.
    tables: Vec<(&'static [&'static Spec], String)>,
}

impl Writer {
    /// Writes the keys of a section, whose heading is there.
    fn keys_of(&mut self, kind: &'static Kind, place: &str) {
        match kind {
            Kind::Table(table) => self.table(table, place),
            Kind::List(item, _) | Kind::Set(item) | Kind::OneOrMany(item) => {
                self.keys_of(item, place);
            }
            Kind::Map(_, item) => self.keys_of(item, &format!("{place}.NAME")),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| self.keys_of(kind, place)),
            Kind::Tagged(tagged) => self.tagged(tagged, place),
            _ => {}
        }
    }

    fn paragraph(&mut self, text: &str) {
        self.text += &format!("{}\n\n", wrapped(&prose(text)));
    }

    fn tagged(&mut self, tagged: &'static Tagged, place: &str) {
        let names: Vec<String> = tagged.variants.iter().map(link_to_variant).collect();
        let doc = prose(tagged.tag_doc);
        self.text += HEAD;
        self.text += &format!(
            "| `{}` | {} | required | {doc} |\n\n",
            tagged.tag,
            names.join(", ")
        );
        for variant in tagged.variants {
            self.text += &format!("## `{} = \"{}\"`\n", tagged.tag, variant.name);
            let Variant { table, .. } = variant;
            let text = format!("{}{}{}", table.doc, guide(tagged, variant), needs(table));
            self.paragraph(&text);
            self.table(table, place);
        }
    }

    fn table(&mut self, table: &'static Table, place: &str) {
        self.text += HEAD;
        for key in table.keys {
            self.text += &row(key, place);
        }
        self.text.push('\n');
        for key in table.keys {
            if let Support::Served { kind, .. } = &key.support {
                self.within(kind, &format!("{place}.{}", key.name));
            }
        }
    }

    /// Writes the tables of a key, unless they have a page of their own or are on this one already.
    fn within(&mut self, kind: &'static Kind, place: &str) {
        let Some(table) = kind.tables().first().copied() else {
            return;
        };
        let title = title(kind, place);
        let is_there = self.tables.iter().any(|(_, there)| *there == title);
        if is_there || file_of(&plain(place)).is_some() {
            return;
        }
        self.text += &format!("## `{title}`\n");
        let mut tables = self.tables.iter();
        if let Some((_, same)) = tables.find(|(keys, _)| std::ptr::eq(*keys, table.keys)) {
            let keys = format!("The keys are those of [`{same}`](#{}).", anchor(same));
            self.paragraph(&format!("{} {keys}", table.doc));
            return;
        }
        self.paragraph(&format!("{}{}", table.doc, needs(table)));
        self.tables.push((table.keys, title));
        self.keys_of(kind, place);
    }
}

const HEAD: &str = "| key | takes | default | meaning |\n| --- | --- | --- | --- |\n";

fn row(key: &Spec, place: &str) -> String {
    let name = key.name;
    let Support::Served { kind, absent } = &key.support else {
        return format!("| `{name}` | | | {} Not supported yet. |\n", prose(key.doc));
    };
    let place = format!("{place}.{name}");
    let target = match file_of(&plain(&place)) {
        Some(file) => file,
        None => format!("#{}", anchor(&title(kind, &place))),
    };
    // The whole text of a table stands above its keys.
    let mut tables = kind.tables().into_iter();
    let is_there = key.doc == doc_of(kind) || tables.any(|table| table.doc == key.doc);
    let meaning = match is_there {
        true => key.summary(),
        false => key.doc,
    };
    let (takes, default) = (takes(kind, &target), default(*absent));
    format!("| `{name}` | {takes} | {default} | {} |\n", prose(meaning))
}

/// The keys of a table of which one is needed, in a sentence.
fn needs(table: &Table) -> String {
    let names: Vec<String> = table.served_of().map(|name| format!("`{name}`")).collect();
    let (last, others) = match &*names {
        [] => return String::new(),
        [one] => return format!(" Needs {one}."),
        [others @ .., last] => (last, others),
    };
    let count = match table.needs {
        Needs::One(_) => "exactly one",
        _ => "at least one",
    };
    format!(" Needs {count} of {} and {last}.", others.join(", "))
}

fn link_to_variant(variant: &Variant) -> String {
    let name = variant.name;
    format!("[`\"{name}\"`](#kind--{name})")
}

/// The page about a kind of filter.
fn guide(tagged: &Tagged, variant: &Variant) -> String {
    let name = variant.name;
    match tagged.name {
        "http.filter" => format!(" See [{name}](../../gateway/filters/{name}.md)."),
        _ => String::new(),
    }
}

fn doc_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Table(table) => table.doc,
        Kind::Tagged(tagged) => tagged.doc,
        Kind::List(item, _) | Kind::Map(_, item) => doc_of(item),
        _ => "",
    }
}

/// The heading of a section.
fn title(kind: &Kind, place: &str) -> String {
    match kind {
        Kind::List(Kind::Table(_), _) => format!("[[{place}]]"),
        Kind::Map(..) => format!("[{place}.NAME]"),
        Kind::Table(_) | Kind::Tagged(_) => format!("[{place}]"),
        _ => place.to_owned(),
    }
}

/// A place without the names that a file chooses.
fn plain(place: &str) -> String {
    place.replace(".NAME", "")
}

/// The name of a heading in links.
fn anchor(title: &str) -> String {
    let mut anchor = title.to_lowercase();
    anchor.retain(|char| char.is_alphanumeric() || matches!(char, '-' | '_'));
    anchor
}

/// The kind of the key at a place.
fn kind_at(place: &str) -> &'static Kind {
    let mut table = &ROOT;
    let mut found = None;
    for name in place.split('.') {
        let key = table.key(name).expect("a page is about a key");
        let Support::Served { kind, .. } = &key.support else {
            panic!("`{place}` is not supported yet");
        };
        found = Some(kind);
        table = kind.tables().first().copied().unwrap_or(table);
    }
    found.expect("a place has a name")
}

/// The page with links to all others.
fn overview() -> String {
    let mut text = include_str!("reference/values.txt").to_owned();
    text.insert_str(text.find('\n').expect("a title") + 1, &format!("{MARK}\n"));
    text += "## Sections\n";
    for page in &PAGES {
        let kind = kind_at(page.place);
        let file = file_of(page.place).expect("it is a page");
        let (title, doc) = (title(kind, page.place), prose(summary(doc_of(kind))));
        let item = format!("- [`{title}`]({file}): {doc}");
        text += &format!("{}\n", wrapped(&item).replace('\n', "\n  "));
    }
    text += "\n## Not supported yet\nEach of these is refused by name:\n";
    later(&ROOT, "", &mut text);
    text + "- `\"quic://\"` in `dns.upstream.NAME.servers`\n"
}

fn later(table: &'static Table, place: &str, text: &mut String) {
    for key in table.keys {
        let place = format!("{place}{}", key.name);
        match &key.support {
            Support::Later => *text += &format!("- `{place}`\n"),
            Support::Served { kind, .. } => later_within(kind, &place, text),
        }
    }
}

fn later_within(kind: &'static Kind, place: &str, text: &mut String) {
    match kind {
        Kind::Choice(choices) => {
            for name in choices.later() {
                *text += &format!("- `\"{name}\"` in `{place}`\n");
            }
        }
        Kind::List(item, _) | Kind::Set(item) | Kind::OneOrMany(item) => {
            later_within(item, place, text);
        }
        Kind::Map(_, item) => later_within(item, &format!("{place}.NAME"), text),
        Kind::Either(kinds) => kinds
            .iter()
            .for_each(|kind| later_within(kind, place, text)),
        _ => {
            for table in kind.tables() {
                later(table, &format!("{place}."), text);
            }
        }
    }
}

mod tests {
    use super::*;
    use crate::config::read;

    #[test]
    fn pages_are_those_of_the_keys() {
        for each in &PAGES {
            let file = file_of(each.place).expect("it is a page");
            hold(&format!("configuration/{file}"), &page(each));
        }
        hold("configuration/README.md", &overview());
    }

    #[test]
    fn examples_are_valid_and_have_their_section() {
        for page in &PAGES {
            let outcome = read("example.toml", page.example);
            assert_eq!(outcome.report.to_string(), "", "{}", page.place);
            let config = outcome.config.expect("it is valid").effective();
            // The section that sites are expanded to.
            let place = page.place.replace("site", "http.route");
            let pointer = format!("/{}", place.replace('.', "/"));
            assert!(config.pointer(&pointer).is_some(), "{}", page.place);
        }
    }

    /// Every table is on a page, and each heading leads to one place.
    #[test]
    fn every_key_has_a_row() {
        let text: String = PAGES.iter().map(page).collect();
        for key in ROOT.keys {
            if let Support::Served { kind, .. } = &key.support {
                kind.tables()
                    .into_iter()
                    .for_each(|table| rows(table, &text));
            }
        }
        for each in &PAGES {
            let page = page(each);
            let mut headings: Vec<&str> =
                page.lines().filter(|line| line.starts_with('#')).collect();
            let all = headings.len();
            headings.sort_unstable();
            headings.dedup();
            assert_eq!(headings.len(), all, "{}", each.place);
        }
    }

    fn rows(table: &'static Table, text: &str) {
        for key in table.keys {
            assert!(
                text.contains(&format!("\n| `{}` | ", key.name)),
                "{}",
                key.name
            );
            if let Support::Served { kind, .. } = &key.support {
                kind.tables()
                    .into_iter()
                    .for_each(|table| rows(table, text));
            }
        }
    }

    /// Checks that descriptions have no characters outside of code that mean anything to Markdown.
    #[test]
    fn descriptions_are_plain_text() {
        for each in &PAGES {
            let page = page(each);
            for row in page.lines().filter(|line| line.starts_with("| `")) {
                let meaning = row.split(" | ").last().unwrap_or_default();
                let outside: String = meaning.split('`').step_by(2).collect();
                assert!(!outside.contains(['*', '<', '_', '[']), "{row}");
            }
        }
    }
}
