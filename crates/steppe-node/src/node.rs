//! The running node: budget, workers and admin put together, and taken down again.
//!
//! Everything that can fail for want of a port, a file or memory fails before
//! the first worker starts, so that a node that serves is whole.

mod banner;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use steppe_http::Gateway;
use steppe_http::access::AccessLog;
use steppe_http::gateway::{Change, Drained};
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_http::upstream::Upstreams;
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    BoundListener, Drain, Inherited, ListenAddress, Names, Phase, ServerAddress, SystemResolver,
    WorkerPlan, WorkerThread, spawn_worker,
};
use steppe_telemetry::recent::Recent;
use steppe_telemetry::{Destination, LineLog, Registry, log};
use tokio::signal::unix::{SignalKind, signal};

use crate::admin::{self, Admin, Readiness, State};
use crate::allocator;
use crate::cli::{Code, RunOptions};
use crate::config::{self, Config, LogFormat, LogLevel, Workers};
use crate::container::memory_limit;
use crate::demo::{self, Demo};
use crate::memory::{self, MemoryCollector, Overhead, StackMark};
use crate::notify::ServiceManager;
use crate::reload::{Ask, ReloadCollector, Reloader, Status, Watch};
use crate::rlimits;

/// Idle buffers that all workers together may keep, as a share of the budget.
const IDLE_SHARE: u64 = 16;

/// A reload waits for the one before: more than this queues only for a stuck worker.
const CHANGES_MAX: usize = 4;

/// Reloads that may wait to be asked for; admin has fewer connections.
const ASKS_MAX: usize = 64;

/// Runs the node until it is told to stop.
///
/// # Errors
/// What keeps it from starting.
pub fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    let _stack = StackMark::here();
    // Before any thread starts: it changes the environment.
    let inherited = Inherited::take();
    let recent = start_log(&options.config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime for the control thread")?;
    runtime.block_on(serve(options, inherited, recent))
}

/// A node that has everything it needs, and serves nothing yet.
struct Prepared {
    config: Config,
    budget: Budget,
    workers: usize,
    /// By worker, then by listener.
    listeners: Vec<Vec<BoundListener>>,
    admin: Option<Admin>,
    demo: Option<Demo>,
    /// The access log, and the lines below it.
    access: Option<(Arc<AccessLog>, LineLog)>,
}

async fn serve(
    options: RunOptions,
    inherited: Inherited,
    recent: Recent,
) -> anyhow::Result<ExitCode> {
    // Before anything else: a signal during the start must not kill what is half up.
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let mut hangup = signal(SignalKind::hangup())?;
    let is_default = options.is_default();
    let file = options.file.clone();
    let manager = ServiceManager::from_environment();
    let mut node = prepare(options, &inherited)?;
    for socket in inherited.unwanted() {
        tracing::warn!(socket, "no listener wants this inherited socket");
    }
    let metrics = HttpMetrics::new(Labels::of(&node.config.http), node.workers);
    let readiness = Readiness::default();
    let drain = Drain::default();
    let resolver = SystemResolver::new().context("name resolution")?;
    let names = Names::new(Arc::new(resolver));
    let http = node.config.http.clone();
    let access = node.access.as_ref().map(|(access, _)| Arc::clone(access));
    let gateway = Gateway::new(http, &node.budget, &names, Arc::clone(&metrics), access);
    let mut watch = Watch::new(file.clone());
    let status = Status::new(&node.config, file);
    let (ask, mut asked) = tokio::sync::mpsc::channel(ASKS_MAX);
    let figures = Figures {
        metrics: &metrics,
        upstreams: gateway.upstreams(),
        recent: &recent,
        status: &status,
        access: node.access.as_ref().map(|(_, lines)| lines.clone()),
    };
    let access = figures.access.clone();
    let admin = serve_admin(&mut node, &figures, &readiness, ask)?;
    let overhead = AbortOnDrop(tokio::spawn(Overhead::new(&node.budget).keep()));
    let resting = AbortOnDrop(tokio::spawn(allocator::keep_resting()));
    let mut started = start_workers(&mut node, &gateway, &drain)?;
    readiness.set(State::Ready);
    let pulses = started.workers.iter().map(WorkerThread::pulse).collect();
    tokio::spawn(manager.clone().keep_watchdog(pulses));
    manager.ready(format_args!("serving with {} workers", node.workers));
    print!(
        "{}",
        banner::banner(&node.config, &node.budget, node.workers, is_default)
    );
    let changes = std::mem::take(&mut started.changes);
    let mut reloader = Reloader::new(node.config, gateway, changes, inherited, status);
    loop {
        let (reason, ask) = tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = hangup.recv() => {
                // Whoever moved the log away says so by the same signal.
                access.iter().for_each(LineLog::reopen);
                ("SIGHUP", None)
            }
            Some(ask) = asked.recv() => ("admin", Some(ask)),
            () = watch.changed() => ("file changed", None),
        };
        manager.reloading();
        watch.forget();
        let reloaded = reloader.reload(reason).await;
        manager.ready(match &reloaded {
            Ok(generation) => format!("serving configuration {generation}"),
            Err(_) => "serving; the last configuration was refused".to_owned(),
        });
        if let Some(Ask(answer)) = ask {
            // Who asked may have gone.
            let _ = answer.send(reloaded);
        }
    }
    readiness.set(State::Draining);
    let timeout = reloader.config().node.drain_timeout;
    manager.stopping(timeout);
    let again = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let is_clean = go_down(started, &drain, timeout, again).await;
    close_access_log(access.as_ref());
    drop((admin, overhead, resting, node.demo));
    let code = if is_clean { Code::Ok } else { Code::Dropped };
    Ok(code.into())
}

fn start_log(config: &Config) -> anyhow::Result<Recent> {
    let level = match config.log.level {
        LogLevel::Error => log::Level::Error,
        LogLevel::Warn => log::Level::Warn,
        LogLevel::Info => log::Level::Info,
        LogLevel::Debug => log::Level::Debug,
    };
    let format = match config.log.format {
        LogFormat::Json => log::Format::Json,
        LogFormat::Text => log::Format::Text,
    };
    log::init(level, format).context("the log")
}

fn open_access_log(
    access: &config::Access,
    workers: usize,
) -> anyhow::Result<(Arc<AccessLog>, LineLog)> {
    let lines = LineLog::open(access.destination.clone(), workers);
    let lines = lines.with_context(|| match &access.destination {
        Destination::Stdout => "log.access: standard output".to_owned(),
        Destination::File(path) => format!("log.access.file: cannot open {}", path.display()),
    })?;
    let log = AccessLog::new(access.format.clone(), lines.clone());
    Ok((Arc::new(log), lines))
}

/// Waits for what workers have handed over; a disk that stands still is not waited for.
fn close_access_log(access: Option<&LineLog>) {
    /// The end of a drain is not the time to wait for long.
    const PATIENCE: Duration = Duration::from_secs(3);
    if access.is_some_and(|log| !log.close(PATIENCE)) {
        tracing::error!("the access log takes no more lines: the last ones are lost");
    }
}

fn prepare(options: RunOptions, inherited: &Inherited) -> anyhow::Result<Prepared> {
    let is_default = options.is_default();
    let mut config = options.config;
    let limit = memory_limit().context("/proc/meminfo")?;
    let bytes = config.node.memory_budget.bytes(limit);
    let budget = Budget::new(bytes.context("node.memory_budget")?);
    let workers = match config.node.workers {
        Workers::Count(count) => count.get(),
        // Follows affinity and the CPU quota of control groups.
        Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
    };
    rlimits::lower_connections(&mut config);
    let demo = is_default.then(|| start_demo(&config)).transpose()?;
    let admin = config.admin.as_ref().map(|admin| {
        let settings = admin::Settings {
            listen: admin.listen.clone(),
            probes: admin.probes.clone(),
            token_file: admin.token_file.clone(),
        };
        Admin::bind(&settings, inherited)
    });
    let admin = admin
        .transpose()
        .map_err(|error| explain_port(error.into(), is_default))?;
    let listeners = bind_listeners(&config, workers, inherited)
        .map_err(|error| explain_port(error, is_default))?;
    let access = config.log.access.as_ref();
    let access = access.map(|access| open_access_log(access, workers));
    Ok(Prepared {
        access: access.transpose()?,
        config,
        budget,
        workers,
        listeners,
        admin,
        demo,
    })
}

/// Starts the demo origin where the embedded default expects it.
fn start_demo(config: &Config) -> anyhow::Result<Demo> {
    let upstreams = config.http.upstreams.iter();
    let address = upstreams
        .into_iter()
        .find_map(|upstream| match &upstream.kind {
            steppe_http::config::UpstreamKind::Servers(servers) => {
                match servers.servers.first().map(|server| &server.address) {
                    Some(ServerAddress::Ip(address)) => Some(*address),
                    _ => None,
                }
            }
            steppe_http::config::UpstreamKind::Respond(_) => None,
        });
    let address = address.context("the embedded default names its demo origin")?;
    let bound = std::net::TcpListener::bind(address)
        .and_then(demo::spawn)
        .with_context(|| format!("demo origin: {address}"));
    bound.map_err(|error| explain_port(error, true))
}

fn bind_listeners(
    config: &Config,
    workers: usize,
    inherited: &Inherited,
) -> anyhow::Result<Vec<Vec<BoundListener>>> {
    let mut by_worker: Vec<Vec<BoundListener>> = (0..workers).map(|_| Vec::new()).collect();
    for listener in &config.http.listeners {
        let bound = inherited.bind(&listener.address, workers);
        let bound = bound.context("http.listener.listen")?;
        by_worker
            .iter_mut()
            .zip(bound)
            .for_each(|(worker, bound)| worker.push(bound));
    }
    Ok(by_worker)
}

/// Says what to do about a port that can't be had.
fn explain_port(error: anyhow::Error, is_default: bool) -> anyhow::Error {
    let help = if is_default {
        "stop what listens there, or choose other ports with --listen, --admin and --demo, as in \
         `steppe run --listen 127.0.0.1:8090` or `make run ARGS='--listen 127.0.0.1:8090'`"
    } else {
        "stop what listens there, or change the address in the configuration"
    };
    anyhow::anyhow!("{error:#}\n  help: {help}")
}

/// What admin tells of.
struct Figures<'a> {
    metrics: &'a Arc<HttpMetrics>,
    upstreams: &'a Arc<Upstreams>,
    status: &'a Status,
    recent: &'a Recent,
    access: Option<LineLog>,
}

/// Serves admin on the control thread for as long as the handle lives.
fn serve_admin(
    node: &mut Prepared,
    figures: &Figures<'_>,
    readiness: &Readiness,
    reload: tokio::sync::mpsc::Sender<Ask>,
) -> anyhow::Result<Option<AbortOnDrop>> {
    let Some(admin) = node.admin.take() else {
        return Ok(None);
    };
    let sources = memory::Sources {
        budget: node.budget.clone(),
        http: Arc::clone(figures.metrics),
    };
    let mut registry = Registry::default();
    registry.register_collector(figures.metrics.collector());
    registry.register_collector(figures.upstreams.collector());
    if let Some(access) = &figures.access {
        registry.register_collector(access.collector());
    }
    registry.register_collector(ReloadCollector::new(figures.status.clone()));
    registry.register_collector(MemoryCollector::new(node.budget.clone()));
    let content = admin::Content {
        metrics: registry,
        memory: sources,
        upstreams: Arc::clone(figures.upstreams),
        config: figures.status.clone(),
        reload,
        readiness: readiness.clone(),
        recent: figures.recent.clone(),
    };
    Ok(Some(AbortOnDrop(tokio::spawn(admin.serve(content)?))))
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Workers under way, and what each says when it has drained.
struct Started {
    workers: Vec<WorkerThread>,
    /// By worker: where it takes the next snapshots from.
    changes: Vec<tokio::sync::mpsc::Sender<Change>>,
    drained: mpsc::Receiver<Drained>,
}

fn start_workers(
    node: &mut Prepared,
    gateway: &Arc<Gateway>,
    drain: &Drain,
) -> anyhow::Result<Started> {
    let pool = node.budget.root().child("pool", None);
    let idle_bytes = pool.limit_bytes() / IDLE_SHARE / node.workers as u64;
    let (tell, drained) = mpsc::sync_channel(node.workers);
    let (mut workers, mut changes) = (Vec::with_capacity(node.workers), Vec::new());
    for (index, listeners) in std::mem::take(&mut node.listeners).into_iter().enumerate() {
        let stock = Stock {
            lease: pool.lease(),
            idle_bytes_max: usize::try_from(idle_bytes).unwrap_or(usize::MAX),
        };
        let (gateway, tell) = (Arc::clone(gateway), tell.clone());
        let (change, changed) = tokio::sync::mpsc::channel(CHANGES_MAX);
        changes.push(change);
        let plan = WorkerPlan {
            index,
            drain: drain.clone(),
            stock,
            keep_house: allocator::rest,
        };
        let worker = spawn_worker(plan, move |worker| async move {
            let _stack = StackMark::here();
            let drained = gateway.serve(worker, listeners, changed).await;
            // Nobody listens once the node has given up waiting.
            let _ = tell.send(drained);
        });
        workers.push(worker.with_context(|| format!("worker {index}"))?);
    }
    Ok(Started {
        workers,
        changes,
        drained,
    })
}

/// Drains, for as long as `timeout` and until `again`; says how it went.
async fn go_down(
    started: Started,
    drain: &Drain,
    timeout: Duration,
    again: impl Future<Output = ()>,
) -> bool {
    let began_at = Instant::now();
    tracing::info!(timeout_s = timeout.as_secs_f64(), "draining");
    drain.enter(Phase::Draining);
    let workers = started.workers;
    let mut joined =
        tokio::task::spawn_blocking(move || workers.into_iter().for_each(WorkerThread::join));
    let is_joined = tokio::select! {
        _ = &mut joined => true,
        () = tokio::time::sleep(timeout) => false,
        () = again => false,
    };
    if !is_joined {
        drain.enter(Phase::Stopped);
        let _ = joined.await;
    }
    let drained: Vec<Drained> = started.drained.try_iter().collect();
    let open: usize = drained.iter().map(|worker| worker.open).sum();
    let dropped: usize = drained.iter().map(|worker| worker.dropped).sum();
    let seconds = began_at.elapsed().as_secs_f64();
    println!(
        "drained: {} of {open} open connections ended by themselves, {dropped} dropped, {seconds:.1} s",
        open - dropped
    );
    dropped == 0
}

/// Where a listener can be reached from this machine.
fn reachable(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(tcp) if tcp.ip().is_unspecified() => format!("127.0.0.1:{}", tcp.port()),
        other => other.to_string(),
    }
}
