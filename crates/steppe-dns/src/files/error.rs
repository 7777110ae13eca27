//! Errors of files of lists and hosts.

use std::io;
use std::path::PathBuf;

use steppe_mem::OverBudget;

use crate::hosts::HostsError;
use crate::rules::BuildError;

/// The reason why files are not in force.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file can't be read.
    #[error("cannot read {}: {cause}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// The index has no room for the rules of a file.
    #[error("{}: {cause}", file.display())]
    Rules {
        /// The file with the rules.
        file: PathBuf,
        /// The error.
        cause: BuildError,
    },
    /// A fetched file has no rule: it may be an error page, or no list at all.
    #[error("{}: no rule in the fetched list", file.display())]
    NoRules {
        /// The file.
        file: PathBuf,
    },
    /// A list that is required has a source that was never fetched.
    #[error("list {list} is required, and {source_url} was never fetched: {why}")]
    NeverFetched {
        /// Name of the list.
        list: String,
        /// The URL, without its query.
        source_url: String,
        /// The reason.
        why: String,
    },
    /// All lists together don't fit in one index.
    #[error("the lists do not fit in one index: {0}")]
    Index(BuildError),
    /// The table has no room for names or records of hosts.
    #[error("{}: {cause}", place.display())]
    Hosts {
        /// The file, or the key of the configuration.
        place: PathBuf,
        /// The error.
        cause: HostsError,
    },
    /// The budget has no room.
    #[error("not enough memory to read the files: {0}")]
    Budget(OverBudget),
}

impl From<OverBudget> for FilesError {
    fn from(cause: OverBudget) -> Self {
        Self::Budget(cause)
    }
}
