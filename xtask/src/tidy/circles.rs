//! Files of a crate use each other in one direction only.
//!
//! An arrow goes from a file to each file that defines something it names: a type, a function, a
//! constant, or a method that it calls on `self`. Re-exports are followed to the definition. `mod
//! child;` and re-exports are no arrows: a parent that only has these stands above its children, and
//! they may import its items. A circle is the largest set of files in which each reaches each other;
//! every one of them is a finding that counts them, so that no circle grows unseen.
//!
//! A path is resolved as the compiler does it; what cannot be resolved (another crate, a local) is
//! nothing. Non-goals: tests, glob imports (they name the module that they open), `src/bin`, modules
//! in braces, `#[path]`, and methods and fields of other values than `self`.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use super::finding::Finding;
use super::mentions::{Mentions, Method};
use super::tree::{SourceFile, Tree};

/// Finds the files of every package that stand in a circle.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending("Cargo.toml")
        .filter_map(|manifest| manifest.path.strip_suffix("Cargo.toml"))
        .flat_map(|package| check_package(&modules_of(tree, package)))
        .collect()
}

fn check_package(modules: &[Module<'_>]) -> Vec<Finding> {
    let arrows = arrows(modules);
    let reached: Vec<_> = (0..modules.len()).map(|at| reach(&arrows, at)).collect();
    let mut findings = Vec::new();
    for (at, module) in modules.iter().enumerate() {
        let is_in_circle = |to: &&usize| reached[**to].contains(&at);
        let count = reached[at].iter().filter(is_in_circle).count();
        let uses = arrows[at].iter().filter(|(to, _)| is_in_circle(to));
        let uses = uses.map(|(to, name)| format!("`{name}` of {}", modules[*to].path));
        let uses = uses.collect::<Vec<_>>().join(", ");
        let remedy = "move what both need into a file below both, or pass it as an argument";
        let message = format!("uses, in a circle of {count} files, {uses}; {remedy}");
        let mut finding = Finding::new(module.path, 0, message);
        (finding.rule, finding.count) = ("circles", count);
        findings.extend(Some(finding).filter(|_| count > 0));
    }
    findings
}

/// The modules that one reaches by one arrow or more.
fn reach(arrows: &Arrows, start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        open.extend(arrows[at].keys().filter(|to| reached.insert(**to)));
    }
    reached
}

/// Re-exports of re-exports, at most; more is a circle of them.
const HOPS_MAX: usize = 16;

/// From each module to those that define what it names, each with a name that shows it.
type Arrows = Vec<BTreeMap<usize, String>>;

pub struct Module<'a> {
    pub path: &'a str,
    /// Its place in the crate: `["h1", "server"]`; none for the crate's root.
    names: Vec<String>,
    pub mentions: Mentions,
}

/// The modules of a package's library, or of its program when it has no library.
pub fn modules_of<'a>(tree: &'a Tree, package: &str) -> Vec<Module<'a>> {
    let src = format!("{package}src/");
    let has_lib = tree.has(&format!("{src}lib.rs"));
    let root = if has_lib { "lib" } else { "main" };
    let mut tests: Vec<Vec<String>> = Vec::new();
    let module = |file: &'a SourceFile| {
        let place = file.path.strip_prefix(&src)?.strip_suffix(".rs")?;
        let is_other = has_lib && place == "main" || place.starts_with("bin/");
        let names = place.split('/').filter(|_| place != root);
        let names: Vec<String> = names.map(str::to_owned).collect();
        let mentions = Mentions::of(file.code.as_ref().ok().filter(|_| !is_other)?);
        let declared = mentions.test_modules.iter();
        tests.extend(declared.map(|name| [&names, slice::from_ref(name)].concat()));
        let path = &file.path;
        Some(Module {
            path,
            names,
            mentions,
        })
    };
    let mut modules: Vec<Module<'_>> = tree.ending(".rs").filter_map(module).collect();
    modules.retain(|module| !tests.iter().any(|test| module.names.starts_with(test)));
    modules
}

fn arrows(modules: &[Module<'_>]) -> Arrows {
    let places = modules.iter().map(|module| &module.names[..]);
    let places = places.zip(0..).collect();
    let names = Names { modules, places };
    // Keyed by the module of the type, the type, and the method.
    let mut methods: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
    for (at, module) in modules.iter().enumerate() {
        for method in &module.mentions.methods {
            methods.entry(names.key(at, method)).or_default().insert(at);
        }
    }
    let mut arrows = Arrows::new();
    for (from, module) in modules.iter().enumerate() {
        let mut found = names.arrows(from);
        for call in &module.mentions.self_calls {
            let defined = methods.get(&names.key(from, call));
            let elsewhere = defined.filter(|modules| !modules.contains(&from));
            for to in elsewhere.into_iter().flatten() {
                found.entry(*to).or_insert(format!("self.{}()", call.1));
            }
        }
        arrows.push(found);
    }
    arrows
}

struct Names<'a> {
    modules: &'a [Module<'a>],
    places: BTreeMap<&'a [String], usize>,
}

/// The end of a path: a module, or the name of an item that it defines.
type Target = (usize, Option<String>);

impl Names<'_> {
    fn arrows(&self, from: usize) -> BTreeMap<usize, String> {
        let Mentions { imports, paths, .. } = &self.modules[from].mentions;
        let is_used = |name: &String| paths.iter().any(|path| path[0] == *name);
        let imported = imports
            .iter()
            .filter(|(_, name, is_reexport)| !is_reexport || is_used(name))
            .map(|(path, ..)| path);
        let mut arrows = BTreeMap::new();
        for path in imported.chain(paths) {
            if let Some((to, Some(_))) = self.resolve(from, path, HOPS_MAX)
                && to != from
            {
                arrows.entry(to).or_insert_with(|| path.join("::"));
            }
        }
        arrows
    }

    fn key(&self, from: usize, (of_type, method): &Method) -> (usize, String, String) {
        match self.resolve(from, of_type, HOPS_MAX) {
            Some((module, Some(name))) => (module, name, method.clone()),
            // It is defined here.
            _ => (from, of_type.concat(), method.clone()),
        }
    }

    fn resolve(&self, from: usize, path: &[String], hops: usize) -> Option<Target> {
        let mut at = self.member(from, path.first()?, hops)?;
        for name in &path[1..] {
            // An item's own members are nothing else.
            let (module, None) = at else { break };
            let item = (module, Some(name.clone()));
            at = self.member(module, name, hops).unwrap_or(item);
        }
        Some(at)
    }

    /// The target of `name` in a module, if a file or a `use` declaration says so.
    fn member(&self, module: usize, name: &String, hops: usize) -> Option<Target> {
        let within = &self.modules[module];
        let names = &within.names;
        let place = match &name[..] {
            "crate" => Vec::new(),
            "self" => names.clone(),
            "super" => names.split_last()?.1.to_vec(),
            _ => [names, slice::from_ref(name)].concat(),
        };
        if let Some(found) = self.places.get(&place[..]) {
            return Some((*found, None));
        }
        let mut imports = within.mentions.imports.iter();
        let (path, ..) = imports.find(|(_, here, _)| here == name)?;
        // `use name::…` names another crate, not itself.
        let path = Some(path).filter(|path| path[0] != *name)?;
        self.resolve(module, path, hops.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of a crate of these files.
    fn found(files: &[(&str, &str)]) -> Vec<Finding> {
        let mut files: Vec<(String, &str)> = files
            .iter()
            .map(|(place, code)| (format!("crates/steppe-net/src/{place}.rs"), *code))
            .collect();
        files.push(("crates/steppe-net/Cargo.toml".to_owned(), ""));
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, code)| (&path[..], *code))
            .collect();
        check(&Tree::of(&files))
    }

    const NONE: Vec<Finding> = Vec::new();

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
        let found = found(&[("lib", "mod a; mod b;"), a, b]);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[0].path[..], found[0].count),
            ("crates/steppe-net/src/a.rs", 2)
        );
        let arrow = "uses, in a circle of 2 files, `crate::b::B` of crates/steppe-net/src/b.rs";
        assert!(found[0].message.contains(arrow), "{found:?}");
    }

    #[test]
    fn a_path_in_code_is_an_arrow_as_an_import_is() {
        let a = ("a", "fn f() { crate::b::g() }");
        let b = ("b", "fn g() { crate::a::f::<u8>() }");
        assert_eq!(found(&[("lib", ""), a, b]).len(), 2);
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
        assert_eq!(found(&[("lib", ""), parent, child]).len(), 2);
        let without_import = (
            "a",
            "mod c;
pub struct A(c::C);",
        );
        assert_eq!(found(&[("lib", ""), without_import, child]).len(), 2);
        let used_export = (
            "a",
            "mod c;
pub use c::C;
pub struct A(C);",
        );
        assert_eq!(found(&[("lib", ""), used_export, child]).len(), 2);
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
        assert_eq!(found(&[("lib", "pub use a::A;"), parent, c, d]), NONE);
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
        assert_eq!(found(&[lib, a, ("b", "pub struct B;")]), NONE);
        let b = ("b", "pub struct B(crate::A);");
        assert_eq!(found(&[lib, a, b]).len(), 2);
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
        assert_eq!(found(&[("lib", ""), a, b]), NONE);
    }

    #[test]
    fn each_file_of_a_circle_counts_its_files() {
        let a = ("a", "use crate::b::B;");
        let b = ("b", "use crate::d::D;\npub struct B;");
        let d = ("d", "use crate::a::A;\npub struct D;");
        let e = ("e", "use crate::a::A;");
        let counts: Vec<usize> = found(&[("lib", ""), a, b, d, e])
            .iter()
            .map(|finding| finding.count)
            .collect();
        assert_eq!(counts, [3, 3, 3]);
    }

    #[test]
    fn a_method_called_on_self_is_an_arrow_to_its_file() {
        let parent = (
            "a",
            "mod c; pub struct A; impl A { fn f(&self) { self.g() } }",
        );
        let child = (
            "a/c",
            "use super::A; impl A { pub fn g(&self) { self.h() } fn h(&self) {} }",
        );
        let both = found(&[("lib", ""), parent, child]);
        assert_eq!(both.len(), 2);
        assert!(
            both[0]
                .message
                .contains("`self.g()` of crates/steppe-net/src/a/c.rs")
        );
        let in_a_macro = (
            "a",
            "mod c; pub struct A; impl A { fn f(&self) { m!(self.g()) } }",
        );
        assert_eq!(found(&[("lib", ""), in_a_macro, child]).len(), 2);
        let of_another = (
            "a",
            "pub struct A; struct B; impl B { fn f(&self) { self.g() } }",
        );
        assert_eq!(found(&[("lib", ""), of_another, child]), NONE);
        let of_a_field = ("a", "pub struct A; impl A { fn f(&self) { self.x.g() } }");
        assert_eq!(found(&[("lib", ""), of_a_field, child]), NONE);
    }

    #[test]
    fn a_crate_is_the_files_of_its_library_or_program_without_tests() {
        let lib =
            "mod a;\n#[cfg(test)]\nmod probe;\nfn x() {}\n#[cfg(test)]\nmod tests { fn b() {} }";
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", lib),
            ("crates/x/src/a.rs", ""),
            ("crates/x/src/a/b.rs", ""),
            ("crates/x/src/probe.rs", ""),
            ("crates/x/src/probe/deep.rs", ""),
            ("crates/x/src/main.rs", ""),
            ("crates/x/src/bin/c.rs", ""),
            ("crates/x/tests/t.rs", ""),
            ("crates/xy/src/main.rs", ""),
        ]);
        let names = |package| {
            let modules = modules_of(&tree, package).into_iter();
            modules
                .map(|module| module.names.join("/"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names("crates/x/"), ["", "a", "a/b"]);
        assert_eq!(names("crates/xy/"), [""]);
    }
}
