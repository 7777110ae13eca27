//! Programs that forbid system calls (seccomp(2)) survive: the library makes none of the forbidden calls.

use steppe_testkit::{Scratch, skip};

use crate::support::{Program, run};

#[test]
fn forbidden_calls_are_not_made() {
    const NAME: &str = "forbidden_calls_are_not_made";
    let program = Program::compile("filters.c");
    let cases = ["threads", "files", "files_later"];
    let plain = run(std::process::Command::new(program.path()).arg(cases[0]));
    if plain.code != Some(0) {
        return skip(NAME, "the kernel has no filters");
    }
    // A control group with a limit, so that its files would be read.
    let group = Scratch::new("malloc-filters");
    for (file, text) in [
        ("memory.limit_in_bytes", "400000000"),
        ("memory.usage_in_bytes", "100000000"),
    ] {
        group.write(file, text);
    }
    for case in cases {
        let mut command = program.preloaded();
        command.env("STEPPE_MALLOC_CGROUP", group.path());
        run(command.arg(case)).succeeded();
    }
}
