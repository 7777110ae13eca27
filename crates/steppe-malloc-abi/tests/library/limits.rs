//! Bounds on held memory: limits, watermark, share of free memory, control group.

use std::path::{Path, PathBuf};
use std::process::Command;

use steppe_testkit::{Scratch, skip};

use crate::support::{Program, is_long, library, run};

/// A decay time longer than any test: memory that goes back does so for another reason.
const NO_DECAY: (&str, &str) = ("STEPPE_MALLOC_PURGE_MS", "600000");

fn passes(program: &Program, environment: &[(&str, &str)], words: &[&str]) {
    let mut command = program.preloaded();
    command.envs(environment.iter().copied());
    run(command.args(words)).succeeded();
}

#[test]
fn a_limit_is_never_passed() {
    let program = Program::compile("limits.c");
    let limit = ("STEPPE_MALLOC_LIMIT", "64M");
    let all = ["balanced", "lean", "speed"];
    for profile in if is_long() { &all[..] } else { &all[..1] } {
        let profile = ("STEPPE_MALLOC_PROFILE", *profile);
        passes(&program, &[limit, profile, NO_DECAY], &["limit"]);
        passes(&program, &[limit, profile], &["limit_in_threads"]);
    }
}

#[test]
fn a_soft_limit_purges_what_is_free() {
    let program = Program::compile("limits.c");
    passes(&program, &[NO_DECAY], &["soft_limit"]);
}

#[test]
fn a_watermark_is_heard_once() {
    let program = Program::compile("limits.c");
    passes(&program, &[], &["watermark"]);
}

/// At most 32 MiB are live, in sizes that change: 220 MiB were resident in `balanced`.
#[test]
fn free_memory_is_a_share_of_live_memory() {
    let program = Program::compile("limits.c");
    for (profile, most_mib) in [("balanced", "110"), ("lean", "64")] {
        let profile = ("STEPPE_MALLOC_PROFILE", profile);
        passes(&program, &[profile, NO_DECAY], &["share", most_mib]);
    }
}

#[test]
fn pressure_of_a_control_group_purges_at_once() {
    let program = Program::compile("limits.c");
    let cases = ["version_2", "version_1", "at_once", "no_limit"];
    std::thread::scope(|scope| {
        for case in cases {
            let program = &program;
            scope.spawn(move || {
                let folder = Scratch::new("malloc-control-group");
                let path = folder.path().to_string_lossy();
                let group = ("STEPPE_MALLOC_CGROUP", path.as_ref());
                passes(program, &[group, NO_DECAY], &[case]);
            });
        }
    });
}

/// A control group of version 1 for as long as a test needs it.
struct Group(PathBuf);

impl Group {
    /// A group below the test's own. `None`: the machine has no version 1, or forbids new groups.
    fn new(name: &str, limit_bytes: u64) -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            (controllers == "memory").then(|| path.trim_start_matches('/').to_owned())
        })?;
        let name = format!("{name}-{}", std::process::id());
        let folder = Path::new("/sys/fs/cgroup/memory").join(own).join(name);
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        let limit = group.0.join("memory.limit_in_bytes");
        std::fs::write(limit, limit_bytes.to_string()).ok()?;
        Some(group)
    }

    /// A command that runs a program in the group.
    fn command(&self, program: &Path) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .args([self.0.join("cgroup.procs").as_path(), program]);
        shell
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// At most 30 MiB are live, in sizes that change, where the kernel kills at 60 MB.
#[test]
fn a_small_control_group_kills_nobody() {
    const NAME: &str = "a_small_control_group_kills_nobody";
    let program = Program::compile("limits.c");
    let Some(group) = Group::new("steppe-malloc", 60_000_000) else {
        return skip(NAME, "no control group of version 1 can be made");
    };
    for profile in ["balanced", "lean"] {
        let mut command = group.command("env".as_ref());
        command
            .arg(format!("LD_PRELOAD={}", library().display()))
            .arg(format!("STEPPE_MALLOC_PROFILE={profile}"))
            .arg(program.path());
        run(command.arg("survive")).succeeded();
    }
}

/// 256 MiB in huge pages, most of each freed: 256 MiB stayed with the control group.
#[test]
fn a_part_of_a_huge_page_goes_back() {
    const NAME: &str = "a_part_of_a_huge_page_goes_back";
    let program = Program::compile("limits.c");
    let Some(group) = Group::new("steppe-malloc-huge", 1 << 30) else {
        return skip(NAME, "no control group of version 1 can be made");
    };
    let mut command = group.command("env".as_ref());
    command
        .arg(format!("LD_PRELOAD={}", library().display()))
        .args(["STEPPE_MALLOC_PROFILE=speed", "STEPPE_MALLOC_PURGE_MS=300"])
        .arg(format!(
            "USAGE={}",
            group.0.join("memory.usage_in_bytes").display()
        ))
        .arg(program.path());
    let ended = run(command.arg("huge_pages")).succeeded();
    if ended.out == "0 MiB in huge pages\n" {
        skip(NAME, "the kernel gives no huge pages");
    }
}
