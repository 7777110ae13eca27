//! Control groups: the charge of a group, and a group of the target's own.
//!
//! A group tells something about the target only if it holds nothing else, so [`own_group`] makes
//! one where that is allowed, and another group is read only when no other process is in it. Both
//! versions are read; a figure that a version does not have is `None`.
//!
//! Leaves out moving the lab itself into another group, which version 2 requires before a group can
//! hand its controllers down.

mod files;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::limits::{GROUP_REMOVAL_PAUSE, GROUP_REMOVALS_MAX, GROUPS_MAX};

use files::Mounts;

/// The version of the interface of the memory controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for the memory controller alone.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A group that was made for the target; removed when dropped.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    version: Version,
}

/// A group that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The folder of the group.
    pub path: PathBuf,
    /// The mount point of its hierarchy.
    pub mount: PathBuf,
    /// The interface of its files.
    pub version: Version,
}

/// The charge of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// The whole charge: anonymous memory, page cache, kernel.
    pub bytes: Option<u64>,
    /// Pages of files that the kernel drops when it needs room. Files in a tmpfs are not among them.
    pub reclaimable_bytes: Option<u64>,
    /// Buffers of sockets.
    pub sock_bytes: Option<u64>,
    /// The lowest limit of the group and its ancestors; `None` is no limit.
    pub limit_bytes: Option<u64>,
    /// Number of times that the limit was hit.
    pub limit_hits: Option<u64>,
    /// Processes that were killed by the limit.
    pub oom_kills: Option<u64>,
}

/// Why there is no group.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// No version of the interface has a memory controller.
    #[error("no memory controller is mounted; boot with cgroup v2 (or v1 memory) enabled")]
    NoController,
    /// Version 2, and no group that may be written hands the controller down.
    #[error(
        "the memory controller is not delegated to groups beside {0}; start the lab with \
         `systemd-run --user --scope -p Delegate=yes`, or as root"
    )]
    NotDelegated(PathBuf),
    /// The folder can't be made, mostly for lack of permission.
    #[error(
        "can't make a group in {path} ({source}); start the lab with `systemd-run --user --scope \
         -p Delegate=yes`, or as root"
    )]
    Refused {
        /// The parent of the new group.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Makes a group for a target, below the lab's own or beside it.
///
/// # Errors
/// Where there is no memory controller, or the lab may not make a group.
pub fn own_group(name: &str) -> Result<Group, GroupError> {
    let own = Place::of_process(std::process::id()).ok_or(GroupError::NoController)?;
    let parent = own.parent_for_new()?;
    let number = GROUPS_MADE.fetch_add(1, Ordering::Relaxed);
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = parent.join(format!("steppe-lab-{}-{number}-{name}", std::process::id()));
    fs::create_dir(&path).map_err(|source| GroupError::Refused {
        path: parent,
        source,
    })?;
    let group = Group {
        path,
        version: own.version,
    };
    if group.version == Version::V1 {
        // Version 1 counts TCP buffers only in groups that have a limit for them. A kernel without
        // that file has no such figure, and the group is of use all the same.
        let limit = group.path.join("memory.kmem.tcp.limit_in_bytes");
        let _ = fs::write(limit, SOCK_LIMIT.to_string());
    }
    Ok(group)
}

impl Group {
    /// The folder of the group, as [`super::Wanted::cgroup`] takes it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Words to put before a command line so that it runs in this group.
    ///
    /// The shell execs the command, so its process id stays the same.
    pub fn join_command(&self) -> Vec<String> {
        let procs = self.path.join("cgroup.procs");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let words = ["sh", "-c", script];
        let mut command: Vec<String> = words.map(str::to_owned).to_vec();
        command.push(procs.to_string_lossy().into_owned());
        command
    }
}

/// Why a named group can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The name is neither that of a folder nor that of a group in `/proc/PID/cgroup`.
    #[error(
        "there is no control group {0}; name its folder (below /sys/fs/cgroup) or the group as \
         /proc/PID/cgroup has it"
    )]
    None(PathBuf),
    /// The folder is not that of a control group.
    #[error("{0} is not a control group: it has no cgroup.procs")]
    NotAGroup(PathBuf),
    /// Version 1, and a hierarchy of another controller.
    #[error(
        "{0} belongs to a controller of cgroup v1 that does not count memory; name the group's folder \
         below the memory controller, often /sys/fs/cgroup/memory"
    )]
    OtherController(PathBuf),
    /// Version 2, and the root, or a group that its parent hands no memory controller.
    #[error(
        "{0} does not count memory (cgroup v2 without memory.current): it is the root, or its parent has \
         no `memory` in cgroup.subtree_control"
    )]
    NoMemory(PathBuf),
    /// Version 2: a threaded group, the process of whose threads is in another group.
    #[error("the processes of {path} can't be listed: {source}")]
    NoMembers {
        /// The folder of the group.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Finds the group with a name: its folder, or its path in `/proc/PID/cgroup`.
///
/// # Errors
/// Where there is no such group, or it does not count memory.
pub fn find(named: &Path) -> Result<Place, FindError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = Mounts::parse(&mounts);
    let group = named.to_string_lossy();
    let in_hierarchy = [&mounts.v1_memory, &mounts.v2];
    let in_hierarchy = in_hierarchy.into_iter().flatten();
    let found = std::iter::once(named.to_owned())
        .chain(in_hierarchy.map(|mount| mount.folder_of(&group)))
        .filter(|path| path.is_absolute())
        .find(|path| path.is_dir());
    let path = found.ok_or_else(|| FindError::None(named.to_owned()))?;
    let procs = path.join("cgroup.procs");
    if !procs.exists() {
        return Err(FindError::NotAGroup(path));
    }
    let place = Place::at(&path);
    let (usage, is_v2) = match place.version {
        Version::V1 => ("memory.usage_in_bytes", false),
        Version::V2 => ("memory.current", path.join("cgroup.controllers").exists()),
    };
    if !path.join(usage).exists() {
        return Err(match is_v2 {
            true => FindError::NoMemory(path),
            false => FindError::OtherController(path),
        });
    }
    match fs::read(procs) {
        Ok(_) => Ok(place),
        Err(source) => Err(FindError::NoMembers { path, source }),
    }
}

/// A group and those below it, the nearest first; at most [`GROUPS_MAX`].
pub(super) fn with_below(path: &Path) -> Vec<PathBuf> {
    let mut groups = vec![path.to_owned()];
    let mut next = 0;
    while let Some(group) = groups.get(next).cloned() {
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(below.map(|entry| entry.path()));
        groups.truncate(GROUPS_MAX);
        next += 1;
    }
    groups
}

impl Drop for Group {
    /// Kills the processes that are still in the group: they have left their parent and would run
    /// for ever. Removes the group.
    fn drop(&mut self) {
        for pid in Place::at(&self.path).members().unwrap_or_default() {
            if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for _ in 0..GROUP_REMOVALS_MAX {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(GROUP_REMOVAL_PAUSE);
                }
                // Gone, or not ours to remove: a group without processes costs little.
                Ok(()) | Err(_) => return,
            }
        }
    }
}

impl Place {
    /// The group that a process is charged to; `None` without a memory controller.
    pub fn of_process(pid: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = Mounts::parse(&mounts);
        // Where both are mounted, the controller belongs to one: version 1 lists it by name.
        let v1 = files::group_of_controller(&groups, "memory");
        let (mount, path, version) = match (&mounts.v1_memory, v1, &mounts.v2) {
            (Some(mount), Some(path), _) => (mount, path, Version::V1),
            (_, _, Some(mount)) => (mount, files::unified_group(&groups)?, Version::V2),
            _ => return None,
        };
        let place = Self {
            path: mount.folder_of(path),
            mount: mount.point.clone(),
            version,
        };
        place.has_controller().then_some(place)
    }

    /// The group with this folder.
    pub fn at(path: &Path) -> Self {
        let is_v1 = path.join("memory.usage_in_bytes").exists();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = Mounts::parse(&mounts);
        let mount = if is_v1 { mounts.v1_memory } else { mounts.v2 };
        Self {
            path: path.to_owned(),
            mount: mount.map_or_else(|| path.to_owned(), |mount| mount.point),
            version: if is_v1 { Version::V1 } else { Version::V2 },
        }
    }

    /// The current charge of the group.
    pub fn charge(&self) -> Charge {
        let file = |name: &str| fs::read_to_string(self.path.join(name)).ok();
        let number = |name: &str| file(name).and_then(|text| files::number_or_max(&text));
        match self.version {
            Version::V1 => {
                let stat = file("memory.stat").unwrap_or_default();
                let kills = file("memory.oom_control").unwrap_or_default();
                Charge {
                    bytes: number("memory.usage_in_bytes"),
                    reclaimable_bytes: files::sum_of_entries(
                        &stat,
                        &["total_active_file", "total_inactive_file"],
                    ),
                    sock_bytes: files::v1_sock_bytes(
                        number("memory.kmem.tcp.usage_in_bytes"),
                        number("memory.kmem.tcp.limit_in_bytes"),
                    ),
                    limit_bytes: files::v1_limit(&stat),
                    limit_hits: number("memory.failcnt"),
                    oom_kills: files::entry(&kills, "oom_kill"),
                }
            }
            Version::V2 => {
                let stat = file("memory.stat").unwrap_or_default();
                let events = file("memory.events").unwrap_or_default();
                Charge {
                    bytes: number("memory.current"),
                    reclaimable_bytes: files::sum_of_entries(
                        &stat,
                        &["active_file", "inactive_file", "slab_reclaimable"],
                    ),
                    sock_bytes: files::entry(&stat, "sock"),
                    limit_bytes: self.limit_up_to_mount(),
                    limit_hits: files::entry(&events, "max"),
                    oom_kills: files::entry(&events, "oom_kill"),
                }
            }
        }
    }

    /// Processes in the group (not in groups below it); `None` when they can't be read.
    pub fn members(&self) -> Option<Vec<u32>> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).ok()?;
        text.lines().map(|line| line.trim().parse().ok()).collect()
    }

    /// Processes in the group and in the groups below it, each once.
    pub fn members_with_below(&self) -> Vec<u32> {
        let groups = with_below(&self.path);
        let members = groups.iter().filter_map(|path| Self::at(path).members());
        // A process of another pid namespace is listed as 0.
        let mut members: Vec<u32> = members.flatten().filter(|pid| *pid != 0).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    fn has_controller(&self) -> bool {
        // The root of version 2 has `memory.stat`, and no file with the total.
        let name = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let can_hand_down = self.version == Version::V2 && self.hands_memory_down(&self.path);
        self.path.join(name).exists() || can_hand_down
    }

    /// The lowest `memory.max` of the group and its ancestors, up to the mount point.
    fn limit_up_to_mount(&self) -> Option<u64> {
        let is_below_mount = |path: &&Path| path.starts_with(&self.mount);
        let limits = self.path.ancestors().take_while(is_below_mount);
        limits
            .filter_map(|path| fs::read_to_string(path.join("memory.max")).ok())
            .filter_map(|text| files::number_or_max(&text))
            .filter(|limit| *limit != u64::MAX)
            .min()
    }

    /// The parent for a new group with a memory controller: this group, else its parent.
    fn parent_for_new(&self) -> Result<PathBuf, GroupError> {
        if self.version == Version::V1 || self.hands_memory_down(&self.path) {
            return Ok(self.path.clone());
        }
        // A group with processes can't hand controllers down, so its sibling is where one fits.
        let beside = self.path.parent().filter(|path| {
            let is_below_mount = path.starts_with(&self.mount);
            is_below_mount && self.hands_memory_down(path)
        });
        beside
            .map(Path::to_owned)
            .ok_or_else(|| GroupError::NotDelegated(self.path.clone()))
    }

    fn hands_memory_down(&self, path: &Path) -> bool {
        fs::read_to_string(path.join("cgroup.subtree_control"))
            .is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
    }
}

/// Number of groups that this process made; keeps the names of two targets' groups apart.
static GROUPS_MADE: AtomicU32 = AtomicU32::new(0);
/// No limit in practice: 4 TiB.
const SOCK_LIMIT: u64 = 4 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_joins_by_a_shell_that_becomes_it() {
        let group = Group {
            path: PathBuf::from("/nowhere/at all"),
            version: Version::V2,
        };
        let command = group.join_command();
        assert_eq!(command[0], "sh");
        assert_eq!(command[3], "/nowhere/at all/cgroup.procs");
    }

    #[test]
    fn the_least_limit_on_the_way_up_holds() {
        let root = std::env::temp_dir().join(format!("steppe-lab-limit-{}", std::process::id()));
        let leaf = root.join("a/b");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(leaf.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "2097152\n").unwrap();
        fs::write(leaf.join("memory.current"), "4096\n").unwrap();
        fs::write(
            leaf.join("memory.stat"),
            "anon 1\nactive_file 3\ninactive_file 4\nsock 512\n",
        )
        .unwrap();
        fs::write(leaf.join("memory.events"), "low 0\nmax 3\noom_kill 1\n").unwrap();
        let place = Place {
            path: leaf,
            mount: root.clone(),
            version: Version::V2,
        };
        let expected = Charge {
            bytes: Some(4096),
            reclaimable_bytes: Some(7),
            sock_bytes: Some(512),
            limit_bytes: Some(2_097_152),
            limit_hits: Some(3),
            oom_kills: Some(1),
        };
        assert_eq!(place.charge(), expected);
        assert!(matches!(
            place.parent_for_new(),
            Err(GroupError::NotDelegated(_))
        ));
        fs::write(root.join("a/cgroup.subtree_control"), "cpu memory\n").unwrap();
        assert_eq!(place.parent_for_new().unwrap(), root.join("a"));
        fs::remove_dir_all(&root).unwrap();
    }
}
