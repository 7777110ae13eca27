//! The figures of a column, and the places behind each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::file::{self, Opening};
use super::kind::Kind;
use super::shape::{Named, Shape};
use super::subject::Subject;
use crate::tidy::circles;
use crate::tidy::tree::{LIST, SourceFile, Tree};

const FUNCTION_LINES_MAX: usize = 70;

const QUESTIONS: &str = "who what whose whom whoever whatever whether how nobody";
const PRONOUNS: &str = "it they of that those its their";

/// A line that a figure counts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub kind: Kind,
    pub path: String,
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// All that is counted of a subject.
#[derive(Default)]
pub struct Figures {
    pub name: String,
    pub files: usize,
    pub code_lines: usize,
    pub doc_blocks: usize,
    pub functions: usize,
    pub definitions: usize,
    /// The files of the largest circle.
    pub circle_files_max: usize,
    /// Rows of the list of known violations; `None` for peers.
    pub known: Option<usize>,
    places: Vec<Place>,
    names: Names,
}

/// The files that define a name, each with the line of its last definition there.
type Names = BTreeMap<String, BTreeMap<String, usize>>;

impl Figures {
    /// Counts the files of a subject.
    pub fn of(subject: &Subject) -> Self {
        let mut figures = Self {
            name: subject.name.clone(),
            known: subject.is_ours.then(|| known_rows(&subject.tree)),
            ..Self::default()
        };
        let mut impls = Vec::new();
        for file in subject.files() {
            impls.extend(figures.add_file(file));
        }
        for (path, block) in impls {
            figures.add_impl(path, block);
        }
        figures.add_names();
        figures.add_circles(&subject.tree);
        figures.places.sort();
        figures
    }

    /// The places that a figure counts, by file and line; names by name.
    pub fn places(&self, kind: Kind) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |place| place.kind == kind)
    }

    pub fn count(&self, kind: Kind) -> usize {
        self.places(kind).count()
    }

    /// Calls of `expect` and `unwrap` in the gateway's own files.
    pub fn expects_of_gateway(&self) -> usize {
        let places = self.places(Kind::Expects);
        places
            .filter(|place| place.path.contains("/gateway/") || place.path.ends_with("/gateway.rs"))
            .count()
    }

    /// Counts a file. The types of its inherent `impl` blocks may be known later.
    fn add_file<'a>(&mut self, file: &'a SourceFile) -> Vec<(&'a str, Named)> {
        let code = file::without_tests(file.text.parse().unwrap_or_default());
        self.files += 1;
        self.code_lines += file::code_lines(code.clone()).len();
        for opening in file::openings(code.clone()) {
            self.add_opening(&file.path, opening);
        }
        for line in file::method_calls(code.clone(), &["expect", "unwrap"]) {
            let text = file.text.lines().nth(line - 1).unwrap_or_default().trim();
            self.add(
                Kind::Expects,
                &file.path,
                Named {
                    name: text.to_owned(),
                    line,
                },
            );
        }
        let shape = Shape::of(code);
        self.functions += shape.functions.len();
        for function in shape.functions {
            let Named { name, line } = function.name;
            if function.has_tuple {
                self.add(
                    Kind::Tuples,
                    &file.path,
                    Named {
                        name: format!("fn {name}"),
                        line,
                    },
                );
            }
            if function.lines > FUNCTION_LINES_MAX {
                let name = format!("fn {name}: {} lines", function.lines);
                self.add(Kind::Long, &file.path, Named { name, line });
            }
        }
        for Named { name, line } in shape.definitions {
            let files = self.names.entry(name).or_default();
            files.insert(file.path.clone(), line);
        }
        shape
            .impls
            .into_iter()
            .map(|block| (&file.path[..], block))
            .collect()
    }

    fn add(&mut self, kind: Kind, path: &str, Named { name: text, line }: Named) {
        let path = path.to_owned();
        self.places.push(Place {
            kind,
            path,
            line,
            text,
        });
    }

    fn add_opening(&mut self, path: &str, Opening { line, text }: Opening) {
        self.doc_blocks += 1;
        let word = text
            .split(|c: char| !c.is_alphanumeric())
            .next()
            .unwrap_or_default();
        let is_one_of = |words: &str| words.split(' ').any(|one| one.eq_ignore_ascii_case(word));
        let kind = if is_one_of(QUESTIONS) {
            Kind::Questions
        } else if is_one_of(PRONOUNS) {
            Kind::Pronouns
        } else {
            return;
        };
        self.add(kind, path, Named { name: text, line });
    }

    /// Counts an inherent `impl` of a type that other files define, and this one doesn't.
    fn add_impl(&mut self, path: &str, block: Named) {
        let files = self.names.get(&block.name);
        if files.is_some_and(|files| !files.contains_key(path)) {
            let name = format!("impl {}", block.name);
            self.add(
                Kind::Impls,
                path,
                Named {
                    name,
                    line: block.line,
                },
            );
        }
    }

    fn add_names(&mut self) {
        self.definitions = self.names.values().map(BTreeMap::len).sum();
        for (name, files) in std::mem::take(&mut self.names) {
            for (path, line) in files.iter().filter(|_| files.len() > 1) {
                let text = format!("{name} ({} files)", files.len());
                self.add(
                    Kind::Names,
                    path,
                    Named {
                        name: text,
                        line: *line,
                    },
                );
            }
        }
    }

    fn add_circles(&mut self, tree: &Tree) {
        for finding in circles::check(tree) {
            self.circle_files_max = self.circle_files_max.max(finding.count);
            let text = Named {
                name: finding.message,
                line: finding.line,
            };
            self.add(Kind::Circles, &finding.path, text);
        }
    }
}

/// The rows of the list of known violations that name files of the tree.
fn known_rows(tree: &Tree) -> usize {
    let list = std::fs::read_to_string(crate::process::root().join(LIST)).unwrap_or_default();
    let paths: BTreeSet<&str> = tree.ending(".rs").map(|file| &file.path[..]).collect();
    let rows = list
        .lines()
        .filter_map(|line| line.split('"').nth(1)?.split_once(' '));
    rows.filter(|(_, path)| paths.contains(path)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(files: &[(&str, &str)]) -> Figures {
        let mut files = files.to_vec();
        files.push(("a/Cargo.toml", ""));
        Figures::of(&Subject::of_files(&files))
    }

    fn places(figures: &Figures, kind: Kind) -> Vec<String> {
        figures.places(kind).map(Place::to_string).collect()
    }

    #[test]
    fn riddles_are_told_from_statements() {
        let found = figures(&[(
            "a/src/lib.rs",
            "//! Whether it is.\n\n/// That's it.\nfn f() {}\n/// However\nfn g() {}\n/// `It`: a type.\n\
             fn h() {}\n/// Their own.\nfn i() {}\n",
        )]);
        assert_eq!(found.doc_blocks, 5);
        assert_eq!(
            places(&found, Kind::Questions),
            ["a/src/lib.rs:1: Whether it is."]
        );
        assert_eq!(
            places(&found, Kind::Pronouns),
            ["a/src/lib.rs:3: That's it.", "a/src/lib.rs:9: Their own."]
        );
    }

    #[test]
    fn names_and_impls_are_counted_over_files() {
        let found = figures(&[
            (
                "a/src/lib.rs",
                "mod b; struct A; impl A {} mod c { struct A; } struct D;",
            ),
            ("a/src/b.rs", "enum A {} impl super::D {} impl Made {}"),
        ]);
        assert_eq!(found.definitions, 3);
        assert_eq!(found.count(Kind::Names), 2);
        assert_eq!(places(&found, Kind::Impls), ["a/src/b.rs:1: impl D"]);
    }

    #[test]
    fn functions_calls_and_circles_are_counted() {
        let long = format!(
            "use crate::b::g;\nfn f(a: (u8, u8)) {{ {} }}",
            "\n".repeat(70)
        );
        let found = figures(&[
            ("a/src/lib.rs", "mod b; mod gateway;"),
            ("a/src/b.rs", &long),
            ("a/src/gateway/c.rs", "fn f() { d.unwrap(); crate::b::f() }"),
            ("a/src/b/e.rs", "use super::f;"),
        ]);
        assert_eq!((found.functions, found.files), (2, 4));
        assert_eq!(places(&found, Kind::Tuples), ["a/src/b.rs:2: fn f"]);
        assert_eq!(places(&found, Kind::Long), ["a/src/b.rs:2: fn f: 71 lines"]);
        assert_eq!((found.expects_of_gateway(), found.circle_files_max), (1, 0));
        let circle = figures(&[
            ("a/src/lib.rs", ""),
            ("a/src/b.rs", "use crate::c::C;"),
            ("a/src/c.rs", "use crate::b::B;"),
        ]);
        assert_eq!(
            (circle.count(Kind::Circles), circle.circle_files_max),
            (2, 2)
        );
    }
}
