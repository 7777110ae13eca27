//! A load that the lab generates itself: its threads, and the sum of their counts.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Sender, channel};

use super::Interval;
use super::endpoint::OWN_FAULTS;
use super::error::{LoadError, LoadFailure};
use super::pacer::{Place, Stretch};
use super::plan::{Plan, connections};
use super::schedule::Schedule;
use super::tally::{Counter, ErrorKind, Tally};
use super::thread::{self, Control, Work};
use super::usage::{GeneratorUse, Meter};
use crate::limits::{IDLE_SHARE_MIN, ORDERS_MAX, SATURATION_WINDOW_MIN};
use crate::scenario::{Load, Pace};

/// A load that was started, with its generator threads.
pub(super) struct GeneratedSource {
    name: String,
    /// `None`: a closed loop.
    rate_per_s: Option<f64>,
    ramp: Duration,
    threads: u32,
    generators: Vec<Generator>,
    /// Arrivals of the present burst that earlier intervals have counted as intended.
    told: u64,
}

/// One thread of a load.
struct Generator {
    orders: Sender<Control>,
    thread: Option<JoinHandle<()>>,
    meter: Mutex<Meter>,
    counter: Counter,
}

impl GeneratedSource {
    /// Starts the threads of a load that was checked.
    ///
    /// # Errors
    /// When the system refuses a thread or a timer.
    pub(super) fn start(load: &Load, plan: &Plan, seed: u64) -> Result<Self, LoadError> {
        let rate_per_s = match load.pace {
            Pace::Open { rate_per_s } => Some(rate_per_s),
            Pace::Closed => None,
        };
        let (connections, streams) = connections(load);
        let threads = load.threads.min(connections);
        let generators = (0..threads)
            .map(|thread| {
                let place = Place {
                    thread,
                    threads,
                    connections,
                    streams,
                };
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

    pub(super) fn threads(&self) -> usize {
        self.generators.len()
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn ramp(&self, is_on: bool) -> Duration {
        if is_on { self.ramp } else { Duration::ZERO }
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn resume(&self, start: Instant, ramp_is_on: bool) {
        let ramp = self.ramp(ramp_is_on);
        for generator in &self.generators {
            generator.work(Instant::now());
            generator.order(Control::Resume(Stretch { start, ramp }));
        }
    }

    pub(super) fn pause(&self, now: Instant, quiet: &SyncSender<()>) {
        for generator in &self.generators {
            generator.rest(now);
            generator.order(Control::Pause(quiet.clone()));
        }
    }

    /// The interval since the last call; `elapsed` is the time since the start of the present burst.
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
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
            sum.add(thread.counter.swap());
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
            ..Interval::of(&self.name, &sum, generator)
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

    /// The failure of a load that has lost a thread.
    pub(super) fn failure(&self, clock: Instant) -> Option<LoadFailure> {
        let is_gone = self.generators.iter().any(Generator::is_gone);
        is_gone.then(|| LoadFailure::panicked(&self.name, clock))
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
        let counter = Counter::new(rate_per_s.is_some());
        let work = Work {
            plan,
            place,
            rate_per_s,
            timeout: load.timeout,
            seed,
            tally: counter.shared(),
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
            counter,
        })
    }

    /// Sends an order to the thread. A full queue means that the thread hangs, a closed one that it has ended, which
    /// [`GeneratedSource::failure`] reports.
    fn order(&self, order: Control) {
        let _ = self.orders.try_send(order);
    }

    /// Counts the thread's time from now on.
    fn work(&self, now: Instant) {
        self.meter().start(now);
    }

    /// Counts the thread's time until now.
    fn rest(&self, now: Instant) {
        self.meter().stop(now);
    }

    fn meter(&self) -> std::sync::MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.order(Control::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported as the load's failure, and has been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_blamed_for_its_own_limits_and_nothing_else() {
        let source = GeneratedSource {
            name: "it".to_owned(),
            rate_per_s: None,
            ramp: Duration::ZERO,
            threads: 3,
            generators: Vec::new(),
            told: 0,
        };
        let mut sum = Tally::new(false);
        sum.fail(ErrorKind::Known("refused"), 7);
        assert_eq!(source.saturation(None, &sum), None);
        assert_eq!(source.saturation(Some(0.94), &sum), None);
        let busy = source.saturation(Some(0.96), &sum).unwrap();
        assert!(
            busy.contains("96 %") && busy.contains("threads = 4"),
            "{busy}"
        );
        for (kind, help) in OWN_FAULTS {
            let mut sum = Tally::new(false);
            sum.fail(ErrorKind::Known(kind), 5);
            let said = source.saturation(Some(0.1), &sum).unwrap();
            assert!(said.contains(help) && said.starts_with("5 "), "{said}");
        }
    }
}
