//! Processes of this machine: start times and parents.
//!
//! Read from `/proc` (proc(5), `/proc/pid/stat`), so Linux only. A process ID is reused once its process has
//! ended; ID and start time together are not.

use std::fs;

/// Clock ticks of `/proc` in a second: `USER_HZ`, 100 on every architecture that Node.js runs on.
const TICK_MS: u64 = 10;

/// Identity of a process, different from that of a later one with the same ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process ID.
    pub pid: u32,
    /// Start time in ms since the machine started. `None`: not a process of this machine.
    pub start_ms: Option<u64>,
}

/// A table of processes.
pub trait Processes {
    /// Start time of a process, in ms since the machine started. `None`: no process has this ID.
    fn start_ms(&self, pid: u32) -> Option<u64>;

    /// The parent of a process.
    fn parent(&self, pid: u32) -> Option<u32>;

    /// Time since the machine started, in ms.
    fn now_ms(&self) -> u64;

    /// The identity of the process that has this ID now.
    fn identity(&self, pid: u32) -> Identity {
        Identity {
            pid,
            start_ms: self.start_ms(pid),
        }
    }
}

/// The processes of this machine.
#[derive(Debug, Clone, Copy)]
pub struct ProcFs;

impl Processes for ProcFs {
    fn start_ms(&self, pid: u32) -> Option<u64> {
        let stat = Stat::of(pid)?;
        // A zombie has ended.
        (!stat.is_zombie).then_some(stat.start_ms)
    }

    fn parent(&self, pid: u32) -> Option<u32> {
        Stat::of(pid).map(|stat| stat.parent)
    }

    fn now_ms(&self) -> u64 {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        uptime_ms(&uptime).unwrap_or_default()
    }
}

fn uptime_ms(uptime: &str) -> Option<u64> {
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let hundredths: u64 = hundredths.parse().ok()?;
    Some(seconds * 1_000 + hundredths * 10)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    start_ms: u64,
    is_zombie: bool,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a line. Fields are separated by spaces; the second is a name in parentheses that may have spaces
    /// and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (_, fields) = line.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let is_zombie = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        // The 22nd field of the line.
        let ticks: u64 = fields.nth(17)?.parse().ok()?;
        Some(Self {
            parent,
            start_ms: ticks.checked_mul(TICK_MS)?,
            is_zombie,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_spaces_and_parentheses() {
        let line =
            "4321 (a) b (c)) S 17 4321 4321 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        let expected = Stat {
            parent: 17,
            start_ms: 987_650,
            is_zombie: false,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        assert!(Stat::parse(&line.replace(" S ", " Z ")).unwrap().is_zombie);
        assert_eq!(Stat::parse("4321 (x) S 17"), None);
        assert_eq!(Stat::parse(""), None);
        assert_eq!(uptime_ms("350735.47 234388.90\n"), Some(350_735_470));
        assert_eq!(uptime_ms(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_has_this_process_as_its_parent_and_started_later() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let (own, pid) = (std::process::id(), child.id());
        assert_eq!(ProcFs.parent(pid), Some(own));
        let (first, second) = (ProcFs.start_ms(own).unwrap(), ProcFs.start_ms(pid).unwrap());
        assert!(
            first <= second && second <= ProcFs.now_ms() + TICK_MS,
            "{first} {second}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcFs.start_ms(pid), None);
    }
}
