//! The destination of a line log.

use std::path::{Path, PathBuf};

/// The file, or standard output, that lines are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Appended to a file, which is created if need be.
    File(PathBuf),
}

impl Destination {
    /// The destination of a path: standard output if the path leads there, since a socket could not be opened as a
    /// file.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        match path == Path::new("/dev/stdout") {
            true => Self::Stdout,
            false => Self::File(path),
        }
    }
}
