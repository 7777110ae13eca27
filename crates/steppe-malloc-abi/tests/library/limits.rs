//! Bounds on held memory: limits, watermark, share of free memory.

use crate::support::{Program, is_long, run};

/// Free memory stays for longer than any test: what goes, goes for another reason.
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

/// Live are 32 MiB at most, in sizes that change: 220 MiB were resident in `balanced`.
#[test]
fn free_memory_is_a_share_of_live_memory() {
    let program = Program::compile("limits.c");
    for (profile, most_mib) in [("balanced", "110"), ("lean", "64")] {
        let profile = ("STEPPE_MALLOC_PROFILE", profile);
        passes(&program, &[profile, NO_DECAY], &["share", most_mib]);
    }
}
