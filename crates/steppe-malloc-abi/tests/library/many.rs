//! More large blocks than the kernel allows a process mappings.

use steppe_testkit::skip;

use crate::support::{Program, is_long, run};

#[test]
fn large_blocks_share_mappings() {
    let program = Program::compile("many.c");
    let all = ["balanced", "lean", "speed"];
    for profile in if is_long() { &all[..] } else { &all[..1] } {
        let mut command = program.preloaded();
        command.env("STEPPE_MALLOC_PROFILE", profile);
        command.env("STEPPE_MALLOC_PURGE_MS", "200");
        run(command.arg("share")).succeeded();
    }
    for case in ["grow", "locked"] {
        run(program.preloaded().arg(case)).succeeded();
    }
}

#[test]
fn places_that_the_kernel_refuses_are_counted() {
    let program = Program::compile("many.c");
    let ended = run(program.preloaded().arg("refused"));
    match ended.code {
        Some(77) => skip(
            "places_that_the_kernel_refuses_are_counted",
            "may lock no 30 MB",
        ),
        _ => _ = ended.succeeded(),
    }
}

#[test]
fn address_space_that_is_counted_is_spared() {
    let program = Program::compile("many.c");
    run(program.preloaded().arg("limited")).succeeded();
}
