//! Patterns of files below a folder: `*` stands for any bytes, slashes included.
//!
//! Invariant: matching takes one pass over a path for each `*`, and of these there are few. Non-goals: classes of
//! characters, `?`, and `**`, which `*` includes.

use std::fmt;

use memchr::memmem;

use crate::limits::{FILE_PATTERN_BYTES_MAX, FILE_PATTERN_STARS_MAX};

/// A pattern such as `/assets/*`, `*.html` or `/robots.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePattern {
    /// Texts between its `*`: the first is the beginning of a path, the last its end.
    pieces: Vec<Box<str>>,
    text: Box<str>,
}

/// Mistakes of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FilePatternError {
    /// No path that it is compared with is like that.
    #[error("it begins neither with `/` nor with `*`")]
    NotAnchored,
    /// A file is not a folder.
    #[error("it ends with `/`, and a file's path does not")]
    Folder,
    /// NUL is in no path.
    #[error("it contains a NUL")]
    Nul,
    /// Longer than [`FILE_PATTERN_BYTES_MAX`].
    #[error("{0} bytes, at most {FILE_PATTERN_BYTES_MAX}")]
    TooLong(usize),
    /// More stars than [`FILE_PATTERN_STARS_MAX`].
    #[error("{0} times `*`, at most {FILE_PATTERN_STARS_MAX}")]
    TooManyStars(usize),
}

impl FilePattern {
    /// The pattern that `text` is.
    ///
    /// # Errors
    /// Where it is none, or too long.
    pub fn parse(text: &str) -> Result<Self, FilePatternError> {
        if text.len() > FILE_PATTERN_BYTES_MAX {
            return Err(FilePatternError::TooLong(text.len()));
        }
        if text.contains('\0') {
            return Err(FilePatternError::Nul);
        }
        if text.ends_with('/') {
            return Err(FilePatternError::Folder);
        }
        let below = match text.strip_prefix('/') {
            Some(below) => below,
            None if text.starts_with('*') => text,
            None => return Err(FilePatternError::NotAnchored),
        };
        let pieces: Vec<Box<str>> = below.split('*').map(Box::from).collect();
        match pieces.len() - 1 {
            stars if stars > FILE_PATTERN_STARS_MAX => Err(FilePatternError::TooManyStars(stars)),
            _ => Ok(Self {
                pieces,
                text: text.into(),
            }),
        }
    }

    /// True of every file.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(|piece| piece.is_empty())
    }

    /// True if it is for the file at `path`, which is relative to the folder.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        let [first, between @ .., last] = &*self.pieces else {
            return self.pieces.iter().all(|whole| whole.as_bytes() == path);
        };
        let Some(rest) = path.strip_prefix(first.as_bytes()) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(last.as_bytes()) else {
            return false;
        };
        // Where the first place of a piece leaves too little for those after it, a later one leaves less.
        between.iter().all(|piece| {
            let found = memmem::find(rest, piece.as_bytes());
            if let Some(at) = found {
                rest = &rest[at + piece.len()..];
            }
            found.is_some()
        })
    }
}

impl fmt::Display for FilePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> FilePattern {
        FilePattern::parse(text).expect(text)
    }

    #[test]
    fn a_star_is_any_bytes() {
        for (text, path, expected) in [
            ("/assets/*", "assets/a.js", true),
            ("/assets/*", "assets/a/b.js", true),
            ("/assets/*", "assets", false),
            ("/assets/*", "a/assets/b", false),
            ("*.html", "index.html", true),
            ("*.html", "a/b.html", true),
            ("*.html", "a.html.gz", false),
            ("/*.html", "a/b.html", true),
            ("/robots.txt", "robots.txt", true),
            ("/robots.txt", "a/robots.txt", false),
            ("*", "", true),
            ("*", "a/b", true),
            ("/a*a", "a", false),
            ("/a*a", "aa", true),
            ("*/img/*.png", "a/img/b.png", true),
            ("*/img/*.png", "img/b.png", false),
            ("*ab*ab*", "abxab", true),
            ("*ab*ab*", "abab", true),
            ("*ab*ab*", "aab", false),
        ] {
            assert_eq!(
                pattern(text).matches(path.as_bytes()),
                expected,
                "{text} {path}"
            );
        }
        assert!(pattern("*").is_for_all() && pattern("/*").is_for_all());
        assert!(!pattern("*.html").is_for_all() && !pattern("/a").is_for_all());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let stars = "*".repeat(FILE_PATTERN_STARS_MAX + 1);
        let long = format!("/{}", "a".repeat(FILE_PATTERN_BYTES_MAX));
        for (text, error) in [
            ("", FilePatternError::NotAnchored),
            ("a.html", FilePatternError::NotAnchored),
            ("/", FilePatternError::Folder),
            ("/a/", FilePatternError::Folder),
            ("/a\0", FilePatternError::Nul),
            (&*stars, FilePatternError::TooManyStars(stars.len())),
            (&*long, FilePatternError::TooLong(long.len())),
        ] {
            assert_eq!(FilePattern::parse(text), Err(error), "{text}");
        }
    }

    /// By trying every length for each `*`.
    fn matches_slowly(pattern: &[u8], path: &[u8]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                (0..=path.len()).any(|taken| matches_slowly(rest, &path[taken..]))
            }
            (Some((first, pattern)), Some((byte, path))) => {
                first == byte && matches_slowly(pattern, path)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn it_matches_as_the_slow_way_does(text in "[*ab]{0,6}", path in "[ab]{0,8}") {
            let found = pattern(&format!("/*{text}")).matches(path.as_bytes());
            prop_assert_eq!(found, matches_slowly(format!("*{text}").as_bytes(), path.as_bytes()));
        }
    }
}
