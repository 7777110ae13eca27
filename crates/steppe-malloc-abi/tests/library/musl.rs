//! The shared library for musl, preloaded into programs of musl, as on Alpine. Long tier only.
//!
//! Non-goals: C++, whose library for musl Debian does not have, and heap profiles, whose unwinder it does not
//! have either. `dlopen` of the library is refused by musl's loader.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{OTHER_TARGET, include_directory, run, testdata};
use crate::targets::{CASES, Linked, MUSL, build_linked, runs};
use steppe_testkit::Scratch;

/// The library, and a folder in which programs find it by its other name.
struct Musl {
    library: PathBuf,
    folder: Scratch,
}

impl Musl {
    /// Builds the library. `None`: the build is not possible, or not in this tier.
    fn build(test: &str, features: &[&str]) -> Option<Self> {
        if !runs(test, MUSL, &["musl-gcc"]) {
            return None;
        }
        let profile = ["--profile", "release-malloc"];
        let built = build_linked(MUSL, &[&profile, features].concat(), Linked::Shared);
        let folder = Scratch::new(test);
        // Builds with other features go to the same place.
        let library = folder.join("libsteppe_malloc.so.0");
        std::fs::copy(built.join("release-malloc/libsteppe_malloc.so"), &library)
            .expect("it is built");
        Some(Self { library, folder })
    }

    fn compile(&self, source: &str, arguments: &[&Path]) -> PathBuf {
        let program = self.folder.join(source.trim_end_matches(".c"));
        let mut command = Command::new("musl-gcc");
        command
            .args(OTHER_TARGET)
            .arg("-I")
            .arg(include_directory())
            .arg(testdata(source))
            .args(arguments)
            .arg("-o")
            .arg(&program);
        run(&mut command).succeeded();
        program
    }

    /// A command with the library preloaded, after the libraries of `before`.
    fn preloaded(&self, program: &Path, before: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", format!("{before}{}", self.library.display()))
            .env("LD_LIBRARY_PATH", self.folder.path());
        command
    }
}

#[test]
fn the_contract_on_musl() {
    let Some(musl) = Musl::build("the_contract_on_musl", &[]) else {
        return;
    };
    let abi = musl.compile("abi.c", &[&musl.library]);
    for case in CASES.split_whitespace() {
        run(musl.preloaded(&abi, "").arg(case)).succeeded();
    }
    let fork = musl.compile("fork.c", &[]);
    run(musl.preloaded(&fork, "").arg("100")).succeeded();
    let exhaustion = musl.compile("exhaustion.c", &[]);
    for bytes in ["1000000", "100000000"] {
        run(musl
            .preloaded(&exhaustion, "")
            .args(["while_running", bytes]))
        .succeeded();
    }
}

#[test]
fn refusals_on_musl() {
    let Some(musl) = Musl::build("refusals_on_musl", &[]) else {
        return;
    };
    let refuse = musl.compile("refuse.c", &["-shared".as_ref(), "-fPIC".as_ref()]);
    let program = musl.compile("refusals.c", &[&musl.library]);
    let before = format!("{}:", refuse.display());
    let settings = [
        ("FROM", 1..24),
        ("CALL", 1..24),
        ("RESERVE", 1..2),
        ("RELEASE", 1..2),
    ];
    for (setting, values) in settings {
        for value in values {
            let mut command = musl.preloaded(&program, &before);
            command
                .arg("threads")
                .env(format!("REFUSE_{setting}"), value.to_string());
            assert_eq!(
                run(&mut command).succeeded().out,
                "done\n",
                "{setting}={value}"
            );
        }
    }
}

#[test]
fn what_is_free_goes_back_on_musl() {
    let Some(musl) = Musl::build("what_is_free_goes_back_on_musl", &[]) else {
        return;
    };
    let program = musl.compile("idleness.c", &[]);
    let cases = [
        "own 2000 random 4",
        "own 200000 fifo 1",
        "own 20000000 fifo 1",
        "own 16000 half 1",
        "own 2000 chunk 1",
        "shrunk 20000000 fifo 1",
        "other 2000 random 4",
        "freed-then-ended 2000 random 4",
        "child 2000 random 1",
        "atexit 2000 random 1",
    ];
    for profile in ["balanced", "lean", "speed"] {
        for case in cases {
            let mut command = musl.preloaded(&program, "");
            command
                .env("STEPPE_MALLOC_PROFILE", profile)
                .env("STEPPE_MALLOC_PURGE_MS", "500")
                .env("STEPPE_MALLOC_THP", "0")
                .args(case.split(' '))
                // Judged at 15 s: the suite of `idleness` judges lateness, and tries again.
                .args(["judge", "15000"]);
            run(&mut command).succeeded();
        }
    }
}

#[test]
fn mistakes_on_musl() {
    let Some(musl) = Musl::build("mistakes_on_musl", &["--features", "hardened"]) else {
        return;
    };
    let program = musl.compile("misuse.c", &[]);
    let cases = "double_free double_free_medium freed_large middle middle_odd middle_large stack \
                 global realloc_freed overrun_into_free overrun_into_live write_after_free";
    for case in cases.split_whitespace() {
        let ended = run(musl.preloaded(&program, "").arg(case)).aborted();
        assert!(
            ended.errors.starts_with("steppe-malloc: "),
            "{case}: {ended:#?}"
        );
    }
}
