//! Which file defines what a path in code names.
//!
//! A path is resolved as the compiler does it, for what stands in files: `crate`, `self`, `super`,
//! child modules, and `use` declarations, which are followed to where the item is defined. What it
//! cannot resolve (another crate, a method, a local) is nothing. Non-goals: macros, glob imports
//! (they name the module that they open), and modules in braces.

use std::collections::BTreeMap;

use super::modules::Module;

/// Re-exports of re-exports, at most; more is a circle of them.
const HOPS_MAX: usize = 16;

/// A `use` declaration, one leaf of its tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// `["super", "head", "Head"]`; a glob ends in `*`.
    pub path: Vec<String>,
    /// What it is called here.
    pub name: String,
    /// Whether other modules see it under this one.
    pub is_reexport: bool,
}

/// What a file's code names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Its `use` declarations.
    pub imports: Vec<Import>,
    /// The paths in the rest of its code, those of one segment too.
    pub paths: Vec<Vec<String>>,
}

/// What a path ends at.
enum Target {
    /// A module itself, by its index.
    Module(usize),
    /// An item, by the index of the module that defines it.
    Item(usize),
}

/// The modules of a crate and what each of them names.
pub struct Names<'a> {
    modules: &'a [Module],
    by_names: BTreeMap<&'a [String], usize>,
    mentions: Vec<Mentions>,
}

impl<'a> Names<'a> {
    /// Reads the code of every module.
    pub fn new(modules: &'a [Module]) -> Self {
        let by_names = modules.iter().enumerate();
        Self {
            modules,
            by_names: by_names
                .map(|(at, module)| (&module.names[..], at))
                .collect(),
            mentions: modules
                .iter()
                .map(|module| mentions(&module.code))
                .collect(),
        }
    }

    /// The modules that define what this one names, each with a name that shows it.
    pub fn arrows(&self, from: usize) -> BTreeMap<usize, String> {
        let Mentions { imports, paths } = &self.mentions[from];
        let is_used = |name: &String| paths.iter().any(|path| path[0] == *name);
        let imported = imports
            .iter()
            .filter(|import| !import.is_reexport || is_used(&import.name))
            .map(|import| &import.path);
        let mut arrows = BTreeMap::new();
        for path in imported.chain(paths) {
            if let Some(Target::Item(to)) = self.resolve(from, path, HOPS_MAX)
                && to != from
            {
                arrows.entry(to).or_insert_with(|| path.join("::"));
            }
        }
        arrows
    }

    fn resolve(&self, from: usize, path: &[String], hops: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Target::Module(self.module(&[])?),
            "self" => Target::Module(from),
            "super" => Target::Module(self.parent(from)?),
            name => self.member(from, name, hops)?,
        };
        rest.iter().try_fold(start, |at, name| match at {
            Target::Module(module) if name == "super" => Some(Target::Module(self.parent(module)?)),
            Target::Module(module) if name == "self" => Some(Target::Module(module)),
            Target::Module(module) => Some(
                self.member(module, name, hops)
                    .unwrap_or(Target::Item(module)),
            ),
            // A variant or an associated item.
            Target::Item(module) => Some(Target::Item(module)),
        })
    }

    /// What `name` is in a module, if a file or a `use` declaration says so.
    fn member(&self, module: usize, name: &str, hops: usize) -> Option<Target> {
        let hops = hops.checked_sub(1)?;
        let mut names = self.modules[module].names.clone();
        names.push(name.to_owned());
        if let Some(child) = self.module(&names) {
            return Some(Target::Module(child));
        }
        let imports = &self.mentions[module].imports;
        let import = imports.iter().find(|import| import.name == name)?;
        // `use name::…` names another crate, not itself.
        (import.path[0] != name)
            .then(|| self.resolve(module, &import.path, hops))
            .flatten()
    }

    fn module(&self, names: &[String]) -> Option<usize> {
        self.by_names.get(names).copied()
    }

    fn parent(&self, module: usize) -> Option<usize> {
        let (_, parent) = self.modules[module].names.split_last()?;
        self.module(parent)
    }
}

fn mentions(code: &str) -> Mentions {
    let tokens = tokens(code);
    let mut found = Mentions::default();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" && tokens.get(at + 1) == Some(&"<") {
            // Precise capturing, as in `impl Future + use<'a>`: a bound, no declaration.
            at += 1;
        } else if tokens[at] == "use" {
            let end = tokens[at..].iter().position(|token| *token == ";");
            let end = end.map_or(tokens.len(), |end| at + end);
            let is_reexport = is_visible(&tokens[..at]);
            leaves(&tokens[at + 1..end], &[], is_reexport, &mut found.imports);
            at = end;
        } else if tokens[at] == "mod" {
            at += 2;
        } else if is_name(tokens[at]) && at.checked_sub(1).is_none_or(|at| tokens[at] != ".") {
            let path = path_at(&tokens[at..]);
            at += 2 * path.len() - 1;
            found.paths.push(path);
        } else {
            at += 1;
        }
    }
    found
}

/// Names, `::`, and every other sign that is no space.
fn tokens(code: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if is_part(first) {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether tokens end in `pub` or `pub(…)`.
fn is_visible(before: &[&str]) -> bool {
    let without_scope = match before.iter().rposition(|token| *token == "(") {
        Some(open) if before.last() == Some(&")") => &before[..open],
        _ => before,
    };
    without_scope.last() == Some(&"pub")
}

/// The path that begins here: names with `::` between them.
fn path_at(tokens: &[&str]) -> Vec<String> {
    let mut path = vec![tokens[0].to_owned()];
    let mut rest = &tokens[1..];
    while let ["::", name, after @ ..] = rest
        && is_name(name)
    {
        path.push((*name).to_owned());
        rest = after;
    }
    path
}

/// The leaves of the tree of a `use` declaration.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn leaves(tokens: &[&str], prefix: &[String], is_reexport: bool, found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut alias = None;
    let mut rest = tokens;
    loop {
        match rest {
            ["::", after @ ..] => rest = after,
            ["{", ..] => {
                let inside = &rest[1..rest.len() - 1];
                for branch in split_at_commas(inside) {
                    leaves(branch, &path, is_reexport, found);
                }
                return;
            }
            ["as", name, ..] => {
                alias = Some((*name).to_owned());
                rest = &[];
            }
            ["self", after @ ..] if !path.is_empty() => rest = after,
            [name, after @ ..] => {
                path.push((*name).to_owned());
                rest = after;
            }
            [] => break,
        }
    }
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push(Import {
            path,
            name,
            is_reexport,
        });
    }
}

fn split_at_commas<'a, 'b>(tokens: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut depth = 0_usize;
    let branches = tokens.split(|token| {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == ","
    });
    branches.filter(|branch| !branch.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(code: &str) -> Vec<String> {
        mentions(code)
            .imports
            .iter()
            .map(|import| {
                let export = if import.is_reexport { "pub " } else { "" };
                format!("{export}{} = {}", import.name, import.path.join("::"))
            })
            .collect()
    }

    #[test]
    fn declarations_are_read_to_their_leaves() {
        assert_eq!(
            imports("use a::{self, b::{C, D as E}, f::*,}; pub(crate) use g; pub use crate::h;"),
            [
                "a = a",
                "C = a::b::C",
                "E = a::b::D",
                "* = a::f::*",
                "pub g = g",
                "pub h = crate::h",
            ]
        );
    }

    #[test]
    fn precise_capturing_declares_nothing() {
        let code = "use a::b; fn f() -> impl C + use<> { { d } } fn g() -> impl C + use<T> {}";
        assert_eq!(imports(code), ["b = a::b"]);
    }

    #[test]
    fn paths_are_read_and_fields_are_not() {
        let found = mentions("mod x; fn f(a: b::C) { a.d.e(); super::g::<H>(); }").paths;
        let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["fn", "f", "a", "b::C", "a", "super::g", "H"]);
    }
}
