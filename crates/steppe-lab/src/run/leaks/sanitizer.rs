//! LeakSanitizer, alone or within AddressSanitizer: its printed report.

use std::path::Path;

use super::{Found, reports, with_command};
use crate::limits::{LEAK_SITES_MAX, LEAK_STACK_MAX};
use crate::record::LeakSite;
use crate::scenario::{LeaksPlan, Program};
use crate::target::executable;

/// The sanitizer build, set up to write a file a process and to exit with code 23 on leaks.
pub(super) fn program(plan: &LeaksPlan, target: Program, said: &Path) -> Program {
    let cmd = plan.command.clone().unwrap_or_else(|| target.cmd.clone());
    let mut program = with_command(target, cmd);
    program.cmd.extend(plan.arguments.iter().cloned());
    for name in ["ASAN_OPTIONS", "LSAN_OPTIONS"] {
        let ours = format!("detect_leaks=1:exitcode=23:log_path={}", said.display());
        let options = match program.env.get(name) {
            Some(theirs) => format!("{theirs}:{ours}"),
            None => ours,
        };
        program.env.insert(name.to_owned(), options);
    }
    program
}

/// True if the program, or a library that it asks for, is the runtime of such a sanitizer.
pub(super) fn is_built_in(program: &Program) -> bool {
    let path = executable(program);
    let Ok(bytes) = path.and_then(std::fs::read) else {
        return false;
    };
    let is_there = |text: &str| memchr::memmem::find(&bytes, text.as_bytes()).is_some();
    RUNTIMES.iter().any(|text| is_there(text))
}

/// Reads the reports. A clean process writes none: no file is the good answer, of a build that has
/// a sanitizer ([`is_built_in`]).
pub(super) fn read(said: &Path) -> Result<Found, String> {
    let mut found = Found::default();
    for file in reports(said).map_err(|error| error.to_string())? {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        found.fault = found
            .fault
            .take()
            .or_else(|| other_fault(&text).map(str::to_owned));
        parse(&text, &mut found);
    }
    Ok(found)
}

/// Parses `Direct leak of 640 byte(s) in 10 object(s) allocated from:` and the frames below it.
fn parse(text: &str, found: &mut Found) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((kind, bytes, blocks)) = leak_line(line) else {
            continue;
        };
        let mut stack = Vec::new();
        while let Some(frame) = lines.next_if(|line| line.trim_start().starts_with('#')) {
            // `#1 0x55d in main a.c:7`: the place follows `in`.
            let shown = frame
                .split_once(" in ")
                .map_or(frame.trim(), |(_, place)| place);
            if stack.len() < LEAK_STACK_MAX {
                stack.push(shown.to_owned());
            }
        }
        found.lost_bytes += bytes;
        found.sites.push(LeakSite {
            kind: kind.to_owned(),
            bytes,
            blocks,
            stack,
        });
    }
    found
        .sites
        .sort_by_key(|site| std::cmp::Reverse(site.bytes));
    found.sites.truncate(LEAK_SITES_MAX);
}

/// The first error that is no leak: a use after free, an overrun, a checker that could not work.
fn other_fault(text: &str) -> Option<&str> {
    let is_fault = |line: &&str| {
        let is_error = line.contains("ERROR: ") || line.contains("fatal error");
        is_error && !line.contains("detected memory leaks")
    };
    text.lines().find(is_fault)
}

fn leak_line(line: &str) -> Option<(&'static str, u64, u64)> {
    let (kind, rest) = if let Some(rest) = line.strip_prefix("Direct leak of ") {
        ("definitely lost", rest)
    } else {
        ("indirectly lost", line.strip_prefix("Indirect leak of ")?)
    };
    let (bytes, rest) = rest.split_once(" byte(s) in ")?;
    let (blocks, _) = rest.split_once(" object(s)")?;
    Some((kind, bytes.parse().ok()?, blocks.parse().ok()?))
}

/// Text that the runtime prints, if it is linked in; else the library that it is in.
const RUNTIMES: [&str; 4] = [
    "LeakSanitizer",
    "libasan.so",
    "liblsan.so",
    "libclang_rt.asan",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_fault_is_no_clean_report() {
        let fault = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n";
        assert!(other_fault(fault).is_some());
        let fatal = "==7==LeakSanitizer has encountered a fatal error.\n";
        assert!(other_fault(fatal).is_some());
        let leaks = "==7==ERROR: LeakSanitizer: detected memory leaks\n";
        assert!(other_fault(leaks).is_none());
    }

    #[test]
    fn leaks_are_read_with_their_stacks() {
        let text = "=====\n==7==ERROR: LeakSanitizer: detected memory leaks\n\n\
            Direct leak of 640 byte(s) in 10 object(s) allocated from:\n\
            \x20   #0 0x49 in malloc (/srv/a+0x49)\n    #1 0x4c in handle /src/a.c:7:3\n\n\
            Indirect leak of 8 byte(s) in 1 object(s) allocated from:\n    #0 0x49 in malloc\n\n\
            SUMMARY: AddressSanitizer: 648 byte(s) leaked in 11 allocation(s).\n";
        let mut found = Found::default();
        parse(text, &mut found);
        assert_eq!(found.lost_bytes, 648);
        assert_eq!(found.sites[0].stack[1], "handle /src/a.c:7:3");
        assert_eq!(found.sites[1].kind, "indirectly lost");
    }
}
