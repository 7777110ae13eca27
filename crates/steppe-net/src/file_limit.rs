//! The process's limit on open files, raised as far as it may be.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::DESCRIPTORS_KEPT;

/// How many descriptors the process may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimit {
    /// The limit in force.
    pub descriptors: u64,
}

impl FileLimit {
    /// Connections that fit when each needs one descriptor to its client and
    /// one to its upstream.
    #[must_use]
    pub fn connections(self) -> usize {
        let both_sides = self.descriptors.saturating_sub(DESCRIPTORS_KEPT) / 2;
        usize::try_from(both_sides).unwrap_or(usize::MAX).max(1)
    }
}

/// Raises the soft limit to the hard one and says what is in force then.
#[must_use]
pub fn raise_file_limit() -> FileLimit {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it may not be raised, the limit that stands is what counts.
    let _ = setrlimit(Resource::Nofile, raised);
    FileLimit {
        descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
    }
}
