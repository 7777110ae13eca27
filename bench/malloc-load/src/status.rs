//! The memory fields of `/proc/self/status`, read without allocating (proc(5)).

use std::fs::File;
use std::io::Read;

/// Sizes in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Anonymous resident memory: what an allocator holds, and stacks.
    pub anonymous_kib: u64,
    /// Peak resident memory, less the resident memory that is not anonymous now: pages of the
    /// program's and its libraries' files.
    pub peak_kib: u64,
}

/// Reads the sizes of this process; 0 for a field that the kernel does not report.
pub fn read() -> Status {
    let mut text = [0; TEXT_BYTES];
    // std passes a path this short to the kernel from the stack.
    let length = File::open("/proc/self/status")
        .and_then(|mut file| file.read(&mut text))
        .unwrap_or(0);
    parse(str::from_utf8(&text[..length]).unwrap_or_default())
}

/// The file has about 1,500 bytes; lists of CPUs and nodes make it longer on large machines.
const TEXT_BYTES: usize = 8 * 1024;

fn parse(text: &str) -> Status {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let anonymous_kib = field("RssAnon:").unwrap_or(0);
    let resident_kib = field("VmRSS:").unwrap_or(0);
    let files_kib = resident_kib.saturating_sub(anonymous_kib);
    let peak_kib = field("VmHWM:").unwrap_or(0).saturating_sub(files_kib);
    Status {
        anonymous_kib,
        peak_kib: peak_kib.max(anonymous_kib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_without_files() {
        let text = "VmHWM:\t    9000 kB\nVmRSS:\t    5000 kB\nRssAnon:\t    3500 kB\n";
        let expected = Status {
            anonymous_kib: 3_500,
            peak_kib: 7_500,
        };
        assert_eq!(parse(text), expected);
        assert_eq!(parse(""), Status::default());
    }

    #[test]
    fn this_process_has_memory() {
        assert!(read().anonymous_kib > 0);
    }
}
