//! The access log and the traces of the configuration in force, and of those before it.
//!
//! Invariant: every step of a change that can fail is done before it takes effect. An exchange that began before a
//! change is reported to the observers of that time, to its end. Observers that both configurations have alike stay,
//! and counts continue in any case.
//!
//! Non-goals: formats of lines and spans, and the order in which workers learn of a change.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use anyhow::Context;
use steppe_http::HttpService;
use steppe_http::access::AccessLog;
use steppe_http::observers::Observers;
use steppe_mem::{Account, Budget};
use steppe_telemetry::trace::{TraceCounts, TraceSettings, Tracer};
use steppe_telemetry::{Destination, LineCounts, LineLog, Registry, WeakLineLog};

use crate::config::{self, Config};
use crate::trace_export::Collector;

/// Logs and traces of the node. Clones share them.
#[derive(Clone)]
pub struct Observation(Arc<Shared>);

struct Shared {
    http: Arc<HttpService>,
    workers: usize,
    budget: Budget,
    /// The account of spans that wait for a collector.
    traces: OnceLock<Account>,
    lines: LineCounts,
    spans: TraceCounts,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Observed,
    /// Logs of earlier configurations, which exchanges in flight may still have.
    logs: Vec<WeakLineLog>,
    tracers: Vec<Weak<Tracer>>,
}

/// Observers that are ready for a configuration.
#[derive(Default)]
pub struct Observed {
    access: Option<OpenLog>,
    trace: Option<(config::Trace, Arc<Tracer>)>,
}

#[derive(Clone)]
struct OpenLog {
    config: config::Access,
    lines: LineLog,
    log: Arc<AccessLog>,
}

/// Time for the disk to take the logged lines at the end of a drain.
const LOG_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for the collector to take the spans at the end of a drain.
const TRACES_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

impl Observation {
    /// Observes the exchanges of `http`, with this number of workers; nothing is open yet.
    #[must_use]
    pub fn new(http: Arc<HttpService>, budget: &Budget, workers: usize) -> Self {
        Self(Arc::new(Shared {
            http,
            workers,
            budget: budget.clone(),
            traces: OnceLock::new(),
            lines: LineCounts::default(),
            spans: TraceCounts::default(),
            state: Mutex::default(),
        }))
    }

    /// Opens the log and starts the tracer of `config`, unless the present ones fit.
    ///
    /// # Errors
    /// If the access log can't be opened, or spans have no room.
    pub fn prepare(&self, config: &Config) -> anyhow::Result<Observed> {
        let state = self.state();
        let access = match &config.log.access {
            None => None,
            Some(wanted) => Some(match &state.now.access {
                Some(open) if open.config == *wanted => open.clone(),
                _ => self.open(wanted)?,
            }),
        };
        let trace = match &config.trace {
            None => None,
            Some(wanted) => Some(match &state.now.trace {
                Some((known, tracer)) if known == wanted => (known.clone(), Arc::clone(tracer)),
                _ => (wanted.clone(), self.start(wanted)?),
            }),
        };
        Ok(Observed { access, trace })
    }

    /// Makes these the observers of exchanges that begin from now on.
    pub fn change(&self, next: Observed) {
        self.0.http.observe(Observers {
            access: next.access.as_ref().map(|open| Arc::clone(&open.log)),
            tracer: next.trace.as_ref().map(|(_, tracer)| Arc::clone(tracer)),
        });
        let mut state = self.state();
        let last = std::mem::replace(&mut state.now, next);
        state.logs.retain(|log| log.upgrade().is_some());
        state.tracers.retain(|tracer| tracer.strong_count() > 0);
        let stays = |log: &OpenLog| {
            let now = state.now.access.as_ref();
            now.is_some_and(|now| Arc::ptr_eq(&now.log, &log.log))
        };
        if let Some(log) = last.access.filter(|log| !stays(log)) {
            state.logs.push(log.lines.downgrade());
        }
        let stays = |tracer: &Arc<Tracer>| {
            let now = state.now.trace.as_ref();
            now.is_some_and(|(_, now)| Arc::ptr_eq(now, tracer))
        };
        if let Some((_, tracer)) = last.trace.filter(|(_, tracer)| !stays(tracer)) {
            state.tracers.push(Arc::downgrade(&tracer));
        }
    }

    /// Registers the counts of lines and spans.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(self.0.lines.collector());
        registry.register_collector(self.0.spans.collector());
    }

    /// Reopens all logs, after a rotation.
    pub fn reopen(&self) {
        self.state().all_logs().iter().for_each(LineLog::reopen);
    }

    /// Waits until lines are written and spans are sent, after the workers have ended. A disk that hangs is not
    /// awaited.
    pub fn close(&self) {
        let state = self.state();
        let closed = |tracer: &Arc<Tracer>| tracer.close(TRACES_CLOSE_TIMEOUT);
        if !state.all_tracers().iter().all(closed) {
            tracing::error!("timeout of the trace collector: the last spans are lost");
        }
        let closed = |log: &LineLog| log.close(LOG_CLOSE_TIMEOUT);
        if !state.all_logs().iter().all(closed) {
            tracing::error!("timeout of a write to the access log: the last lines are lost");
        }
    }

    fn open(&self, access: &config::Access) -> anyhow::Result<OpenLog> {
        let Shared { workers, lines, .. } = &*self.0;
        let lines = LineLog::open_counted(access.destination.clone(), *workers, lines);
        let lines = lines.with_context(|| match &access.destination {
            Destination::Stdout => "log.access: cannot use standard output".to_owned(),
            Destination::File(path) => format!("log.access.file: cannot open {}", path.display()),
        })?;
        Ok(OpenLog {
            config: access.clone(),
            log: Arc::new(AccessLog::new(access.format.clone(), lines.clone())),
            lines,
        })
    }

    fn start(&self, trace: &config::Trace) -> anyhow::Result<Arc<Tracer>> {
        let settings = TraceSettings {
            sample: trace.sample,
            version: env!("CARGO_PKG_VERSION"),
        };
        let collector = Collector::new(&trace.otlp).context("trace.otlp")?;
        let Shared { spans, budget, .. } = &*self.0;
        let account = || budget.root().child("traces", None);
        let account = self.0.traces.get_or_init(account);
        Tracer::start_counted(settings, account, Box::new(collector), spans).context("trace")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn all_logs(&self) -> Vec<LineLog> {
        let earlier = self.logs.iter().filter_map(WeakLineLog::upgrade);
        let now = self.now.access.as_ref().map(|open| open.lines.clone());
        earlier.chain(now).collect()
    }

    fn all_tracers(&self) -> Vec<Arc<Tracer>> {
        let earlier = self.tracers.iter().filter_map(Weak::upgrade);
        let now = self
            .now
            .trace
            .as_ref()
            .map(|(_, tracer)| Arc::clone(tracer));
        earlier.chain(now).collect()
    }
}
