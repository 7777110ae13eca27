//! The oldest C library that the shared library runs with, whichever it was built with.

use std::path::Path;
use std::process::Command;

use crate::support::{hardened_library, library, run};

/// glibc 2.28, of Debian 10 and Enterprise Linux 8.
const FLOOR: (u32, u32, u32) = (2, 28, 0);

/// Checks the versions of all symbols that a library imports, as a program of binutils lists them.
pub fn is_at_most_the_floor(objdump: &str, library: &Path) {
    let table = run(Command::new(objdump).arg("-T").arg(library)).succeeded();
    let undefined: Vec<&str> = table
        .out
        .lines()
        .filter(|line| line.contains("*UND*"))
        .collect();
    assert!(undefined.len() > 20, "{table:#?}");
    for line in undefined {
        // "… *UND*  0000000000000000 (GLIBC_2.2.5) abort"
        let version = line
            .split_once("GLIBC_")
            .and_then(|(_, rest)| rest.split([')', ' ']).next());
        let Some(version) = version else {
            // The compiler's own files import these weakly, and work without them.
            let is_weak = line.split_whitespace().nth(1) == Some("w");
            assert!(is_weak, "{line}");
            continue;
        };
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().flatten().unwrap_or(0);
        let version = (next(), next(), next());
        assert!(version > (0, 0, 0) && version <= FLOOR, "{line}");
    }
}

#[test]
fn the_library_runs_with_glibc_2_28() {
    for library in [library(), hardened_library()] {
        is_at_most_the_floor("objdump", library);
    }
}
