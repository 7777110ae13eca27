//! Programs of others with fixed input, one after the other: a C++ compiler and the sqlite3 shell.
//!
//! They inherit the allocator that is preloaded into this program.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::meter::Meter;

/// A compiler translates templates of the standard library. One run is one operation.
pub fn compile(meter: &mut Meter, runs: u64) {
    let arguments = ["-O0", "-c", "-o", "/dev/null", COMPILED];
    each_run(meter, runs, || {
        let mut command = Command::new("g++");
        command.args(arguments).stdin(Stdio::null());
        command
    });
}

/// A database in memory is filled and asked. One run of the script is one operation.
pub fn sqlite(meter: &mut Meter, runs: u64) {
    each_run(meter, runs, || {
        let mut command = Command::new("sqlite3");
        command.arg(":memory:").stdin(queries());
        command
    });
}

fn each_run(meter: &mut Meter, runs: u64, command: impl Fn() -> Command) {
    meter.start();
    for _ in 0..runs {
        let status = command().stdout(Stdio::null()).status();
        let status = status.expect("the program is installed (g++, sqlite3)");
        assert!(status.success(), "the program ended with {status}");
    }
    meter.stop(runs);
}

fn queries() -> File {
    File::open(QUERIES).expect("the script lies beside the sources")
}

const COMPILED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/compile.cc");
const QUERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/queries.sql");
