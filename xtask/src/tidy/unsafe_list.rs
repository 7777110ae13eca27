//! Unsafe code: only where it may be, and only in files that ARCHITECTURE.md lists.
//!
//! The list is the backquoted paths of Rust files in the section of ARCHITECTURE.md whose heading
//! has the word "unsafe".

use std::collections::BTreeMap;

use super::Finding;
use super::rust_text::code_of;
use super::tree::{SourceFile, Tree, has_word, numbered};

const LIST: &str = "ARCHITECTURE.md";

/// Checks that the files with unsafe code are those that are listed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let listed = tree.file(LIST).map(listed_files).unwrap_or_default();
    let found: BTreeMap<&str, usize> = tree
        .ending(".rs")
        .filter_map(|file| Some((file.path.as_str(), first_unsafe_line(file)?)))
        .collect();
    let misplaced = found
        .iter()
        .filter(|(path, _)| !may_be_unsafe(path))
        .map(|(path, &line)| {
            Finding::new(
                path,
                line,
                "unsafe code outside a crate or `sys` module that may have it",
            )
        });
    let unlisted = found
        .iter()
        .filter(|(path, _)| !listed.contains_key(**path))
        .map(|(path, &line)| {
            Finding::new(path, line, format!("unsafe code that {LIST} does not list"))
        });
    let stale = listed
        .iter()
        .filter(|(path, _)| !found.contains_key(path.as_str()))
        .map(|(path, &line)| {
            Finding::new(
                LIST,
                line,
                format!("'{path}' is listed and has no unsafe code"),
            )
        });
    misplaced.chain(unlisted).chain(stale).collect()
}

/// The ground floor, which is about memory; edges to the system, called `sys`; the addon's `ffi`;
/// and the counting allocators of tests, called `counting`.
fn may_be_unsafe(path: &str) -> bool {
    let crates = [
        "crates/steppe-mem/",
        "crates/steppe-malloc/",
        "crates/steppe-malloc-abi/",
    ];
    let modules = ["sys", "ffi", "counting", "counting_allocator"];
    crates.iter().any(|start| path.starts_with(start))
        || path
            .trim_end_matches(".rs")
            .split('/')
            .any(|part| modules.contains(&part))
}

fn first_unsafe_line(file: &SourceFile) -> Option<usize> {
    let code = code_of(&file.text);
    numbered(&code)
        .find(|(_, line)| has_word(line, "unsafe"))
        .map(|(number, _)| number)
}

fn listed_files(list: &SourceFile) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    let mut in_section = false;
    for (number, line) in list.lines() {
        if line.starts_with('#') {
            in_section = has_word(&line.to_lowercase(), "unsafe");
        } else if in_section {
            let quoted = line
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|text| text.ends_with(".rs"));
            files.extend(quoted.map(|path| (path.to_owned(), number)));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: (&str, &str) = (
        "crates/steppe-mem/src/pool.rs",
        "//! Doc.\nunsafe { f() }\n",
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
        assert!(found[0].contains("pool.rs:2: unsafe code that ARCHITECTURE.md does not list"));
    }

    #[test]
    fn unsafe_code_elsewhere_is_found_even_if_listed() {
        let list = "## Unsafe code\n`crates/steppe-http/src/head.rs`\n";
        let head = ("crates/steppe-http/src/head.rs", "unsafe fn f() {}");
        assert!(messages(&[head, (LIST, list)])[0].contains("outside"));
        let sys = "crates/steppe-net/src/sys.rs";
        let listed = format!("## Unsafe code\n`{sys}`\n");
        assert!(messages(&[(sys, "unsafe {}"), (LIST, &listed)]).is_empty());
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
