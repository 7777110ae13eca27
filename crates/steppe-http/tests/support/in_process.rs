//! A gateway with one worker, within the program.

use std::sync::Arc;
use std::time::Instant;

use steppe_http::Gateway;
use steppe_http::access::AccessLog;
use steppe_http::codecs::Codecs;
use steppe_http::config;
use steppe_http::gateway::{self, GatewayContext, Intake};
use steppe_http::guest::Guests;
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_http::observers::Observers;
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    BoundListener, BoundSockets, Drain, Names, Phase, SystemResolver, WorkerPlan, WorkerThread,
    spawn_worker,
};
use steppe_telemetry::trace::Tracer;
use tokio::sync::mpsc;

/// Runs until it is dropped.
pub struct InProcess {
    pub drain: Drain,
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
        let tls = gateway.load_tls(&config, Instant::now()).expect("valid");
        let gateway = gateway.next(config, tls);
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
        let serve = move |worker| async move {
            beside();
            let intake = Intake {
                sockets,
                changes: mpsc::channel(1).1,
                codecs: codecs.downstream,
            };
            gateway::serve(gateway, worker, intake).await;
        };
        Self {
            drain,
            worker: Some(spawn_worker(plan, serve).expect("a thread")),
        }
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
