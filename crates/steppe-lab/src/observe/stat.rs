//! `/proc/PID/stat`, `statm`, `status` and `smaps_rollup` as numbers.
//!
//! Pure functions on the files' bytes; `None` for figures that a kernel does not have.

use super::proc_file::{field, number, words};

/// Resources that a process has used since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// CPU time in ticks of the system's clock.
    pub(super) user_and_system_ticks: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
}

/// The fields of `stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) state: u8,
    pub(super) parent: u32,
    pub(super) own: Used,
    /// Use by children that ended and were waited for, and by their children.
    pub(super) children: Used,
    pub(super) threads: u64,
    /// Start time since the machine started; tells a process from a later one with the same id.
    pub(super) start_ticks: u64,
}

/// Bytes by kind, of one process or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rollup {
    pub(super) rss: u64,
    pub(super) pss: Option<u64>,
    pub(super) uss: Option<u64>,
    pub(super) anonymous: Option<u64>,
    pub(super) shmem: Option<u64>,
    pub(super) swap: Option<u64>,
}

/// The memory figures of `status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) rss: Option<u64>,
    pub(super) hwm: Option<u64>,
    pub(super) anonymous: Option<u64>,
    pub(super) swap: Option<u64>,
    pub(super) switches: Option<Switches>,
}

/// Context switches of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

impl Used {
    /// Joins each figure of both by `join`.
    pub(super) fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            user_and_system_ticks: join(self.user_and_system_ticks, other.user_and_system_ticks),
            minor_faults: join(self.minor_faults, other.minor_faults),
            major_faults: join(self.major_faults, other.major_faults),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }
}

impl Stat {
    /// Parses `stat`. The name stands in parentheses and may have spaces and parentheses in it, so
    /// fields are counted from the last one.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = [0_u64; STAT_FIELDS];
        let mut rest = words(&text[name_end + 1..]);
        let state = *rest.next()?.first()?;
        for field in &mut fields {
            // Some are negative (process group of the terminal): none of those is used.
            *field = rest.next().map(|word| number(word).unwrap_or_default())?;
        }
        // Field 4 of proc_pid_stat(5) is at index 0.
        let at = |number: usize| fields[number - 4];
        Some(Self {
            state,
            parent: u32::try_from(at(4)).ok()?,
            own: Used {
                user_and_system_ticks: at(14).saturating_add(at(15)),
                minor_faults: at(10),
                major_faults: at(12),
            },
            children: Used {
                user_and_system_ticks: at(16).saturating_add(at(17)),
                minor_faults: at(11),
                major_faults: at(13),
            },
            threads: at(20),
            start_ticks: at(22),
        })
    }

    /// True if the process has ended, and is kept only until its parent waits for it.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// The resident pages of `statm`.
pub(super) fn resident_pages(statm: &[u8]) -> Option<u64> {
    words(statm).nth(1).and_then(number)
}

impl Rollup {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let bytes = |name| field(text, name).map(|kib| kib.saturating_mul(1024));
        let private = ["Private_Clean", "Private_Dirty"];
        Some(Self {
            rss: bytes("Rss")?,
            pss: bytes("Pss"),
            uss: private.iter().try_fold(0, |sum: u64, name| {
                bytes(name).map(|it| sum.saturating_add(it))
            }),
            anonymous: bytes("Anonymous"),
            shmem: bytes("Pss_Shmem"),
            swap: bytes("Swap"),
        })
    }

    /// The sum of two rollups; a figure that one of them lacks is `None`.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            rss: self.rss.saturating_add(other.rss),
            pss: sum(self.pss, other.pss),
            uss: sum(self.uss, other.uss),
            anonymous: sum(self.anonymous, other.anonymous),
            shmem: sum(self.shmem, other.shmem),
            swap: sum(self.swap, other.swap),
        }
    }
}

impl Status {
    pub(super) fn parse(text: &[u8]) -> Self {
        let bytes = |name| field(text, name).map(|kib| kib.saturating_mul(1024));
        Self {
            rss: bytes("VmRSS"),
            hwm: bytes("VmHWM"),
            anonymous: bytes("RssAnon"),
            swap: bytes("VmSwap"),
            switches: Switches::parse(text),
        }
    }
}

impl Switches {
    /// Parses the end of `status`, where the switches stand.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let tail = &text[text.len().saturating_sub(SWITCHES_BYTES)..];
        Some(Self {
            voluntary: field(tail, "voluntary_ctxt_switches")?,
            involuntary: field(tail, "nonvoluntary_ctxt_switches")?,
        })
    }
}

/// The sum; `None` if either could not be seen.
pub(super) fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    Some(left?.saturating_add(right?))
}

/// Fields 4 to 22.
const STAT_FIELDS: usize = 19;
/// The last lines of `status`, with room for others that a kernel might add.
const SWITCHES_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_parentheses_and_spaces() {
        let text =
            b"16847 (a) R 1 (b) S 16845 16845 12786 0 -1 4194304 104 7 3 2 11 13 17 19 20 0 \
            5 0 3582588 3133440 418 18446744073709551615\n";
        let stat = Stat::parse(text).unwrap();
        let expected = Stat {
            state: b'S',
            parent: 16845,
            own: Used {
                user_and_system_ticks: 24,
                minor_faults: 104,
                major_faults: 3,
            },
            children: Used {
                user_and_system_ticks: 36,
                minor_faults: 7,
                major_faults: 2,
            },
            threads: 5,
            start_ticks: 3_582_588,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse(b"1 (x) S 2 3"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn a_rollup_adds_up_what_is_private() {
        let text = b"00-ff ---p 0 00:00 0 [rollup]\nRss: 1744 kB\nPss: 261 kB\nPss_Anon: 112 kB\n\
            Private_Clean: 40 kB\nPrivate_Dirty: 112 kB\nAnonymous: 112 kB\nSwap: 0 kB\n";
        let rollup = Rollup::parse(text).unwrap();
        assert_eq!(rollup.rss, 1744 * 1024);
        assert_eq!(rollup.pss, Some(261 * 1024));
        assert_eq!(rollup.uss, Some(152 * 1024));
        assert_eq!(rollup.anonymous, Some(112 * 1024));
        assert_eq!(rollup.swap, Some(0));
        let fallback = Rollup {
            rss: 1,
            ..Rollup::default()
        };
        assert_eq!(rollup.plus(fallback).pss, None);
        assert_eq!(Rollup::parse(b""), None);
    }

    #[test]
    fn a_status_without_memory_is_a_dead_process() {
        let status = Status::parse(b"Name:\tsh\nState:\tZ (zombie)\n");
        assert_eq!(status, Status::default());
        let text = b"VmHWM:\t 12 kB\nVmRSS:\t 10 kB\nRssAnon:\t 4 kB\nVmSwap:\t 0 kB\n\
            voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n";
        let status = Status::parse(text);
        assert_eq!(status.hwm, Some(12 * 1024));
        assert_eq!(status.anonymous, Some(4096));
        let switches = status.switches.unwrap();
        assert_eq!((switches.voluntary, switches.involuntary), (7, 1));
    }
}
