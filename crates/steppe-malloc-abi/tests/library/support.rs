//! Support of the library's tests: the library as it ships, programs that use it, and runs with a time limit.
//!
//! The test runner has built the library by its one command into the workspace's target directory, and signals that by
//! `STEPPE_BUILT`; without it, a test has cargo do that. Programs are compiled from `testdata/` when a test needs them.
//! Every failure panics with its reason.

pub mod server;

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use steppe_testkit::{Scratch, is_built};

pub use steppe_testkit::is_long;

/// Time limit of a run, longer than any takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// `normal` in the first tier, `long` in the long one.
pub fn rounds(normal: u32, long: u32) -> u32 {
    if is_long() { long } else { normal }
}

/// The shared library, as it ships.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("", &[]).join("libsteppe_malloc.so"))
}

/// The static library beside it.
pub fn static_library() -> PathBuf {
    library().with_extension("a")
}

/// The shared library with the feature `hardened`.
pub fn hardened_library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        build("malloc-hardened", &["--features", "hardened"]).join("libsteppe_malloc.so")
    })
}

/// Builds the library below a folder of the target directory, unless that was done; returns where it is.
fn build(folder: &str, features: &[&str]) -> PathBuf {
    let target = target_directory().join(folder);
    if is_built() {
        return target.join("release-malloc");
    }
    cargo(
        &target,
        &[
            "--package",
            "steppe-malloc-abi",
            "--profile",
            "release-malloc",
        ],
        features,
    );
    target.join("release-malloc")
}

/// Runs `cargo build` into a target directory.
pub fn cargo(target: &Path, arguments: &[&str], features: &[&str]) {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked"])
        .args(arguments)
        .args(features)
        .arg("--target-dir")
        .arg(target)
        // Flags of the test run, for coverage or a sanitizer, are not the library's.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("can't run cargo: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo build failed:\n{errors}");
}

/// An example of this crate, built as tests are.
pub fn example(name: &str) -> PathBuf {
    let target = target_directory();
    if !is_built() {
        // With the features that `cargo test --workspace` builds it with: no crate twice.
        cargo(&target, &["--workspace", "--example", name], &[]);
    }
    target.join("debug/examples").join(name)
}

/// The workspace's target directory, which has this crate's `tmp` inside.
pub fn target_directory() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent().expect("it is a folder of it").to_owned()
}

/// A file of `testdata/`.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

/// The folder of `steppe_malloc.h`.
pub fn include_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// A compiled program of `testdata/`. It stays in the target directory, where the next run of the
/// tests puts it again: a test binary's statics are never dropped.
pub struct Program {
    path: PathBuf,
}

/// Options of C compilers for other targets, without warnings: they are not fixed here.
pub const OTHER_TARGET: [&str; 5] = ["-O1", "-w", "-fno-builtin", "-pthread", "-D_GNU_SOURCE"];

impl Program {
    /// Compiles a C program, or C++ by the extension of the source.
    pub fn compile(source: &str) -> Self {
        Self::compile_with(source, &[] as &[&str])
    }

    /// Compiles a program with further arguments for the compiler, after the source.
    pub fn compile_with(source: &str, arguments: &[impl AsRef<OsStr>]) -> Self {
        let is_cxx = source.ends_with(".cc");
        let compiler = if is_cxx { "c++" } else { "cc" };
        let mut command = Command::new(compiler);
        command
            // No builtins: the compiler must not remove an allocation without a use.
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin"])
            .args(["-pthread", "-D_GNU_SOURCE"])
            // These programs misuse memory on purpose.
            .args(["-Wno-alloc-size-larger-than", "-Wno-use-after-free"])
            .arg(if is_cxx { "-std=c++17" } else { "-std=c11" })
            .arg("-I")
            .arg(include_directory())
            .arg(testdata(source))
            .args(arguments);
        let path = program_path(source);
        // A program that still runs can't be written to.
        let _ = std::fs::remove_file(&path);
        let output = command
            .arg("-o")
            .arg(&path)
            .output()
            .unwrap_or_else(|error| panic!("can't run {compiler}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{source}:\n{errors}");
        Self { path }
    }

    /// Compiles a shared library.
    pub fn compile_library(source: &str) -> Self {
        Self::compile_with(source, &["-shared", "-fPIC"])
    }

    /// The path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs the program with the library preloaded.
    pub fn preloaded(&self) -> Command {
        preloaded(&self.path)
    }
}

/// The path of a new program: a different one for each that a test compiles.
fn program_path(source: &str) -> PathBuf {
    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }
    let number = COUNT.replace(COUNT.get() + 1);
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("main").replace("::", "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("malloc-library");
    std::fs::create_dir_all(&folder).expect("the target directory can be written");
    folder.join(format!("{test}-{number}-{source}"))
}

/// Any program, with the library preloaded.
pub fn preloaded(program: impl AsRef<OsStr>) -> Command {
    preloaded_by(library(), program)
}

/// Any program, with a build of the library preloaded.
pub fn preloaded_by(library: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library);
    command
}

/// The end of a program, and its output.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub errors: String,
}

/// Runs to the end, but no longer than [`PATIENCE`].
pub fn run(command: &mut Command) -> Ended {
    run_within(command, PATIENCE)
}

/// Runs to the end, and kills all processes that it started after `limit`.
pub fn run_within(command: &mut Command, limit: Duration) -> Ended {
    let scratch = Scratch::new("malloc-run");
    let file = |name| std::fs::File::create(scratch.join(name)).expect("scratch can be written");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("errors"))
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("can't start {command:?}: {error}"));
    let end = Instant::now() + limit;
    let said = |name| {
        let bytes = std::fs::read(scratch.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return Ended {
                code: status.code(),
                signal: status.signal(),
                out: said("out"),
                errors: said("errors"),
            };
        }
        if Instant::now() >= end {
            let group = i32::try_from(child.id()).ok();
            let group = group.and_then(rustix::process::Pid::from_raw);
            let group = group.expect("a process has an id");
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
            panic!(
                "{command:?} still ran after {limit:?}; it said:\n{}{}",
                said("out"),
                said("errors")
            );
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

impl Ended {
    /// Expects exit code 0.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert!(self.code == Some(0), "{self:#?}");
        self
    }

    /// Expects an end by SIGABRT.
    #[track_caller]
    pub fn aborted(self) -> Self {
        assert!(self.signal == Some(6), "{self:#?}");
        self
    }
}
