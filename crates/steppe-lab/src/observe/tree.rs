//! The processes of a target, and the resources that they have used together.
//!
//! A process belongs to the tree when it is a root, a child of a member, or in the target's own
//! control group; it stays in it for as long as it lives, even when it is reparented.
//!
//! The use of the tree never goes backwards. A process that ends is counted through its parent,
//! whose `children` figures include it once it is waited for; what was counted of it before is
//! subtracted there, so that nothing counts twice and a child that was never seen counts once. For a
//! child that is not waited for (SIGCHLD ignored, parent gone), the last figures that were seen are
//! kept.
//!
//! Leaves out daemons that left their parent before they were seen and are not in a control group of
//! the target.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::cgroup::with_below;
use super::proc_file::{Reader, is_gone, number, words};
use super::stat::{Stat, Used};
use crate::limits::PROCESSES_MAX;

/// Processes found so far, by id.
#[derive(Debug)]
pub(super) struct Tree {
    members: BTreeMap<u32, Stat>,
    /// Process and thread id of each living thread.
    threads: Vec<(u32, u32)>,
    /// Use since the tree was attached to.
    used: Used,
    /// `cgroup.procs` of the target's own group, and of those below it when it was attached to.
    groups: Vec<PathBuf>,
    /// False where the kernel was built without `/proc/PID/task/TID/children`.
    has_children_files: bool,
    /// True if there were more than [`PROCESSES_MAX`] processes.
    is_cut: bool,
}

impl Tree {
    pub(super) fn new(group: Option<&Path>) -> Self {
        let pid = std::process::id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        Self {
            members: BTreeMap::new(),
            threads: Vec::new(),
            used: Used::default(),
            groups: group.map_or_else(Vec::new, procs_files),
            has_children_files: Path::new(&children).exists(),
            is_cut: false,
        }
    }

    /// Adds a process and its descendants; their use before does not count.
    pub(super) fn add_root(&mut self, reader: &mut Reader, pid: u32) -> io::Result<()> {
        let stat = read_stat(reader, pid)?;
        let used_before = self.used;
        self.members.insert(pid, stat);
        self.look(reader);
        self.used = used_before;
        Ok(())
    }

    /// Lists the processes anew, and adds up their use since the last look.
    pub(super) fn look(&mut self, reader: &mut Reader) {
        let now = self.find(reader);
        let used = used_between(&self.members, &now);
        self.used = self.used.plus(used);
        self.members = now;
    }

    /// True if there is a process that the last [`Tree::look`] did not see. Cheap: reads only the
    /// children of main threads, and the control group.
    pub(super) fn has_newcomer(&self, reader: &mut Reader) -> bool {
        let is_new = |pid: &u32| !self.members.contains_key(pid);
        if self.has_children_files {
            for pid in self.living() {
                if let Ok(text) = reader.thread(pid, pid, "children")
                    && pids(text).any(|pid| is_new(&pid))
                {
                    return true;
                }
            }
        }
        self.group_members(reader).iter().any(is_new)
    }

    /// Ids of the members that have not ended.
    pub(super) fn living(&self) -> impl Iterator<Item = u32> {
        self.members
            .iter()
            .filter(|(_, stat)| !stat.is_dead())
            .map(|(pid, _)| *pid)
    }

    /// Process and thread id of each living thread.
    pub(super) fn threads(&self) -> &[(u32, u32)] {
        &self.threads
    }

    pub(super) fn used(&self) -> Used {
        self.used
    }

    pub(super) fn thread_count(&self) -> u64 {
        let living = self.members.values().filter(|stat| !stat.is_dead());
        living.map(|stat| stat.threads).sum()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn find(&mut self, reader: &mut Reader) -> BTreeMap<u32, Stat> {
        let mut now = BTreeMap::new();
        let mut to_visit: Vec<u32> = Vec::new();
        let by_parent = if self.has_children_files {
            Vec::new()
        } else {
            everybody_by_parent(reader)
        };
        self.threads.clear();
        self.is_cut = false;
        for (pid, was) in &self.members {
            if let Ok(stat) = read_stat(reader, *pid)
                && stat.start_ticks == was.start_ticks
            {
                now.insert(*pid, stat);
                to_visit.push(*pid);
            }
        }
        for pid in self.group_members(reader) {
            self.meet(reader, pid, &mut now, &mut to_visit);
        }
        while let Some(pid) = to_visit.pop() {
            let has_one_thread = now.get(&pid).is_some_and(|stat| stat.threads == 1);
            let first_thread = self.threads.len();
            self.list_threads(reader, pid, has_one_thread);
            let mut children = children_of(&by_parent, pid);
            // A group of the target's own has listed all processes already, in one file.
            let asks_threads = self.has_children_files && self.groups.is_empty();
            for (_, tid) in &self.threads[first_thread..] {
                if asks_threads && let Ok(text) = reader.thread(pid, *tid, "children") {
                    children.extend(pids(text));
                }
            }
            for child in children {
                self.meet(reader, child, &mut now, &mut to_visit);
            }
        }
        now
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn meet(
        &mut self,
        reader: &mut Reader,
        pid: u32,
        now: &mut BTreeMap<u32, Stat>,
        to_visit: &mut Vec<u32>,
    ) {
        if now.contains_key(&pid) {
            return;
        }
        if now.len() >= PROCESSES_MAX {
            self.is_cut = true;
            return;
        }
        if let Ok(stat) = read_stat(reader, pid) {
            now.insert(pid, stat);
            to_visit.push(pid);
        }
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn list_threads(&mut self, reader: &mut Reader, pid: u32, has_one_thread: bool) {
        if has_one_thread {
            self.threads.push((pid, pid));
            return;
        }
        let threads = &mut self.threads;
        // A process that ends meanwhile has no threads.
        let _ = reader.numbers(Some(pid), "task", |tid| threads.push((pid, tid)));
    }

    fn group_members(&self, reader: &mut Reader) -> Vec<u32> {
        let mut members = Vec::new();
        for path in self.groups.iter().filter_map(|path| path.to_str()) {
            if let Ok(text) = reader.file(path) {
                // A process of another pid namespace is listed as 0.
                members.extend(pids(text).filter(|pid| *pid != 0));
            }
        }
        members
    }
}

fn procs_files(group: &Path) -> Vec<PathBuf> {
    let groups = with_below(group);
    groups
        .iter()
        .map(|path| path.join("cgroup.procs"))
        .collect()
}

/// The use between two looks; see the head of this file.
fn used_between(before: &BTreeMap<u32, Stat>, now: &BTreeMap<u32, Stat>) -> Used {
    let still_there = |pid: u32| -> Option<&Stat> {
        let stat = now.get(&pid)?;
        let is_another = before
            .get(&pid)
            .is_some_and(|was| was.start_ticks != stat.start_ticks);
        (!is_another).then_some(stat)
    };
    let mut counted_of_ended: BTreeMap<u32, Used> = BTreeMap::new();
    for (pid, was) in before {
        if still_there(*pid).is_some() {
            continue;
        }
        let mut heir = was.parent;
        // Each step goes to an older process, so there are no more steps than processes.
        for _ in 0..before.len() {
            match before.get(&heir) {
                Some(ancestor) if still_there(heir).is_none() => heir = ancestor.parent,
                _ => break,
            }
        }
        let counted = counted_of_ended.entry(heir).or_default();
        *counted = counted.plus(was.own).plus(was.children);
    }
    let mut used = Used::default();
    for (pid, stat) in now {
        let was = before
            .get(pid)
            .filter(|was| was.start_ticks == stat.start_ticks);
        let (own_before, children_before) =
            was.map_or_else(Default::default, |was| (was.own, was.children));
        let counted = counted_of_ended.get(pid).copied().unwrap_or_default();
        let own = stat.own.minus(own_before);
        let children = stat.children.minus(children_before).minus(counted);
        used = used.plus(own).plus(children);
    }
    used
}

fn read_stat(reader: &mut Reader, pid: u32) -> io::Result<Stat> {
    match reader.process(pid, "stat") {
        Ok(text) => Stat::parse(text).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(error) if is_gone(&error) => Err(io::ErrorKind::NotFound.into()),
        Err(error) => Err(error),
    }
}

/// Parent and id of every process, sorted.
fn everybody_by_parent(reader: &mut Reader) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    // Without `/proc` there is nothing to find.
    let _ = reader.numbers(None, "", |pid| all.push(pid));
    let mut by_parent: Vec<(u32, u32)> = all
        .into_iter()
        .filter_map(|pid| Some((read_stat(reader, pid).ok()?.parent, pid)))
        .collect();
    by_parent.sort_unstable();
    by_parent
}

fn children_of(by_parent: &[(u32, u32)], parent: u32) -> Vec<u32> {
    let start = by_parent.partition_point(|(of, _)| *of < parent);
    let end = by_parent.partition_point(|(of, _)| *of <= parent);
    by_parent[start..end].iter().map(|(_, pid)| *pid).collect()
}

fn pids(text: &[u8]) -> impl Iterator<Item = u32> {
    words(text).filter_map(|word| u32::try_from(number(word)?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(parent: u32, own: u64, children: u64) -> Stat {
        let used = |ticks| Used {
            user_and_system_ticks: ticks,
            minor_faults: ticks * 10,
            major_faults: 0,
        };
        Stat {
            state: b'S',
            parent,
            own: used(own),
            children: used(children),
            threads: 1,
            start_ticks: 7,
        }
    }

    fn ticks(before: &[(u32, Stat)], now: &[(u32, Stat)]) -> u64 {
        let map = |list: &[(u32, Stat)]| list.iter().copied().collect::<BTreeMap<_, _>>();
        let used = used_between(&map(before), &map(now));
        assert_eq!(used.minor_faults, used.user_and_system_ticks * 10);
        used.user_and_system_ticks
    }

    #[test]
    fn a_child_that_was_never_seen_counts_once() {
        assert_eq!(ticks(&[(1, stat(0, 5, 0))], &[(1, stat(0, 6, 30))]), 31);
    }

    #[test]
    fn a_child_that_was_waited_for_counts_once() {
        let before = [(1, stat(0, 5, 2)), (2, stat(1, 40, 3))];
        // The child used 4 more before it ended: 40 + 3 + 4 come to its parent's children.
        assert_eq!(ticks(&before, &[(1, stat(0, 5, 49))]), 4);
    }

    #[test]
    fn a_grandchild_that_ended_with_its_parent_counts_once() {
        let before = [
            (1, stat(0, 5, 0)),
            (2, stat(1, 40, 0)),
            (3, stat(2, 100, 0)),
        ];
        assert_eq!(ticks(&before, &[(1, stat(0, 5, 143))]), 3);
    }

    #[test]
    fn a_child_that_nobody_waited_for_keeps_what_was_seen() {
        let before = [(1, stat(0, 5, 0)), (2, stat(1, 40, 0))];
        assert_eq!(ticks(&before, &[(1, stat(0, 6, 0))]), 1);
        assert_eq!(ticks(&before, &[]), 0);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_process() {
        let mut another = stat(1, 2, 0);
        another.start_ticks = 8;
        let before = [(1, stat(0, 5, 0)), (2, stat(1, 40, 0))];
        assert_eq!(ticks(&before, &[(1, stat(0, 5, 41)), (2, another)]), 3);
    }

    #[test]
    fn children_are_found_by_their_parent() {
        let by_parent = [(1, 4), (2, 9), (2, 12), (3, 5)];
        assert_eq!(children_of(&by_parent, 2), [9, 12]);
        assert_eq!(children_of(&by_parent, 7), [0_u32; 0]);
    }

    #[test]
    fn a_kernel_without_lists_of_children_is_searched() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut reader = Reader::default();
        let mut tree = Tree::new(None);
        tree.has_children_files = false;
        tree.add_root(&mut reader, std::process::id()).unwrap();
        assert!(tree.living().any(|pid| pid == child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        tree.look(&mut reader);
        assert!(!tree.living().any(|pid| pid == child.id()));
    }

    #[test]
    fn an_observer_may_move_to_the_thread_that_samples() {
        fn is_send<T: Send>() {}
        is_send::<crate::observe::Observer>();
    }
}
