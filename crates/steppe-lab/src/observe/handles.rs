//! Limited resources of a process beside memory: descriptors, mappings, tasks; and its zombies.
//!
//! Read in quiet moments only: lists of mappings hold the target's memory lock while they are
//! written, and the children of many threads are many files.
//!
//! What is left below a limit is that of the process nearest to its limit: growth of the whole tree is
//! judged against it, as if that process alone grew.

use std::fs::File;
use std::io::{self, Read as _};

use super::proc_file::{Reader, number, words};
use crate::limits::{HANDLE_PROCESSES_MAX, MAPPINGS_CHUNK_BYTES, ZOMBIES_MAX};

/// Counts of a tree, and the rest below the nearest limit. `None`: could not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handles {
    /// Children that ended and were not waited for.
    pub zombies: Option<u64>,
    /// Descriptors that the process nearest to its `RLIMIT_NOFILE` may still open.
    pub files_left: Option<u64>,
    /// Memory mappings of all processes.
    pub mappings: Option<u64>,
    /// Mappings that the process nearest to `vm.max_map_count` may still make.
    pub mappings_left: Option<u64>,
    /// Processes and threads that the machine may still start.
    pub tasks_left: Option<u64>,
}

/// Counts the handles of a tree's living processes. `open_files` has each process's descriptors.
pub(super) fn count(
    reader: &mut Reader,
    threads: &[(u32, u32)],
    living: &[u32],
    open_files: &[(u32, u64)],
) -> Handles {
    let (mappings, mappings_left) = mappings(reader, living);
    Handles {
        zombies: Some(zombies(reader, threads, living)),
        files_left: files_left(reader, open_files),
        mappings,
        mappings_left,
        tasks_left: tasks_left(reader),
    }
}

/// Zombies among the children of the tree's threads. A control group does not list them. `living` is
/// sorted.
fn zombies(reader: &mut Reader, threads: &[(u32, u32)], living: &[u32]) -> u64 {
    let mut strangers: Vec<u32> = Vec::new();
    for (pid, tid) in threads {
        if let Ok(text) = reader.thread(*pid, *tid, "children") {
            let pids = words(text).filter_map(|word| u32::try_from(number(word)?).ok());
            strangers.extend(pids.filter(|pid| living.binary_search(pid).is_err()));
        }
        if strangers.len() >= ZOMBIES_MAX {
            break;
        }
    }
    let is_zombie = |pid: &u32| {
        let stat = reader.process(*pid, "stat").ok();
        stat.and_then(super::stat::Stat::parse)
            .is_some_and(|stat| stat.is_dead())
    };
    strangers.iter().copied().filter(is_zombie).count() as u64
}

fn files_left(reader: &mut Reader, open_files: &[(u32, u64)]) -> Option<u64> {
    let mut most: Vec<&(u32, u64)> = open_files.iter().collect();
    most.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most = most.into_iter().take(HANDLE_PROCESSES_MAX);
    let left = most.filter_map(|(pid, count)| {
        let text = reader.process(*pid, "limits").ok()?;
        Some(soft_limit(text, b"Max open files")?.saturating_sub(*count))
    });
    left.min()
}

/// The first number after a name in `/proc/PID/limits`; `None` is unlimited.
fn soft_limit(limits: &[u8], name: &[u8]) -> Option<u64> {
    let mut lines = limits.split(|byte| *byte == b'\n');
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    number(words(rest).next()?)
}

fn mappings(reader: &mut Reader, living: &[u32]) -> (Option<u64>, Option<u64>) {
    let limit = reader.file("/proc/sys/vm/max_map_count").ok();
    let limit = limit.and_then(|text| number(words(text).next()?));
    let (mut sum, mut most) = (None, 0);
    for pid in living.iter().take(HANDLE_PROCESSES_MAX) {
        // A process that has just ended has no mappings.
        if let Ok(count) = lines(&format!("/proc/{pid}/maps")) {
            sum = Some(sum.unwrap_or(0) + count);
            most = count.max(most);
        }
    }
    let left = limit.map(|limit| limit.saturating_sub(most));
    (sum, left.filter(|_| sum.is_some()))
}

fn lines(path: &str) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut chunk = [0; MAPPINGS_CHUNK_BYTES];
    let mut count = 0;
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(count);
        }
        count += chunk[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

/// Tasks left below the lower one of the kernel's two limits.
fn tasks_left(reader: &mut Reader) -> Option<u64> {
    let mut limit = None;
    for path in ["/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"] {
        let text = reader.file(path).ok()?;
        let found = number(words(text).next()?)?;
        limit = Some(limit.map_or(found, |limit: u64| limit.min(found)));
    }
    // `0.01 0.02 0.00 1/234 5678`: the fourth word has the running tasks and all tasks.
    let text = reader.file("/proc/loadavg").ok()?;
    let tasks = words(text).nth(3)?;
    let all = tasks.split(|byte| *byte == b'/').nth(1)?;
    limit?.checked_sub(number(all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &[u8] = b"Limit           Soft Limit   Hard Limit   Units\n\
        Max processes   unlimited    unlimited    processes\n\
        Max open files  1024         524288       files\n";

    #[test]
    fn the_soft_limit_counts() {
        assert_eq!(soft_limit(LIMITS, b"Max open files"), Some(1024));
        assert_eq!(soft_limit(LIMITS, b"Max processes"), None);
        assert_eq!(soft_limit(LIMITS, b"Max stack size"), None);
    }

    #[test]
    fn a_child_that_nobody_waited_for_is_a_zombie() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut reader = Reader::default();
        let own = std::process::id();
        let threads = || {
            let mut threads = Vec::new();
            let mut reader = Reader::default();
            let each = |tid| threads.push((own, tid));
            reader.numbers(Some(own), "task", each).unwrap();
            threads
        };
        let count = |reader: &mut Reader| zombies(reader, &threads(), &[own]);
        // Wait until the child has ended and is a zombie.
        while reader
            .process(child.id(), "stat")
            .ok()
            .and_then(super::super::stat::Stat::parse)
            .is_some_and(|stat| !stat.is_dead())
        {
            std::thread::yield_now();
        }
        assert!(count(&mut reader) >= 1);
        child.wait().unwrap();
    }

    #[test]
    fn this_process_has_mappings_and_room() {
        let mut reader = Reader::default();
        let own = std::process::id();
        let handles = count(&mut reader, &[(own, own)], &[own], &[(own, 3)]);
        assert!(handles.mappings.is_some_and(|count| count > 5));
        let limit = soft_limit(reader.process(own, "limits").unwrap(), b"Max open files");
        assert_eq!(handles.files_left, limit.map(|limit| limit - 3));
        assert!(handles.tasks_left.is_some() && handles.mappings_left.is_some());
    }
}
