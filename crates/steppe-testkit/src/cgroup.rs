//! A cgroup with a memory limit, v1 or v2, whichever is mounted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// A memory-limited cgroup, removed with its guard once its processes ended.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// Makes a cgroup that may use `bytes`.
    ///
    /// # Errors
    /// The reason why this machine doesn't allow it, for the message of a skipped test.
    pub fn with_memory(bytes: u64) -> Result<Self, String> {
        let mut reasons = Vec::new();
        for (root, version) in mounted() {
            match Self::make(&root, version, bytes) {
                Ok(cgroup) => return Ok(cgroup),
                Err(error) => reasons.push(format!("{}: {error}", root.display())),
            }
        }
        Err(format!(
            "no cgroup with a memory limit can be made ({})",
            reasons.join("; ")
        ))
    }

    fn make(root: &Path, version: Version, bytes: u64) -> std::io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("steppe-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        let cgroup = Self { path, version };
        match version {
            Version::One => {
                cgroup.write("memory.limit_in_bytes", bytes)?;
                // v1 keeps a second account for socket buffers, which counts only once it is limited.
                cgroup.write("memory.kmem.tcp.limit_in_bytes", bytes)?;
            }
            Version::Two => {
                cgroup.write("memory.max", bytes)?;
                let _ = cgroup.write("memory.swap.max", 0);
            }
        }
        Ok(cgroup)
    }

    fn write(&self, file: &str, value: u64) -> std::io::Result<()> {
        std::fs::write(self.path.join(file), value.to_string())
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(file)).ok()
    }

    /// A command that runs `program` inside, from its first instruction on.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg("echo $$ > \"$0\" && exec \"$@\"");
        command.arg(self.path.join("cgroup.procs")).arg(program);
        command
    }

    /// Most bytes ever charged to the cgroup, if the kernel reports them.
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        self.read(file)?.trim().parse().ok()
    }

    /// Number of processes in the cgroup that the kernel's OOM killer killed.
    ///
    /// # Panics
    /// When the kernel doesn't report it: a missing count must not pass for zero.
    pub fn kills(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = self.read(file).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or_else(|| panic!("{file} tells no kills: {text}"))
    }

    /// Most bytes of socket buffers ever charged apart from [`Cgroup::peak_bytes`] (v1 keeps two
    /// accounts), if the kernel reports them.
    pub fn socket_peak_bytes(&self) -> Option<u64> {
        match self.version {
            Version::One => self
                .read("memory.kmem.tcp.max_usage_in_bytes")?
                .trim()
                .parse()
                .ok(),
            Version::Two => None,
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that just ended leaves its cgroup a moment later.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Folders below which this process may make a cgroup with the memory controller.
fn mounted() -> Vec<(PathBuf, Version)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found = Vec::new();
    for line in mounts.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [_, at, kind, options, ..] = parts.as_slice() else {
            continue;
        };
        let at = PathBuf::from(at);
        if *kind == "cgroup" && options.split(',').any(|option| option == "memory") {
            found.push((at, Version::One));
        } else if *kind == "cgroup2" && has_memory_controller(&at) {
            found.push((at, Version::Two));
        }
    }
    found
}

/// Children of a v2 cgroup have the controllers that their parent hands down.
fn has_memory_controller(root: &Path) -> bool {
    let control = root.join("cgroup.subtree_control");
    let handed = || std::fs::read_to_string(&control).unwrap_or_default();
    if !handed().contains("memory") {
        let _ = std::fs::write(&control, "+memory");
    }
    handed()
        .split_ascii_whitespace()
        .any(|controller| controller == "memory")
}
