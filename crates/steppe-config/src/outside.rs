//! Everything outside the text of a configuration that it may name: other files, and the environment.
//!
//! Invariant: only regular files are read, no more of them than requested, and no read waits for a FIFO or a device.
//! Non-goals: files that keys name, which the product reads.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Other files and the environment, which the stages of a reader ask for.
pub trait Outside {
    /// The bytes of a regular file, at most one more than `bytes_max`: then the file is longer.
    ///
    /// # Errors
    /// The reason why the file can't be read.
    fn read(&mut self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// The paths that a pattern matches, in byte order: at most one more than `paths_max`.
    ///
    /// # Errors
    /// The reason why the pattern is refused, or why a folder can't be read.
    fn matches(&mut self, pattern: &str, paths_max: usize) -> Result<Vec<PathBuf>, String>;

    /// The path of a file without links and `..`, by which two paths of one file are seen to be the same.
    ///
    /// # Errors
    /// The reason why the file can't be found.
    fn canonical(&mut self, path: &Path) -> io::Result<PathBuf>;

    /// A variable of the environment.
    fn variable(&mut self, name: &str) -> Option<OsString>;
}

/// An [`Outside`] without files and without variables.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

const UNREAD: &str = "no other file is read here";

impl Outside for Nothing {
    fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, UNREAD))
    }

    fn matches(&mut self, _: &str, _: usize) -> Result<Vec<PathBuf>, String> {
        Err(UNREAD.to_owned())
    }

    fn canonical(&mut self, _: &Path) -> io::Result<PathBuf> {
        Err(io::Error::new(io::ErrorKind::Unsupported, UNREAD))
    }

    fn variable(&mut self, _: &str) -> Option<OsString> {
        None
    }
}

/// The files and the environment of this process.
#[derive(Debug, Clone, Copy)]
pub struct Machine;

impl Outside for Machine {
    fn read(&mut self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = bytes_max as u64 + 1;
        regular(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn matches(&mut self, pattern: &str, paths_max: usize) -> Result<Vec<PathBuf>, String> {
        let found = glob::glob_with(pattern, PATTERN);
        let found = found.map_err(|error| format!("{} in the pattern", error.msg))?;
        let mut paths = Vec::new();
        for path in found.take(paths_max + 1) {
            paths.push(path.map_err(|error| error.to_string())?);
        }
        paths.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        Ok(paths)
    }

    fn canonical(&mut self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn variable(&mut self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}

/// A pattern character matches no name that begins with a dot: editors and file systems leave such files beside others.
const PATTERN: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The open of a FIFO without a writer would block without this flag.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// Opens a regular file, without blocking.
fn regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        let error = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(file)
}
