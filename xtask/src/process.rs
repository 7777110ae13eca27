//! Child processes: visible, counted, and named when they fail.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The root of the checkout that this xtask was built from.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// Where builds and caches go: `CARGO_TARGET_DIR`, else `target`.
pub fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        // Relative to the caller's directory, as cargo itself has it.
        Some(directory) => std::path::absolute(&directory).unwrap_or_else(|_| directory.into()),
        None => root().join("target"),
    }
}

/// A cargo command in the root of the workspace, by the toolchain that runs this xtask.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// What this machine's compiler builds for.
pub fn host_triple() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Runs a command whose output goes where ours goes.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// Runs a command and returns what it wrote to its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{shown}: {}\n{}",
        output.status,
        complaint.trim_end()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, passing its standard output on line by line, to `seen` too. True: it succeeded.
pub fn run_and_watch(command: &mut Command, mut seen: impl FnMut(&str)) -> Result<bool> {
    let shown = show(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let stdout = child.stdout.take().expect("standard output was piped");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("cannot read from {shown}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        seen(&line);
    }
    Ok(child.wait()?.success())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
