//! `make install`: what it puts where, and programs that link against it.

use std::path::Path;
use std::process::Command;

use crate::support::{Program, run, target_directory};
use steppe_testkit::{Scratch, skip};

/// Installs below a folder; returns the prefix there. `None`: there is no make.
fn install(test: &str, scratch: &Scratch) -> Option<String> {
    if Command::new("make").arg("--version").output().is_err() {
        skip(test, "make is not installed");
        return None;
    }
    let mut command = Command::new("make");
    command
        .args(["install", "PREFIX=/usr/steppe"])
        .arg(format!("DESTDIR={}", scratch.path().display()))
        .env("CARGO_TARGET_DIR", target_directory())
        .env_remove("MAKEFLAGS")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    run(&mut command).succeeded();
    Some(scratch.join("usr/steppe").to_string_lossy().into_owned())
}

#[test]
fn programs_link_against_what_is_installed() {
    const NAME: &str = "programs_link_against_what_is_installed";
    let scratch = Scratch::new("malloc-install");
    let Some(prefix) = install(NAME, &scratch) else {
        return;
    };
    let description = std::fs::read_to_string(format!("{prefix}/lib/pkgconfig/steppe_malloc.pc"));
    let description = description.expect("it is installed");
    for line in [
        "prefix=/usr/steppe",
        "libdir=/usr/steppe/lib",
        "includedir=/usr/steppe/include",
    ] {
        assert!(
            description.lines().any(|found| found == line),
            "{description}"
        );
    }
    assert!(!description.contains('@'), "{description}");

    // As pkg-config would say, with the root of the package in front.
    let libs = description
        .lines()
        .find_map(|line| line.strip_prefix("Libs: "));
    let libs = libs
        .expect("it has libraries")
        .replace("${libdir}", &format!("{prefix}/lib"));
    let include = format!("-I{prefix}/include");
    let mut arguments: Vec<&str> = vec![&include];
    arguments.extend(libs.split_whitespace());
    let shared = Program::compile_with("abi.c", &arguments);
    for case in ["malloc", "whose", "profiles"] {
        let mut command = Command::new(shared.path());
        command
            .arg(case)
            .env("LD_LIBRARY_PATH", format!("{prefix}/lib"));
        run(&mut command).succeeded();
    }
}

/// The linker takes the static library's object whole, and the program has operators of its own.
#[test]
fn a_static_program_may_replace_operators() {
    const NAME: &str = "a_static_program_may_replace_operators";
    let scratch = Scratch::new("malloc-install");
    let Some(prefix) = install(NAME, &scratch) else {
        return;
    };
    let library = format!("{prefix}/lib/libsteppe_malloc.a");
    let arguments = ["-DREPLACED", "-Wno-sized-deallocation", &library];
    let program = Program::compile_with("cxx.cc", &arguments);
    for case in ["plain", "nothrow", "aligned", "refusal"] {
        run(Command::new(program.path()).arg(case)).succeeded();
    }
}
