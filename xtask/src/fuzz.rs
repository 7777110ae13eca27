//! Fuzzing with libFuzzer on the stable toolchain.
//!
//! cargo-fuzz asks for a nightly compiler, for the address sanitizer. The parsers that are fuzzed
//! here forbid `unsafe`, so a panic, a failed property, a time limit and a memory limit say all
//! there is to say, and LLVM's coverage pass is reachable from a stable compiler by its own name.
//! The allocator is no parser; its target writes and reads the memory that it gets, and compares.
//! Leaves out: sanitizers.
//!
//! The bodies of the targets are the library `fuzz/targets`, whose tests replay the seeds of `fuzz/corpus/<target>/`.
//! A run's finds go to the target directory, where the next run starts from them, and crashes to
//! `fuzz/artifacts/<target>/`.
//!
//! `fuzz/Cargo.toml` says of each target which crate's parser it feeds: the feature that it requires. Without the
//! other features, cargo builds only the crates below that one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::process;

/// Instrumentation that libFuzzer reads: a counter an edge, the table of their addresses, and
/// comparisons, whose operands it tries as input.
const COVERAGE_FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // Sections of counters are found by their start and stop symbols, which keeps them only when
    // a crate is one unit of code.
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// One input may take this long, in seconds: more is a finding.
const INPUT_TIMEOUT_SECONDS: u32 = 5;
/// A target may hold this much, in MiB: more is a finding. libFuzzer asks the kernel for the peak of the process, which
/// counts from that of the process that started it: half of this is what the checks of source texts take here.
const RSS_LIMIT_MIB: u32 = 1024;
/// Inputs grow up to this many bytes: past it, they only repeat themselves.
const INPUT_BYTES_MAX: u32 = 8192;

/// The packages of the targets themselves: their change affects all targets.
const PACKAGES: [&str; 2] = ["steppe-fuzz", "steppe-fuzz-targets"];

/// The part of `fuzz/Cargo.toml` that this module reads.
#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "bin")]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    /// The crates whose parsers the target feeds, which are features of the package.
    #[serde(rename = "required-features")]
    crates: Vec<String>,
}

impl Manifest {
    fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string(fuzz_directory().join("Cargo.toml"))?)
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("fuzz/Cargo.toml does not list its targets")
    }

    fn names(&self) -> Vec<String> {
        let names = self.targets.iter().map(|target| target.name.clone());
        names.collect()
    }

    /// The targets of these names; all of them when no name is given.
    fn select(&self, names: &[String]) -> Result<Vec<String>> {
        if names.is_empty() {
            return Ok(self.names());
        }
        names
            .iter()
            .try_for_each(|name| self.target(name).map(|_| ()))?;
        Ok(names.to_vec())
    }

    fn target(&self, name: &str) -> Result<&Target> {
        let target = self.targets.iter().find(|target| target.name == name);
        target.with_context(|| {
            format!(
                "no fuzz target '{name}': there are {}",
                self.names().join(", ")
            )
        })
    }

    fn of_crates(&self, crates: &BTreeSet<String>) -> Vec<String> {
        if PACKAGES.iter().any(|&package| crates.contains(package)) {
            return self.names();
        }
        let is_fed = |target: &&Target| target.crates.iter().any(|name| crates.contains(name));
        let fed = self.targets.iter().filter(is_fed);
        fed.map(|target| target.name.clone()).collect()
    }

    /// The arguments that have cargo build these targets, and no crate that they don't link.
    fn build_arguments(&self, targets: &[String]) -> Result<Vec<String>> {
        let (mut features, mut bins) = (BTreeSet::new(), Vec::new());
        for name in targets {
            features.extend(self.target(name)?.crates.iter().map(String::as_str));
            bins.extend(["--bin".to_owned(), name.clone()]);
        }
        let features: Vec<&str> = features.into_iter().collect();
        let chosen = [
            "--no-default-features".to_owned(),
            format!("--features={}", features.join(",")),
        ];
        Ok(chosen.into_iter().chain(bins).collect())
    }
}

/// The targets of these names, in their order; all targets when no name is given.
///
/// # Errors
/// A name that no target has.
pub fn select(names: &[String]) -> Result<Vec<String>> {
    Manifest::read()?.select(names)
}

/// The targets that feed parsers of these crates of the workspace: none, where none of them has any. The packages of
/// the targets themselves stand for all targets.
pub fn targets_of_crates(crates: &BTreeSet<String>) -> Result<Vec<String>> {
    Ok(Manifest::read()?.of_crates(crates))
}

/// Some fuzz targets, built.
pub struct Harness {
    targets: Vec<String>,
    programs: PathBuf,
}

impl Harness {
    /// Builds these targets.
    ///
    /// # Errors
    /// No target is given, a name is unknown, or the build fails.
    pub fn build(targets: &[String]) -> Result<Self> {
        // Cargo would build all of them.
        ensure!(!targets.is_empty(), "no fuzz target to build");
        let host = process::host_triple()?;
        let directory = process::target_directory().join("fuzz");
        let args = [
            "build",
            "--locked",
            "--release",
            "--manifest-path",
            "fuzz/Cargo.toml",
        ];
        let mut build = process::cargo(&args);
        build.args(Manifest::read()?.build_arguments(targets)?);
        // With an explicit target, the flags reach neither build scripts nor procedural macros.
        build
            .args(["--target", &host, "--target-dir"])
            .arg(&directory);
        build.env("CARGO_ENCODED_RUSTFLAGS", COVERAGE_FLAGS.join("\u{1f}"));
        process::run(&mut build)?;
        Ok(Self {
            targets: targets.to_vec(),
            programs: directory.join(host).join("release"),
        })
    }

    /// The built targets.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// Fuzzes one target for some seconds and returns libFuzzer's last line.
    ///
    /// # Errors
    /// A crash, with the way to reproduce it.
    pub fn run(&self, target: &str, seconds: u64) -> Result<String> {
        let (finds, seeds) = (finds_directory(target), seeds_directory(target));
        ensure!(
            seeds.is_dir(),
            "fuzz target '{target}' has no seeds in {}",
            seeds.display()
        );
        fs::create_dir_all(&finds)?;
        fs::create_dir_all(fuzz_directory().join("artifacts").join(target))?;
        let log = finds.with_extension("log");
        let mut command = self.program(target);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        // Relative to the root, where the program runs: what it prints can be pasted.
        command.arg(format!("-artifact_prefix=fuzz/artifacts/{target}/"));
        // New finds go to the first directory.
        command.args([&finds, &seeds]).stderr(File::create(&log)?);
        let status = command
            .status()
            .with_context(|| format!("cannot start '{target}'"))?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if !status.success() {
            bail!("{}", crash_report(target, &said));
        }
        finished(&said).with_context(|| format!("'{target}' ended early, see {}", log.display()))
    }

    /// Runs one target on one input only.
    ///
    /// # Errors
    /// The input makes the target fail.
    pub fn reproduce(&self, target: &str, input: &Path) -> Result<()> {
        let input = std::path::absolute(input)?;
        ensure!(input.is_file(), "no file {}", input.display());
        process::run(self.program(target).arg(input))
    }

    /// Adds the found inputs that reach code which the committed seeds don't reach to the seeds.
    pub fn keep_new_finds(&self, target: &str) -> Result<()> {
        let mut command = self.program(target);
        command
            .arg("-merge=1")
            .arg(seeds_directory(target))
            .arg(finds_directory(target));
        process::run(&mut command)
    }

    fn program(&self, target: &str) -> Command {
        let mut command = Command::new(self.programs.join(target));
        command.current_dir(process::root()).stdin(Stdio::null());
        command.arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"));
        command.arg(format!("-rss_limit_mb={RSS_LIMIT_MIB}"));
        command
    }
}

fn fuzz_directory() -> PathBuf {
    process::root().join("fuzz")
}

fn seeds_directory(target: &str) -> PathBuf {
    fuzz_directory().join("corpus").join(target)
}

fn finds_directory(target: &str) -> PathBuf {
    process::target_directory().join("fuzz/finds").join(target)
}

/// The last line of statistics of a run that reached its end and saw coverage.
fn finished(said: &str) -> Result<String> {
    let done = said
        .lines()
        .rfind(|line| line.contains("DONE "))
        .context("no DONE line")?;
    let edges = done
        .split("cov: ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let edges: u64 = edges
        .and_then(|number| number.parse().ok())
        .context("no coverage counted")?;
    ensure!(
        edges > 0,
        "no code was reached: is the target instrumented?"
    );
    Ok(done.trim().to_owned())
}

fn crash_report(target: &str, said: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = said.lines().collect();
    let tail = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let written = said
        .lines()
        .find_map(|line| line.split("Test unit written to ").nth(1));
    match written {
        None => format!("fuzz target '{target}' failed:\n{tail}"),
        Some(input) => format!(
            "fuzz target '{target}' failed; reproduce: cargo xtask fuzz {target} --input {}\n{tail}",
            input.trim()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let text = "bin = [
            { name = 'a', required-features = ['x'] },
            { name = 'b', required-features = ['y'] },
            { name = 'c', required-features = ['x', 'z'] },
        ]";
        Manifest::parse(text).unwrap()
    }

    fn strings<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    #[test]
    fn targets_are_selected_by_name() {
        assert_eq!(manifest().select(&[]).unwrap(), ["a", "b", "c"]);
        assert_eq!(manifest().select(&strings(["c", "a"])).unwrap(), ["c", "a"]);
        let error = manifest().select(&strings(["a", "d"])).unwrap_err();
        assert_eq!(error.to_string(), "no fuzz target 'd': there are a, b, c");
        assert!(Manifest::parse("bin = [{ name = 'a' }]").is_err());
        assert!(Manifest::parse("[package]\nname = 'x'\n").is_err());
    }

    #[test]
    fn targets_are_selected_by_the_crates_that_they_feed() {
        let of = |crates: &[&str]| {
            manifest().of_crates(&crates.iter().map(|&name| name.to_owned()).collect())
        };
        assert_eq!(of(&["x"]), ["a", "c"]);
        assert_eq!(of(&["y", "z", "unknown"]), ["b", "c"]);
        assert!(of(&["unknown"]).is_empty() && of(&[]).is_empty());
        assert_eq!(of(&["steppe-fuzz-targets"]), ["a", "b", "c"]);
        let of_plane = targets_of_crates(&BTreeSet::from(["steppe-plane".to_owned()])).unwrap();
        assert_eq!(of_plane, ["plane_connection", "plane_frame"]);
    }

    #[test]
    fn only_the_given_targets_and_their_crates_are_built() {
        let arguments = manifest().build_arguments(&strings(["c", "a"])).unwrap();
        let expected = [
            "--no-default-features",
            "--features=x,z",
            "--bin",
            "c",
            "--bin",
            "a",
        ];
        assert_eq!(arguments, expected);
        assert!(Harness::build(&[]).is_err());
    }

    /// Else a build of one crate's targets would miss a module, or link crates in vain.
    #[test]
    fn the_library_has_each_target_under_the_features_that_its_program_requires() {
        let library = fuzz_directory().join("targets/src/lib.rs");
        let library = fs::read_to_string(library).unwrap();
        let manifest = Manifest::read().unwrap();
        for Target { name, crates } in &manifest.targets {
            let [feature] = &crates[..] else {
                panic!("'{name}' requires {crates:?}");
            };
            let module = format!("#[cfg(feature = \"{feature}\")]\npub mod {name};\n");
            assert!(
                library.contains(&module),
                "'{name}' is not under '{feature}'"
            );
        }
        let modules = library.lines().filter(|line| line.starts_with("pub mod "));
        assert_eq!(modules.count(), manifest.targets.len());
    }

    #[test]
    fn a_run_that_saw_no_coverage_is_not_a_run() {
        let end = "#9\tDONE   cov: 120 ft: 300 corp: 40/1Kb lim: 64 exec/s: 9 rss: 40Mb";
        assert_eq!(
            finished(&format!("#1\tINITED\n{end}\nDone 9 runs")).unwrap(),
            end
        );
        assert!(finished("#9\tDONE   cov: 0 ft: 0 corp: 1/1b").is_err());
        assert!(finished("#9\tDONE   ft: 1 corp: 1/1b").is_err());
        assert!(finished("#1\tINITED cov: 12").is_err());
    }

    #[test]
    fn a_crash_says_how_to_reproduce_it() {
        let said = "thread panicked\nartifact_prefix='a/'; Test unit written to a/crash-1\nBase64:";
        let report = crash_report("path", said);
        assert!(report.starts_with(
            "fuzz target 'path' failed; reproduce: cargo xtask fuzz path --input a/crash-1\n"
        ));
    }
}
