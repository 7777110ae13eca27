//! Context switches of all threads of a tree, added up so that they never go backwards.
//!
//! The kernel keeps them by thread and forgets them with it, so each thread's last figure is
//! remembered while it lives. What a thread did after it was last seen is lost.

use std::collections::HashMap;

use super::proc_file::Reader;
use super::stat::Switches;
use crate::limits::SWITCH_THREADS_MAX;

/// What was counted so far.
#[derive(Debug, Default)]
pub(super) struct SwitchTally {
    last: HashMap<u32, Switches>,
    previous: HashMap<u32, Switches>,
    total: Switches,
}

impl SwitchTally {
    /// Since the threads were first seen; `None` when there are too many to look at.
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
            // Less than before: another thread with the same id.
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

    /// Threads that have just come under observation: what they did before does not count.
    pub(super) fn skip(&mut self, reader: &mut Reader, threads: &[(u32, u32)]) {
        let total = self.total;
        self.look(reader, threads);
        self.total = total;
    }
}
