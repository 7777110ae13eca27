//! Tests that can't be done here.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that a test was skipped, past the harness that keeps the output of tests that pass, and in
/// the file that counts those that were.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    let Some(path) = std::env::var_os("STEPPE_SKIPPED") else {
        return;
    };
    let file = OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
