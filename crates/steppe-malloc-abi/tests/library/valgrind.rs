//! Under valgrind's tools that replace `malloc`: no block of the tool reaches the library, and none of the library's the
//! tool.

use std::process::Command;

use steppe_testkit::{Scratch, is_left_to_long_tier, skip};

use crate::support::{Program, library, run, static_library};

/// The tool that runs in the first tier; the others have the same replacements of `malloc`, and take 10 s each.
const FIRST_TIER: &str = "memcheck";

/// Runs a program under a tool, where valgrind is installed, and expects no output of the tool or the library.
fn is_quiet(test: &str, tool: &str) {
    if tool != FIRST_TIER && is_left_to_long_tier(test) {
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip(test, "valgrind is not installed");
    }
    // The program calls functions that only the library has.
    let in_c = Program::compile_with("valgrind.c", &[library()]);
    quiet(tool, in_c.preloaded());
    let linked = Program::compile_with("valgrind.c", &[static_library()]);
    quiet(tool, Command::new(linked.path()));
    let in_cxx = Program::compile("cxx.cc");
    for case in ["plain", "nothrow", "aligned"] {
        let mut command = in_cxx.preloaded();
        command.arg(case);
        quiet(tool, command);
    }
}

fn quiet(tool: &str, program: Command) {
    let scratch = Scratch::new("malloc-valgrind");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9", &format!("--tool={tool}")]);
    if matches!(tool, "massif" | "dhat") {
        let file = scratch.join("out");
        command.arg(format!("--{tool}-out-file={}", file.display()));
    }
    if tool == "memcheck" {
        command.arg("--leak-check=full");
    }
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let ended = run(&mut command).succeeded();
    assert_eq!(ended.errors, "", "{tool}: {program:?}");
}

macro_rules! tools {
    ($($test:ident)*) => {$(
        #[test]
        fn $test() {
            is_quiet(stringify!($test), stringify!($test));
        }
    )*};
}

tools! { memcheck massif dhat drd helgrind }
