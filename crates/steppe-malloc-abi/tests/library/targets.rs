//! Other targets: aarch64 under qemu, and musl, whose own allocator is slow. Long tier only, where their
//! standard libraries, compilers and emulator are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::deep_binding::Tree;
use crate::glibc::is_at_most_the_floor;
use crate::support::{OTHER_TARGET, run, target_directory, testdata};
use steppe_testkit::{Scratch, is_left_to_long_tier, skip};

const AARCH64: &str = "aarch64-unknown-linux-gnu";
pub const MUSL: &str = "x86_64-unknown-linux-musl";
/// Root of Debian's C library for aarch64.
const AARCH64_ROOT: &str = "/usr/aarch64-linux-gnu";

/// True if the test runs: in the long tier, if the target and its programs are installed.
pub fn runs(test: &str, target: &str, programs: &[&str]) -> bool {
    if is_left_to_long_tier(test) {
        return false;
    }
    let query = ["--print", "target-libdir", "--target", target];
    let directory = Command::new("rustc").args(query).output();
    let directory = directory.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !directory.is_ok_and(|directory| Path::new(directory.trim()).exists()) {
        skip(
            test,
            &format!("Rust's standard library for {target} is not installed"),
        );
        return false;
    }
    let is_missing = |name: &&&str| Command::new(name).arg("--version").output().is_err();
    if let Some(missing) = programs.iter().find(is_missing) {
        skip(test, &format!("{missing} is not installed"));
        return false;
    }
    true
}

/// Builds for a target with the compiler of C that links for it; returns the target's folder.
fn build(target: &str, arguments: &[&str]) -> PathBuf {
    build_linked(target, arguments, Linked::AsUsual)
}

/// The linking of the C library in a build for musl.
pub enum Linked {
    /// Static, the target's default.
    AsUsual,
    /// Dynamic, so that a shared library can be built.
    Shared,
}

/// The same as [`build`], in a way of linking.
pub fn build_linked(target: &str, arguments: &[&str], linked: Linked) -> PathBuf {
    let (name, flags) = match linked {
        Linked::AsUsual => ("malloc-targets", ""),
        Linked::Shared => ("malloc-musl", "-C target-feature=-crt-static"),
    };
    let is_shared = !flags.is_empty();
    // Each combination of features has a place of its own: tests build at the same time.
    let features = arguments.iter().skip_while(|word| **word != "--features");
    let folder = features.fold(name.to_owned(), |name, word| name + word);
    let folder = target_directory().join(folder);
    let mut command = Command::new(env!("CARGO"));
    command
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "steppe-malloc-abi",
        ])
        .args(["--target", target, "--target-dir"])
        .arg(&folder)
        .args(arguments)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .envs(is_shared.then_some(("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc")))
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    run(&mut command).succeeded();
    folder.join(target)
}

fn qemu() -> Command {
    let mut command = Command::new("qemu-aarch64");
    command.args(["-L", AARCH64_ROOT]);
    command
}

/// Left out is fork in a program of several threads: qemu's emulator does not survive that itself.
#[test]
fn aarch64_under_qemu() {
    let programs = ["aarch64-linux-gnu-gcc", "qemu-aarch64"];
    if !runs("aarch64_under_qemu", AARCH64, &programs) {
        return;
    }
    let built = build(AARCH64, &["--profile", "release-malloc"]);
    let library = built.join("release-malloc/libsteppe_malloc.so");
    is_at_most_the_floor("aarch64-linux-gnu-objdump", &library);
    let scratch = Scratch::new("malloc-aarch64");
    let compile_to = |source: &str, arguments: &[&str], program: &Path| {
        let mut command = Command::new("aarch64-linux-gnu-gcc");
        command
            .args(OTHER_TARGET)
            .arg("-I")
            .arg(crate::support::include_directory())
            .arg("-o")
            .arg(program)
            .arg(testdata(source))
            .args(arguments);
        run(&mut command).succeeded();
    };
    let linked = library.to_str().expect("it is below the target directory");
    let compile = |source: &str| {
        let program = scratch.join(source.trim_end_matches(".c"));
        compile_to(source, &[linked], &program);
        program
    };
    let preload = format!("LD_PRELOAD={}", library.display());
    let abi = compile("abi.c");
    for case in CASES.split_whitespace() {
        run(qemu().args(["-E", &preload]).arg(&abi).arg(case)).succeeded();
    }
    let threads = compile("refusals.c");
    run(qemu().args(["-E", &preload]).arg(threads).arg("threads")).succeeded();
    // In the emulator the program break does not move far: only blocks outside of it.
    let blocks = compile("glibc_blocks.c");
    for case in ["mappings", "usable", "grown"] {
        run(qemu().args(["-E", &preload]).arg(&blocks).arg(case)).succeeded();
    }
    let tree = Tree::new(compile_to);
    run(qemu()
        .args(["-E", &preload])
        .arg(tree.program())
        .arg("ours"))
    .succeeded();
}

pub const CASES: &str =
    "malloc every_size too_large products_that_overflow calloc realloc realloc_to_nothing
    posix_memalign aligned_alloc memalign whole_pages usable_size free_keeps_errno sized_frees trim
    figures info stats options profiles json whose the_c_library";

#[test]
fn a_rust_program_on_aarch64() {
    let programs = ["aarch64-linux-gnu-gcc", "qemu-aarch64"];
    if !runs("a_rust_program_on_aarch64", AARCH64, &programs) {
        return;
    }
    let built = build(AARCH64, &["--example", "global_allocator"]);
    let ended = run(qemu().arg(built.join("debug/examples/global_allocator"))).succeeded();
    assert_eq!(ended.out, "400000\n");
}

/// A static Rust program for musl: no C library's malloc is replaced, only Rust's allocator.
#[test]
fn a_rust_program_on_musl() {
    if !runs("a_rust_program_on_musl", MUSL, &[]) {
        return;
    }
    let built = build(MUSL, &["--example", "global_allocator"]);
    let program = built.join("debug/examples/global_allocator");
    assert_eq!(run(&mut Command::new(&program)).succeeded().out, "400000\n");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v 300000; exec $0 exhaust"])
        .arg(&program);
    let ended = run(&mut shell).aborted();
    assert!(ended.errors.contains("memory allocation of"), "{ended:#?}");
}

/// The static library in a program of C that musl's compiler links.
#[test]
fn a_c_program_on_musl() {
    if !runs("a_c_program_on_musl", MUSL, &["musl-gcc"]) {
        return;
    }
    let built = build(MUSL, &["--profile", "release-malloc"]);
    let scratch = Scratch::new("malloc-musl");
    let program = scratch.join("refusals");
    let mut command = Command::new("musl-gcc");
    command
        .args([
            "-static",
            "-O1",
            "-w",
            "-fno-builtin",
            "-D_GNU_SOURCE",
            "-o",
        ])
        .arg(&program)
        .arg(testdata("refusals.c"))
        .arg(built.join("release-malloc/libsteppe_malloc.a"));
    run(&mut command).succeeded();
    let ended = run(Command::new(&program).arg("threads")).succeeded();
    assert_eq!(ended.out, "done\n");
}
