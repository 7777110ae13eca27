//! What a change must pass besides its tests, and what takes long to build: done while they run, which
//! wait more than they compute.
//!
//! It is a process of its own, since what it prints is shown at its end, and it takes a processor only
//! while nobody else wants it (`SCHED_IDLE`): tests that measure don't see it. Each of its builds has a
//! directory of its own. What is left out: whatever has a time limit, as fuzzing has.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::report::{Outcome, Report};
use crate::{audio, deny, fuzz, process, proofs};

/// The process: does the steps and writes their report.
pub fn command(file: &Path) -> Result<bool> {
    let mut report = Report::default();
    deny::first_steps(&mut report);
    proofs::first_steps(&mut report);
    audio::check_other_systems(&mut report);
    report.step("fuzz: build", || {
        fuzz::Harness::build(&fuzz::select(&[])?)?;
        Ok(Outcome::Passed)
    });
    report.write(file)?;
    // Steps that failed are told in the report.
    Ok(true)
}

/// The process, while it runs.
pub struct Beside {
    child: Child,
    said: PathBuf,
    report: PathBuf,
}

impl Beside {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let folder = process::target_directory();
        let (said, report) = (folder.join("beside.log"), folder.join("beside.json"));
        let program = std::env::current_exe().context("this program has no path")?;
        let mut idle = Command::new("chrt");
        idle.args(["--idle", "0"]).arg(&program);
        let child = match spawn(&mut idle, &said, &report) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                spawn(&mut Command::new(&program), &said, &report)
            }
            started => started,
        };
        let child = child.context("what runs beside the tests could not be started")?;
        Ok(Self {
            child,
            said,
            report,
        })
    }

    /// Waits for its end, shows what it said, and returns its steps.
    pub fn finish(mut self) -> Result<Report> {
        let status = self.child.wait()?;
        print!("{}", String::from_utf8_lossy(&fs::read(&self.said)?));
        ensure!(status.success(), "what ran beside the tests: {status}");
        Report::read(&self.report)
    }
}

fn spawn(command: &mut Command, said: &Path, report: &Path) -> io::Result<Child> {
    // Of an earlier run.
    let _ = fs::remove_file(report);
    let log = File::create(said)?;
    command.arg("beside").arg(report).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log).spawn()
}
