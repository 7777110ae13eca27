//! A gateway with one worker, within the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use steppe_http::Gateway;
use steppe_http::codecs::Codecs;
use steppe_http::config::{
    self, CustomFilter, FilterKind, Listener, ProtocolName, Route, Servers, Target, Upstream,
    UpstreamKind,
};
use steppe_http::filter::Filter;
use steppe_http::gateway::{self, GatewayContext, Intake};
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    BoundSockets, Drain, ListenAddress, Names, Phase, ServerAddress, SystemResolver, WorkerPlan,
    WorkerThread, bind, spawn_worker,
};
use tokio::sync::mpsc;

/// A gateway that runs until it is dropped.
pub struct Running {
    /// Where each protocol is spoken, in the order of `protocols`.
    pub addresses: Vec<SocketAddr>,
    drain: Drain,
    worker: Option<WorkerThread>,
}

/// What a gateway is to be.
pub struct Setup {
    pub codecs: Codecs,
    /// One listener each.
    pub protocols: Vec<ProtocolName>,
    /// Behind every path.
    pub servers: Servers,
    /// In the order of the route.
    pub filters: Vec<Arc<dyn Filter>>,
}

/// Servers that speak `protocol`, in turn.
pub fn servers(protocol: ProtocolName, addresses: impl IntoIterator<Item = SocketAddr>) -> Servers {
    Servers {
        protocol,
        keepalive: 8,
        ..Servers::of(addresses.into_iter().map(ServerAddress::Ip))
    }
}

impl Running {
    pub fn start(setup: Setup) -> Self {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let bound: Vec<_> = setup
            .protocols
            .iter()
            .flat_map(|_| bind(&any, 1).expect("binds"))
            .collect();
        let addresses: Vec<_> = bound
            .iter()
            .map(|bound| match *bound.address() {
                ListenAddress::Tcp(address) => address,
                _ => unreachable!("it was bound to TCP"),
            })
            .collect();
        let codecs = setup.codecs.clone();
        let config = configuration(setup, &addresses);
        let budget = Budget::new(64 << 20);
        let metrics = HttpMetrics::new(Labels::of(&config), 1);
        let names = Names::new(Arc::new(SystemResolver::new().expect("system settings")));
        let context = GatewayContext {
            budget: &budget,
            names: &names,
            metrics,
            access: None,
            codecs: codecs.upstream,
        };
        let gateway = Gateway::new(config, context);
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
            let intake = Intake {
                sockets,
                changes: mpsc::channel(1).1,
                codecs: codecs.downstream,
            };
            gateway::serve(gateway, worker, intake).await;
        };
        Self {
            addresses,
            drain,
            worker: Some(spawn_worker(plan, serve).expect("a thread")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.drain.enter(Phase::Stopped);
        if let Some(worker) = self.worker.take() {
            worker.join();
        }
    }
}

fn configuration(setup: Setup, addresses: &[SocketAddr]) -> config::Gateway {
    let listener = |(&address, &protocol): (&SocketAddr, &ProtocolName)| Listener {
        address: ListenAddress::Tcp(address),
        protocols: vec![protocol],
        tls: None,
        redirect_https: None,
        proxy_protocol: false,
        underscores: config::Underscores::default(),
        limits: config::ListenerLimits::default(),
        timeouts: config::ListenerTimeouts::default(),
    };
    let filters = setup.filters.into_iter().enumerate();
    let filters: Vec<_> = filters
        .map(|(index, filter)| config::Filter {
            name: format!("filter {index}"),
            kind: FilterKind::Custom(CustomFilter(filter)),
        })
        .collect();
    config::Gateway {
        trusted_proxies: Vec::new(),
        listeners: addresses
            .iter()
            .zip(&setup.protocols)
            .map(listener)
            .collect(),
        upstreams: vec![Upstream {
            name: "servers".into(),
            kind: UpstreamKind::Servers(setup.servers),
        }],
        routes: vec![Route {
            name: "all".into(),
            hosts: Vec::new(),
            path: "/at/{rest*}".parse().expect("valid"),
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
            client_cert: None,
            filters: (0..filters.len()).collect(),
            target: Target::Upstream(0),
            budget: None,
            total: Some(Duration::from_secs(60)),
        }],
        filters,
    }
}
