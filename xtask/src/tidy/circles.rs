//! Files of a crate use each other in one direction only.
//!
//! An arrow goes from a file to each file that defines something it names: a type, a function, a
//! constant. Re-exports are followed to the definition and are no arrows themselves, and neither is
//! `mod child;`: a parent that only declares and re-exports its children stands above them, and
//! they may import what the parent re-exports of a sibling. A parent that uses a child's items in
//! code of its own, while the child imports an item that the parent defines, is a circle of two.
//! Calls of methods and reads of fields are no arrows, and tests are not looked at.
//!
//! A circle is named by all of its files: the largest set in which each file reaches each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{self, Module};
use super::names::Names;
use super::tree::Tree;
use super::{CRATES, Finding};

const THIS_FILE: &str = "xtask/src/tidy/circles.rs";

/// A circle that stays: its files below `crates/`, in order, and the reason.
struct Listed {
    files: &'static [&'static str],
    reason: &'static str,
}

const LISTED: &[Listed] = &[
    Listed {
        files: &[
            "steppe-http/src/cache/fill.rs",
            "steppe-http/src/cache/report.rs",
            "steppe-http/src/cache/store.rs",
        ],
        reason: "a store knows what is on its way, which goes into it, and is what operators are told of",
    },
    Listed {
        files: &[
            "steppe-node/src/config/mistake.rs",
            "steppe-node/src/config/mistakes.rs",
        ],
        reason: "a mistake, and the list that counts what it does not keep",
    },
    Listed {
        files: &["steppe-http/src/field.rs", "steppe-http/src/field/list.rs"],
        reason: "a list and its element",
    },
    Listed {
        files: &[
            "steppe-http/src/gateway/exchange.rs",
            "steppe-http/src/gateway/exchange/hedging.rs",
            "steppe-http/src/gateway/exchange/pool.rs",
            "steppe-http/src/gateway/exchange/retry.rs",
            "steppe-http/src/gateway/exchange/trace.rs",
        ],
        reason: "one state machine: the files below have the methods of its stages",
    },
    Listed {
        files: &[
            "steppe-node/src/config/defaults.rs",
            "steppe-node/src/config/read.rs",
            "steppe-node/src/config/typed.rs",
        ],
        reason: "a default is read as a value of a file is",
    },
    Listed {
        files: &[
            "steppe-http/src/upstream.rs",
            "steppe-http/src/upstream/idle.rs",
            "steppe-http/src/upstream/selection.rs",
        ],
        reason: "one pool: the files below keep its connections and choose its servers",
    },
    Listed {
        files: &[
            "steppe-node/src/admin.rs",
            "steppe-node/src/admin/cache.rs",
            "steppe-node/src/admin/certificates.rs",
            "steppe-node/src/admin/dns.rs",
            "steppe-node/src/admin/endpoints.rs",
            "steppe-node/src/admin/heap_profile.rs",
            "steppe-node/src/admin/live.rs",
            "steppe-node/src/admin/live/snapshot.rs",
            "steppe-node/src/admin/plane.rs",
            "steppe-node/src/admin/server.rs",
            "steppe-node/src/admin/upstreams.rs",
        ],
        reason: "the endpoints and the state that they show",
    },
    Listed {
        files: &[
            "steppe-node/src/config.rs",
            "steppe-node/src/config/budget.rs",
            "steppe-node/src/config/build.rs",
        ],
        reason: "a configuration and what builds it",
    },
    Listed {
        files: &[
            "steppe-node/src/config/tree.rs",
            "steppe-node/src/config/tree/json.rs",
            "steppe-node/src/config/tree/toml.rs",
        ],
        reason: "a type and the parsers behind its one constructor, a file for each format",
    },
];

/// Checks that no files use each other in a circle, but for those that are listed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, LISTED)
}

fn check_against(tree: &Tree, listed: &[Listed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = BTreeSet::new();
    for name in CRATES {
        let modules = modules::of_crate(tree, name);
        let arrows = arrows(&modules);
        for circle in circles(&arrows) {
            let files: Vec<String> = circle.iter().map(|&at| short(&modules[at])).collect();
            if !listed.iter().any(|listed| listed.files == files) {
                findings.push(new_circle(&modules, &arrows, &circle, &files));
            }
            found.insert(files);
        }
    }
    let stale = listed
        .iter()
        .filter(|listed| !found.iter().any(|files| listed.files == files));
    findings.extend(stale.map(|Listed { files, reason }| {
        let message = format!(
            "{files:?} is listed ({reason}) and is no circle, or is a part of another one: take it \
             off the list"
        );
        Finding::new(THIS_FILE, 0, message)
    }));
    findings
}

/// The path of a module's file below `crates/`.
fn short(module: &Module) -> String {
    module.path.trim_start_matches("crates/").to_owned()
}

type Arrows = Vec<BTreeMap<usize, String>>;

fn arrows(modules: &[Module]) -> Arrows {
    let names = Names::new(modules);
    (0..modules.len()).map(|from| names.arrows(from)).collect()
}

/// The circles, each as its modules in order of their paths, which is that of the tree.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(|from| reach(arrows, from)).collect();
    let circles = reached
        .iter()
        .enumerate()
        .filter_map(|(from, reached_from)| {
            let circle: BTreeSet<usize> = reached_from
                .iter()
                .copied()
                .filter(|&to| reached[to].contains(&from))
                .collect();
            // Each circle is told once, by its first module.
            (circle.first() == Some(&from)).then_some(circle)
        });
    circles.collect()
}

/// What is reached from a module by one arrow or more.
fn reach(arrows: &Arrows, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<usize> = arrows[from].keys().copied().collect();
    while let Some(at) = open.pop() {
        if reached.insert(at) {
            open.extend(arrows[at].keys());
        }
    }
    reached
}

fn new_circle(
    modules: &[Module],
    arrows: &Arrows,
    circle: &BTreeSet<usize>,
    files: &[String],
) -> Finding {
    let shortest = circle
        .iter()
        .map(|&at| way_around(arrows, at))
        .min_by_key(Vec::len)
        .unwrap_or_default();
    let steps: Vec<String> = shortest
        .iter()
        .map(|&(from, to)| {
            format!(
                "{} uses `{}` of {}",
                short(&modules[from]),
                arrows[from][&to],
                short(&modules[to])
            )
        })
        .collect();
    let message = format!(
        "{} files use each other in a circle: {}; move what both need into a file below both, or \
         pass it as an argument; if it has to stay, list it with its reason in \
         {THIS_FILE} as {files:?}",
        files.len(),
        steps.join(", ")
    );
    let first = circle.first().map_or(0, |&at| at);
    Finding::new(&modules[first].path, 0, message)
}

/// The arrows of a shortest way from a module back to itself.
fn way_around(arrows: &Arrows, start: usize) -> Vec<(usize, usize)> {
    let mut came_from = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for &to in arrows[at].keys() {
            if came_from.contains_key(&to) {
                continue;
            }
            came_from.insert(to, at);
            open.push_back(to);
        }
    }
    let mut way = Vec::new();
    let mut at = start;
    while let Some(&from) = came_from.get(&at) {
        way.push((from, at));
        at = from;
        if at == start {
            break;
        }
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of a crate whose `lib.rs` declares `a`, `b` and `a/c`.
    fn found(files: &[(&str, &str)], listed: &[Listed]) -> Vec<String> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(place, code)| (format!("crates/steppe-net/src/{place}.rs"), *code))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, code)| (&path[..], *code))
            .collect();
        check_against(&Tree::of(&files), listed)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    const NONE: Vec<String> = Vec::new();

    #[test]
    fn siblings_that_import_each_other_are_a_circle() {
        let a = (
            "a",
            "use crate::b::B;
pub struct A;",
        );
        let b = (
            "b",
            "use super::a::{self};
pub struct B(a::A);",
        );
        let found = found(&[("lib", "mod a; mod b;"), a, b], &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("error: crates/steppe-net/src/a.rs: 2 files"),
            "{found:?}"
        );
        assert!(
            found[0].contains("a.rs uses `crate::b::B` of steppe-net/src/b.rs"),
            "{found:?}"
        );
    }

    #[test]
    fn a_path_in_code_is_an_arrow_as_an_import_is() {
        let a = ("a", "fn f() { crate::b::g() }");
        let b = ("b", "fn g() { crate::a::f::<u8>() }");
        assert_eq!(found(&[("lib", ""), a, b], &[]).len(), 1);
    }

    #[test]
    fn a_parent_and_a_child_that_use_each_other_are_a_circle() {
        let parent = (
            "a",
            "mod c;
use c::C;
pub struct A(C);",
        );
        let child = (
            "a/c",
            "use super::A;
pub struct C;",
        );
        assert_eq!(found(&[("lib", ""), parent, child], &[]).len(), 1);
        let without_import = (
            "a",
            "mod c;
pub struct A(c::C);",
        );
        assert_eq!(found(&[("lib", ""), without_import, child], &[]).len(), 1);
        let used_export = (
            "a",
            "mod c;
pub use c::C;
pub struct A(C);",
        );
        assert_eq!(found(&[("lib", ""), used_export, child], &[]).len(), 1);
    }

    #[test]
    fn a_parent_that_only_declares_and_exports_is_none() {
        let parent = (
            "a",
            "mod c;
mod d;
pub use c::C;
pub(crate) use self::d::D;
pub struct A;",
        );
        let c = (
            "a/c",
            "use super::{A, D};
pub struct C;",
        );
        let d = (
            "a/d",
            "use super::A;
pub struct D;",
        );
        assert_eq!(found(&[("lib", "pub use a::A;"), parent, c, d], &[]), NONE);
    }

    #[test]
    fn exports_are_followed_to_the_definition() {
        let lib = (
            "lib",
            "mod a; mod b;
pub use b::B;
pub use a::A;",
        );
        let a = (
            "a",
            "use crate::B;
pub struct A;",
        );
        assert_eq!(found(&[lib, a, ("b", "pub struct B;")], &[]), NONE);
        let b = ("b", "pub struct B(crate::A);");
        assert_eq!(found(&[lib, a, b], &[]).len(), 1);
    }

    #[test]
    fn tests_are_no_arrows() {
        let a = (
            "a",
            "use crate::b::B;
pub struct A;",
        );
        let b = (
            "b",
            "pub struct B;
#[cfg(test)]
mod tests { use crate::a::A; }",
        );
        assert_eq!(found(&[("lib", ""), a, b], &[]), NONE);
    }

    #[test]
    fn a_circle_is_listed_by_all_its_files() {
        let a = ("a", "use crate::b::B;");
        let b = (
            "b",
            "use crate::d::D;
pub struct B;",
        );
        let d = (
            "d",
            "use crate::a::A;
pub struct D;",
        );
        let files = [("lib", ""), a, b, d];
        let all = &[
            "steppe-net/src/a.rs",
            "steppe-net/src/b.rs",
            "steppe-net/src/d.rs",
        ];
        let listed = |files| Listed {
            files,
            reason: "a test",
        };
        assert!(found(&files, &[])[0].contains("3 files use each other"));
        assert_eq!(found(&files, &[listed(all)]), NONE);
        let findings = found(&files, &[listed(&all[..2])]);
        assert_eq!(findings.len(), 2, "a new circle and a stale entry");
        let findings = found(&files[..3], &[listed(all)]);
        assert!(findings[0].contains("is no circle"), "{findings:?}");
    }
}
