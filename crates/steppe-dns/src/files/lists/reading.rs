//! Reading of lists: its inputs, and its results by list.

use std::fmt;
use std::path::{Path, PathBuf};

use steppe_mem::Lease;

use crate::config::List;
use crate::siphash::SipKey;

/// Counts of a list's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListFacts {
    pub(crate) rules: u64,
    /// Lines with rules of a kind that is not supported.
    pub(crate) unsupported: u64,
    /// Lines that no syntax knows.
    pub(crate) malformed: u64,
}

/// A fetched file of a list that is not in force, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Index of the list in the configuration.
    pub(crate) list: usize,
    pub(crate) file: PathBuf,
    pub(crate) why: WhyLeftOut,
}

/// The reason why a fetched file is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// There is no file yet.
    NotFetched,
    /// The file can't be read, has no rule, or does not fit in the index.
    Unusable,
    /// The memory budget has no room for it.
    NoMemory,
}

/// The inputs of a reading of lists.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) key: SipKey,
    pub(crate) lease: &'a Lease,
    /// Fetched files that are in force, and stay so: if one can't be used, the whole reading fails.
    pub(crate) kept: &'a [PathBuf],
    /// A fetched file that is about to replace the stored one.
    pub(crate) draft: Option<&'a Draft>,
}

/// A fetched file, stored beside the `place` that it is about to take.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) file: PathBuf,
    pub(crate) place: PathBuf,
}

impl Reading<'_> {
    /// The path to read a file from: that of the draft, if the draft is about to replace it.
    pub(super) fn at(&self, place: &Path) -> PathBuf {
        let draft = self.draft.filter(|draft| draft.place == place);
        draft.map_or(place, |draft| &draft.file).to_path_buf()
    }

    /// True if nothing comes into force without this fetched file.
    pub(super) fn needs(&self, list: &List, place: &Path) -> bool {
        let is_draft = self.draft.is_some_and(|draft| draft.place == place);
        let is_kept = self.kept.iter().any(|kept| kept == place);
        // A missing file is going to be fetched.
        is_draft || (list.required || is_kept) && place.exists()
    }
}

impl fmt::Display for WhyLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFetched => "not fetched yet",
            Self::Unusable => "the fetched file cannot be used",
            Self::NoMemory => "no room in the memory budget",
        })
    }
}
