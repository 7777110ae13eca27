//! Rust files: how long, how they begin, what they are called.

use super::Finding;
use super::tree::{SourceFile, Tree};

const LINES_MAX: usize = 1000;
const LINES_AIM: usize = 600;

/// Names that say where code was put, and not what it is about.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "misc"];

/// Checks every Rust file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .flat_map(|file| {
            length(file)
                .into_iter()
                .chain(header(file))
                .chain(name(file))
        })
        .collect()
}

fn length(file: &SourceFile) -> Option<Finding> {
    let count = file.text.lines().count();
    if count > LINES_MAX {
        let message = format!("{count} lines, at most {LINES_MAX}: split it by noun");
        return Some(Finding::new(&file.path, 0, message));
    }
    (count > LINES_AIM)
        .then(|| Finding::note(&file.path, format!("{count} lines, the aim is {LINES_AIM}")))
}

fn header(file: &SourceFile) -> Option<Finding> {
    (!file.text.starts_with("//!")).then(|| {
        let message =
            "begins without a `//!` header: what it is, its invariant, what it leaves out";
        Finding::new(&file.path, 1, message)
    })
}

fn name(file: &SourceFile) -> Option<Finding> {
    let parts = file.path.trim_end_matches(".rs").split('/');
    if let Some(part) = parts.clone().find(|part| EMPTY_NAMES.contains(part)) {
        let message = format!("'{part}' says nothing: name it by a noun of the field");
        return Some(Finding::new(&file.path, 0, message));
    }
    // Under `tests/`, `mod.rs` is the only way to share code between test binaries.
    let is_mod =
        parts.clone().next_back() == Some("mod") && parts.clone().any(|part| part == "src");
    is_mod.then(|| Finding::new(&file.path, 0, "a module is `foo.rs` beside `foo/`"))
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
    fn long_files_are_noted_and_longer_ones_refused() {
        let lines = |count: usize| "//! Doc.\n".repeat(count);
        assert!(messages("src/a.rs", &lines(600)).is_empty());
        assert_eq!(
            messages("src/a.rs", &lines(601)),
            ["note: src/a.rs: 601 lines, the aim is 600"]
        );
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
}
