//! A gateway with one worker, within the program.

use std::rc::Rc;
use std::sync::mpsc as threads;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use steppe_http::Gateway;
use steppe_http::access::AccessLog;
use steppe_http::codecs::Codecs;
use steppe_http::config;
use steppe_http::filter::FileError;
use steppe_http::gateway::{self, GatewayContext, Intake, LoadedFiles};
use steppe_http::guest::Guests;
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_http::observers::Observers;
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    BoundDatagram, BoundListener, BoundSockets, Change, Drain, Drained, Io, Names, Phase,
    SystemResolver, Worker, WorkerPlan, WorkerThread, spawn_worker,
};
use steppe_telemetry::trace::Tracer;
use tokio::sync::{mpsc, oneshot};

/// Runs until it is dropped.
pub struct InProcess {
    pub drain: Drain,
    gateway: Arc<Gateway>,
    changes: mpsc::Sender<Change<Gateway>>,
    drained: Mutex<threads::Receiver<Drained>>,
    worker: Option<WorkerThread>,
}

/// The parts of a gateway: its budget, its configuration, its sockets and its codecs.
pub struct Setup<'a> {
    pub budget: &'a Budget,
    pub config: config::Gateway,
    /// Of all its listeners.
    pub bound: Vec<BoundListener>,
    /// Of those that speak over datagrams.
    pub datagrams: Vec<BoundDatagram>,
    /// Drivers of the worker's sockets.
    pub io: fn() -> Rc<dyn Io>,
    pub codecs: Codecs,
    pub access: Option<Arc<AccessLog>>,
    pub tracer: Option<Arc<Tracer>>,
    pub guests: Guests,
}

impl<'a> Setup<'a> {
    /// A gateway that logs no requests, traces none and has no guests.
    pub fn of(budget: &'a Budget, config: config::Gateway, bound: Vec<BoundListener>) -> Self {
        Self {
            budget,
            config,
            bound,
            datagrams: Vec::new(),
            io: Worker::default_io,
            codecs: steppe_http::codecs(),
            access: None,
            tracer: None,
            guests: Guests::default(),
        }
    }
}

impl InProcess {
    /// `beside` is called on the worker's thread before it serves.
    pub fn start(setup: Setup<'_>, beside: impl FnOnce() + Send + 'static) -> Self {
        let Setup {
            budget,
            config,
            bound,
            datagrams,
            io,
            codecs,
            access,
            tracer,
            guests,
        } = setup;
        let names = Names::new(Arc::new(SystemResolver::new().expect("system settings")));
        let context = GatewayContext {
            budget,
            names: &names,
            metrics: HttpMetrics::new(Labels::from(&config), 1),
            observers: Observers { access, tracer },
            codecs: codecs.upstream,
            guests,
        };
        let gateway = Gateway::new(config::Gateway::default(), context);
        let files = gateway.load(&config, Instant::now()).expect("valid");
        let gateway = gateway.next(config, files);
        let mut sockets = BoundSockets::default();
        for socket in bound {
            sockets.insert_listener(socket.address().clone(), socket);
        }
        for socket in datagrams {
            sockets.insert_datagram(socket.address(), socket);
        }
        let drain = Drain::default();
        let plan = WorkerPlan {
            index: 0,
            drain: drain.clone(),
            stock: Stock {
                lease: budget.root().child("pool", None).lease(),
                idle_bytes_max: 1 << 20,
            },
            housekeeping: || (),
            io,
        };
        let (tell, drained) = threads::sync_channel(1);
        let (changes, received) = mpsc::channel(1);
        let first = Arc::clone(&gateway);
        let serve = move |worker| async move {
            beside();
            let intake = Intake {
                sockets,
                changes: received,
                codecs: codecs.downstream,
            };
            let drained = gateway::serve(first, worker, intake).await;
            tell.send(drained).expect("there is room");
        };
        Self {
            drain,
            gateway,
            changes,
            drained: Mutex::new(drained),
            worker: Some(spawn_worker(plan, serve).expect("a thread")),
        }
    }
}

#[allow(dead_code, reason = "some of the tests that share this call them")]
impl InProcess {
    /// Serves `config`, which adds no listeners, and waits until the worker does.
    pub fn change(&self, config: config::Gateway) {
        self.change_to(self.gateway.next(config, LoadedFiles::default()));
    }

    /// Reads the files of its configuration again, and changes to what they say now.
    ///
    /// # Errors
    /// A file can't be used: nothing changes.
    pub fn reload(&mut self) -> Result<(), FileError> {
        let config = self.gateway.config().clone();
        let files = self.gateway.load(&config, Instant::now())?;
        self.gateway = self.gateway.next(config, files);
        self.change_to(Arc::clone(&self.gateway));
        Ok(())
    }

    fn change_to(&self, next: Arc<Gateway>) {
        let (done, changed) = oneshot::channel();
        let change = Change {
            next,
            sockets: BoundSockets::default(),
            done,
        };
        let sent = self.changes.blocking_send(change);
        sent.expect("the worker is there");
        changed.blocking_recv().expect("it changes");
    }

    pub fn has_drained(&self) -> bool {
        self.worker.as_ref().is_none_or(WorkerThread::is_finished)
    }

    /// Waits until the worker has drained.
    pub fn drained(&self) -> Drained {
        let hung_after = Duration::from_secs(60);
        let drained = self.drained.lock().expect("one test waits");
        drained.recv_timeout(hung_after).expect("it drains")
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.drain.enter(Phase::Stopped);
        if let Some(worker) = self.worker.take() {
            worker.join();
        }
    }
}
