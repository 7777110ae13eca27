//! The rules of the house that no compiler checks.
//!
//! Each rule is a pure function from the files of the checkout to findings, with a test that shows
//! it fire. `cargo xtask tidy` runs them, and so does `cargo test`. Violations that are older than
//! their rule stand in `known.toml`, a list that may only shrink. Non-goals: whether a name or a
//! comment is any good, and what clippy can say (`clippy.toml`).

mod arrows;
pub mod circles;
pub mod code;
mod documents;
mod finding;
mod known;
mod literals;
mod maps;
pub mod mentions;
mod rust_files;
pub mod tree;
mod unsafe_list;

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use crate::process;
use finding::Finding;
use tree::Tree;

const RULES: [fn(&Tree) -> Vec<Finding>; 12] = [
    rust_files::check,
    unsafe_list::check,
    arrows::check,
    circles::check,
    code::check,
    code::check_clock,
    literals::check,
    maps::check,
    documents::check_glossary,
    documents::check_records,
    documents::check_links,
    documents::check_words,
];

/// Prints every finding. True: there is none.
pub fn command() -> Result<bool> {
    let tree = Tree::of_checkout()?;
    let findings = known::judge(&tree, found(&tree))?;
    for finding in &findings {
        println!("{finding}");
    }
    Ok(findings.is_empty())
}

/// Takes mended violations off the list, then does what [`command`] does.
pub fn shrink() -> Result<bool> {
    let tree = Tree::of_checkout()?;
    let shrunk = known::shrunk(&tree, &found(&tree))?;
    fs::write(process::root().join(tree::LIST), shrunk)?;
    command()
}

/// The links of all documents to other sites.
pub fn outside_links() -> Result<BTreeSet<String>> {
    Ok(documents::outside_links(&Tree::of_checkout()?))
}

/// Every finding, those that are listed too.
fn found(tree: &Tree) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_is_tidy() {
        let tree = Tree::of_checkout().unwrap();
        let findings = known::judge(&tree, found(&tree)).unwrap();
        let errors: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    }
}
