//! Child processes: visible, counted, and named when they fail.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

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
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = self::command(Path::new(&program));
    command.args(args);
    command
}

/// A command in the root of the workspace that reads nothing.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The target triple that this machine's compiler builds for.
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

/// Runs a command whose errors go where ours go, and returns what it wrote to its standard output.
pub fn output_of(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {shown}"))?;
    ensure!(output.status.success(), "{shown}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Processor seconds of all commands that ended so far, and of what they waited for. `None` without Linux's `/proc`.
pub fn cpu_seconds_of_children() -> Option<f64> {
    // cutime and cstime, fields 16 and 17 of proc_pid_stat(5).
    cpu_seconds(&fs::read_to_string("/proc/self/stat").ok()?, 16..=17)
}

/// Processor seconds of the process that `/proc/PID/stat` tells of, and of all that it waited for.
pub fn cpu_seconds_of(stat: &str) -> Option<f64> {
    // utime and stime stand before them.
    cpu_seconds(stat, 14..=17)
}

fn cpu_seconds(stat: &str, fields: RangeInclusive<usize>) -> Option<f64> {
    // The program's name, the second field, may have spaces; what follows it has none.
    let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.map(|field| rest.get(field - 3)?.parse::<f64>().ok());
    Some(ticks.sum::<Option<f64>>()? / TICKS_A_SECOND)
}

/// Linux's USER_HZ.
const TICKS_A_SECOND: f64 = 100.0;

/// Runs a command, and hands what it prints to `seen` line by line. True: it succeeded.
///
/// Both of its streams are one, so that lines come in the order in which they were written.
pub fn run_and_watch(command: &mut Command, mut seen: impl FnMut(&str)) -> Result<bool> {
    let shown = show(command);
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn();
    // The command's own ends: the pipe's end is that of the last.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut child = child.with_context(|| format!("cannot start {shown}"))?;
    let lines = lines_of(reader);
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => seen(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            // What it started and left behind would keep the pipe open.
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(child.wait()?.success())
}

/// After so long without a line, whether the command still runs is looked at.
const SILENCE: Duration = Duration::from_secs(1);
/// Lines that may wait to be shown.
const LINES_MAX: usize = 1_024;

fn lines_of(reader: io::PipeReader) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_what_ended_is_counted() {
        let stat = "7 (a) (b) R 1 7 7 0 -1 4194304 5 6 0 0 11 12 130 25 20 0 1 0 99";
        assert_eq!(cpu_seconds_of(stat), Some(1.78));
        assert_eq!(cpu_seconds(stat, 16..=17), Some(1.55));
        assert_eq!(cpu_seconds_of("7 (a) R 1"), None);
        assert!(cpu_seconds_of_children().is_some());
    }
}
