//! The configuration, built from a file that was read.
//!
//! Invariant: `None` only if a mistake was reported; every key of the table is taken here, and the
//! test at the end names one that is not.

mod over_https;

use steppe_config::typed::Fields;
use steppe_plane::config::keys::discovery::Discovery;

use super::keys::{ADMIN, DISCOVERY, DNS, HTTP, LOG, NODE, PLANE, TRACE};
use super::{Config, sites};

pub(super) fn config(mut file: Fields) -> Option<Config> {
    sites::drop(&mut file);
    let (mut http, mut dns) = (file.get(&HTTP)?, file.get(&DNS)?.unwrap_or_default());
    over_https::join(&mut http, &mut dns);
    let mut plane = file.get(&PLANE)?.unwrap_or_default();
    if let Some(Discovery { workers, tls }) = file.get(&DISCOVERY)? {
        (plane.workers, plane.worker_tls) = (workers, tls);
    }
    Some(Config {
        node: file.get(&NODE)?,
        admin: file.get(&ADMIN)?,
        log: file.get(&LOG)?,
        trace: file.get(&TRACE)?,
        http,
        dns,
        plane,
        file,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::DEFAULT;
    use crate::config::keys::ROOT;
    use steppe_config::mistakes::Mistakes;
    use steppe_config::read::{Source, read};
    use steppe_config::table::{Support, Table};
    use steppe_config::taken;
    use steppe_config::typed::{Node as Read, Typed};

    /// Files with every key: kinds of tables that the first has no place for are in the second.
    const FULL: [&str; 2] = ["testdata/full.toml", "testdata/full_etcd.toml"];

    /// Every key that can be used, as [`taken`] names it.
    fn served(table: &'static Table, found: &mut BTreeSet<String>) {
        for key in table.keys {
            if let Support::Served { kind, .. } = &key.support {
                found.insert(taken::full_name(table, key));
                kind.tables()
                    .into_iter()
                    .for_each(|each| served(each, found));
            }
        }
    }

    /// Every key that the file has.
    fn given(fields: &Fields, found: &mut BTreeSet<String>) {
        for field in &fields.given {
            found.insert(taken::full_name(fields.table, field.key));
            below(&field.value, found);
        }
    }

    fn below(node: &Read, found: &mut BTreeSet<String>) {
        match &node.typed {
            Typed::List(items) => items.iter().for_each(|item| below(item, found)),
            Typed::Map(entries) => entries.iter().for_each(|entry| below(&entry.value, found)),
            _ => node
                .fields()
                .into_iter()
                .for_each(|fields| given(fields, found)),
        }
    }

    /// The fields of a file as it is, sites included.
    fn fields(name: &str, text: &str) -> Fields {
        let mut mistakes = Mistakes::default();
        let read = read((name, text), &ROOT, &mut mistakes);
        let (_, fields) = read.expect("valid syntax");
        assert_eq!(mistakes.finish().0, [], "{name}");
        fields
    }

    /// The fields of a file with its sites expanded.
    fn expanded(name: &str, text: &str) -> Fields {
        let mut mistakes = Mistakes::default();
        let source = Source::parse(name, text, &mut mistakes);
        let mut source = source.expect("valid syntax");
        let sites = sites::expand(&mut source, &mut mistakes);
        let mut fields = source.read(&ROOT, &mut mistakes);
        sites::keep(sites, &mut fields);
        assert_eq!(mistakes.finish().0, [], "{name}");
        fields
    }

    fn file(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A key that is read but never used would be ignored silently.
    #[test]
    fn every_key_that_is_given_is_taken() {
        let examples = ["first", "gateway-bench-h1", "plane"];
        let examples = examples.map(|name| file(&format!("../../examples/{name}.toml")));
        let full = FULL.map(file);
        for text in examples.iter().chain(&full).chain([&DEFAULT.to_owned()]) {
            let fields = fields("a.toml", text);
            let mut expected = BTreeSet::new();
            given(&fields, &mut expected);
            // `include` is resolved before the tree is read.
            expected.remove(".include");
            let taken = taken::during(|| {
                config(expanded("a.toml", text)).expect("a valid configuration");
            });
            // `site` is expanded, and its own keys are taken there.
            expected.remove(".site");
            let ignored: Vec<_> = expected.difference(&taken).collect();
            assert!(ignored.is_empty(), "`build` does not take {ignored:?}");
        }
    }

    /// Ensures that the test above sees every key.
    #[test]
    fn the_full_files_have_every_key() {
        let (mut known, mut there) = (BTreeSet::new(), BTreeSet::new());
        served(&ROOT, &mut known);
        for name in FULL {
            given(&fields(name, &file(name)), &mut there);
        }
        let lacking: Vec<_> = known.difference(&there).collect();
        assert!(lacking.is_empty(), "{FULL:?} lack {lacking:?}");
    }
}
