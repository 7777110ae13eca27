//! The committed seeds of fuzz targets.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn in_fuzz(path: &str) -> PathBuf {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    fuzz.expect("the library lies in fuzz/").join(path)
}

/// The paths of what lies in a folder of `fuzz/`, sorted.
pub fn files_in(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(in_fuzz(folder)).expect("a folder of the checkout");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    paths
}

/// Runs a target on the empty input, with which libFuzzer starts too, and on each of its seeds.
///
/// # Panics
/// The target has no seeds, or panicked: the message names the files.
pub fn replay(target: &str, run: fn(&[u8])) {
    let folder = format!("corpus/{target}");
    assert!(
        in_fuzz(&folder).is_dir(),
        "fuzz target '{target}' has no seeds in fuzz/{folder}"
    );
    let seeds = files_in(&folder);
    assert!(!seeds.is_empty(), "fuzz/{folder} is empty");
    let mut failures = Vec::new();
    if catch_unwind(|| run(b"")).is_err() {
        failures.push("the empty input".to_owned());
    }
    for seed in seeds {
        let input = fs::read(&seed).expect("a readable seed");
        if catch_unwind(|| run(&input)).is_err() {
            let name = seed.file_name().expect("it was listed");
            failures.push(format!("fuzz/{folder}/{}", name.display()));
        }
    }
    assert!(
        failures.is_empty(),
        "fuzz target '{target}' fails for\n{}",
        failures.join("\n")
    );
}
