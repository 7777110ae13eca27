//! Every kind of mistake, and the report that it gets: each file of `broken` beside what is said
//! about it. `UPDATE_EXPECT=1` writes the reports anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use steppe_node::config::{self, Drawing};

/// What works all the same.
const WARNINGS: [&str; 2] = ["method_case.toml", "unused.toml"];

fn broken() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let files = fs::read_dir(folder).expect("the folder is part of the project");
    let files = files.map(|file| file.expect("it can be listed").path());
    let is_configuration =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending != "stderr");
    let name = |path: &Path| {
        path.file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned()
    };
    files
        .filter(is_configuration)
        .map(|path| (name(&path), path))
        .collect()
}

#[test]
fn every_mistake_is_reported() {
    let files = broken();
    assert!(files.len() >= 20, "{} files", files.len());
    for (name, path) in files {
        let text = fs::read_to_string(&path).expect("a text");
        let outcome = config::read(&name, &text);
        let is_warning = WARNINGS.contains(&name.as_str());
        assert_eq!(outcome.config.is_some(), is_warning, "{name}");
        assert_eq!(outcome.report.errors() == 0, is_warning, "{name}");
        let drawn = outcome.report.render(Drawing::Plain);
        expect_file![path.with_added_extension("stderr")].assert_eq(&drawn);
    }
}

#[test]
fn reports_are_in_the_order_of_the_file_and_plain() {
    for (name, path) in broken() {
        let text = fs::read_to_string(&path).expect("a text");
        let report = config::read(&name, &text).report;
        let starts: Vec<_> = report
            .mistakes()
            .iter()
            .map(|each| each.span.start)
            .collect();
        assert!(starts.is_sorted(), "{name}: {starts:?}");
        let drawn = report.render(Drawing::Plain);
        let is_plain = |char: char| char == '\n' || !char.is_control();
        assert!(drawn.chars().all(is_plain), "{name}: {drawn:?}");
        assert!(report.render(Drawing::Color).contains('\u{1b}'), "{name}");
    }
}
