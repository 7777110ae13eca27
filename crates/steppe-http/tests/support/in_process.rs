//! A gateway with one worker, within the program.

use std::sync::Arc;
use std::time::Instant;

use steppe_http::Gateway;
use steppe_http::access::AccessLog;
use steppe_http::codecs::Codecs;
use steppe_http::config;
use steppe_http::filter::FileError;
use steppe_http::gateway::{self, GatewayContext, Intake};
use steppe_http::guest::Guests;
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_http::observers::Observers;
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    BoundListener, BoundSockets, Change, Drain, Names, Phase, SystemResolver, WorkerPlan,
    WorkerThread, spawn_worker,
};
use steppe_telemetry::trace::Tracer;
use tokio::sync::{mpsc, oneshot};

/// Runs until it is dropped.
pub struct InProcess {
    pub drain: Drain,
    gateway: Arc<Gateway>,
    changes: mpsc::Sender<Change<Gateway>>,
    worker: Option<WorkerThread>,
}

/// What a gateway is to be.
pub struct Setup<'a> {
    pub budget: &'a Budget,
    pub config: config::Gateway,
    /// Of all its listeners.
    pub bound: Vec<BoundListener>,
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
            codecs,
            access,
            tracer,
            guests,
        } = setup;
        let names = Names::new(Arc::new(SystemResolver::new().expect("system settings")));
        let context = GatewayContext {
            budget,
            names: &names,
            metrics: HttpMetrics::new(Labels::of(&config), 1),
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
        let drain = Drain::default();
        let plan = WorkerPlan {
            index: 0,
            drain: drain.clone(),
            stock: Stock {
                lease: budget.root().child("pool", None).lease(),
                idle_bytes_max: 1 << 20,
            },
            housekeeping: || (),
        };
        let (changes, received) = mpsc::channel(1);
        let served = Arc::clone(&gateway);
        let serve = move |worker| async move {
            beside();
            let intake = Intake {
                sockets,
                changes: received,
                codecs: codecs.downstream,
            };
            gateway::serve(served, worker, intake).await;
        };
        Self {
            drain,
            gateway,
            changes,
            worker: Some(spawn_worker(plan, serve).expect("a thread")),
        }
    }
}

impl InProcess {
    /// Reads the files of its configuration again, and changes to what they say now.
    ///
    /// # Errors
    /// A file can't be used: nothing changes.
    #[allow(dead_code, reason = "not every program that shares this reloads")]
    pub fn reload(&mut self) -> Result<(), FileError> {
        let config = self.gateway.config().clone();
        let files = self.gateway.load(&config, Instant::now())?;
        self.gateway = self.gateway.next(config, files);
        let (done, changed) = oneshot::channel();
        let change = Change {
            next: Arc::clone(&self.gateway),
            sockets: BoundSockets::default(),
            done,
        };
        let sent = self.changes.blocking_send(change);
        sent.map_err(|_| "no worker").expect("it serves");
        changed.blocking_recv().expect("the worker changes over");
        Ok(())
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
