//! The files that the rules judge: those that git knows or would add.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::process;

/// Inputs for parsers: broken on purpose, and not ours to judge. Sources beside them are.
const UNJUDGED: [&str; 2] = ["fuzz/corpus/", "/testdata/"];

/// The files of a checkout.
#[derive(Default)]
pub struct Tree {
    files: Vec<SourceFile>,
    /// Every file and directory, those that are not text too.
    paths: BTreeSet<String>,
}

/// A text file.
pub struct SourceFile {
    /// From the root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl Tree {
    /// Reads the checkout that this xtask was built from.
    pub fn of_checkout() -> Result<Self> {
        let mut list = Command::new("git");
        list.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let list = process::output(list.current_dir(process::root()))?;
        let mut tree = Self::default();
        for path in list.split('\0').filter(|path| !path.is_empty()) {
            // A file that is deleted and not yet committed is listed still.
            if let Ok(content) = fs::read(process::root().join(path)) {
                tree.add(path, content);
            }
        }
        Ok(tree)
    }

    /// A tree of these files, for a test.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, text.as_bytes().to_vec());
        }
        tree
    }

    fn add(&mut self, path: &str, content: Vec<u8>) {
        self.paths.insert(path.to_owned());
        for (end, _) in path.match_indices('/') {
            self.paths.insert(path[..end].to_owned());
        }
        let is_source = path.ends_with(".rs");
        if !is_source && UNJUDGED.iter().any(|part| path.contains(part)) {
            return;
        }
        if let Ok(text) = String::from_utf8(content) {
            self.files.push(SourceFile {
                path: path.to_owned(),
                text,
            });
        }
    }

    /// The file of this path.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether there is a file or a directory of this path.
    pub fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    /// Files whose name ends in this.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a SourceFile> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(end))
    }
}

impl SourceFile {
    /// Its lines, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.text)
    }
}

/// Lines of a text, numbered from 1.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

/// Whether `word` stands in `line` on its own, and not as a part of a longer word.
pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!tree.has("doc"));
        assert!(tree.has("fuzz/corpus/path/seed"));
        assert!(tree.file("fuzz/corpus/path/seed").is_none());
    }
}
