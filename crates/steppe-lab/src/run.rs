//! Runs a scenario: starts its processes, drives the load, observes, judges, and leaves a folder.
//!
//! Invariant: any failure once the folder exists ends in a verdict in it, and in its exit code.
//! Every run is a fresh process; the order of runs is drawn from the scenario's seed.

mod collect;
mod control;
mod dashboard;
mod data_quality;
mod environment;
mod growth_places;
mod growth_profiles;
mod leaks;
mod looking;
mod manifest;
mod mask;
mod metrics;
mod missing;
mod plan;
mod point;
mod profiler;
mod progress;
mod sampler;
mod session;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::record::{FolderError, RunKind, Verdict};
use crate::scenario::Scenario;

pub use dashboard::Dashboard;
pub use missing::{Missing, missing};
pub use progress::{Lines, Progress, Silent, SoFar};

/// A run that is to be made.
#[derive(Clone, Copy)]
pub struct RunRequest<'a> {
    /// The parsed scenario.
    pub scenario: &'a Scenario,
    /// The scenario's file, for the manifest.
    pub path: &'a Path,
    /// The text of the file, for the manifest.
    pub text: &'a str,
    /// The plan of the scenario to run.
    pub kind: RunKind,
    /// The folder for all files of the run.
    pub folder: &'a Path,
    /// The command line of the lab.
    pub command: &'a [String],
    /// The receiver of progress.
    pub progress: &'a dyn Progress,
    /// Set when the run has to end now (Ctrl-C): the epochs so far are reported.
    pub is_over: &'a AtomicBool,
}

/// Why there is no run and no verdict.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file has no such plan.
    #[error("{path} has no [{section}]: `steppe-lab {command}` needs it")]
    NoPlan {
        /// The scenario.
        path: PathBuf,
        /// The section that the scenario lacks.
        section: &'static str,
        /// The command that needs it.
        command: &'static str,
    },
    /// The target runs already, and the command needs fresh processes of it.
    #[error(
        "{path} names a target that runs already, and `steppe-lab {command}` starts its own: give \
         `target.cmd`, or use `steppe-lab soak`"
    )]
    Started {
        /// The scenario.
        path: PathBuf,
        /// The command that needs fresh processes.
        command: &'static str,
    },
    /// The folder can't be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Results can't be written any more; those that were written before are in the folder.
    #[error("the run was ended: {0}")]
    Lost(#[source] FolderError),
    /// The lab itself lacks something.
    #[error("the lab can't run: {0}")]
    Lab(#[from] std::io::Error),
}

/// Runs the scenario to its end, or until `is_over` is set, and judges what was seen.
///
/// # Errors
/// When nothing could be run or written; a target that fails is a verdict.
pub fn run(request: RunRequest<'_>) -> Result<Verdict, RunError> {
    let started = |command| {
        let path = request.path.to_owned();
        let program = request.scenario.target.command();
        program.ok_or(RunError::Started { path, command })
    };
    match request.kind {
        RunKind::Soak => session::run(request),
        RunKind::Cycle => started("cycle").and_then(|_| session::run(request)),
        RunKind::Ab => started("ab").and_then(|_| session::run(request)),
        RunKind::Calibrate => started("calibrate").and_then(|_| session::run(request)),
        RunKind::Leaks => started("leaks").and_then(|program| leaks::run(request, program)),
    }
}
