//! A gateway whose worker says how much it has allocated.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use steppe_http::config::{
    self, Listener, ListenerTimeouts, ListenerTls, ProtocolName, Route, Servers, Target, Upstream,
    UpstreamKind, UpstreamTimeouts,
};
use steppe_mem::Budget;
use steppe_mem::alloc::thread_block_bytes;
use steppe_net::{ListenAddress, ServerAddress, bind};
use steppe_testkit::{RawOrigin, observe_until};
use tokio::sync::{mpsc, oneshot};

use crate::in_process::{InProcess, Setup};

/// Both sides of a gateway.
pub struct Sides {
    pub tls: Option<ListenerTls>,
    pub listens: ProtocolName,
    pub asks: ProtocolName,
    pub origin: RawOrigin,
    /// Connections of a measurement.
    pub count: usize,
}

impl Sides {
    /// HTTP/1.1 without TLS.
    pub fn of_http1(origin: RawOrigin) -> Self {
        Self {
            tls: None,
            listens: config::H1,
            asks: config::H1,
            origin,
            count: 256,
        }
    }
}

/// A gateway with one worker.
pub struct Running {
    pub address: SocketAddr,
    /// Connections of a measurement.
    pub count: usize,
    budget: Budget,
    ask: mpsc::Sender<oneshot::Sender<i64>>,
    _gateway: InProcess,
    _origin: RawOrigin,
}

impl Running {
    pub fn start(sides: Sides) -> Self {
        let Sides {
            tls,
            listens,
            asks,
            origin,
            count,
        } = sides;
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let bound = bind(&any, 1).expect("binds");
        let patient = ListenerTimeouts {
            handshake: Duration::from_secs(600),
            header: Duration::from_secs(600),
            idle: Duration::from_secs(600),
            write_stall: Duration::from_secs(600),
        };
        let listener = Listener {
            tls,
            timeouts: patient,
            ..Listener::of(bound[0].address().clone(), vec![listens])
        };
        let ListenAddress::Tcp(address) = listener.address else {
            panic!("not TCP")
        };
        let servers = Servers {
            keepalive: 2 * count,
            timeouts: UpstreamTimeouts {
                first_byte: Duration::from_secs(600),
                ..UpstreamTimeouts::default()
            },
            protocol: asks,
            ..Servers::of([ServerAddress::Ip(origin.address())])
        };
        let path = "/{rest*}".parse().expect("valid");
        let config = config::Gateway {
            listeners: vec![listener],
            upstreams: vec![Upstream {
                name: "o".into(),
                kind: UpstreamKind::Servers(servers),
            }],
            routes: vec![Route::of("all", path, Target::Upstream(0))],
            ..config::Gateway::default()
        };
        let budget = Budget::new(1 << 30);
        let (ask, mut asked) = mpsc::channel::<oneshot::Sender<i64>>(1);
        let setup = Setup::of(&budget, config, bound);
        let gateway = InProcess::start(setup, || {
            tokio::task::spawn_local(async move {
                while let Some(answer) = asked.recv().await {
                    let _ = answer.send(thread_block_bytes());
                }
            });
        });
        Self {
            address,
            count,
            budget,
            ask,
            _gateway: gateway,
            _origin: origin,
        }
    }

    /// Bytes that the worker has allocated, once that stays as it is.
    pub fn taken(&self) -> i64 {
        self.taken_after(10)
    }

    /// The same, once so many looks have found it as it is.
    fn taken_after(&self, looks: u32) -> i64 {
        let ask = || {
            let (answer, answered) = oneshot::channel();
            self.ask.blocking_send(answer).expect("the worker runs");
            answered.blocking_recv().expect("the worker answers")
        };
        // Housekeeping goes on meanwhile: what it takes for a moment is little beside so many connections.
        let noise = 16 * self.count as u64;
        let until = Instant::now() + Duration::from_secs(60);
        let (mut last, mut quiet) = (ask(), 0);
        while quiet < looks {
            assert!(Instant::now() < until, "it does not settle");
            thread::sleep(Duration::from_millis(20));
            let now = ask();
            quiet = if now.abs_diff(last) <= noise {
                quiet + 1
            } else {
                0
            };
            last = now;
        }
        last
    }

    /// Bytes reserved, without the unused parts of the portions that workers drew.
    pub fn reserved(&self) -> u64 {
        self.budget.root().reclaim();
        self.budget.root().reserved_bytes()
    }

    /// Bytes reserved by the account whose name begins so.
    fn reserved_by(&self, begin: &str) -> u64 {
        self.budget.root().reclaim();
        let accounts = self.budget.report().children.into_iter();
        let of_them = accounts.filter(|account| account.name.starts_with(begin));
        of_them.map(|account| account.reserved_bytes).sum()
    }

    /// Tells all connections of clients to close, once their requests have been read.
    pub fn shed_all(&self) {
        self.taken();
        let shed = self.budget.clients().shed(u64::MAX);
        assert_eq!(shed.len(), self.count);
    }

    /// Waits until connections of clients hold nothing.
    #[track_caller]
    pub fn await_end_of_connections(&self) {
        let reserved = || self.reserved_by("listener ");
        observe_until("connections have ended", reserved, |&bytes| bytes == 0);
    }

    /// A connection that has sent `request`.
    pub fn connect(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        stream.write_all(request.as_ref()).expect("writes");
        stream
    }

    /// Connections that have sent `request`, after `each` did something with each.
    pub fn connections(
        &self,
        request: impl AsRef<[u8]>,
        each: impl Fn(&mut TcpStream),
    ) -> Vec<TcpStream> {
        let connect = |_| {
            let mut stream = self.connect(&request);
            each(&mut stream);
            stream
        };
        (0..self.count).map(connect).collect()
    }
}

/// Bytes of one thing of many.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub taken: i64,
    pub charged: i64,
}

/// Looks of 20 ms: a worker frees buffers that were idle for two seconds.
const IDLE_LOOKS: u32 = 120;

/// A worker's figures when a measurement began.
pub struct Before<'a> {
    running: &'a Running,
    taken: i64,
    reserved: u64,
}

impl<'a> Before<'a> {
    /// Once no connection of a client is left.
    pub fn of(running: &'a Running) -> Self {
        running.await_end_of_connections();
        Self {
            running,
            taken: running.taken_after(IDLE_LOOKS),
            reserved: running.reserved(),
        }
    }

    /// Bytes that were taken and charged since then, for each connection.
    pub fn sizes(&self) -> Sizes {
        let count = i64::try_from(self.running.count).expect("small");
        let taken = (self.running.taken() - self.taken) / count;
        let reserved = self.running.reserved().saturating_sub(self.reserved);
        Sizes {
            taken,
            charged: i64::try_from(reserved).expect("small") / count,
        }
    }

    /// No more is taken than then, but for what a worker keeps for reuse.
    #[track_caller]
    pub fn is_given_back(&self, what: &str) {
        const KEPT_BYTES: i64 = 1 << 20;
        self.running.await_end_of_connections();
        let left = self.running.taken_after(IDLE_LOOKS) - self.taken;
        assert!(left < KEPT_BYTES, "{what}: {left} bytes are left");
    }

    /// The charges since then cover the memory that was taken.
    #[track_caller]
    pub fn is_covered(&self, what: &str) {
        let Sizes { taken, charged } = self.sizes();
        println!("{what}: {taken} bytes taken, {charged} charged");
        assert!(
            taken > 0 && taken <= charged,
            "{what}: {taken} of {charged}"
        );
    }
}
