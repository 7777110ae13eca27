//! A gateway before a server that answers every request alike, over Unix sockets: as many
//! connections as there are inputs would use up ports.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_http::Gateway;
use steppe_http::config::{self, Listener, Route, Servers, Target, Upstream, UpstreamKind};
use steppe_http::gateway::{self, GatewayContext, Intake};
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_mem::pool::Stock;
use steppe_mem::{AccountReport, Budget};
use steppe_net::{
    BoundSockets, Drain, ListenAddress, Names, ServerAddress, SystemResolver, WorkerPlan,
    WorkerThread, bind, spawn_worker,
};

pub struct Running {
    socket: PathBuf,
    budget: Budget,
    _worker: WorkerThread,
}

impl Running {
    pub fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("steppe-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("gateway");
        let address = ListenAddress::Unix(socket.clone());
        let listener = bind(&address, 1).expect("binds").pop().expect("one");
        let mut sockets = BoundSockets::default();
        sockets.insert_listener(listener.address().clone(), listener);
        let config = configuration(address, origin(&folder));
        let budget = Budget::new(64 << 20);
        let names = Names::new(Arc::new(SystemResolver::new().expect("system settings")));
        let codecs = steppe_http::codecs();
        let context = GatewayContext {
            budget: &budget,
            names: &names,
            metrics: HttpMetrics::new(Labels::of(&config), 1),
            access: None,
            codecs: codecs.upstream,
        };
        let gateway = Gateway::new(config::Gateway::default(), context);
        let tls = gateway.load_tls(&config, Instant::now()).expect("valid");
        let gateway = gateway.next(config, tls);
        let plan = WorkerPlan {
            index: 0,
            drain: Drain::default(),
            stock: Stock {
                lease: budget.root().child("pool", None).lease(),
                idle_bytes_max: 1 << 20,
            },
            housekeeping: || (),
        };
        let serve = move |worker| async move {
            let intake = Intake {
                sockets,
                changes: tokio::sync::mpsc::channel(1).1,
                codecs: codecs.downstream,
            };
            gateway::serve(gateway, worker, intake).await;
        };
        let worker = spawn_worker(plan, serve).expect("a thread");
        Self {
            socket,
            budget,
            _worker: worker,
        }
    }

    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).expect("it listens")
    }

    /// What connections, streams and exchanges hold. Buffers and exchanges that are kept for the
    /// next are nobody's.
    pub fn held_bytes(&self) -> u64 {
        let report = self.budget.report();
        let is_kept = |account: &&AccountReport| ["pool", "exchanges"].contains(&&*account.name);
        let kept = report.children.iter().filter(is_kept);
        report.reserved_bytes - kept.map(|account| account.reserved_bytes).sum::<u64>()
    }
}

fn configuration(address: ListenAddress, origin: ServerAddress) -> config::Gateway {
    config::Gateway {
        trusted_proxies: Vec::new(),
        listeners: vec![Listener {
            address,
            protocols: vec![config::H2C],
            tls: None,
            redirect_https: None,
            proxy_protocol: false,
            underscores: config::Underscores::default(),
            limits: config::ListenerLimits::default(),
            timeouts: config::ListenerTimeouts::default(),
        }],
        upstreams: vec![Upstream {
            name: "origin".into(),
            // A connection that is kept is charged.
            kind: UpstreamKind::Servers(Servers {
                keepalive: 0,
                ..Servers::of([origin])
            }),
        }],
        filters: Vec::new(),
        routes: vec![Route {
            name: "all".into(),
            hosts: Vec::new(),
            path: "/{rest*}".parse().expect("valid"),
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
            client_cert: None,
            filters: Vec::new(),
            target: Target::Upstream(0),
            budget: None,
            total: Some(Duration::from_secs(60)),
        }],
    }
}

fn origin(folder: &Path) -> ServerAddress {
    let socket = folder.join("origin");
    let listener = UnixListener::bind(&socket).expect("binds");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || answer(connection));
        }
    });
    ServerAddress::Unix(socket)
}

/// Answers when a head has come, and reads on until the gateway leaves.
fn answer(mut connection: UnixStream) {
    let mut request = vec![0; 64 << 10];
    let mut filled = 0;
    while let Ok(count @ 1..) = connection.read(&mut request[filled..]) {
        let had_head = ends_head(&request[..filled]);
        filled += count;
        if !had_head && ends_head(&request[..filled]) {
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
        if filled > request.len() / 2 {
            filled = request.len() / 2;
        }
    }
}

fn ends_head(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|four| four == b"\r\n\r\n")
}
