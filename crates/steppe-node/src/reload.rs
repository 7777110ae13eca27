//! A new configuration while the node runs: read whole, swapped whole, or refused whole.
//!
//! Invariant: every step that can fail does so before the first worker is told, so a file with a mistake, or a port
//! that is taken, changes nothing.
//!
//! Non-goals: settings that a running process can't change (threads, budget, admin's own sockets, format of the log). A
//! file that changes those is refused by the key's name.

mod collector;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use steppe_net::{PreparedServices, ServiceSet};
use tokio::sync::oneshot;

use crate::config::{self, Config, Origin};
use crate::observation::{Observation, Observed};
use crate::services;

pub use collector::ReloadCollector;

/// The state of a node's configuration, for `/config` and `/reload`. Clones share it.
#[derive(Debug, Clone)]
pub struct Status(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    file: Option<PathBuf>,
    /// Number of configurations in force so far, that of the start included.
    generation: u64,
    loaded_at: SystemTime,
    failed: u64,
    /// The reason why the last file was refused; `None` once one is accepted.
    last_error: Option<String>,
    effective: Value,
}

/// A request for a reload, with the channel for its result.
#[derive(Debug)]
pub struct Ask(pub oneshot::Sender<Result<u64, String>>);

/// Changes the configuration of a running node.
pub struct Reloader {
    /// The configuration in force.
    pub(crate) config: Config,
    /// All files that it was read from, or that were read since and refused.
    pub(crate) origin: Origin,
    /// The services that run with it.
    pub(crate) services: ServiceSet<Config>,
    pub(crate) observation: Observation,
    pub(crate) status: Status,
}

impl Status {
    /// The state of a node that starts with `config`, from `file`.
    #[must_use]
    pub fn new(config: &Config, file: Option<PathBuf>) -> Self {
        Self(Arc::new(Mutex::new(Known {
            file,
            generation: 1,
            loaded_at: now(),
            failed: 0,
            last_error: None,
            effective: config.effective(),
        })))
    }

    /// The effective configuration, with secrets masked.
    #[must_use]
    pub fn effective(&self) -> Value {
        self.known().effective.clone()
    }

    /// The state as JSON, for `/reload`.
    #[must_use]
    pub fn report(&self) -> Value {
        let known = self.known();
        let since_epoch = known.loaded_at.duration_since(SystemTime::UNIX_EPOCH);
        json!({
            "file": known.file,
            "generation": known.generation,
            "loaded_at": since_epoch.unwrap_or_default().as_secs(),
            "failed": known.failed,
            "last_error": known.last_error,
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded(&self, effective: Value) -> u64 {
        let mut known = self.known();
        known.generation += 1;
        known.loaded_at = now();
        known.last_error = None;
        known.effective = effective;
        known.generation
    }

    fn refused(&self, why: &str) {
        let mut known = self.known();
        known.failed += 1;
        known.last_error = Some(why.to_owned());
    }
}

impl Reloader {
    /// Waits until the configuration files differ from those last read, refused or not; for ever if they are not
    /// watched.
    ///
    /// # Cancel safety
    /// Safe: the changes seen so far are kept.
    pub async fn changed(&mut self) {
        match self.config.node.watch {
            true => self.origin.changed().await,
            false => std::future::pending().await,
        }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The file of the configuration; `None`: it is the embedded default.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.status.known().file.clone()
    }

    /// Reads the file again. Returns the number of the generation that is in force now.
    ///
    /// # Errors
    /// The reason why everything stays as it was.
    pub async fn reload(&mut self, reason: &'static str) -> Result<u64, String> {
        match self.prepare().await {
            Ok(next) => {
                let generation = self.change(next).await;
                tracing::info!(reason, generation, "configuration reloaded");
                Ok(generation)
            }
            Err(Refusal { line, report }) => {
                self.status.refused(&report);
                tracing::error!(reason, why = %line, "configuration refused, nothing changed");
                Err(report)
            }
        }
    }

    /// Every step that can fail.
    async fn prepare(&mut self) -> Result<Next, Refusal> {
        let Some(path) = self.file() else {
            return Err("the node runs its embedded default, which has no file to reload".into());
        };
        // A file that can't be read counts as changed once it can.
        let watched = Origin::of(&path);
        let outcome = config::load_again(&path).map_err(|error| {
            self.origin = watched;
            Refusal::from(format!("cannot read {}: {error}", path.display()))
        })?;
        self.origin = outcome.origin;
        let placed = outcome.files.placed;
        let Some(mut config) = outcome.config else {
            return Err(Refusal {
                line: outcome.report.in_one_line(),
                report: outcome.report.to_string(),
            });
        };
        let fixed = fixed_keys(&self.config, &config);
        if !fixed.is_empty() {
            let keys = fixed.join(", ");
            let why = format!("{keys}: cannot change while the node runs; restart it");
            return Err(why.into());
        }
        services::fit(&mut config);
        let prepared = self.services.prepare_beside(&config).await;
        // The name of a file or an address may contain the value of a file.
        let refusal = |why: &str| Refusal::from(placed.redactor_of_files().redacted(why));
        let services = prepared.map_err(|error| refusal(&error.to_string()))?;
        // Last: this creates a log file if there is none.
        let observed = self.observation.prepare(&config);
        let observed = observed.map_err(|error| refusal(&format!("{error:#}")))?;
        Ok(Next {
            config,
            services,
            observed,
        })
    }

    async fn change(&mut self, next: Next) -> u64 {
        let Next {
            config,
            services,
            observed,
        } = next;
        self.observation.change(observed);
        self.services.change(services).await;
        let generation = self.status.loaded(config.effective());
        self.config = config;
        generation
    }
}

/// A configuration, and everything that it needs.
struct Next {
    config: Config,
    services: PreparedServices,
    observed: Observed,
}

/// The reason why a configuration is refused.
struct Refusal {
    /// The reason in one line, for the log.
    line: String,
    /// The full report of mistakes, for the requester.
    report: String,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(why: T) -> Self {
        let line = why.into();
        let report = line.clone();
        Self { line, report }
    }
}

#[expect(clippy::disallowed_methods, reason = "told to people, decides nothing")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Keys that differ and need a restart.
fn fixed_keys(now: &Config, next: &Config) -> Vec<&'static str> {
    let differs = [
        ("node.workers", now.node.workers != next.node.workers),
        (
            "node.memory_budget",
            now.node.memory_budget != next.node.memory_budget,
        ),
        ("admin", now.admin != next.admin),
        ("log.format", now.log.format != next.log.format),
    ];
    let keys = differs.into_iter().filter(|&(_, differs)| differs);
    keys.map(|(key, _)| key).collect()
}
