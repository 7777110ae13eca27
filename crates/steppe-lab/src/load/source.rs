//! One load of a run: its threads, and what they add up to.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tokio::sync::mpsc::{Sender, channel};

use super::Interval;
use super::endpoint::{Endpoint, OWN_FAULTS};
use super::error::{LoadError, LoadFailure};
use super::pacer::{Burst, Place};
use super::request::{HttpPlan, Template};
use super::schedule::Schedule;
use super::tally::{self, ErrorKind, Shared, Tally};
use super::thread::{self, Order, Plan, Work};
use super::usage::{GeneratorUse, Meter};
use crate::limits::{
    FILES_BESIDE_CONNECTIONS, IDLE_SHARE_MIN, LOAD_THREADS_MAX, LOAD_WORKERS_MAX, ORDERS_MAX,
    SATURATION_WINDOW_MIN,
};
use crate::scenario::{HttpLoad, Load, LoadKind, Pace};

/// A load that was started.
pub(super) struct Source {
    name: String,
    /// `None`: a closed loop.
    rate_per_s: Option<f64>,
    ramp: Duration,
    threads: u32,
    generators: Vec<Generator>,
    /// Arrivals of a burst that were told before the burst was over.
    told: u64,
}

/// One thread of a load.
pub(super) struct Generator {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
    meter: Mutex<Meter>,
    tally: Shared,
    /// Takes the place of the one that is looked at.
    spare: Tally,
}

impl Source {
    /// # Errors
    /// When the load can't be as it is described, or the system has no room for it.
    pub(super) fn start(load: &Load, seed: u64) -> Result<Self, LoadError> {
        let rate_per_s = rate(load)?;
        let workers = workers(load)?;
        let threads = load.threads.min(workers);
        let plan = plan(load)?;
        let generators = (0..threads)
            .map(|thread| {
                let place = Place {
                    thread,
                    threads,
                    workers,
                };
                let seed = load.seed ^ seed.rotate_left(17);
                Generator::start(load, (plan.clone(), place, rate_per_s, seed))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: load.name.clone(),
            rate_per_s,
            ramp: load.ramp,
            threads,
            generators,
            told: 0,
        })
    }

    pub(super) fn generators(&self) -> impl Iterator<Item = &Generator> {
        self.generators.iter()
    }

    pub(super) fn ramp(&self, is_on: bool) -> Duration {
        if is_on { self.ramp } else { Duration::ZERO }
    }

    pub(super) fn resume(&self, burst: Burst) {
        for generator in &self.generators {
            generator.work(Instant::now());
            generator.order(Order::Resume(burst));
        }
    }

    /// What came of it since the last time; `elapsed` of the burst that is on.
    pub(super) fn take(
        &mut self,
        now: Instant,
        elapsed: Option<Duration>,
        ramp_is_on: bool,
    ) -> Interval {
        let mut sum = Tally::new(self.rate_per_s.is_some());
        let mut generator = GeneratorUse::default();
        let mut window = Duration::ZERO;
        for thread in &mut self.generators {
            let (used, elapsed) = thread.meter().take(now);
            generator = generator.busier(used);
            window = window.max(elapsed);
            sum.add(thread.swap());
        }
        if let Some(rate_per_s) = self.rate_per_s {
            let ramp = self.ramp(ramp_is_on);
            let schedule = Schedule { rate_per_s, ramp };
            let due = elapsed.map_or(0, |elapsed| schedule.due_by(elapsed));
            let tallied = sum.intended.unwrap_or(0);
            sum.intended = Some((tallied + due).saturating_sub(self.told));
            self.told = due;
        }
        let busy = generator.busy().filter(|_| window >= SATURATION_WINDOW_MIN);
        Interval {
            saturated: self.saturation(busy, &sum),
            ..interval(&self.name, sum, generator)
        }
    }

    fn saturation(&self, busy: Option<f64>, sum: &Tally) -> Option<String> {
        if let Some(busy) = busy.filter(|busy| 1.0 - busy < IDLE_SHARE_MIN) {
            let (share, threads) = (busy * 100.0, self.threads);
            return Some(format!(
                "its busiest thread was busy for {share:.0} % of the time: add threads (`threads = \
                 {}`) where a CPU is free, lower the rate, or run the lab on another machine",
                threads.saturating_add(1)
            ));
        }
        OWN_FAULTS.iter().find_map(|(kind, help)| {
            let count = sum.kinds.get(&ErrorKind::Known(kind))?;
            Some(format!("{count} operations could not start: {help}"))
        })
    }

    /// Why it can't go on.
    pub(super) fn failure(&self, clock: Instant) -> Option<LoadFailure> {
        let is_gone = self.generators.iter().any(Generator::is_gone);
        is_gone.then(|| LoadFailure {
            load: self.name.clone(),
            at: clock.elapsed(),
            reason: "a generator thread panicked: this is a mistake of the lab".to_owned(),
            said: None,
        })
    }
}

impl Generator {
    fn start(
        load: &Load,
        (plan, place, rate_per_s, seed): (Plan, Place, Option<f64>, u64),
    ) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Thread {
            load: load.name.clone(),
            source,
        };
        let tally = Arc::new(Mutex::new(Tally::new(rate_per_s.is_some())));
        let work = Work {
            plan,
            place,
            rate_per_s,
            timeout: load.timeout,
            seed,
            tally: Arc::clone(&tally),
        };
        let (orders, taken) = channel(ORDERS_MAX);
        let (ready, readied) = sync_channel(1);
        let name = format!("load-{}", place.thread);
        let thread = thread::spawn(&name, work, taken, ready).map_err(failed)?;
        let gone = || std::io::Error::other("it ended at once");
        let thread_id = readied
            .recv()
            .unwrap_or_else(|_| Err(gone()))
            .map_err(failed)?;
        Ok(Self {
            orders,
            thread: Some(thread),
            meter: Mutex::new(Meter::new(thread_id)),
            tally,
            spare: Tally::new(rate_per_s.is_some()),
        })
    }

    /// A thread that has not taken its last orders hangs or is gone; the latter is told.
    pub(super) fn order(&self, order: Order) {
        let _ = self.orders.try_send(order);
    }

    /// Its time counts from now on.
    fn work(&self, now: Instant) {
        self.meter().start(now);
    }

    /// Its time does not count anymore.
    pub(super) fn rest(&self, now: Instant) {
        self.meter().stop(now);
    }

    fn meter(&self) -> std::sync::MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted since the last time.
    fn swap(&mut self) -> &Tally {
        self.spare.clear();
        std::mem::swap(&mut self.spare, &mut *tally::lock(&self.tally));
        &self.spare
    }

    fn is_gone(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in it was told by its failure, and has been printed.
            let _ = thread.join();
        }
    }
}

/// Says at once, and not by failed connections, that the loads take too many files.
///
/// # Errors
/// When they do.
pub(super) fn reserve_files(loads: &[Load]) -> Result<(), LoadError> {
    let connections = loads.iter().map(|load| match &load.kind {
        LoadKind::Http1(http) | LoadKind::Http2(http) => u64::from(http.connections),
        LoadKind::Dns(dns) => u64::from(dns.connections),
        LoadKind::Command(_) => 0,
    });
    let needed = connections.sum::<u64>() + FILES_BESIDE_CONNECTIONS;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if needed > limit => Err(LoadError::Files { needed, limit }),
        _ => Ok(()),
    }
}

fn interval(name: &str, sum: Tally, generator: GeneratorUse) -> Interval {
    let mut error_kinds: Vec<_> = sum.kinds.iter().map(|(k, n)| (k.label(), *n)).collect();
    error_kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let response = sum.response.unwrap_or_else(|| sum.service.clone());
    Interval {
        name: name.to_owned(),
        operations: sum.operations,
        errors: sum.errors,
        error_kinds,
        intended: sum.intended,
        dropped: sum.dropped,
        response,
        service: sum.service,
        generator,
        saturated: None,
    }
}

fn invalid(load: &Load, reason: String) -> LoadError {
    LoadError::Invalid {
        load: load.name.clone(),
        reason,
    }
}

fn rate(load: &Load) -> Result<Option<f64>, LoadError> {
    match load.pace {
        Pace::Closed => Ok(None),
        Pace::Open { rate_per_s } if rate_per_s.is_finite() && rate_per_s > 0.0 => {
            Ok(Some(rate_per_s))
        }
        Pace::Open { rate_per_s } => {
            let reason = format!("{rate_per_s} operations a second is no rate");
            Err(invalid(load, reason))
        }
    }
}

/// How many operations a load has at a time.
fn workers(load: &Load) -> Result<u32, LoadError> {
    let (connections, streams) = match &load.kind {
        LoadKind::Http1(http) => (http.connections, 1),
        LoadKind::Http2(http) => (http.connections, http.streams),
        LoadKind::Dns(dns) => (dns.connections, 1),
        LoadKind::Command(_) => (1, 1),
    };
    let workers = u64::from(connections) * u64::from(streams);
    if workers == 0 || load.threads == 0 {
        let reason = "it needs a connection, a stream and a thread at least".to_owned();
        return Err(invalid(load, reason));
    }
    if load.threads > LOAD_THREADS_MAX {
        let reason = format!(
            "{} threads, where {LOAD_THREADS_MAX} is the limit",
            load.threads
        );
        return Err(invalid(load, reason));
    }
    u32::try_from(workers)
        .ok()
        .filter(|_| workers <= LOAD_WORKERS_MAX)
        .ok_or_else(|| {
            let reason =
                format!("{workers} requests at a time, where {LOAD_WORKERS_MAX} is the limit");
            invalid(load, reason)
        })
}

fn plan(load: &Load) -> Result<Plan, LoadError> {
    let refused = |reason| invalid(load, reason);
    match &load.kind {
        LoadKind::Http1(http) => {
            let (endpoint, template) = Template::http1(http).map_err(refused)?;
            Ok(Plan::Http1(http_plan(load, http, &endpoint, template)?))
        }
        _ => Err(refused("this kind of load is not there yet".to_owned())),
    }
}

fn http_plan(
    load: &Load,
    _http: &HttpLoad,
    endpoint: &Endpoint,
    template: Template,
) -> Result<Arc<HttpPlan>, LoadError> {
    let addresses = endpoint.resolve().map_err(|source| LoadError::Resolve {
        load: load.name.clone(),
        host: endpoint.host.clone(),
        source,
    })?;
    Ok(Arc::new(HttpPlan::new(addresses, template)))
}
