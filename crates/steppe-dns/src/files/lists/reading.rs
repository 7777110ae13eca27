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
    /// Of the configuration's lists.
    pub(crate) list: usize,
    pub(crate) file: PathBuf,
    pub(crate) why: WhyLeftOut,
}

/// The reason why a fetched file is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// There is no file yet.
    NotFetched,
    /// It can't be read, or has no rule that an index can have.
    Unusable,
    /// The memory budget has no room for it.
    NoMemory,
}

/// The inputs of a reading of lists.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) key: SipKey,
    pub(crate) lease: &'a Lease,
    /// Fetched files that are in force, and stay so: one that can't be used fails the whole.
    pub(crate) kept: &'a [PathBuf],
    /// A fetched file that is about to take its place.
    pub(crate) draft: Option<&'a Draft>,
}

/// A fetched file that stands beside its place.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) file: PathBuf,
    pub(crate) place: PathBuf,
}

impl Reading<'_> {
    /// Where the contents of a file are for now.
    pub(super) fn at(&self, place: &Path) -> PathBuf {
        let draft = self.draft.filter(|draft| draft.place == place);
        draft.map_or(place, |draft| &draft.file).to_path_buf()
    }

    /// True where nothing comes into force without this fetched file.
    pub(super) fn needs(&self, list: &List, place: &Path) -> bool {
        let is_draft = self.draft.is_some_and(|draft| draft.place == place);
        let is_kept = self.kept.iter().any(|kept| kept == place);
        // One that is not there is to be fetched.
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
