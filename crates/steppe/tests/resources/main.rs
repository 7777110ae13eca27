//! Memory, processor time and system calls of a node, and of parts that are called in process.
//!
//! A test measures a process of its own, which no other test disturbs. Tests that measure processor time, rates or
//! system calls have to run alone: the runner finds them by the name of the module `measured`.

mod allocator;
mod attribution;
mod heap_profile;
mod measured;
mod reload_memory;

use std::env;
use std::process::Command;

use steppe_testkit::heavy;

/// Set if a test runs in a process of its own.
const OWN_PROCESS: &str = "STEPPE_TEST_OWN_PROCESS";

/// A command that starts this program again for one test, named by its module's path and its own.
fn this_program(module: &str, test: &str) -> Command {
    let (_, module) = module.split_once("::").expect("modules of this program");
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.args([&format!("{module}::{test}"), "--exact", "--nocapture"]);
    command
}

/// Runs a test's `work` in a process of its own: other tests leave traces in the figures of the whole process.
#[track_caller]
fn in_own_process(module: &str, test: &str, work: impl FnOnce()) {
    if env::var_os(OWN_PROCESS).is_some() {
        return work();
    }
    let _alone = heavy();
    let mut command = this_program(module, test);
    let output = command.env(OWN_PROCESS, "1").output();
    let output = output.expect("this program starts again");
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    // For the harness, a name without a test is a success.
    let is_passed = output.status.success() && said.contains("1 passed");
    assert!(is_passed, "{test}: {said}{failed}");
}
