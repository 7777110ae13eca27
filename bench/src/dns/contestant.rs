//! A forwarder of the bench, with the figures of its runs.

use std::path::Path;

use anyhow::Result;

use super::load::{self, Pace, Summary};
use super::peer::Peer;
use crate::server::{Launch, Server};
use crate::{process, stats};

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Names that the cache has, as fast as answers come.
    Cached,
    /// Names that no query had before, as fast as answers come.
    Miss,
    /// Names that the cache has, at a rate well below saturation of every forwarder.
    Latency,
}

/// The figures of one forwarder in one round.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Microseconds of CPU a query.
    pub cpu_us: f64,
    pub queries_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub rss_bytes: u64,
}

/// A forwarder that runs.
pub struct Contestant {
    pub peer: Peer,
    pub launch: Launch,
    pub server: Server,
    /// By phase, one for each round.
    pub runs: [Vec<Run>; PHASES.len()],
    pub lost: u64,
    pub errors: u64,
}

/// All of them, in the order of a round.
pub const PHASES: [Phase; 3] = [Phase::Cached, Phase::Miss, Phase::Latency];

impl Contestant {
    pub async fn start(peer: Peer, launch: Launch, folder: &Path) -> Result<Self> {
        Ok(Self {
            peer,
            server: Server::start(&launch, folder).await?,
            launch,
            runs: [const { Vec::new() }; PHASES.len()],
            lost: 0,
            errors: 0,
        })
    }

    pub async fn take(&mut self, phase: Phase, names: &Path, pace: Pace) -> Result<()> {
        if phase != Phase::Miss {
            // So that the cache has them, and after misses the memory of the process is warm again.
            load::run(self.peer.address(), names, Pace::Once).await?;
        }
        let before = process::cpu(self.server.process())?;
        let summary = load::run(self.peer.address(), names, pace).await?;
        let used = process::cpu(self.server.process())?.since(&before);
        self.server.ensure_alive()?;
        let (cpu_us, _, _) = used.microseconds_per(summary.completed.max(1));
        eprintln!(
            "{:>8.0} a second, {cpu_us:>6.2} µs CPU a query{}",
            summary.queries_per_second(),
            faults(&summary)
        );
        self.lost += summary.lost();
        self.errors += summary.errors;
        self.runs[phase as usize].push(Run {
            cpu_us,
            queries_per_s: summary.queries_per_second(),
            p50_us: summary.quantile_us(0.5),
            p99_us: summary.quantile_us(0.99),
            rss_bytes: process::memory(self.server.process())?.rss_bytes,
        });
        Ok(())
    }

    pub fn all(&self, phase: Phase, read: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs[phase as usize].iter().map(read).collect()
    }

    pub fn median(&self, phase: Phase, read: impl Fn(&Run) -> f64) -> f64 {
        stats::median(&self.all(phase, read))
    }
}

fn faults(summary: &Summary) -> String {
    match (summary.lost(), summary.errors) {
        (0, 0) => String::new(),
        (lost, errors) => format!(", {lost} LOST, {errors} ERRORS"),
    }
}
