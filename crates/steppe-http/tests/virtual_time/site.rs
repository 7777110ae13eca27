//! A gateway with one worker between a test's clients and servers, all on the runtime of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use steppe_http::Gateway;
use steppe_http::codecs::Codecs;
use steppe_http::config::{
    self, H1, Listener, ListenerTimeouts, Route, Servers, Target, Upstream, UpstreamKind,
};
use steppe_http::gateway::{self, GatewayContext, Intake};
use steppe_http::guest::Guests;
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_http::observers::Observers;
use steppe_http::upstream::{Probes, ServerReport, UpstreamReport};
use steppe_mem::Budget;
use steppe_net::{
    BoundSockets, Deadlines, Drain, ListenAddress, Names, ServerAddress, SystemResolver, Worker,
    bind, clock,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::memory::{Connected, End, Piped};

/// A gateway whose listener and one upstream are as a test has them.
pub struct Site {
    /// Of its listeners.
    pub addresses: Vec<SocketAddr>,
    pub drain: Drain,
    clients: mpsc::Receiver<End>,
    gateway: Arc<Gateway>,
    _probes: Probes,
}

/// The configuration of a site.
pub struct Plan {
    /// Its address is that of the socket.
    pub listener: Listener,
    pub servers: Servers,
    pub filters: Vec<config::Filter>,
    /// Another listener with its timeouts; its address is the second of the site.
    pub second: Option<ListenerTimeouts>,
    /// Changes the rest of the configuration.
    pub edit: Edit,
}

type Edit = Box<dyn FnOnce(&mut config::Gateway)>;

/// A server of a test's own.
pub struct Origin {
    pub address: SocketAddr,
    listener: TcpListener,
    seen: Arc<Mutex<Seen>>,
    reads: Reads,
}

/// The part of a request that a server reads before it acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    Whole,
    /// The rest belongs to the next one: for servers that close.
    Head,
}

/// The requests and connections that a server has seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub requests: Vec<Asked>,
    /// Connections that the gateway has closed.
    pub closed: usize,
    /// Connections that the gateway has made.
    pub accepted: usize,
}

/// A request, and when it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub text: String,
    pub at: Instant,
}

/// A server's action on a request.
pub enum Reply {
    Say(String),
    SayAfter(Duration, String),
    /// It closes the connection.
    CloseAfter(Duration),
    /// It keeps the connection, and says nothing.
    Silence,
}

/// A client's connection.
pub struct Client {
    end: End,
    said: String,
}

pub const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
pub const SORRY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno";

impl Plan {
    pub fn new(origins: &[&Origin]) -> Self {
        let addresses = origins.iter().map(|origin| origin.address);
        Self::to(addresses)
    }

    pub fn to(servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        let nowhere = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        Self {
            listener: Listener::of(nowhere, vec![H1]),
            servers: Servers::of(servers.into_iter().map(ServerAddress::Ip)),
            filters: Vec::new(),
            second: None,
            edit: Box::new(|_| ()),
        }
    }

    /// Of listeners at these addresses.
    fn config(self, listen: &[ListenAddress]) -> config::Gateway {
        let path = "/{rest*}".parse().expect("valid");
        let servers = Upstream {
            name: "servers".to_owned(),
            kind: UpstreamKind::Servers(self.servers),
        };
        let timeouts = std::iter::once(self.listener.timeouts).chain(self.second);
        let listener = |(address, timeouts): (&ListenAddress, _)| Listener {
            address: address.clone(),
            timeouts,
            ..self.listener.clone()
        };
        let mut config = config::Gateway {
            trusted_proxies: vec!["127.0.0.0/8".parse().expect("a network")],
            listeners: listen.iter().zip(timeouts).map(listener).collect(),
            upstreams: vec![servers],
            routes: vec![Route {
                filters: (0..self.filters.len()).collect(),
                ..Route::of("all", path, Target::Upstream(0))
            }],
            filters: self.filters,
        };
        (self.edit)(&mut config);
        config
    }
}

impl Site {
    /// Starts a gateway in front of `origins`, which serve from then on.
    pub fn start<const N: usize>(plan: Plan, origins: [(Origin, Script); N]) -> Self {
        let (to_clients, clients) = mpsc::channel(16);
        let piped = Piped::new(to_clients);
        for (origin, script) in origins {
            spawn_local(origin.run(script, Arc::clone(piped.servers())));
        }
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let count = 1 + usize::from(plan.second.is_some());
        let bound: Vec<_> = (0..count)
            .flat_map(|_| bind(&any, 1).expect("binds"))
            .collect();
        let listen: Vec<_> = bound.iter().map(|bound| bound.address().clone()).collect();
        let addresses = listen.iter().map(|address| match *address {
            ListenAddress::Tcp(address) => address,
            _ => unreachable!("it was bound to TCP"),
        });
        let addresses = addresses.collect();
        let codecs = Codecs::default()
            .with_downstream(H1, Arc::new(piped.clone()))
            .with_upstream(H1, Arc::new(piped));
        let config = plan.config(&listen);
        let budget = Budget::new(64 << 20);
        let names = Names::new(Arc::new(SystemResolver::new().expect("system settings")));
        let context = GatewayContext {
            budget: &budget,
            names: &names,
            metrics: HttpMetrics::new(Labels::from(&config), 1),
            observers: Observers::default(),
            codecs: codecs.upstream,
            guests: Guests::default(),
        };
        let gateway = Gateway::new(config::Gateway::default(), context);
        let tls = gateway.load(&config, clock::now()).expect("valid");
        let gateway = gateway.next(config, tls);
        let mut sockets = BoundSockets::default();
        for (address, bound) in listen.into_iter().zip(bound) {
            sockets.insert_listener(address, bound);
        }
        let drain = Drain::default();
        let worker = Worker {
            index: 0,
            deadlines: Deadlines::default(),
            drain: drain.clone(),
            io: Worker::default_io(),
        };
        let deadlines = worker.deadlines.clone();
        spawn_local(async move { deadlines.run().await });
        let intake = Intake {
            sockets,
            changes: mpsc::channel(1).1,
            codecs: codecs.downstream,
        };
        spawn_local(gateway::serve(
            Arc::clone(&gateway),
            Rc::new(worker),
            intake,
        ));
        Self {
            addresses,
            drain,
            clients,
            _probes: gateway.start_probes(),
            gateway,
        }
    }

    pub async fn connect(&mut self) -> Client {
        self.connect_to(0).await
    }

    /// To the listener of this index.
    pub async fn connect_to(&mut self, listener: usize) -> Client {
        let address = self.addresses[listener];
        let socket = TcpStream::connect(address).await.expect("it listens");
        let end = self.clients.recv().await.expect("it serves");
        drop(socket);
        Client {
            end,
            said: String::new(),
        }
    }

    /// One request on a connection of its own.
    pub async fn ask(&mut self, request: &str) -> String {
        let mut client = self.connect().await;
        client.send(request).await;
        client.response().await
    }

    pub async fn status(&mut self) -> u16 {
        status(&self.ask(GET).await)
    }

    pub async fn statuses(&mut self, count: usize) -> Vec<u16> {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(self.status().await);
        }
        statuses
    }

    pub fn report(&self) -> UpstreamReport {
        self.gateway.upstreams().current()[0].report(clock::now())
    }

    pub fn server(&self, at: usize) -> ServerReport {
        self.report().servers[at].clone()
    }

    pub fn states(&self) -> Vec<&'static str> {
        self.report()
            .servers
            .iter()
            .map(|server| server.state)
            .collect()
    }
}

pub fn status(response: &str) -> u16 {
    let code = response.get(9..12).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no status: {response:?}"))
}

/// A server's replies, by the request.
pub type Script = Box<dyn FnMut(&str) -> Reply>;

/// Says the same to everyone.
pub fn saying(answer: &'static str) -> Script {
    Box::new(move |_| Reply::Say(answer.to_owned()))
}

impl Origin {
    /// One that serves once a site is started with it.
    pub fn bind() -> Self {
        Self::reading(Reads::Whole)
    }

    pub fn reading(reads: Reads) -> Self {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        socket.set_nonblocking(true).expect("a socket");
        Self {
            address: socket.local_addr().expect("bound"),
            listener: TcpListener::from_std(socket).expect("a runtime"),
            seen: Arc::default(),
            reads,
        }
    }

    pub fn seen(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }

    async fn run(self, script: Script, connected: Arc<Connected>) {
        let script = Rc::new(std::cell::RefCell::new(script));
        while let Ok((_socket, peer)) = self.listener.accept().await {
            self.seen.lock().expect("no panic").accepted += 1;
            let (seen, script) = (self.seen(), Rc::clone(&script));
            let (connected, reads) = (Arc::clone(&connected), self.reads);
            spawn_local(async move {
                let mut end = connected.take(peer).await;
                let script = |request: &str| script.borrow_mut()(request);
                serve((&mut end, reads), &seen, script).await;
                seen.lock().expect("no panic").closed += 1;
            });
        }
    }
}

async fn serve(
    (end, reads): (&mut End, Reads),
    seen: &Mutex<Seen>,
    mut script: impl FnMut(&str) -> Reply,
) {
    let mut text = String::new();
    while read_message(end, reads, &mut text).await {
        let asked = Asked {
            text: text.clone(),
            at: clock::now(),
        };
        seen.lock().expect("no panic").requests.push(asked);
        let reply = script(&text);
        text.clear();
        let answer = match reply {
            Reply::Say(answer) => answer,
            Reply::SayAfter(after, answer) => {
                tokio::time::sleep(after).await;
                answer
            }
            Reply::CloseAfter(after) => {
                tokio::time::sleep(after).await;
                return;
            }
            Reply::Silence => {
                while !end.read().await.is_empty() {}
                return;
            }
        };
        if end.write(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads a message into `text`; true if it was whole before the end of the connection.
async fn read_message(end: &mut End, reads: Reads, text: &mut String) -> bool {
    loop {
        let is_whole = text.split_once("\r\n\r\n").is_some_and(|(head, content)| {
            let head = head.to_ascii_lowercase();
            let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
                let digits = rest.split("\r\n").next().expect("split has one");
                digits.parse().expect("a number")
            });
            reads == Reads::Head || content.len() >= length
        });
        if is_whole {
            return true;
        }
        let bytes = end.read().await;
        if bytes.is_empty() {
            return false;
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
}

impl Client {
    pub async fn send(&mut self, text: &str) {
        self.end.write(text.as_bytes()).await.expect("it reads");
    }

    /// A response whose content has a length.
    pub async fn response(&mut self) -> String {
        let mut said = std::mem::take(&mut self.said);
        assert!(
            read_message(&mut self.end, Reads::Whole, &mut said).await,
            "{said:?}"
        );
        said
    }

    /// Reads up to the end of the connection, and returns the text.
    pub async fn rest(&mut self) -> String {
        let mut said = std::mem::take(&mut self.said);
        loop {
            match self.end.read().await {
                bytes if bytes.is_empty() => return said,
                bytes => said.push_str(&String::from_utf8_lossy(&bytes)),
            }
        }
    }

    /// Some bytes of what is said, however many.
    pub async fn some(&mut self) -> Vec<u8> {
        self.end.read().await
    }

    /// True if the other side sends no more.
    pub fn has_ended(&self) -> bool {
        self.end.has_ended()
    }

    /// True if the connection is open, and no byte of it is unread.
    pub fn is_waiting(&self) -> bool {
        self.end.unread_bytes() == 0 && !self.end.has_ended()
    }
}
