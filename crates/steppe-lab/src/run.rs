//! Runs a scenario: starts what it names, drives it, looks at it, judges it, and leaves a folder.
//!
//! Invariant: whatever goes wrong once the folder is there ends in a verdict in it, and in its exit
//! code. Every run is a fresh process; the order of runs is drawn from the scenario's seed.

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

/// What to run, and where to.
#[derive(Clone, Copy)]
pub struct RunRequest<'a> {
    /// What it says.
    pub scenario: &'a Scenario,
    /// Its file, and the text of it, for the manifest.
    pub path: &'a Path,
    /// See `path`.
    pub text: &'a str,
    /// Which of its plans.
    pub kind: RunKind,
    /// Where everything is written.
    pub folder: &'a Path,
    /// As the lab was called.
    pub command: &'a [String],
    /// Who is told how far it is.
    pub progress: &'a dyn Progress,
    /// Set when it has to end now (Ctrl-C): what was seen until then is reported.
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
        /// What it lacks.
        section: &'static str,
        /// What was asked for.
        command: &'static str,
    },
    /// The target runs already, and this needs fresh processes of it.
    #[error(
        "{path} names a target that runs already, and `steppe-lab {command}` starts its own: give \
         `target.cmd`, or use `steppe-lab soak`"
    )]
    Started {
        /// The scenario.
        path: PathBuf,
        /// What was asked for.
        command: &'static str,
    },
    /// The folder can't be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What was seen can't be written any more; what was written before is there.
    #[error("the run was ended: {0}")]
    Lost(#[source] FolderError),
    /// The lab itself lacks something.
    #[error("the lab can't run: {0}")]
    Lab(#[from] std::io::Error),
}

/// Runs it to its end, or until it is over, and judges what was seen.
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
