//! Context switches of all threads of a tree, added up so that they never go backwards.
//!
//! The kernel keeps the counts by thread and drops them when the thread ends, so each thread's last
//! figure is remembered while it is alive. Switches of a thread after it was last seen are lost.

use std::collections::HashMap;

use super::proc_file::Reader;
use super::stat::Switches;
use crate::limits::SWITCH_THREADS_MAX;

/// The switches counted so far.
#[derive(Debug, Default)]
pub(super) struct SwitchTally {
    last: HashMap<u32, Switches>,
    previous: HashMap<u32, Switches>,
    total: Switches,
}

impl SwitchTally {
    /// Switches since the threads were first seen; `None` when there are too many to look at.
    pub(super) fn look(&mut self, reader: &mut Reader, threads: &[(u32, u32)]) -> Option<Switches> {
        if threads.len() > SWITCH_THREADS_MAX {
            return None;
        }
        std::mem::swap(&mut self.last, &mut self.previous);
        self.last.clear();
        for (pid, tid) in threads {
            let Ok(text) = reader.thread(*pid, *tid, "status") else {
                continue;
            };
            let now = Switches::parse(text)?;
            self.last.insert(*tid, now);
            let was = self.previous.get(tid).copied();
            // A lower count than before belongs to another thread with the same id.
            let was = was
                .filter(|was| was.voluntary <= now.voluntary)
                .unwrap_or_default();
            self.total = Switches {
                voluntary: self.total.voluntary + (now.voluntary - was.voluntary),
                involuntary: self.total.involuntary
                    + now.involuntary.saturating_sub(was.involuntary),
            };
        }
        Some(self.total)
    }

    /// Leaves out the earlier switches of threads that have just come under observation.
    pub(super) fn skip(&mut self, reader: &mut Reader, threads: &[(u32, u32)]) {
        let total = self.total;
        self.look(reader, threads);
        self.total = total;
    }
}
