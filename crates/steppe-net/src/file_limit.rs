//! The process's limit on open files (`RLIMIT_NOFILE`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::DESCRIPTORS_KEPT;

/// The number of descriptors that the process may open.
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

/// Raises the soft limit to what `connections` need, at most to the hard limit unless the
/// process is privileged, and returns the limit in force.
#[must_use]
pub fn raise_file_limit(connections: usize) -> FileLimit {
    let limit = getrlimit(Resource::Nofile);
    let wanted = 2 * connections as u64 + DESCRIPTORS_KEPT;
    let hard = limit.maximum.map(|hard| hard.max(wanted));
    // Only a privileged process may raise the hard limit.
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: hard,
            maximum: hard,
        },
    );
    if raised.is_err() {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
    FileLimit {
        descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
    }
}
