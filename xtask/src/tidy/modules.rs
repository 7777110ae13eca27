//! The modules of a crate: one a file, with the code that ships.
//!
//! Tests are no part of it: neither an item under `#[cfg(test)]` nor a file that such an item
//! declares. Non-goals: modules in braces, `#[path]`, and what macros expand to.

use super::rust_text::{code_of, without_tests};
use super::tree::Tree;

/// A file of a crate's library.
pub struct Module {
    /// The file, from the root of the checkout.
    pub path: String,
    /// Its place in the crate: `["h1", "server"]`; none for the crate's root.
    pub names: Vec<String>,
    /// Its code without comments, literals and tests; line breaks stay.
    pub code: String,
}

/// The modules of a crate's library, its binary's root not among them.
pub fn of_crate(tree: &Tree, name: &str) -> Vec<Module> {
    let src = format!("crates/{name}/src/");
    let files = tree.ending(".rs").filter_map(|file| {
        let place = file.path.strip_prefix(&src)?.strip_suffix(".rs")?;
        let names = if place == "lib" { "" } else { place };
        Some((file, names))
    });
    let mut tests = Vec::new();
    let mut modules = Vec::new();
    for (file, place) in files.filter(|(_, place)| *place != "main") {
        let names: Vec<String> = place
            .split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let (code, test_modules) = without_tests(&code_of(&file.text));
        tests.extend(test_modules.into_iter().map(|test| {
            let mut names = names.clone();
            names.push(test);
            names
        }));
        modules.push(Module {
            path: file.path.clone(),
            names,
            code,
        });
    }
    modules.retain(|module| !tests.iter().any(|test| module.names.starts_with(test)));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_its_files_without_tests() {
        let lib = "mod a;\n#[cfg(test)]\nmod probe;\nfn x() {}\n#[cfg(test)]\nmod tests { b() }";
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", lib),
            ("crates/x/src/a.rs", ""),
            ("crates/x/src/a/b.rs", ""),
            ("crates/x/src/probe.rs", ""),
            ("crates/x/src/probe/deep.rs", ""),
            ("crates/x/src/main.rs", ""),
            ("crates/x/tests/t.rs", ""),
            ("crates/xy/src/lib.rs", ""),
        ]);
        let modules = of_crate(&tree, "x");
        let names: Vec<String> = modules
            .iter()
            .map(|module| module.names.join("/"))
            .collect();
        assert_eq!(names, ["", "a", "a/b"]);
        assert!(modules[0].code.contains("fn x") && !modules[0].code.contains("b()"));
    }
}
