//! The states of a process's TCP connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// The inodes of connections, by state.
#[derive(Debug, Clone, Default)]
pub struct TcpStates(BTreeMap<u8, BTreeSet<String>>);

impl TcpStates {
    /// The connections of the process `pid` now.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn of(pid: u32) -> Self {
        // States before descriptors: a socket that is closed in between is left out.
        let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
        let tables = tables.map(|path| fs::read_to_string(path).unwrap_or_default());
        let own = descriptors(pid);
        let mut by_state: BTreeMap<u8, BTreeSet<String>> = BTreeMap::new();
        for line in tables.iter().flat_map(|table| table.lines().skip(1)) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if own.contains(fields[9]) {
                let state = u8::from_str_radix(fields[3], 16).expect("two digits");
                by_state
                    .entry(state)
                    .or_default()
                    .insert(fields[9].to_owned());
            }
        }
        Self(by_state)
    }

    /// Number of established connections.
    pub fn established(&self) -> usize {
        self.0.get(&ESTABLISHED).map_or(0, BTreeSet::len)
    }

    /// Number of connections in SYN_SENT, which wait for their peer.
    pub fn connecting(&self) -> usize {
        self.0.get(&SYN_SENT).map_or(0, BTreeSet::len)
    }

    /// Number of connections that the peer has ended, and the process `pid` not for 5 s.
    ///
    /// Every connection that its peer ends is in CLOSE_WAIT until the process has read the end; one
    /// that stays there for longer than a busy process needs to read is forgotten.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn forgotten(pid: u32) -> usize {
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        const LONG: Duration = Duration::from_secs(5);
        let ended = |states: Self| states.0.get(&CLOSE_WAIT).cloned().unwrap_or_default();
        let mut left = ended(Self::of(pid));
        let end = Instant::now() + LONG;
        while !left.is_empty() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
            let now = ended(Self::of(pid));
            left.retain(|inode| now.contains(inode));
        }
        left.len()
    }
}

// include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const CLOSE_WAIT: u8 = 8;

/// The inodes of the process's sockets.
fn descriptors(pid: u32) -> BTreeSet<String> {
    let list = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs");
    let targets = list
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode = |target: std::path::PathBuf| {
        let text = target.to_str()?;
        let inode = text.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(inode.to_owned())
    };
    targets.filter_map(inode).collect()
}
