//! The files of a configuration, one after the other.
//!
//! Invariant: a span counts bytes from the start of the first file through all that follow, so that one number gives
//! file and place; files never move. Non-goals: finding files, which `include` does.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use crate::placeholder::Placed;

/// The files of a configuration: the one that was named, then those that it includes.
#[derive(Debug)]
pub struct Sources<'a> {
    files: Vec<SourceFile<'a>>,
    /// The values of their placeholders, which must not be shown.
    pub placed: Placed,
}

/// A file of the configuration.
#[derive(Debug)]
pub struct SourceFile<'a> {
    /// The file's path, as reports quote it.
    pub name: String,
    /// The file's text.
    pub text: Cow<'a, str>,
    /// Offset of the file in spans.
    pub start: usize,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl<'a> Sources<'a> {
    /// A single file.
    pub fn new(name: &str, text: &'a str) -> Self {
        let file = SourceFile {
            name: name.to_owned(),
            text: Cow::Borrowed(text),
            start: 0,
        };
        Self {
            files: vec![file],
            placed: Placed::default(),
        }
    }

    /// The same with texts of its own.
    #[must_use]
    pub fn into_owned(self) -> Sources<'static> {
        let files = self.files.into_iter().map(|file| SourceFile {
            name: file.name,
            text: Cow::Owned(file.text.into_owned()),
            start: file.start,
        });
        Sources {
            files: files.collect(),
            placed: self.placed,
        }
    }

    /// Adds a file behind the others. Returns its offset in spans.
    pub(crate) fn add(&mut self, name: String, text: String) -> usize {
        let start = self.end();
        let text = Cow::Owned(text);
        self.files.push(SourceFile { name, text, start });
        start
    }

    /// The files in order, at least one.
    #[must_use]
    pub fn files(&self) -> &[SourceFile<'a>] {
        &self.files
    }

    /// The file that contains a byte.
    #[must_use]
    pub fn file(&self, at: usize) -> &SourceFile<'a> {
        &self.files[self.index(at)]
    }

    /// The index of the file that contains a byte, from 0.
    #[must_use]
    pub fn index(&self, at: usize) -> usize {
        let next = self.files.partition_point(|file| file.start <= at);
        next.saturating_sub(1)
    }

    /// The file, line and column of a byte.
    #[must_use]
    pub fn place(&self, at: usize) -> Place {
        let file = self.file(at);
        let (line, column) = position(&file.text, at - file.start);
        Place {
            file: file.name.clone(),
            line,
            column,
        }
    }

    /// The bytes of all files.
    pub(crate) fn bytes(&self) -> usize {
        self.files.iter().map(|file| file.text.len()).sum()
    }

    /// One byte lies between two files: the end of a span in one is no start in the next.
    fn end(&self) -> usize {
        let last = self.files.last();
        last.map_or(0, |file| file.start + file.text.len() + 1)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl SourceFile<'_> {
    /// The folder that relative paths in the file count from.
    #[must_use]
    pub fn folder(&self) -> &Path {
        Path::new(&self.name).parent().unwrap_or(Path::new(""))
    }
}

/// Line and column of a byte, both from 1.
pub(crate) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line_start = before
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = String::from_utf8_lossy(&before[line_start..])
        .chars()
        .count()
        + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_says_its_file_and_line() {
        let mut sources = Sources::new("a.toml", "x = 1\ny = 2\n");
        let start = sources.add("sites/b.toml".to_owned(), "z = 3\nü = 4\n".to_owned());
        let place = |at| {
            let Place { file, line, column } = sources.place(at);
            (file, line, column)
        };
        assert_eq!(place(6), ("a.toml".to_owned(), 2, 1));
        // The end of a file belongs to that file.
        assert_eq!(place(12), ("a.toml".to_owned(), 3, 1));
        assert_eq!(place(start), ("sites/b.toml".to_owned(), 1, 1));
        assert_eq!(place(start + 8), ("sites/b.toml".to_owned(), 2, 2));
        assert_eq!(sources.file(start).folder(), Path::new("sites"));
    }
}
