//! `steppe.toml(5)`, generated from the table of keys.
//!
//! Invariant: every table and every key is there, with its type and its default; a key that is not
//! supported yet says so. Spec: `man-pages(7)`.

use roff::{Inline, Roff, bold, roman};
use steppe_config::manual::sections;

use super::keys::ROOT;

const FORM: &str = "TOML, or JSON in a file that ends in .json. Durations are written \"250ms\", \
    \"5s\", \"1m\"; sizes \"64KiB\", \"10MiB\"; shares \"75%\". Relative paths count from the \
    file's folder. An unknown key is an error: steppe check FILE reports all errors of a \
    configuration at once, then the first file it names that can't be used.";

/// The text of the page.
pub fn manual() -> String {
    let mut page = Roff::new();
    page.control("TH", ["steppe.toml", "5", "", "steppe", "Steppe"]);
    page.control("SH", ["NAME"]);
    page.text([roman("steppe.toml - configuration of a Steppe node")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(FORM)]);
    sections(&mut page, &ROOT);
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

#[cfg(test)]
mod tests {
    use steppe_config::table::{Kind, Support, Table};

    use super::*;

    /// Names of every key below `kind`.
    fn names(kind: &Kind, found: &mut Vec<&'static str>) {
        match kind {
            Kind::Table(table) => table_names(table, found),
            Kind::List(item, _) | Kind::OneOrMany(item) | Kind::Map(_, item) => names(item, found),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| names(kind, found)),
            Kind::Tagged(tagged) => {
                found.push(tagged.tag);
                let variants = tagged.variants.iter();
                variants.for_each(|variant| table_names(variant.table, found));
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
