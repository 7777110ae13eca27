//! Lists of functions to which a rule does not apply, each with a reason.

use super::modules::{self, Module};
use super::tree::Tree;
use super::{CRATES, Finding};

/// A function that is listed.
pub struct Place {
    /// Its file below `crates/`.
    pub file: &'static str,
    /// Its name; one entry stands for all functions of that name in the file.
    pub function: &'static str,
    /// Why the rule does not apply.
    pub reason: &'static str,
}

/// What `find` finds in the modules of the crates, each with its function, but for what is listed;
/// and, in `list_path`, the entries that nothing needed.
pub fn check_against<F>(tree: &Tree, list_path: &str, list: &[Place], find: F) -> Vec<Finding>
where
    F: Fn(&Module) -> Vec<(String, Finding)>,
{
    let modules = CRATES.iter().flat_map(|name| modules::of_crate(tree, name));
    let mut places = Places::new(list);
    let mut findings = Vec::new();
    for module in modules {
        let found = find(&module).into_iter();
        let unlisted = found.filter(|(function, _)| !places.has(&module.path, function));
        findings.extend(unlisted.map(|(_, finding)| finding));
    }
    findings.extend(places.stale(list_path));
    findings
}

/// A list, and which of its entries the code needed.
struct Places<'a> {
    list: &'a [Place],
    used: Vec<bool>,
}

impl<'a> Places<'a> {
    /// None of them was needed yet.
    fn new(list: &'a [Place]) -> Self {
        Self {
            list,
            used: vec![false; list.len()],
        }
    }

    /// Whether a function is listed; `path` is that of its file from the root.
    fn has(&mut self, path: &str, function: &str) -> bool {
        let file = path.trim_start_matches("crates/");
        let entry = self
            .list
            .iter()
            .position(|place| place.file == file && place.function == function);
        if let Some(entry) = entry {
            self.used[entry] = true;
        }
        entry.is_some()
    }

    /// A finding in `list_path` for each entry that was not needed.
    fn stale(self, list_path: &str) -> Vec<Finding> {
        let unused = self.list.iter().zip(self.used).filter(|(_, used)| !used);
        unused
            .map(|(place, _)| {
                let message = format!(
                    "`{}` of {} is listed ({}) and need not be: take it off the list",
                    place.function, place.file, place.reason
                );
                Finding::new(list_path, 0, message)
            })
            .collect()
    }
}

/// What tests of such a rule need: a tree of one file, and a list for it.
#[cfg(test)]
pub mod one_file {
    use super::super::Finding;
    use super::super::tree::Tree;
    use super::Place;

    const FILE: &str = "steppe-net/src/a.rs";

    pub fn listed(function: &'static str) -> Place {
        Place {
            file: FILE,
            function,
            reason: "a test",
        }
    }

    pub fn tree_of(code: &str) -> Tree {
        Tree::of(&[(&format!("crates/{FILE}"), code)])
    }

    pub fn printed(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(Finding::to_string).collect()
    }

    /// That an entry of `stale`'s list for `f`, which the code does not need, is found.
    pub fn assert_stale_is_found(function: &str, findings: &[String]) {
        let expected = format!("`{function}` of {FILE} is listed (a test)");
        assert!(findings[0].contains(&expected), "{findings:?}");
    }
}
