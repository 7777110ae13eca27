//! The memory limit of the process: that of its control groups, or the machine's memory.
//!
//! Control groups nest, and each may have a limit: the smallest from the
//! process's own group up to the root counts. Both versions are read, since
//! machines mix them. Spec: cgroups(7), memory.max and memory.limit_in_bytes.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that the process may use, and the source of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The source of the limit.
    pub source: LimitSource,
}

/// The source of a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// A control group: a container.
    ControlGroup,
    /// The machine's memory.
    Machine,
    /// The command line, for another machine.
    Given,
}

/// The limit in force for this process.
///
/// # Errors
/// If `/proc/meminfo` can't be read.
pub fn memory_limit() -> std::io::Result<MemoryLimit> {
    let machine = machine_bytes(&fs::read_to_string("/proc/meminfo")?);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_bytes(&groups, Path::new("/sys/fs/cgroup"));
    Ok(match (group, machine) {
        (Some(group), Some(machine)) if group < machine => MemoryLimit {
            bytes: group,
            source: LimitSource::ControlGroup,
        },
        (Some(group), None) => MemoryLimit {
            bytes: group,
            source: LimitSource::ControlGroup,
        },
        (_, machine) => MemoryLimit {
            bytes: machine.unwrap_or(u64::MAX),
            source: LimitSource::Machine,
        },
    })
}

impl std::fmt::Display for LimitSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ControlGroup => "the container's limit",
            Self::Machine => "the machine's memory",
            Self::Given => "the given memory",
        })
    }
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The smallest limit of the groups that `/proc/self/cgroup` names, below `root`.
fn group_bytes(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        match controllers {
            // Version 2 has one hierarchy, mounted at the root or, beside version 1, below it.
            "" => [("", "memory.max"), ("unified", "memory.max")].map(Some),
            _ if controllers
                .split(',')
                .any(|controller| controller == "memory") =>
            {
                [Some(("memory", "memory.limit_in_bytes")), None]
            }
            _ => [None, None],
        }
        .into_iter()
        .flatten()
        .filter_map(move |(mount, file)| smallest_up(&root.join(mount), path, file))
    });
    limits.min()
}

/// The smallest number in `file`, from the group at `path` up to its mount.
///
/// Within a container the path may be the host's, which is not there: then the container's own
/// group is mounted, and only that is found.
fn smallest_up(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let group: PathBuf = mount.join(path.trim_start_matches('/'));
    let up = group
        .ancestors()
        .take_while(|folder| folder.starts_with(mount));
    up.filter_map(|folder| {
        fs::read_to_string(folder.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    })
    .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("steppe-container-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("below the folder")).expect("creates");
            fs::write(path, text).expect("writes");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts_in_version_2() {
        let folder = Folder::new("v2");
        folder.write("a/memory.max", "1000\n");
        folder.write("a/b/memory.max", "max\n");
        folder.write("a/b/c/memory.max", "2000\n");
        assert_eq!(group_bytes("0::/a/b/c\n", &folder.0), Some(1000));
        assert_eq!(group_bytes("0::/elsewhere\n", &folder.0), None);
    }

    #[test]
    fn version_1_is_read_where_the_controller_is_mounted() {
        let folder = Folder::new("v1");
        folder.write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        folder.write("memory/pod/memory.limit_in_bytes", "4096\n");
        let groups = "5:cpu,cpuacct:/\n4:memory:/pod\n0::/\n";
        assert_eq!(group_bytes(groups, &folder.0), Some(4096));
    }

    #[test]
    fn a_container_that_sees_the_hosts_path_finds_its_own_group() {
        let folder = Folder::new("ns");
        folder.write("memory/memory.limit_in_bytes", "8192\n");
        assert_eq!(
            group_bytes("4:memory:/docker/0123\n", &folder.0),
            Some(8192)
        );
    }

    #[test]
    fn the_machine_has_what_meminfo_says() {
        assert_eq!(
            machine_bytes("MemTotal:   1024 kB\nMemFree: 1 kB\n"),
            Some(1 << 20)
        );
        assert_eq!(machine_bytes("MemFree: 1 kB\n"), None);
    }
}
