//! Unsafe code: only where it may be, and only in files that ARCHITECTURE.md lists.
//!
//! The list is the backquoted paths of Rust files in the section of ARCHITECTURE.md whose heading
//! has the word "unsafe".

use std::collections::BTreeMap;

use super::finding::Finding;
use super::mentions::tokens_of;
use super::tree::{SourceFile, Tree, has_word, numbered};

const LIST: &str = "ARCHITECTURE.md";

/// Parts of paths: the ground floor, edges to the system, the addon's, and tests that count memory.
const PLACES: &str = "crates/steppe-mem/ crates/steppe-malloc/ crates/steppe-malloc-abi/ /sys/ /sys. \
                      /ffi/ /ffi. /counting. /counting_allocator.";

/// Checks that the files with unsafe code are those that are listed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut stale = tree.file(LIST).map(listed_files).unwrap_or_default();
    let mut findings = Vec::new();
    for file in tree.ending(".rs").filter(|file| has_unsafe_code(file)) {
        let mut add = |message: &str| findings.push(Finding::new(&file.path, 0, message));
        let mut places = PLACES.split_whitespace();
        if !places.any(|place| file.path.contains(place)) {
            add("unsafe code outside a crate or `sys` module that may have it");
        }
        if stale.remove(&file.path[..]).is_none() {
            add("unsafe code that ARCHITECTURE.md does not list");
        }
    }
    findings.extend(stale.into_iter().map(|(path, line)| {
        let message = format!("'{path}' is listed and has no unsafe code");
        Finding::new(LIST, line, message)
    }));
    findings
}

fn has_unsafe_code(file: &SourceFile) -> bool {
    let tokens = || file.text.parse().map(tokens_of).unwrap_or_default();
    file.text.contains("unsafe") && tokens().iter().any(|token| token == "unsafe")
}

fn listed_files(list: &SourceFile) -> BTreeMap<&str, usize> {
    let mut files = BTreeMap::new();
    let mut in_section = false;
    for (number, line) in numbered(&list.text) {
        if line.starts_with('#') {
            in_section = has_word(&line.to_lowercase(), "unsafe");
        }
        let quoted = line.split('`').skip(1).step_by(2);
        let listed = quoted.filter(|path| in_section && path.ends_with(".rs"));
        files.extend(listed.map(|path| (path, number)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: (&str, &str) = (
        "crates/steppe-mem/src/pool.rs",
        "//! Doc.\nfn f() { unsafe { f() } }\n",
    );
    const ARCHITECTURE: &str =
        "# Map\n`src/a.rs`\n## Unsafe code\n- `crates/steppe-mem/src/pool.rs`: why\n";

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn listed_unsafe_code_in_its_place_is_fine() {
        assert_eq!(
            messages(&[POOL, (LIST, ARCHITECTURE)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn unlisted_unsafe_code_is_found() {
        let found = messages(&[POOL]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("pool.rs: unsafe code that ARCHITECTURE.md does not list"));
    }

    #[test]
    fn unsafe_code_elsewhere_is_found_even_if_listed() {
        let list = "## Unsafe code\n`crates/steppe-http/src/head.rs`\n";
        let head = ("crates/steppe-http/src/head.rs", "unsafe fn f() {}");
        assert!(messages(&[head, (LIST, list)])[0].contains("outside"));
        let sys = "crates/steppe-net/src/sys.rs";
        let listed = format!("## Unsafe code\n`{sys}`\n");
        assert!(messages(&[(sys, "unsafe fn f() {}"), (LIST, &listed)]).is_empty());
    }

    #[test]
    fn a_stale_entry_is_found() {
        let found = messages(&[(LIST, ARCHITECTURE)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("ARCHITECTURE.md:4: 'crates/steppe-mem/src/pool.rs' is listed"));
    }

    #[test]
    fn the_word_alone_is_not_code() {
        assert!(
            messages(&[("src/a.rs", "#![forbid(unsafe_code)] // unsafe\n\"unsafe\"")]).is_empty()
        );
    }
}
