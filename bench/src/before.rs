//! `--before PATH`: a build of another commit as one more contestant.
//!
//! Invariants: both builds run from paths of one length, since a longer path moves the stack of a
//! process and with it the speed of its code; each measured run is a fresh process, since two
//! processes of one build differ by per cents for as long as they live (where their pages lie is
//! drawn once); and each round runs both twice, in the order ABBA or BAAB, which cancels a drift.

pub mod comparison;
pub mod counts;
pub mod schedule;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The build of this checkout, or that of another commit. Both names have six letters, so that
/// paths and configurations named after them have one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Now,
    Before,
}

/// Rounds when `--before` is given without `--rounds`.
pub const ROUNDS: u16 = 15;

impl Build {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Now => "steppe",
            Self::Before => "before",
        }
    }

    /// Copies a program or library into a folder of this build below `run_dir`: under a path as
    /// long as the other build's, and out of reach of a compiler that runs meanwhile.
    ///
    /// # Errors
    /// When there is no file at `path`, or it can't be copied.
    pub fn copied(self, path: &Path, run_dir: &Path) -> Result<PathBuf> {
        ensure!(path.is_file(), "no file at {}", path.display());
        let name = path.file_name().context("a file has a name")?;
        let folder = run_dir.join("builds").join(self.name());
        // A copy that still runs can't be overwritten, but it can be removed.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        // The other build's file may have another name, and its path another length.
        let extension = Path::new(name).extension().is_some_and(|end| end == "so");
        let copy = folder.join(if extension { "libsteppe.so" } else { "program" });
        fs::copy(path, &copy)
            .with_context(|| format!("cannot copy {} to {}", path.display(), copy.display()))?;
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_paths_of_one_length() {
        let folder = std::env::temp_dir().join(format!("steppe-before-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (short, long) = (folder.join("a.so"), folder.join("a-longer-name.so"));
        fs::write(&short, "1").expect("a file");
        fs::write(&long, "2").expect("a file");
        let now = Build::Now.copied(&short, &folder).expect("a copy");
        let before = Build::Before.copied(&long, &folder).expect("a copy");
        assert_eq!(now.as_os_str().len(), before.as_os_str().len());
        assert_eq!(fs::read_to_string(&now).expect("a file"), "1");
        assert_eq!(fs::read_to_string(&before).expect("a file"), "2");
        let missing = folder.join("missing");
        let error = Build::Before.copied(&missing, &folder);
        let error = error.expect_err("it is not there").to_string();
        assert_eq!(error, format!("no file at {}", missing.display()));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
