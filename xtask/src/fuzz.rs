//! Fuzzing with libFuzzer on the stable toolchain.
//!
//! cargo-fuzz asks for a nightly compiler, for the address sanitizer. The parsers that are fuzzed
//! here forbid `unsafe`, so a panic, a failed property, a time limit and a memory limit say all
//! there is to say, and LLVM's coverage pass is reachable from a stable compiler by its own name.
//! The allocator is no parser; its target writes and reads whatever it is handed, and compares.
//! What is left out: sanitizers.
//!
//! Seeds are committed in `fuzz/corpus/<target>/`. What a run finds goes to the target directory,
//! where the next run starts from it, and crashes to `fuzz/artifacts/<target>/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

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
/// A target may hold this much, in MiB: more is a finding.
const RSS_LIMIT_MIB: u32 = 512;
/// Inputs grow up to this many bytes: past it, they only repeat themselves.
const INPUT_BYTES_MAX: u32 = 8192;

/// The fuzz targets, built.
pub struct Harness {
    targets: Vec<String>,
    programs: PathBuf,
}

impl Harness {
    /// Builds every target that `fuzz/Cargo.toml` names.
    pub fn build() -> Result<Self> {
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
        // With an explicit target, the flags reach neither build scripts nor procedural macros.
        build
            .args(["--target", &host, "--target-dir"])
            .arg(&directory);
        build.env("CARGO_ENCODED_RUSTFLAGS", COVERAGE_FLAGS.join("\u{1f}"));
        process::run(&mut build)?;
        let manifest = fs::read_to_string(fuzz_directory().join("Cargo.toml"))?;
        let programs = directory.join(host).join("release");
        Ok(Self {
            targets: targets_of(&manifest)?,
            programs,
        })
    }

    /// Every target, in the order of the manifest.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// The targets of these names; all of them when no name is given.
    pub fn select(&self, names: &[String]) -> Result<Vec<String>> {
        for name in names {
            let known = self.targets.contains(name);
            ensure!(
                known,
                "no fuzz target '{name}': there are {}",
                self.targets.join(", ")
            );
        }
        Ok(if names.is_empty() {
            self.targets.clone()
        } else {
            names.to_vec()
        })
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

fn targets_of(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse()?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array);
    let names = bins
        .into_iter()
        .flatten()
        .filter_map(|bin| bin.get("name")?.as_str());
    let names: Vec<String> = names.map(str::to_owned).collect();
    ensure!(!names.is_empty(), "fuzz/Cargo.toml names no [[bin]]");
    Ok(names)
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

    #[test]
    fn targets_are_the_bins_of_the_manifest() {
        let manifest = "[package]\nname = 'x'\n[[bin]]\nname = 'a'\n[[bin]]\nname = 'b'\n";
        assert_eq!(targets_of(manifest).unwrap(), ["a", "b"]);
        assert!(targets_of("[package]\nname = 'x'\n").is_err());
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
