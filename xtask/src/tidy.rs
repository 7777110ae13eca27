//! The rules of the house that no compiler checks.
//!
//! Each rule is a pure function from the files of the checkout to findings, with a test that shows
//! it fire. `cargo xtask tidy` runs them, and so does `cargo test`. What they don't judge: whether
//! a name or a comment is any good.

mod adrs;
mod arrows;
mod booleans;
mod circles;
mod clock;
mod glossary;
mod leftovers;
mod links;
mod machine_names;
mod markdown;
mod modules;
mod names;
mod places;
mod rust_files;
mod rust_text;
mod tree;
mod unsafe_list;

use std::fmt;

use anyhow::Result;

use tree::Tree;

const RULES: [fn(&Tree) -> Vec<Finding>; 11] = [
    rust_files::check,
    unsafe_list::check,
    leftovers::check,
    arrows::check,
    glossary::check,
    links::check,
    machine_names::check,
    adrs::check,
    circles::check,
    booleans::check,
    clock::check,
];

/// The crates whose code the rules about circles, booleans and the clock judge.
const CRATES: [&str; 6] = [
    "steppe-net",
    "steppe-http",
    "steppe-dns",
    "steppe-etcd",
    "steppe-plane",
    "steppe-node",
];

/// Something that a rule has to say about a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    path: String,
    /// From 1; 0 stands for the file as a whole.
    line: usize,
    message: String,
    /// Worth knowing, and no reason to fail.
    is_note: bool,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
            is_note: false,
        }
    }

    fn note(path: &str, message: impl Into<String>) -> Self {
        Self {
            is_note: true,
            ..Self::new(path, 0, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_note { "note: " } else { "error: " })?;
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Prints every finding. True: none is an error.
pub fn command() -> Result<bool> {
    let findings = findings(&Tree::of_checkout()?);
    for finding in &findings {
        println!("{finding}");
    }
    Ok(findings.iter().all(|finding| finding.is_note))
}

fn findings(tree: &Tree) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_is_tidy() {
        let findings = findings(&Tree::of_checkout().unwrap());
        let errors = findings.iter().filter(|finding| !finding.is_note);
        let errors: Vec<String> = errors.map(Finding::to_string).collect();
        assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    }
}
