//! The files that a configuration was read from, and their changes.
//!
//! Invariant: a file is stamped before it is read, so that a change in the meantime is detected. A pattern is matched
//! again at every look: a new or a removed file is a change too.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use steppe_config::outside::{Machine, Outside};
use steppe_net::Watch;

/// The files and patterns that a configuration was read from, under watch.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    files: Watch,
    patterns: Vec<Pattern>,
    /// True if a change was seen while another file was still being written.
    is_changed: bool,
}

/// A pattern of files.
#[derive(Debug, Clone)]
struct Pattern {
    pattern: String,
    paths_max: usize,
    seen: Result<Vec<PathBuf>, String>,
    /// The changed set of files that it has matched once: they may still be written.
    settling: Option<(Result<Vec<PathBuf>, String>, Watch)>,
}

impl Origin {
    /// The origin of a configuration that will be read from this file.
    #[must_use]
    pub fn of(file: &Path) -> Self {
        let files = Watch::new([file.to_owned()]);
        Self {
            files,
            ..Self::default()
        }
    }

    /// Waits until a file has changed, or a pattern matches other files, and all have come to rest; for ever if there
    /// is no file.
    ///
    /// # Cancel safety
    /// Safe: the changes seen so far are kept.
    pub async fn changed(&mut self) {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(Watch::EVERY).await;
            let matched = self.patterns.iter_mut().map(Pattern::look);
            // Every pattern is matched, also after one with a change.
            let matched = matched.filter(|is_other| *is_other).count();
            self.is_changed |= self.files.look() || matched > 0 || self.files.has_lost(LOST_LOOKS);
            if self.is_changed && !self.files.is_settling() {
                self.is_changed = false;
                return;
            }
        }
    }
}

/// Looks after which a missing file counts as removed, and not as being replaced: two seconds.
const LOST_LOOKS: u32 = 4;

impl Outside for Origin {
    fn read(&mut self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.files.add(path.to_owned());
        Machine.read(path, bytes_max)
    }

    fn matches(&mut self, pattern: &str, paths_max: usize) -> Result<Vec<PathBuf>, String> {
        let seen = Machine.matches(pattern, paths_max);
        self.patterns.push(Pattern {
            pattern: pattern.to_owned(),
            paths_max,
            seen: seen.clone(),
            settling: None,
        });
        seen
    }

    fn canonical(&mut self, path: &Path) -> io::Result<PathBuf> {
        // A missing file is watched too.
        self.files.add(path.to_owned());
        Machine.canonical(path)
    }

    fn variable(&mut self, name: &str) -> Option<OsString> {
        Machine.variable(name)
    }
}

impl Pattern {
    /// True if it matches other files than before, which have come to rest.
    fn look(&mut self) -> bool {
        let found = Machine.matches(&self.pattern, self.paths_max);
        if found == self.seen {
            self.settling = None;
            return false;
        }
        if let Some((settling, files)) = &self.settling
            && *settling == found
            && files.is_current()
        {
            self.seen = found;
            self.settling = None;
            return true;
        }
        let files = Watch::new(found.iter().flatten().cloned());
        self.settling = Some((found, files));
        false
    }
}
