//! The files that name a process's control group, and those with a group's memory figures.
//!
//! Pure functions on text, for version 1 and version 2 (the kernel's
//! `Documentation/admin-guide/cgroup-v1/memory.rst` and `cgroup-v2.rst`).

use std::path::{Path, PathBuf};

/// Mount points of the hierarchies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    pub(crate) v1_memory: Option<Mount>,
    pub(crate) v2: Option<Mount>,
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The part of the hierarchy that is mounted: `/`, but often less in a container.
    root: PathBuf,
    pub(crate) point: PathBuf,
}

impl Mounts {
    /// Reads `/proc/PID/mountinfo`; the first of several mounts counts.
    pub(crate) fn parse(mountinfo: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some((mount, kind)) = line.split_once(" - ") else {
                continue;
            };
            let mut mount = mount.split(' ').skip(3);
            let (Some(root), Some(point)) = (mount.next(), mount.next()) else {
                continue;
            };
            let mount = Mount {
                root: PathBuf::from(root),
                point: PathBuf::from(point),
            };
            let mut kind = kind.split(' ');
            match (kind.next(), kind.next_back()) {
                (Some("cgroup2"), _) => mounts.v2 = mounts.v2.or(Some(mount)),
                (Some("cgroup"), Some(options)) if has_word(options, "memory") => {
                    mounts.v1_memory = mounts.v1_memory.or(Some(mount));
                }
                _ => {}
            }
        }
        mounts
    }
}

impl Mount {
    /// The folder of a group of `/proc/PID/cgroup`.
    pub(crate) fn folder_of(&self, group: &str) -> PathBuf {
        let below = Path::new(group)
            .strip_prefix(&self.root)
            .or_else(|_| Path::new(group).strip_prefix("/"))
            .unwrap_or(Path::new(""));
        if below.as_os_str().is_empty() {
            self.point.clone()
        } else {
            self.point.join(below)
        }
    }
}

/// The version 1 group of a controller in `/proc/PID/cgroup`.
pub(crate) fn group_of_controller<'a>(cgroup: &'a str, controller: &str) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        has_word(controllers, controller).then_some(path)
    })
}

/// The version 2 group in `/proc/PID/cgroup`.
pub(crate) fn unified_group(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

/// A file with one number in it, or with `max`.
pub(crate) fn number_or_max(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The number after a key in a file with a key and a number a line.
pub(crate) fn entry(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

/// The sum of the entries that exist; `None` if none does.
pub(crate) fn sum_of_entries(text: &str, keys: &[&str]) -> Option<u64> {
    let found = keys.iter().filter_map(|key| entry(text, key));
    found.reduce(u64::saturating_add)
}

/// The effective limit in a version 1 `memory.stat`; no limit is a number near 2^63.
pub(crate) fn v1_limit(stat: &str) -> Option<u64> {
    entry(stat, "hierarchical_memory_limit").filter(|limit| *limit < V1_NO_LIMIT)
}

/// Bytes of TCP buffers in version 1, which counts them only in a group that had a limit set: zero
/// without a limit is no figure.
pub(crate) fn v1_sock_bytes(usage: Option<u64>, limit: Option<u64>) -> Option<u64> {
    let usage = usage?;
    let is_counted = usage > 0 || limit? < V1_NO_LIMIT;
    is_counted.then_some(usage)
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|it| it == word)
}

/// `PAGE_COUNTER_MAX` is 2^63 less a page, of 4 to 64 KiB.
const V1_NO_LIMIT: u64 = (1 << 63) - (1 << 16);

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
53 44 0:32 / /mnt/memory rw,relatime - cgroup cgroup rw,memory
";
    const UNIFIED: &str = "\
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
";
    const CONTAINER: &str = "\
612 600 0:32 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory
";
    const V1_GROUPS: &str = "\
9:name=systemd:/
4:cpuacct,memory:/box/one
0::/
";

    #[test]
    fn mounts_of_both_versions() {
        let hybrid = Mounts::parse(HYBRID);
        let memory = hybrid.v1_memory.unwrap();
        assert_eq!(memory.point, Path::new("/sys/fs/cgroup/memory"));
        let group = group_of_controller(V1_GROUPS, "memory").unwrap();
        assert_eq!(
            memory.folder_of(group),
            Path::new("/sys/fs/cgroup/memory/box/one")
        );
        assert_eq!(memory.folder_of("/"), Path::new("/sys/fs/cgroup/memory"));

        let unified = Mounts::parse(UNIFIED);
        assert_eq!(unified.v1_memory, None);
        let group = unified_group("0::/user.slice/a.scope\n").unwrap();
        assert_eq!(
            unified.v2.unwrap().folder_of(group),
            Path::new("/sys/fs/cgroup/user.slice/a.scope")
        );
        assert_eq!(Mounts::parse("nonsense\n - \n"), Mounts::default());
    }

    #[test]
    fn a_part_of_a_hierarchy_may_be_mounted() {
        let memory = Mounts::parse(CONTAINER).v1_memory.unwrap();
        let folder = memory.folder_of("/docker/abc/x");
        assert_eq!(folder, Path::new("/sys/fs/cgroup/memory/x"));
    }

    #[test]
    fn figures_of_version_1() {
        let stat = "cache 134684672\nrss 1708032\nhierarchical_memory_limit 9223372036854771712\n";
        assert_eq!(v1_limit(stat), None);
        assert_eq!(
            v1_limit("hierarchical_memory_limit 1048576\n"),
            Some(1 << 20)
        );
        assert_eq!(entry(stat, "rss"), Some(1_708_032));
        let oom = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        assert_eq!(entry(oom, "oom_kill"), Some(2));
        assert_eq!(sum_of_entries(oom, &["oom_kill", "none"]), Some(2));
        assert_eq!(sum_of_entries(oom, &["none"]), None);
    }

    #[test]
    fn an_uncounted_zero_is_no_figure() {
        let no_limit = Some(9_223_372_036_854_771_712);
        assert_eq!(v1_sock_bytes(Some(0), no_limit), None);
        assert_eq!(v1_sock_bytes(Some(4096), no_limit), Some(4096));
        assert_eq!(v1_sock_bytes(Some(0), Some(4 << 40)), Some(0));
        assert_eq!(v1_sock_bytes(None, Some(1)), None);
    }

    #[test]
    fn figures_of_version_2() {
        let stat = "anon 1234\nfile 0\nkernel 9\nsock 8192\nsocket 1\n";
        assert_eq!(entry(stat, "sock"), Some(8192));
        assert_eq!(number_or_max("max\n"), Some(u64::MAX));
        assert_eq!(number_or_max("4096\n"), Some(4096));
        assert_eq!(number_or_max("\n"), None);
    }
}
