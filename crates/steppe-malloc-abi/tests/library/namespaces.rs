//! System calls that a process of several threads is refused: the library's own thread ends before them.

use std::process::Command;

use steppe_testkit::skip;

use crate::support::{Program, run};

const PROFILES: [&str; 3] = ["balanced", "lean", "speed"];

/// unshare(2): a process of several threads is refused a user namespace.
#[test]
fn a_program_of_one_thread_stays_one() {
    const NAME: &str = "a_program_of_one_thread_stays_one";
    let program = Program::compile("namespaces.c");
    if run(Command::new(program.path()).arg("namespaced")).code != Some(0) {
        return skip(NAME, "the kernel allows no user namespaces");
    }
    for profile in PROFILES {
        for case in ["namespaced", "bare_clone"] {
            let mut command = program.preloaded();
            command.env("STEPPE_MALLOC_PROFILE", profile);
            run(command.arg(case)).succeeded();
        }
    }
}
