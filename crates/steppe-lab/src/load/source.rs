//! One load of a run, however it is generated.

use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::command::CommandSource;
use super::error::{LoadError, LoadFailure};
use super::generated::GeneratedSource;
use super::plan::Plan;
use super::{Burst, Interval};
use crate::scenario::{Load, LoadKind};

/// A load that was started.
pub(super) enum Source {
    Generated(GeneratedSource),
    Command(Box<CommandSource>),
}

impl Source {
    /// Starts a load that was checked.
    ///
    /// # Errors
    /// When it leads nowhere, or the system has no room for it.
    pub(super) fn start(
        load: &Load,
        (seed, clock): (u64, Instant),
        log_path: impl Fn(&str) -> PathBuf,
    ) -> Result<Self, LoadError> {
        // Both may be small: neither is lost in the other.
        let seed = load.seed ^ seed.rotate_left(17);
        if let LoadKind::Command(command) = &load.kind {
            let log = log_path(&load.name);
            return CommandSource::start(load, command, (seed, clock), log)
                .map(|command| Self::Command(Box::new(command)));
        }
        let plan = Plan::new(load)?;
        GeneratedSource::start(load, &plan, seed).map(Self::Generated)
    }

    /// How many answers a pause has.
    pub(super) fn threads(&self) -> usize {
        match self {
            Self::Generated(generated) => generated.threads(),
            Self::Command(_) => 1,
        }
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn resume(&self, start: Instant, ramp_is_on: bool, burst: Burst) {
        match self {
            Self::Generated(generated) => generated.resume(start, ramp_is_on),
            Self::Command(command) => command.resume(burst),
        }
    }

    pub(super) fn pause(&self, now: Instant, quiet: &SyncSender<()>) {
        match self {
            Self::Generated(generated) => generated.pause(now, quiet),
            Self::Command(command) => command.pause(quiet.clone()),
        }
    }

    /// Whether a burst need not wait for it.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Generated(_) => true,
            Self::Command(command) => command.is_over(),
        }
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn take(
        &mut self,
        now: Instant,
        elapsed: Option<Duration>,
        ramp_is_on: bool,
    ) -> Interval {
        match self {
            Self::Generated(generated) => generated.take(now, elapsed, ramp_is_on),
            Self::Command(command) => command.take(),
        }
    }

    pub(super) fn failure(&self, clock: Instant) -> Option<LoadFailure> {
        match self {
            Self::Generated(generated) => generated.failure(clock),
            Self::Command(command) => command.failure(clock),
        }
    }
}
