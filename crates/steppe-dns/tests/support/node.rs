//! A forwarder within the process of the test, with any number of workers.

use std::sync::Arc;
use std::sync::mpsc as threads;
use std::task::Poll;
use std::time::{Duration, Instant};

use steppe_dns::config::Forwarder;
use steppe_dns::fetch::Fetch;
use steppe_dns::{DnsContext, DnsService};
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    Drain, Drained, Inherited, Phase, Service, ServiceSet, Worker, WorkerPlan, WorkerThread,
    spawn_worker,
};
use steppe_telemetry::{Registry, encode};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// A configuration of the node, with a forwarder only.
pub struct Config(pub Forwarder);

impl AsRef<Forwarder> for Config {
    fn as_ref(&self) -> &Forwarder {
        &self.0
    }
}

/// Upper bound of the time to write files.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(60);

/// A node that runs until it is dropped.
pub struct Node {
    set: ServiceSet<Config>,
    service: DnsService,
    budget: Budget,
    control: LocalRuntime,
    drain: Drain,
    workers: Vec<WorkerThread>,
    drained: threads::Receiver<Drained>,
}

impl Node {
    pub fn start(config: Forwarder, workers: usize) -> Self {
        Self::start_beside(config, workers, || ())
    }

    /// Starts a node; each worker's thread calls `housekeeping` every second.
    pub fn start_beside(config: Forwarder, workers: usize, housekeeping: fn()) -> Self {
        Self::start_with(config, workers, housekeeping, None)
    }

    /// Starts a node that fetches lists by `fetch`.
    pub fn start_with(
        config: Forwarder,
        workers: usize,
        housekeeping: fn(),
        fetch: Option<Arc<dyn Fetch>>,
    ) -> Self {
        let control = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build_local(LocalOptions::default())
            .expect("a runtime");
        let budget = Budget::new(256 << 20);
        let context = DnsContext {
            budget: &budget,
            workers,
            fetch,
        };
        let service = DnsService::new(&context).expect("random numbers");
        let services: [Arc<dyn Service<Config>>; 1] = [Arc::new(service.clone())];
        let mut set = ServiceSet::new(services, Inherited::default(), workers);
        let prepared = set.prepare(&Config(config)).expect("the ports are free");
        let drain = Drain::default();
        let pool = budget.root().child("pool", None);
        let (tell, drained) = threads::sync_channel(workers);
        let threads = (0..workers).map(|index| {
            let plan = WorkerPlan {
                index,
                drain: drain.clone(),
                stock: Stock {
                    lease: pool.lease(),
                    idle_bytes_max: 1 << 20,
                },
                housekeeping,
                io: Worker::default_io,
            };
            let (services, tell) = (set.on_worker(), tell.clone());
            let serve = |worker| async move {
                tell.send(services.serve(worker).await).expect("is awaited");
            };
            spawn_worker(plan, serve).expect("a thread")
        });
        let threads = threads.collect();
        control.block_on(set.change(prepared));
        Self {
            set,
            service,
            budget,
            control,
            drain,
            workers: threads,
            drained,
        }
    }

    pub fn change(&mut self, config: Forwarder) {
        self.try_change(config).expect("is valid");
    }

    /// Changes the configuration. The error is the reason why the old one stays in force.
    pub fn try_change(&mut self, config: Forwarder) -> Result<(), String> {
        let config = Config(config);
        let prepared = self.control.block_on(self.set.prepare_beside(&config));
        let prepared = prepared.map_err(|error| error.to_string())?;
        self.control.block_on(self.set.change(prepared));
        Ok(())
    }

    /// Changes the configuration as [`Self::try_change`] does, while the disk is slow. `meanwhile` is called after the
    /// files were loaded, and before the rest is prepared.
    ///
    /// # Panics
    /// If the control thread blocks on the disk.
    pub fn change_slowly(
        &mut self,
        config: Forwarder,
        meanwhile: impl FnOnce(),
    ) -> Result<(), String> {
        let (config, service) = (Config(config), Arc::new(self.service.clone()));
        let read = self.control.block_on(async {
            // The only blocking thread is kept busy.
            let (release, released) = threads::sync_channel::<()>(1);
            let busy = tokio::task::spawn_blocking(move || {
                // Returns when the sender is dropped.
                let _ = released.recv();
            });
            let mut reading = Service::<Config>::read_ahead(service, &config);
            let looked = std::future::poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx)));
            assert!(looked.await.is_pending(), "the control thread goes on");
            drop(release);
            busy.await.expect("it does not panic");
            reading.await
        });
        meanwhile();
        let prepared = self.set.prepare(&config);
        drop(read);
        let prepared = prepared.map_err(|error| error.to_string())?;
        self.control.block_on(self.set.change(prepared));
        Ok(())
    }

    /// Bytes of the budget that the forwarder has reserved.
    pub fn reserved_bytes(&self) -> u64 {
        self.budget.root().reserved_bytes()
    }

    /// Runs the tasks of the control thread until `is_so` returns true.
    ///
    /// # Panics
    /// If it does not within half a minute.
    pub fn wait_until(&self, mut is_so: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        self.control.block_on(async {
            while !is_so(self) {
                assert!(Instant::now() < end, "it does not come to that");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }

    /// The value of a series in the metrics.
    pub fn metric(&self, series: &str) -> u64 {
        let mut registry = Registry::default();
        registry.register_collector(self.service.metrics().collector());
        let text = encode::exposition(&registry).expect("a string takes it");
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        let line = line.unwrap_or_else(|| panic!("{series} in {text}"));
        line.trim().parse().expect("a number")
    }

    /// Reopens the query log.
    pub fn reopen_log(&self) {
        self.service.reopen_log();
    }

    /// Begins a drain; [`Node::stop`] completes it.
    pub fn drain(&self) {
        self.drain.enter(Phase::Draining);
    }

    /// Waits until all workers have drained, and files are written.
    pub fn stop(mut self) -> Drained {
        self.drain.enter(Phase::Draining);
        let workers = std::mem::take(&mut self.workers);
        workers.into_iter().for_each(WorkerThread::join);
        assert!(self.service.close(CLOSE_TIME_MAX), "the disk takes it");
        self.drained.try_iter().sum()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.drain.enter(Phase::Stopped);
        let workers = std::mem::take(&mut self.workers);
        workers.into_iter().for_each(WorkerThread::join);
    }
}
