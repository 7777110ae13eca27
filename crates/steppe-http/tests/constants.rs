//! Charges of connections and exchanges, against the memory that they take, by the allocator's counters.
//!
//! Leaves out what the C library of the cryptography allocates, which these counters do not show.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

#[path = "support/in_process.rs"]
mod in_process;

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use steppe_http::config::{
    self, Listener, ListenerTimeouts, ListenerTls, Route, Servers, Target, Upstream, UpstreamKind,
};
use steppe_http::guest::Guests;
use steppe_mem::Budget;
use steppe_mem::alloc::{Counted, thread_block_bytes};
use steppe_net::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, Doubt, ListenerConfig, MinVersion,
};
use steppe_net::{ListenAddress, ServerAddress, bind};
use steppe_testkit::{Authority, Leaf, Peer, RawOrigin, Scratch, TlsClient};
use tokio::sync::{mpsc, oneshot};

use in_process::{InProcess, Setup};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// Connections of a measurement.
const COUNT: usize = 256;

/// A gateway with one worker, in front of a server that answers `/` and nothing else.
struct Running {
    address: SocketAddr,
    budget: Budget,
    ask: mpsc::Sender<oneshot::Sender<i64>>,
    _gateway: InProcess,
    _origin: RawOrigin,
}

impl Running {
    fn start(tls: Option<ListenerTls>) -> Self {
        let origin = origin();
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
            ..Listener::of(bound[0].address().clone(), vec![config::H1])
        };
        let ListenAddress::Tcp(address) = listener.address else {
            panic!("not TCP")
        };
        let servers = Servers {
            keepalive: 2 * COUNT,
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
        let budget = Budget::new(64 << 20);
        let (ask, mut asked) = mpsc::channel::<oneshot::Sender<i64>>(1);
        let setup = Setup {
            budget: &budget,
            config,
            bound,
            codecs: steppe_http::codecs(),
            access: None,
            tracer: None,
            guests: Guests::default(),
        };
        let gateway = InProcess::start(setup, || {
            tokio::task::spawn_local(async move {
                while let Some(answer) = asked.recv().await {
                    let _ = answer.send(thread_block_bytes());
                }
            });
        });
        Self {
            address,
            budget,
            ask,
            _gateway: gateway,
            _origin: origin,
        }
    }

    /// Bytes that the worker has allocated, once that stays as it is.
    fn taken(&self) -> i64 {
        let ask = || {
            let (answer, answered) = oneshot::channel();
            self.ask.blocking_send(answer).expect("the worker runs");
            answered.blocking_recv().expect("the worker answers")
        };
        // Housekeeping goes on meanwhile: what it takes for a moment is little beside so many connections.
        const NOISE: u64 = 16 * COUNT as u64;
        let until = Instant::now() + Duration::from_secs(60);
        let (mut last, mut quiet) = (ask(), 0);
        while quiet < 10 {
            assert!(Instant::now() < until, "it does not settle");
            thread::sleep(Duration::from_millis(20));
            let now = ask();
            quiet = if now.abs_diff(last) <= NOISE {
                quiet + 1
            } else {
                0
            };
            last = now;
        }
        last
    }

    fn reserved(&self) -> u64 {
        self.budget.root().reserved_bytes()
    }

    /// Connections that have sent `request`, after `each` did something with each.
    fn connections(&self, request: &str, each: impl Fn(&mut TcpStream)) -> Vec<TcpStream> {
        let connect = |_| {
            let mut stream = TcpStream::connect(self.address).expect("connects");
            stream.write_all(request.as_bytes()).expect("writes");
            each(&mut stream);
            stream
        };
        (0..COUNT).map(connect).collect()
    }
}

/// With a certificate for `a`.
fn tls(scratch: &Scratch, authority: &Authority, client: ClientAuth) -> ListenerTls {
    let issued = authority.issue(&Leaf::named(&["a"]));
    let (cert, key) = (scratch.path().join("a.crt"), scratch.path().join("a.key"));
    std::fs::write(&cert, &issued.cert).expect("writes");
    std::fs::write(&key, &issued.key).expect("writes");
    ListenerTls {
        session: ListenerConfig {
            certificates: vec![CertificateFiles {
                cert,
                key,
                ocsp: None,
            }],
            min_version: MinVersion::Tls12,
            client,
            ticket_keys: None,
            alpn: vec![b"http/1.1".to_vec()],
        },
        strict_transport_security: None,
    }
}

/// Answers requests but those for `/never`.
fn origin() -> RawOrigin {
    RawOrigin::start(|peer| {
        while let Some(head) = peer.head() {
            match head.target() {
                "/never" => {}
                "/slow" => {
                    thread::sleep(Duration::from_millis(1500));
                    peer.send(OK);
                }
                _ => _ = peer.send(OK),
            }
        }
    })
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const ANSWERED: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
const WAITING: &str = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n";
const POSTED: &str = "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nok";

fn read_answer(stream: &mut TcpStream) {
    let mut answer = [0; 1024];
    let mut filled = 0;
    while !answer[..filled].ends_with(b"ok") {
        let count = stream.read(&mut answer[filled..]).expect("reads");
        assert!(
            count > 0,
            "closed after {:?}",
            answer[..filled].escape_ascii().to_string()
        );
        filled += count;
    }
}

/// A worker's figures when a measurement began.
struct Before<'a> {
    running: &'a Running,
    taken: i64,
    reserved: u64,
}

impl<'a> Before<'a> {
    fn of(running: &'a Running) -> Self {
        Self {
            running,
            taken: running.taken(),
            reserved: running.reserved(),
        }
    }

    /// The charges since then cover the memory that was taken.
    #[track_caller]
    fn is_covered(&self, what: &str) {
        let count = i64::try_from(COUNT).expect("small");
        let taken = (self.running.taken() - self.taken) / count;
        let reserved = self.running.reserved().saturating_sub(self.reserved);
        let reserved = i64::try_from(reserved).expect("small") / count;
        println!("{what}: {taken} bytes taken, {reserved} charged");
        assert!(
            taken > 0 && taken <= reserved,
            "{what}: {taken} of {reserved}"
        );
    }
}

#[test]
fn connections_and_exchanges_are_charged_with_what_they_take() {
    let running = Running::start(None);
    // Stocks, tables and what is made once.
    for request in [SLOW, WAITING] {
        let mut warm = running.connections(request, |_| ());
        if request == SLOW {
            warm.iter_mut().for_each(read_answer);
        }
        running.taken();
        drop(warm);
    }
    let before = Before::of(&running);
    let idle = running.connections(ANSWERED, read_answer);
    before.is_covered("an idle connection");
    drop(idle);
    let before = Before::of(&running);
    let waiting = running.connections(WAITING, |_| ());
    before.is_covered("a request that waits for its response");
    drop(waiting);
    let before = Before::of(&running);
    let posted = running.connections(POSTED, |_| ());
    before.is_covered("a request whose content is to come");
    drop(posted);
}

#[test]
fn sessions_and_handshakes_are_charged_with_what_they_take() {
    let scratch = Scratch::new("constants");
    let authority = Authority::new("clients");
    let ca = scratch.path().join("ca.crt");
    std::fs::write(&ca, authority.pem()).expect("writes");
    let trust = ClientTrust {
        ca,
        crls: Vec::new(),
        expired_crl: Doubt::Refuse,
        unknown_status: Doubt::Refuse,
    };
    for (version, client) in [("1.3", TlsClient::new()), ("1.2", TlsClient::of_1_2())] {
        let asked = ClientAuth::Optional(trust.clone());
        let running = Running::start(Some(tls(&scratch, &authority, asked)));
        let connect = |_| {
            let mut peer = client.connect(running.address, "a");
            peer.send(ANSWERED);
            assert_eq!(peer.response().text(), "ok");
            peer
        };
        drop((0..COUNT).map(connect).collect::<Vec<Peer>>());
        let before = Before::of(&running);
        let idle: Vec<Peer> = (0..COUNT).map(connect).collect();
        before.is_covered(&format!("a session of TLS {version}"));
        drop(idle);
        let before = Before::of(&running);
        let begin = |_| {
            let mut peer = Peer::connect(running.address);
            peer.send(client.hello("a"));
            peer.some();
            peer
        };
        let mut begun: Vec<Peer> = (0..COUNT).map(begin).collect();
        before.is_covered(&format!("a handshake of TLS {version}"));
        if version == "1.2" {
            begun.iter_mut().for_each(send_most_of_a_certificate);
            before.is_covered("a certificate whose end does not come");
        }
    }
}

/// RFC 5246 §7.4.2: a Certificate of 38,000 bytes, but for the last 2,000.
fn send_most_of_a_certificate(peer: &mut Peer) {
    const CERTIFICATE: u8 = 11;
    const HANDSHAKE: u8 = 22;
    let length = |bytes: usize| u16::try_from(bytes).expect("short").to_be_bytes();
    let [high, low] = length(38_000);
    let mut message = vec![CERTIFICATE, 0, high, low];
    message.extend([0; 36_000]);
    for part in message.chunks(12_000) {
        let [high, low] = length(part.len());
        peer.send([&[HANDSHAKE, 3, 3, high, low], part].concat());
    }
}
