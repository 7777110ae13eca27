//! Instructions of a node, counted by valgrind's callgrind: the same count each time, on any machine.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::wait::eventually;
use crate::{Process, Scratch};

/// Factor by which a node is slower under valgrind.
pub(crate) const SLOWER: u32 = 8;
const COUNTS: &str = "instructions";
const PATIENCE: Duration = Duration::from_secs(60);

/// The command that starts a node under callgrind, so that its instructions can be counted.
pub(crate) fn command(program: &str, scratch: &Scratch) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes"]);
    let mut out = std::ffi::OsString::from("--callgrind-out-file=");
    out.push(scratch.join(COUNTS));
    command.arg(out).arg(program);
    command
}

/// Instructions that all threads of a node spend on `work` within functions whose name has `within`; callees count
/// under their own names.
///
/// # Panics
/// When valgrind does not answer.
#[track_caller]
pub(crate) fn count(process: u32, scratch: &Scratch, within: &str, work: impl FnOnce()) -> u64 {
    control("--zero", process);
    work();
    let before = files(scratch);
    control("--dump", process);
    let new = || {
        let mut files = files(scratch);
        files.retain(|file| !before.contains(file));
        files
    };
    // A dump is complete when its last line is written.
    let is_whole = |file: &PathBuf| read(file).lines().any(|line| line.starts_with("totals:"));
    let is_there = || !new().is_empty() && new().iter().all(is_whole);
    eventually("the counts are written", is_there);
    new()
        .iter()
        .map(|file| instructions(&read(file), within))
        .sum()
}

fn files(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scratch.path()).expect("a folder");
    let paths = entries.flatten().map(|entry| entry.path());
    let is_count = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(COUNTS) && name.len() > COUNTS.len()
    };
    paths.filter(is_count).collect()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

#[track_caller]
fn control(what: &str, process: u32) {
    let mut command = Command::new("callgrind_control");
    command.arg(what).arg(process.to_string());
    let mut control = Process::start("callgrind_control", command);
    let status = control.wait(PATIENCE);
    assert!(status.success(), "callgrind_control: {}", control.said());
}

/// The self cost of functions whose name has `within`, from a file in callgrind's format.
///
/// The first use of a name comes with a number, which stands for the name afterwards. The line after `calls=` has the
/// inclusive cost of a call.
fn instructions(profile: &str, within: &str) -> u64 {
    let mut is_within: HashMap<&str, bool> = HashMap::new();
    let (mut counts, mut is_call, mut sum) = (false, false, 0);
    for line in profile.lines() {
        let function = line
            .strip_prefix("fn=(")
            .or_else(|| line.strip_prefix("cfn=("));
        if let Some((number, name)) = function.and_then(|function| function.split_once(')')) {
            let known = is_within.entry(number).or_default();
            *known |= name.contains(within);
            if line.starts_with("fn=") {
                counts = *known;
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split_ascii_whitespace().nth(1);
            if counts && !std::mem::take(&mut is_call) {
                sum += cost.and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            }
            is_call = false;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cost_is_counted_by_name() {
        let profile = "events: Ir\nfl=(1) a.rs\nfn=(1) steppe_http::route\n10 3\n+1 4\ncfn=(2) memcpy\n\
                       calls=2 20\n* 900\n-1 1\n\nfn=(2)\n20 50\n\nfn=(3) steppe_http::send\nfi=(2) b.rs\n7 20\n\
                       cfn=(1)\ncalls=1 10\n7 8\n\ntotals: 100\n";
        assert_eq!(instructions(profile, "steppe_http::"), 3 + 4 + 1 + 20);
        assert_eq!(instructions(profile, "memcpy"), 50);
        assert_eq!(instructions(profile, ""), 78);
    }
}
