//! `make install`: the files that it installs, and programs that link against the library, by hand,
//! by pkg-config and by CMake.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::support::{Program, run, target_directory, testdata};
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

    // The flags of pkg-config, with the root of the package in front.
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

/// True if a program is installed; a test that needs it is skipped otherwise.
fn is_there(test: &str, program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(test, &format!("{program} is not installed"));
    }
    is_there
}

/// A program that names nothing of the library allocates from it all the same, and one that does works.
fn links(abi: &Path, silent: &Path, prefix: &str) {
    let libraries = format!("{prefix}/lib");
    let linked = |program: &Path| {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &libraries);
        command
    };
    for case in ["malloc", "whose", "profiles"] {
        run(linked(abi).arg(case)).succeeded();
    }
    let ended = run(linked(silent).env("STEPPE_MALLOC_STATS", "1")).succeeded();
    let name = silent.display();
    assert!(
        ended.errors.starts_with("{\"profile\":"),
        "{name}: {ended:#?}"
    );
}

/// The words that pkg-config prints for a package that lies below another root than it is meant
/// for.
fn pkg_config(root: &Scratch, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command
        .args(arguments)
        .arg("steppe_malloc")
        .env("PKG_CONFIG_LIBDIR", root.join("usr/steppe/lib/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", root.path());
    let said = run(&mut command).succeeded().out;
    said.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn pkg_config_says_how_to_link() {
    const NAME: &str = "pkg_config_says_how_to_link";
    let scratch = Scratch::new("malloc-install");
    if !is_there(NAME, "pkg-config") {
        return;
    }
    let Some(prefix) = install(NAME, &scratch) else {
        return;
    };
    let shared = pkg_config(&scratch, &["--cflags", "--libs"]);
    let inside = pkg_config(&scratch, &["--static", "--cflags", "--libs"]);
    let is_private = |word: &&String| !shared.contains(word);
    let private: Vec<&String> = inside.iter().filter(is_private).collect();
    assert_eq!(private, ["-pthread", "-ldl"]);
    for (kind, words) in [("-Wl,--as-needed", shared), ("-static", inside)] {
        // Libraries stand behind the program that uses them.
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let arguments = [&[kind], &arguments[..]].concat();
        let abi = Program::compile_with("abi.c", &arguments);
        let silent = Program::compile_with("silent.c", &arguments);
        links(abi.path(), silent.path(), &prefix);
    }
    assert_eq!(
        pkg_config(&scratch, &["--modversion"]),
        [env!("CARGO_PKG_VERSION")]
    );
}

#[test]
fn cmake_finds_the_package() {
    const NAME: &str = "cmake_finds_the_package";
    let scratch = Scratch::new("malloc-install");
    if !is_there(NAME, "cmake") {
        return;
    }
    let Some(prefix) = install(NAME, &scratch) else {
        return;
    };
    let cmake = |arguments: &[&OsStr]| {
        let mut command = Command::new("cmake");
        command.args(arguments).env("CMAKE_PREFIX_PATH", &prefix);
        run(&mut command)
    };
    let source = testdata("cmake");
    let build = scratch.join("build");
    let configure = |wanted: &str| {
        let wanted = format!("-DWANTED={wanted}");
        let (source, build) = (source.as_os_str(), build.as_os_str());
        cmake(&["-S".as_ref(), source, "-B".as_ref(), build, wanted.as_ref()])
    };
    for other in ["0.2", "1.0", "0.0.9", "0.1.1"] {
        let errors = configure(other).errors;
        assert!(
            errors.contains(&format!("requested version \"{other}\"")),
            "{errors}"
        );
    }
    configure("0.1").succeeded();
    cmake(&["--build".as_ref(), build.as_os_str()]).succeeded();
    for kind in ["shared", "static", "all_static"] {
        let program = |name: &str| build.join(format!("{name}_{kind}"));
        links(&program("abi"), &program("silent"), &prefix);
    }
}
