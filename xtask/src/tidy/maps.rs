//! The map of files of a crate names every file of it, and none that is not there.
//!
//! A map is the list below `//! # Map of files` in a `lib.rs`. Its entries are ``- `file.rs`, `folder/`: text``. Indented
//! ones are in the folder of the file that the entry above them names first. A folder stands for all that is below it.
//! Crates without a map, and tests (`tests.rs`, `tests/`), need no entry.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::tree::{SourceFile, Tree, numbered};

const TITLE: &str = "//! # Map of files";

/// Compares every map with the files of its crate.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending("src/lib.rs")
        .filter(|file| file.text.lines().any(|line| line == TITLE))
        .flat_map(|file| check_map(tree, file))
        .collect()
}

fn check_map(tree: &Tree, lib: &SourceFile) -> Vec<Finding> {
    let src = lib.path.trim_end_matches("lib.rs");
    let paths = tree.ending(".rs").map(|file| file.path.as_str());
    let files: BTreeSet<&str> = paths.filter_map(|path| path.strip_prefix(src)).collect();
    let entries = entries(&lib.text);
    let names = |file: &str| {
        let mut entries = entries.iter();
        entries.any(|entry| match entry.path.ends_with('/') {
            true => file.starts_with(&entry.path),
            false => file == entry.path,
        })
    };
    let is_there = |path: &str| tree.has(&format!("{src}{}", path.trim_end_matches('/')));
    let gone = entries.iter().filter(|entry| !is_there(&entry.path));
    let gone = gone.map(|Entry { path, line }| {
        let message = format!("the map names '{path}', which is not there");
        Finding::new(&lib.path, *line, message)
    });
    let missing = files
        .iter()
        .filter(|file| needs_entry(file) && !names(file));
    let missing = missing.map(|file| {
        let message = format!("is not in the map of files of {}", lib.path);
        Finding::new(&format!("{src}{file}"), 0, message)
    });
    gone.chain(missing).collect()
}

fn needs_entry(file: &str) -> bool {
    let is_root = matches!(file, "lib.rs" | "main.rs") || file.starts_with("bin/");
    let is_test = file
        .split('/')
        .any(|part| matches!(part, "tests" | "tests.rs"));
    !is_root && !is_test
}

/// A file or a folder that a map names, below `src/`.
struct Entry {
    path: String,
    line: usize,
}

fn entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    // The folder of each depth.
    let mut folders = vec![String::new()];
    let lines = numbered(text)
        .skip_while(|(_, line)| *line != TITLE)
        .skip(1);
    for (number, line) in lines.take_while(|(_, line)| line.starts_with("//!")) {
        let line = line.trim_start_matches("//!");
        let item = line.trim_start();
        let depth = (line.len() - item.len()).saturating_sub(1) / 2;
        let Some(item) = item.strip_prefix("- `") else {
            if item.starts_with('#') {
                break;
            }
            continue;
        };
        let named = item.split("`: ").next().unwrap_or_default();
        let mut named = named.split("`, `").peekable();
        let Some(folder) = folders.get(depth).cloned() else {
            continue;
        };
        folders.truncate(depth + 1);
        let first = named.peek().copied().unwrap_or_default();
        folders.push(format!("{folder}{}/", first.trim_end_matches(".rs")));
        entries.extend(named.map(|name| Entry {
            path: format!("{folder}{name}"),
            line: number,
        }));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! A crate.
//!
//! # Map of files
//! Words about `it.rs`.
//!
//! - `a.rs`: one
//!   - `b.rs`, `c.rs`: two, of `x.rs`
//!     - `d.rs`: three
//! - `e.rs`, `e/`: four: `y.rs`
//!   and more
//! - `data.toml`: five
//!
//! # More
//! - `z.rs`: none
";

    fn messages(files: &[&str]) -> Vec<String> {
        let mut all = vec![("k/src/lib.rs", LIB), ("k/src/data.toml", "")];
        all.extend(files.iter().map(|path| (*path, "//! Doc.\n")));
        let found = check(&Tree::of(&all));
        found.iter().map(Finding::to_string).collect()
    }

    const ALL: [&str; 6] = [
        "k/src/a.rs",
        "k/src/a/b.rs",
        "k/src/a/c.rs",
        "k/src/a/b/d.rs",
        "k/src/e.rs",
        "k/src/e/f/g.rs",
    ];

    #[test]
    fn a_map_that_names_every_file_is_right() {
        assert_eq!(messages(&ALL), [""; 0]);
        let tests = ["k/src/tests.rs", "k/src/a/tests/h.rs", "k/src/bin/i.rs"];
        assert_eq!(messages(&[&ALL[..], &tests].concat()), [""; 0]);
    }

    #[test]
    fn files_that_are_gone_or_in_no_map_are_found() {
        assert_eq!(
            messages(&ALL[1..5]),
            [
                "error: k/src/lib.rs:6: the map names 'a.rs', which is not there",
                "error: k/src/lib.rs:9: the map names 'e/', which is not there",
            ]
        );
        assert_eq!(
            messages(&[&ALL[..], &["k/src/z.rs"]].concat()),
            ["error: k/src/z.rs: is not in the map of files of k/src/lib.rs"]
        );
    }

    #[test]
    fn a_crate_without_a_map_needs_none() {
        let files = [
            ("k/src/lib.rs", "//! A crate.\n"),
            ("k/src/a.rs", "//! Doc.\n"),
        ];
        assert_eq!(check(&Tree::of(&files)), []);
    }
}
