//! Why files of lists and hosts are not in force.

use std::io;
use std::path::PathBuf;

use steppe_mem::OverBudget;

use crate::hosts::HostsError;
use crate::rules::BuildError;

/// Why files are not in force.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file can't be read.
    #[error("cannot read {}: {cause}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Its rules have no room in an index.
    #[error("{}: {cause}", file.display())]
    Rules {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: BuildError,
    },
    /// A fetched file has no rule: it says that the list is not there today, or is none.
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
        /// Why not.
        why: String,
    },
    /// All of them together have no room in an index.
    #[error("the lists do not fit in one index: {0}")]
    Index(BuildError),
    /// Its names have no room in a table.
    #[error("{}: {cause}", place.display())]
    Hosts {
        /// The file, or the key of the configuration.
        place: PathBuf,
        /// Why.
        cause: HostsError,
    },
    /// There is no memory for it.
    #[error("not enough memory to read the files: {0}")]
    Budget(OverBudget),
}

impl From<OverBudget> for FilesError {
    fn from(cause: OverBudget) -> Self {
        Self::Budget(cause)
    }
}
