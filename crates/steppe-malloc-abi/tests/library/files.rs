//! Files that the library writes: never into a file of the program, and one process at a time.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Ended, Program, run};
use steppe_testkit::Scratch;

/// The program, with the library preloaded, in a folder of its own.
fn program(folder: &Scratch, case: &str, path: &Path) -> Command {
    static COMPILED: OnceLock<Program> = OnceLock::new();
    let program = COMPILED.get_or_init(|| Program::compile("files.c"));
    let mut command = program.preloaded();
    command.arg(case).arg(path).current_dir(folder.path());
    command
}

fn ends(command: &mut Command) -> Ended {
    run(command).succeeded()
}

/// The objects of a file of statistics, one a line.
fn statistics(text: &str) -> Vec<serde_json::Value> {
    let object =
        |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(object).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of the folder's files, in order.
fn names(folder: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("it is there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("it can be read").file_name();
        name.into_string().expect("tests name files so")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// A program closes a descriptor that it does not know, and its own file gets the number.
#[test]
fn statistics_never_go_to_a_file_of_the_program() {
    for (setting, case) in [
        ("1", "reuse"),
        ("1", "reuse_all"),
        ("stats", "reuse"),
        ("stats", "reuse_all"),
    ] {
        let folder = Scratch::new("malloc-files");
        let data = folder.join("data");
        let mut command = program(&folder, case, &data);
        let ended = ends(command.env("STEPPE_MALLOC_STATS", setting));
        assert_eq!(read(&data), "data\n", "{setting} {case}");
        let written = match setting {
            "1" => ended.errors,
            path => read(&folder.join(path)),
        };
        // The standard error of the start is closed for `1`, so nothing is written.
        let lines = usize::from((setting, case) != ("1", "reuse_all"));
        assert_eq!(
            statistics(&written).len(),
            lines,
            "{setting} {case}: {written}"
        );
    }
}

#[test]
fn statistics_of_one_program_after_the_other() {
    let folder = Scratch::new("malloc-files");
    let stats = folder.join("stats");
    for _ in 0..3 {
        // The path is relative, and the program changes to another folder.
        let mut command = program(&folder, "moved", Path::new("/"));
        ends(command.env("STEPPE_MALLOC_STATS", "stats"));
    }
    assert_eq!(statistics(&read(&stats)).len(), 3);
    assert_eq!(names(&folder), ["stats"]);
}

#[test]
fn statistics_of_forked_processes() {
    for setting in ["1", "stats", "stats.%p"] {
        let folder = Scratch::new("malloc-files");
        let mut command = program(&folder, "forked", Path::new(""));
        let ended = ends(command.env("STEPPE_MALLOC_STATS", setting));
        let texts = match setting {
            "1" => vec![ended.errors],
            _ => names(&folder)
                .iter()
                .map(|name| read(&folder.join(name)))
                .collect(),
        };
        let files = if setting.contains("%p") { 2 } else { 1 };
        assert_eq!(texts.len(), files, "{setting}: {:?}", names(&folder));
        for text in texts {
            assert_eq!(statistics(&text).len(), 1, "{setting}: {text}");
        }
    }
}

#[test]
fn files_that_cannot_be_written_are_told_at_the_start() {
    let folder = Scratch::new("malloc-files");
    let missing = folder.join("missing/x");
    for variable in ["STEPPE_MALLOC_STATS", "STEPPE_MALLOC_PROFILE_HEAP"] {
        for path in [missing.as_path(), folder.path()] {
            let mut command = program(&folder, "forked", Path::new(""));
            let errors = ends(command.env(variable, path)).errors;
            assert_eq!(errors.lines().count(), 1, "{errors}");
            assert!(errors.contains(variable), "{errors}");
            assert!(errors.contains("is ignored; expected: "), "{errors}");
        }
    }
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));
}

/// Runs a program that waits for two profiles, and writes a last one at exit. The folder has
/// `files` then.
fn profiles(folder: &Scratch, case: &str, settings: &[(&str, &str)], files: &[&str]) {
    let mut command = program(folder, case, Path::new("heap"));
    command
        .env("STEPPE_MALLOC_PROFILE_HEAP", "heap")
        .env("STEPPE_MALLOC_PROFILE_HEAP_BYTES", "4K")
        .envs(settings.iter().copied());
    let ended = ends(&mut command);
    assert_eq!(ended.errors, "", "{case} {settings:?}");
    let names = names(folder);
    for name in files {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        let text = read(&folder.join(name));
        let first = text.lines().next().unwrap_or_default();
        let live: u64 = first
            .strip_prefix("heap profile: ")
            .and_then(|rest| rest.split(':').next()?.trim().parse().ok())
            .unwrap_or_else(|| panic!("{name}: {first}"));
        // 20,000 blocks of 1,000 bytes, a sample each 4 KiB.
        assert!(live > 2_000, "{name}: {first}");
        assert!(text.contains("libsteppe_malloc.so"), "{name}: {text}");
    }
}

const BACKGROUND: [&[(&str, &str)]; 2] = [&[], &[("STEPPE_MALLOC_BACKGROUND", "0")]];

#[test]
fn heap_profiles_by_signal() {
    let folder = Scratch::new("malloc-files");
    let signal = [("STEPPE_MALLOC_PROFILE_HEAP_SIGNAL", "USR2")];
    let settings = BACKGROUND.map(|background| [&signal, background].concat());
    profiles(
        &folder,
        "signals_asleep",
        &settings[0],
        &["heap", "heap.1", "heap.2"],
    );
    let first = read(&folder.join("heap.1"));
    // Files of an earlier process stay as they are.
    profiles(
        &folder,
        "signals_at_work",
        &settings[1],
        &["heap", "heap.3", "heap.4"],
    );
    assert_eq!(read(&folder.join("heap.1")), first);
}

#[test]
fn heap_profiles_in_intervals() {
    for (case, background) in ["time_asleep", "time_at_work"].iter().zip(BACKGROUND) {
        let folder = Scratch::new("malloc-files");
        let interval = [("STEPPE_MALLOC_PROFILE_HEAP_EVERY", "1")];
        let settings = [&interval, background].concat();
        profiles(&folder, case, &settings, &["heap", "heap.1", "heap.2"]);
    }
}

#[test]
fn settings_of_heap_profiles_need_a_file() {
    let folder = Scratch::new("malloc-files");
    for (variable, value) in [
        ("STEPPE_MALLOC_PROFILE_HEAP_SIGNAL", "USR2"),
        ("STEPPE_MALLOC_PROFILE_HEAP_EVERY", "60"),
    ] {
        let mut command = program(&folder, "forked", Path::new(""));
        let errors = ends(command.env(variable, value)).errors;
        assert!(
            errors.contains("beside STEPPE_MALLOC_PROFILE_HEAP"),
            "{errors}"
        );
    }
    let values = [
        ("SIGNAL", "KILL"),
        ("SIGNAL", "64x"),
        ("EVERY", "0"),
        ("EVERY", "2000001"),
    ];
    for (variable, value) in values {
        let mut command = program(&folder, "forked", Path::new(""));
        command
            .env("STEPPE_MALLOC_PROFILE_HEAP", "heap")
            .env(format!("STEPPE_MALLOC_PROFILE_HEAP_{variable}"), value);
        let errors = ends(&mut command).errors;
        let told = format!("STEPPE_MALLOC_PROFILE_HEAP_{variable}={value} is ignored");
        assert!(errors.contains(&told), "{errors}");
    }
}
