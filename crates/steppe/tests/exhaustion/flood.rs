//! The harness: a node with a budget, an attack, a neighbour, and the checks.
//!
//! A case is a [`Flood`] with a budget and keys of its own. [`Flood::run`] starts the node, lets a neighbour send
//! steady requests from 127.0.0.2 for a route of its own, and calls the attack, which returns a value that keeps its
//! peers connected. While they are, the neighbour goes on for a while; then `VmHWM` is read, the peers are dropped, and
//! the accounts of `/memory` have to return to their former values.
//!
//! Leaves out: the bytes of an attack. [`Crowd`] drives many connections from one thread, [`SilentOrigin`] answers
//! nothing.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use steppe_testkit::{
    MemoryMeter, NodeConfig, PATIENCE, RawOrigin, Steppe, SteppeBuilder, eventually, heavy,
    observe_until,
};

/// Memory that a node may hold beyond its budget.
const OVERHEAD_MIB: u64 = 24;
const MIB: u64 = 1 << 20;

/// The neighbour's address.
const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Pause between two of its requests.
const NEIGHBOUR_PAUSE: Duration = Duration::from_millis(20);
/// Requests of the neighbour that are awaited while the attack's peers are connected and have done their work.
const NEIGHBOUR_REQUESTS_MIN: u64 = 50;
/// Percent of the neighbour's requests that have to be served, unless a case sets another.
const NEIGHBOUR_SERVED_PERCENT: u64 = 95;

/// Accounts that follow the allocator and caches rather than peers, and the account of the harness's own requests.
const UNJUDGED: [&str; 4] = ["node/admin", "node/pool", "node/overhead", "node/uncharged"];
/// Bytes of exchanges that a worker keeps for reuse: 256 of 1,536, and series of gRPC.
const IDLE_EXCHANGES_BYTES: u64 = 448 << 10;

/// Sends the node one request; returns true if it was served.
type Neighbour = Box<dyn Fn(&Steppe) -> bool + Send + Sync>;

/// A case of an attack.
pub struct Flood {
    case: String,
    budget_mib: u64,
    config: NodeConfig,
    builder: SteppeBuilder<'static>,
    neighbour: Option<Neighbour>,
    overhead_mib: u64,
    served_percent: u64,
    is_by_charges_alone: bool,
}

impl Flood {
    /// A node with this budget in MiB and one worker, which serves HTTP/1.1 and h2c at `{gateway}`. The route
    /// `neighbour` (`/neighbour`) goes to a server of its own.
    pub fn new(case: &str, budget_mib: u64) -> Self {
        let config = NodeConfig::bare()
            .memory_budget(&format!("{budget_mib}MiB"))
            .protocols(["h1", "h2c"])
            .set("log.level", "error")
            .add_upstream("neighbour", |u| u.servers(["{neighbour}"]))
            .add_route("neighbour", |r| r.path("/neighbour").upstream("neighbour"));
        Self {
            case: case.to_owned(),
            budget_mib,
            config,
            builder: Steppe::builder(),
            neighbour: None,
            overhead_mib: OVERHEAD_MIB,
            served_percent: NEIGHBOUR_SERVED_PERCENT,
            is_by_charges_alone: false,
        }
    }

    /// Tightens the checks: charges hold the budget, and no debt of uncharged memory ever begins (the second line of
    /// defense, `docs/operate/memory.md`).
    #[must_use]
    pub fn by_charges_alone(mut self) -> Self {
        self.is_by_charges_alone = true;
        self
    }

    /// Loosens the checks: memory beyond the budget in MiB, and percent of the neighbour's requests that are served.
    #[cfg(feature = "uncharged-heads")]
    #[must_use]
    pub fn promising(mut self, overhead_mib: u64, served_percent: u64) -> Self {
        (self.overhead_mib, self.served_percent) = (overhead_mib, served_percent);
        self
    }

    /// Changes the configuration.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(NodeConfig) -> NodeConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// Changes the start of the node: files, ports and `{name}`s.
    #[must_use]
    pub fn builder(
        mut self,
        change: impl FnOnce(SteppeBuilder<'static>) -> SteppeBuilder<'static>,
    ) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Sets the upstream `flood` to the server at `address`; the route `flood` (`/flood/{rest*}`) goes to it.
    #[must_use]
    pub fn toward(self, address: SocketAddr, protocol: &str) -> Self {
        self.config(|config| {
            config
                .add_upstream("flood", |u| {
                    u.servers([address.to_string()])
                        .set("protocol", protocol)
                        // Idle connections to the server would stay charged.
                        .set("keepalive", 0)
                })
                .add_route("flood", |r| r.path("/flood/{rest*}").upstream("flood"))
        })
    }

    /// Sets another neighbour than the client of HTTP/1.1: `ask` sends the node one request, from an address other than
    /// the attack's, and returns true if it was served.
    #[must_use]
    pub fn neighbour(mut self, ask: impl Fn(&Steppe) -> bool + Send + Sync + 'static) -> Self {
        self.neighbour = Some(Box::new(ask));
        self
    }

    /// Runs the case. `attack` attacks and returns a value that keeps its peers connected.
    ///
    /// # Panics
    /// If one of the promises is broken.
    #[track_caller]
    pub fn run<P>(self, attack: impl FnOnce(&Steppe) -> P) {
        let _alone = heavy();
        let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        let builder = self.builder.with("neighbour", origin.address());
        let node = builder.start(&self.config);
        let ask = self.neighbour.unwrap_or_else(|| Box::new(is_served));
        assert!(ask(&node), "{}: the neighbour is served alone", self.case);
        let before = Accounts::of(&node);
        let meter = MemoryMeter::watch(node.id());
        let counts = Counts::default();
        let mut peak_bytes = 0;
        let mut second_line = SecondLine::default();
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&counts.stop);
            scope.spawn(|| counts.ask_steadily(|| ask(&node)));
            let peers = attack(&node);
            let done = counts.asked.load(Ordering::Relaxed);
            eventually("the neighbour goes on", || {
                counts.asked.load(Ordering::Relaxed) >= done + NEIGHBOUR_REQUESTS_MIN
            });
            peak_bytes = meter.finish().high_water_bytes;
            println!("{}", holdings(&node));
            second_line = SecondLine::of(&node);
            drop(peers);
        });
        let (case, limit) = (&self.case, self.budget_mib + self.overhead_mib);
        let (asked, served) = counts.read();
        let figures = format!(
            "{case}: {} MiB of {limit}, neighbour {served} of {asked}, {second_line:?}",
            peak_bytes / MIB
        );
        println!("PEAK {figures}");
        before.await_return(&node, case);
        assert!(peak_bytes <= limit * MIB, "{figures}");
        let is_served = served * 100 >= asked * self.served_percent;
        assert!(is_served, "{figures}");
        let has_acted = second_line != SecondLine::default();
        assert!(!self.is_by_charges_alone || !has_acted, "{figures}");
    }
}

/// Actions of the budget's second line of defense.
#[derive(Debug, Default, PartialEq, Eq)]
struct SecondLine {
    /// Times that uncharged memory exceeded the free bytes of the budget.
    debts: u64,
    /// Connections that were closed to pay for that.
    shed: u64,
}

impl SecondLine {
    fn of(node: &Steppe) -> Self {
        let memory = node.admin_json("/memory");
        let count = |path: &str| {
            let count = memory.pointer(path).and_then(Value::as_u64);
            count.unwrap_or_else(|| panic!("{path} of {memory}"))
        };
        Self {
            debts: count("/uncharged/debts"),
            shed: count("/clients/shed_total"),
        }
    }
}

/// Memory of a node in MiB, by its own accounts: the first figures to look at if a case fails.
fn holdings(node: &Steppe) -> String {
    let memory = node.admin_json("/memory");
    let mib = |path: &str| memory.pointer(path).and_then(Value::as_u64).unwrap_or(0) / MIB;
    let mut accounts = BTreeMap::new();
    collect(&memory["budget"], "", &mut accounts);
    accounts.retain(|_, bytes| *bytes >= MIB);
    accounts.values_mut().for_each(|bytes| *bytes /= MIB);
    format!(
        "reserved {}, live {}, retained {}, dirty {}, resident {}; {accounts:?}; most by {}",
        mib("/budget/reserved_bytes"),
        mib("/allocator/live_bytes"),
        mib("/allocator/details/retained_bytes"),
        mib("/allocator/details/dirty_bytes"),
        mib("/rss_bytes"),
        memory["clients"]["top"][0],
    )
}

/// Counts of the neighbour's requests.
#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    asked: AtomicU64,
    served: AtomicU64,
}

impl Counts {
    fn ask_steadily(&self, ask: impl Fn() -> bool) {
        while !self.stop.load(Ordering::Relaxed) {
            self.served.fetch_add(ask().into(), Ordering::Relaxed);
            self.asked.fetch_add(1, Ordering::Relaxed);
            // A steady client, not one without a pause.
            std::thread::sleep(NEIGHBOUR_PAUSE);
        }
    }

    /// The number of requests, and of those served.
    fn read(&self) -> (u64, u64) {
        let [asked, served] =
            [&self.asked, &self.served].map(|count| count.load(Ordering::Relaxed));
        (asked, served)
    }
}

/// Ends the neighbour also when an attack panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends one request of the neighbour, on a connection of its own; returns true if it was served.
pub fn is_served(node: &Steppe) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("sockets are left");
    let bound = socket.bind(&SocketAddr::new(NEIGHBOUR, 0).into());
    bound.expect("it is an address of this machine");
    let mut answer = [0; 12];
    let asked = socket.connect(&node.gateway().into()).and_then(|()| {
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /neighbour HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
        stream.read_exact(&mut answer)
    });
    asked.is_ok() && answer.ends_with(b" 200")
}

/// Reserved bytes, by account.
struct Accounts(BTreeMap<String, u64>);

impl Accounts {
    fn of(node: &Steppe) -> Self {
        let mut all = BTreeMap::new();
        collect(&node.admin_json("/memory")["budget"], "", &mut all);
        Self(all)
    }

    /// Waits until each account has no more than before, but for the exchanges that a worker keeps for reuse.
    #[track_caller]
    fn await_return(&self, node: &Steppe, case: &str) {
        let grown = || -> Vec<(String, u64)> {
            let before = |account: &String| self.0.get(account).copied().unwrap_or(0);
            let now = Self::of(node).0.into_iter();
            now.filter(|(account, bytes)| *bytes > before(account) + allowance(account))
                .collect()
        };
        let what = format!("{case}: accounts return");
        observe_until(&what, grown, |grown| grown.is_empty());
    }
}

/// The leaves of the tree of accounts.
fn collect(account: &Value, above: &str, all: &mut BTreeMap<String, u64>) {
    let name = account["name"].as_str().unwrap_or_default();
    let path = [above, name].concat();
    let children = account["children"].as_array();
    match children.filter(|children| !children.is_empty()) {
        Some(children) => {
            let above = format!("{path}/");
            children
                .iter()
                .for_each(|child| collect(child, &above, all));
        }
        None => _ = all.insert(path, account["reserved_bytes"].as_u64().unwrap_or(0)),
    }
}

fn allowance(account: &str) -> u64 {
    if UNJUDGED.contains(&account) {
        u64::MAX / 2
    } else if account == "node/exchanges" {
        IDLE_EXCHANGES_BYTES
    } else {
        0
    }
}

/// Many connections that one thread drives.
pub struct Crowd {
    members: Vec<Member>,
}

struct Member {
    stream: TcpStream,
    /// The bytes to send.
    left: Arc<[u8]>,
    sent: usize,
    is_gone: bool,
}

/// Time without progress on any connection after which the other end counts as stalled.
const STALL: Duration = Duration::from_secs(2);

impl Crowd {
    /// Connects so many connections to `address`.
    ///
    /// # Panics
    /// If one can't be made.
    #[track_caller]
    pub fn connect(address: SocketAddr, count: usize) -> Self {
        let member = |_| {
            let stream = TcpStream::connect(address).expect("it listens");
            stream.set_nonblocking(true).expect("a socket can be");
            Member {
                stream,
                left: Arc::from([]),
                sent: 0,
                is_gone: false,
            }
        };
        Self {
            members: (0..count).map(member).collect(),
        }
    }

    /// Makes the peers leave by RST. A FIN would wait behind bytes that the node does not read.
    #[must_use]
    pub fn leaving_by_reset(self) -> Self {
        for member in &self.members {
            let socket = socket2::SockRef::from(&member.stream);
            let lingers = socket.set_linger(Some(Duration::ZERO));
            lingers.expect("a socket can be told");
        }
        self
    }

    /// Sends `bytes` on each connection, as far as the other end takes them. Returns the number of bytes sent in all.
    /// Received bytes stay unread.
    pub fn send(&mut self, bytes: &[u8]) -> u64 {
        let bytes: Arc<[u8]> = Arc::from(bytes);
        for member in &mut self.members {
            member.left = Arc::clone(&bytes);
            member.sent = 0;
        }
        let mut sent = 0;
        let mut progress_at = Instant::now();
        while progress_at.elapsed() < STALL && !self.members.iter().all(Member::is_done) {
            let more: u64 = self.members.iter_mut().map(Member::send).sum();
            if more > 0 {
                progress_at = Instant::now();
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
            sent += more;
        }
        sent
    }

    /// Reads and discards the bytes of all connections, until none has come for `quiet`.
    pub fn read_until_quiet(&mut self, quiet: Duration) {
        let mut part = [0; 16 << 10];
        let mut read_at = Instant::now();
        while read_at.elapsed() < quiet {
            let mut has_read = false;
            for member in &mut self.members {
                has_read |= matches!(member.stream.read(&mut part), Ok(1..));
            }
            if has_read {
                read_at = Instant::now();
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Member {
    fn is_done(&self) -> bool {
        self.is_gone || self.sent == self.left.len()
    }

    fn send(&mut self) -> u64 {
        if self.is_done() {
            return 0;
        }
        match self.stream.write(&self.left[self.sent..]) {
            Ok(count) => {
                self.sent += count;
                count as u64
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(_) => {
                self.is_gone = true;
                0
            }
        }
    }
}

/// Connections that a [`SilentOrigin`] holds between two sweeps of those that the node has closed.
const SWEEP_EVERY: usize = 256;

/// Drops connections that the peer has closed: with a node that sheds, the test would run out of descriptors.
fn drop_left(held: &mut Vec<TcpStream>) {
    let mut polled: Vec<_> = held
        .iter()
        .map(|stream| PollFd::new(stream, PollFlags::RDHUP))
        .collect();
    rustix::event::poll(&mut polled, Some(&Timespec::default())).expect("sockets can be polled");
    let mut left = polled
        .iter()
        .map(|polled| !polled.revents().is_empty())
        .collect::<Vec<_>>()
        .into_iter();
    held.retain(|_| !left.next().expect("one for each"));
}

/// A server that accepts connections and neither reads nor answers.
pub struct SilentOrigin {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl SilentOrigin {
    /// Starts a silent server.
    ///
    /// # Panics
    /// If no port can be bound.
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("a bound socket has one");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let acceptor = std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                held.push(stream);
                if held.len().is_multiple_of(SWEEP_EVERY) {
                    drop_left(&mut held);
                }
            }
        });
        Self {
            address,
            stop,
            acceptor: Some(acceptor),
        }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SilentOrigin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}
