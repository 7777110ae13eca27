//! Rust files: that they parse, how long they are, how they begin, what they are called.

use super::finding::Finding;
use super::tree::Tree;

const LINES_MAX: usize = 1000;

/// Names that say where code was put, and not what it is about.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "misc"];

/// Checks every Rust file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let mut add = |line, message| findings.push(Finding::new(&file.path, line, message));
        if let Err(error) = &file.code {
            let line = error.span().start().line;
            add(line, format!("does not parse: {error}"));
        }
        if !file.text.starts_with("//!") {
            add(1, "begins without a `//!` header".to_owned());
        }
        let parts: Vec<&str> = file.path.trim_end_matches(".rs").split('/').collect();
        if let Some(part) = parts.iter().find(|part| EMPTY_NAMES.contains(part)) {
            add(
                0,
                format!("'{part}' says nothing: take a noun of the field"),
            );
        }
        // Under `tests/`, `mod.rs` is the only way to share code between test binaries.
        if parts.ends_with(&["mod"]) && parts.contains(&"src") {
            add(0, "a module is `foo.rs` beside `foo/`".to_owned());
        }
        let count = file.text.lines().count();
        if count > LINES_MAX {
            add(0, format!("{count} lines, at most {LINES_MAX}: split it"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn long_files_are_refused() {
        let lines = |count: usize| "//! Doc.\n".repeat(count);
        assert!(messages("src/a.rs", &lines(1000)).is_empty());
        assert!(messages("src/a.rs", &lines(1001))[0].starts_with("error: src/a.rs: 1001 lines"));
    }

    #[test]
    fn a_file_begins_with_its_header() {
        assert!(messages("src/a.rs", "use std::fmt;\n")[0].contains("a.rs:1: begins without"));
        assert!(messages("src/a.rs", "//! Doc.\n").is_empty());
    }

    #[test]
    fn empty_names_are_refused() {
        for path in ["src/utils.rs", "tests/common/mod.rs", "src/helpers/a.rs"] {
            assert!(
                messages(path, "//! Doc.")[0].contains("says nothing"),
                "{path}"
            );
        }
        assert!(messages("src/pool/mod.rs", "//! Doc.")[0].contains("beside"));
        assert!(messages("tests/origin/mod.rs", "//! Doc.").is_empty());
        assert!(messages("src/commonness.rs", "//! Doc.").is_empty());
    }

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        let found = messages("src/a.rs", "//! Doc.\nfn f( {}\n");
        assert!(
            found[0].starts_with("error: src/a.rs:2: does not parse"),
            "{found:?}"
        );
    }
}
