//! The files that the rules judge: those that git knows or would add; and some of their history.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Inputs for parsers: broken on purpose, and not ours to judge. Sources beside them are.
const UNJUDGED: [&str; 2] = ["fuzz/corpus/", "/testdata/"];

/// The list of known violations, from the root.
pub const LIST: &str = "xtask/src/tidy/known.toml";

/// The files of a checkout.
#[derive(Default)]
pub struct Tree {
    files: Vec<SourceFile>,
    /// Every file, those that are not text too.
    paths: Vec<String>,
    /// Hash and subject of each commit that is judged.
    pub commits: Vec<String>,
    /// The list of known violations, one version ago; empty without its history.
    pub known_before: String,
}

pub struct SourceFile {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
    /// Its code, or the first mistake in it; empty where it is no Rust.
    pub code: syn::Result<syn::File>,
}

impl Tree {
    /// Reads the checkout that this xtask was built from.
    pub fn of_checkout() -> Result<Self> {
        let mut tree = Self::default();
        let list = git("ls-files -z --cached --others --exclude-standard")?;
        for path in list.split_terminator('\0') {
            // A file that is deleted and not yet committed is listed still.
            if let Ok(content) = fs::read(process::root().join(path)) {
                tree.add(path, content);
            }
        }
        // Commits are judged from the one on that added this file; without a history, none.
        tree.commits = commits_since("xtask/src/tidy/code.rs").unwrap_or_default();
        if let Some(list) = tree.file(LIST) {
            tree.known_before = version_before(LIST, &list.text).unwrap_or_default();
        }
        Ok(tree)
    }

    /// Adds the manifest and the library's sources of a package, whose folder is called `shown`.
    pub fn add_package(&mut self, folder: &Path, shown: &str) -> Result<()> {
        self.add(
            &format!("{shown}/Cargo.toml"),
            fs::read(folder.join("Cargo.toml"))?,
        );
        self.add_folder(&folder.join("src"), &format!("{shown}/src"))
    }

    fn add_folder(&mut self, folder: &Path, shown: &str) -> Result<()> {
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        let mut paths: Vec<_> = entries.iter().map(DirEntry::path).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let shown = format!("{shown}/{name}");
            if path.is_dir() {
                self.add_folder(&path, &shown)?;
            } else if shown.ends_with(".rs") {
                self.add(&shown, fs::read(&path)?);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, content: Vec<u8>) {
        self.paths.push(path.to_owned());
        let is_rust = path.ends_with(".rs");
        let is_judged = is_rust || !UNJUDGED.iter().any(|part| path.contains(part));
        if let (true, Ok(text)) = (is_judged, String::from_utf8(content)) {
            let code = syn::parse_file(if is_rust { &text } else { "" });
            let path = path.to_owned();
            self.files.push(SourceFile { path, text, code });
        }
    }

    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Tells a path that leads to a file or a directory, or is empty.
    pub fn has(&self, path: &str) -> bool {
        let mut rests = self.paths.iter().filter_map(|file| file.strip_prefix(path));
        rests.any(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }

    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a SourceFile> {
        let files = self.files.iter();
        files.filter(move |file| file.path.ends_with(end))
    }
}

fn git(arguments: &str) -> Result<String> {
    let mut command = Command::new("git");
    process::output(
        command
            .args(arguments.split(' '))
            .current_dir(process::root()),
    )
}

/// Hash and subject of the commits after the one that added a file.
fn commits_since(path: &str) -> Result<Vec<String>> {
    let added = git(&format!("log --diff-filter=A --format=%H -- {path}"))?;
    let first = added.lines().last().context("never added")?;
    let commits = git(&format!("log --no-merges --format=%h%x20%s {first}.."))?;
    Ok(commits.lines().map(str::to_owned).collect())
}

/// The text of a file before its last change, which may be one that is not committed.
fn version_before(path: &str, now: &str) -> Result<String> {
    let changes = git(&format!("log -2 --format=%H -- {path}"))?;
    let mut texts = changes
        .lines()
        .map(|commit| git(&format!("show {commit}:{path}")));
    let before = texts.find(|text| text.as_ref().is_ok_and(|text| text != now));
    before.context("never changed")?
}

/// Lines of a text, numbered from 1.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

/// Tells a word on its own from a part of a longer one.
pub fn has_word(line: &str, word: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tree {
        /// A tree of these files, for a test.
        pub fn of(files: &[(&str, &str)]) -> Self {
            let mut tree = Self::default();
            for (path, text) in files {
                tree.add(path, text.as_bytes().to_vec());
            }
            tree
        }
    }

    #[test]
    fn words_stand_on_their_own() {
        assert!(has_word("pub unsafe fn", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
        assert!(has_word("unsafe_code, unsafe", "unsafe"));
    }

    #[test]
    fn directories_are_there_and_corpora_are_not_judged() {
        let tree = Tree::of(&[("docs/adr/a.md", ""), ("fuzz/corpus/path/seed", "")]);
        assert!(tree.has("docs/adr") && tree.has("docs") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/adr/a"));
        assert!(tree.has("fuzz/corpus/path/seed"));
        assert!(tree.file("fuzz/corpus/path/seed").is_none());
    }
}
