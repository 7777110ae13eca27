//! The running node: start, reloads until a stop signal, and shutdown.
//!
//! Invariant: everything that can fail for want of a port, a file or memory fails in `prepare`, before the first worker
//! starts, so that no node serves only in part.
//!
//! Non-goals: the list of services, which is in `services.rs`.

mod banner;
mod help;
mod prepare;
mod sample;
mod signals;
mod workers;

use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use steppe_mem::Budget;
use steppe_net::{Drained, Inherited};
use steppe_telemetry::Registry;
use steppe_telemetry::log::{self, LevelHandle};
use steppe_telemetry::recent::Recent;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};

use crate::admin::{self, Readiness, State};
use crate::allocator;
use crate::cli::{Code, RunOptions, announce};
use crate::config::{self, Config};
use crate::demo::{Certificate, Demo};
use crate::memory::{self, MemoryCollector, StackMark, Uncharged};
use crate::notify::ServiceManager;
use crate::reload::{Ask, ReloadCollector, Reloader, Status};
use crate::services::Services;

use prepare::{Prepared, prepare};
use signals::{Asked, Signals};
use workers::WorkerSet;

/// Runs the node until a stop signal.
///
/// # Errors
/// The error that keeps it from starting.
pub fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    let _stack = StackMark::here();
    // Before any thread starts: it changes the environment.
    let inherited = Inherited::take();
    let log = start_log(&options.config)?;
    // A local runtime like those of workers: services may spawn tasks that stay on this thread.
    let runtime = Builder::new_current_thread()
        .enable_all()
        // The name of the threads that wait for files.
        .thread_name("control-disk")
        .build_local(LocalOptions::default())
        .context("cannot start the runtime of the control thread")?;
    runtime.block_on(serve(options, inherited, log))
}

async fn serve(
    options: RunOptions,
    inherited: Inherited,
    log: (Recent, LevelHandle),
) -> anyhow::Result<ExitCode> {
    // Before anything else: a signal during the start must not kill a half-started node.
    let mut signals = Signals::install()?;
    let prepared = prepare(options, inherited).await?;
    let mut node = Node::start(prepared, log).await?;
    node.reload_until(&mut signals, pending()).await;
    node.delay_drain(&mut signals).await;
    let drained = node.shut_down(&mut signals).await;
    let is_clean = drained.dropped == 0;
    let code = if is_clean { Code::Ok } else { Code::Dropped };
    Ok(code.into())
}

fn start_log(config: &Config) -> anyhow::Result<(Recent, LevelHandle)> {
    let started = log::init(config.log.level, config.log.format);
    started.context("cannot start the log")
}

/// A node that serves.
struct Node {
    workers: WorkerSet,
    budget: Budget,
    uncharged: Uncharged,
    services: Services,
    reloader: Reloader,
    level: LevelHandle,
    /// Requests of admin for reloads.
    asked: mpsc::Receiver<Ask>,
    readiness: Readiness,
    manager: ServiceManager,
    /// Further tasks, until the node has shut down.
    _background: Vec<AbortOnDrop>,
    _demo: Option<Demo>,
    _certificate: Option<Certificate>,
}

impl Node {
    /// Starts the prepared services; returns when every worker serves.
    async fn start(
        prepared: Prepared,
        (recent, level): (Recent, LevelHandle),
    ) -> anyhow::Result<Self> {
        let banner = banner::banner(&prepared);
        let Prepared {
            config,
            file,
            origin,
            budget,
            workers: count,
            services,
            mut set,
            first,
            admin,
            demo,
            certificate,
        } = prepared;
        set_shares(&budget, &config.node);
        let manager = ServiceManager::from_environment();
        let readiness = Readiness::default();
        let status = Status::new(&config, file);
        let (reload, asked) = mpsc::channel(admin::limits::RELOADS_QUEUED_MAX);
        let mut background = Vec::new();
        let figures = Arc::new(memory::UnchargedFigures::default());
        if let Some(admin) = admin {
            if let Some(tls) = admin.tls() {
                services.certificates().add(Arc::clone(tls));
            }
            let content = admin::Content {
                metrics: metrics(&services, &status, (&budget, &figures)),
                memory: services.memory_sources(&budget, &figures),
                upstreams: services.upstreams(),
                caches: services.caches(),
                dns: services.dns(),
                plane: services.plane(),
                certificates: services.certificates(),
                config: status.clone(),
                reload,
                readiness: readiness.clone(),
                recent,
            };
            background.push(AbortOnDrop(spawn_local(admin.serve(content)?)));
        }
        background.push(AbortOnDrop(spawn_local(allocator::keep_resting())));
        let workers = WorkerSet::start(count, &budget, &set.on_worker())?;
        set.change(first).await;
        let uncharged = Uncharged::start(&budget, figures);
        let uncharged = uncharged.context("cannot measure resident memory")?;
        readiness.set(State::Ready);
        let watchdog = manager.clone().keep_watchdog(workers.heartbeats());
        background.push(AbortOnDrop(spawn_local(watchdog)));
        manager.ready(format_args!("serving with {count} workers"));
        announce(&banner);
        Ok(Self {
            workers,
            budget,
            uncharged,
            reloader: Reloader {
                config,
                origin,
                services: set,
                observation: services.observation(),
                status,
            },
            services,
            level,
            asked,
            readiness,
            manager,
            _background: background,
            _demo: demo,
            _certificate: certificate,
        })
    }

    /// Reloads on a signal, on a request of admin or when the file changes, until a stop signal or the end of `until`.
    async fn reload_until(&mut self, signals: &mut Signals, until: impl Future<Output = ()>) {
        let mut until = std::pin::pin!(until);
        loop {
            let (reason, ask) = tokio::select! {
                () = &mut until => return,
                asked = signals.next() => match asked {
                    Asked::Stop => return,
                    Asked::ReopenLogs => {
                        self.services.reopen_logs();
                        tracing::info!("logs reopened");
                        continue;
                    }
                    Asked::Reload => {
                        // The program that rotated the log sends the same signal.
                        self.services.reopen_logs();
                        ("SIGHUP", None)
                    }
                },
                Some(ask) = self.asked.recv() => ("admin", Some(ask)),
                () = self.reloader.changed() => ("file changed", None),
            };
            let reloaded = self.reload(reason).await;
            if let Some(Ask(answer)) = ask {
                // The requester may have gone.
                let _ = answer.send(reloaded);
            }
        }
    }

    async fn reload(&mut self, reason: &'static str) -> Result<u64, String> {
        if self.readiness.state() != State::Terminating {
            self.manager.reloading();
        }
        let reloaded = self.reloader.reload(reason).await;
        let config = self.reloader.config();
        if reloaded.is_ok() {
            set_shares(&self.budget, &config.node);
            self.level.set(config.log.level);
            self.uncharged.take_baseline();
        }
        if self.readiness.state() == State::Terminating {
            return reloaded;
        }
        self.manager.ready(match &reloaded {
            Ok(generation) => format!("serving configuration {generation}"),
            Err(_) => "serving; the last configuration was refused".to_owned(),
        });
        reloaded
    }

    /// Serves on, not ready, for `drain_delay`; a further stop signal ends that.
    async fn delay_drain(&mut self, signals: &mut Signals) {
        let node = &self.reloader.config().node;
        let (delay, timeout) = (node.drain_delay, node.drain_timeout);
        if delay.is_zero() {
            return;
        }
        self.readiness.set(State::Terminating);
        self.manager.stopping(delay + timeout);
        tracing::info!(
            delay_s = delay.as_secs_f64(),
            "not ready: the drain is delayed"
        );
        self.reload_until(signals, tokio::time::sleep(delay)).await;
    }

    /// Drains, and closes logs and files; a further stop signal ends the drain.
    async fn shut_down(self, signals: &mut Signals) -> Drained {
        self.readiness.set(State::Draining);
        let timeout = self.reloader.config().node.drain_timeout;
        self.manager.stopping(timeout);
        // Nothing is reloaded any more: requests for that get an answer.
        drop(self.asked);
        let stop = async {
            loop {
                match signals.next().await {
                    Asked::Stop => return,
                    // Logs are rotated, however long a drain takes.
                    Asked::ReopenLogs | Asked::Reload => self.services.reopen_logs(),
                }
            }
        };
        let drained = self.workers.shut_down(timeout, stop).await;
        self.services.close_files();
        drained
    }
}

/// Gives each client the share of the budget that `node` sets.
fn set_shares(budget: &Budget, node: &config::Node) {
    let bytes_of = |share| config::share_of(budget.root().limit_bytes(), share);
    let clients = budget.clients();
    clients.set_share(node.client_share.map(bytes_of));
    let exempt = node.share_exempt.clone();
    clients.set_exempt(move |address| exempt.iter().any(|network| network.contains(&address)));
}

/// The registry of `/metrics`.
fn metrics(
    services: &Services,
    status: &Status,
    (budget, figures): (&Budget, &Arc<memory::UnchargedFigures>),
) -> Registry {
    let mut registry = Registry::default();
    services.register(&mut registry);
    registry.register_collector(ReloadCollector::new(status.clone()));
    registry.register_collector(MemoryCollector::new(budget.clone(), Arc::clone(figures)));
    registry
}

/// A task that ends when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
