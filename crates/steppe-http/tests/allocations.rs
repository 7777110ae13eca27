//! A request on a kept-alive connection allocates nothing.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

#[path = "support/in_process.rs"]
mod in_process;

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use steppe_http::access::{AccessField, AccessFormat, AccessLog};
use steppe_http::config::{
    self, Balance, FieldEdits, Filter, FilterKind, HashOn, Listener, ListenerTls, Outlier, Retry,
    RetryOn, Route, Servers, Sticky, Target, Transform, Upstream, UpstreamKind,
};
use steppe_http::grpc::Code;
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_mem::Budget;
use steppe_mem::alloc::{Counted, thread_allocations};
use steppe_net::tls::config::{CertificateFiles, ClientAuth, ListenerConfig, MinVersion};
use steppe_net::{ListenAddress, ServerAddress, bind};
use steppe_telemetry::trace::{BatchRefused, Export, Taken, TraceSettings, Tracer};
use steppe_telemetry::{Destination, LineLog};
use tokio::sync::{mpsc, oneshot};

use in_process::{InProcess, Setup};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

const RESPONSE_BYTES: usize = 1000;

#[test]
fn a_request_on_a_kept_alive_connection_allocates_nothing() {
    prove_that_it_counts();
    let logs = [
        None,
        Some(AccessFormat::Combined),
        Some(AccessFormat::Json(default_fields())),
    ];
    for log in logs {
        costs_nothing(None, log);
    }
    for balance in [Some(Balance::LeastRequest), Some(Balance::P2cEwma)] {
        costs_nothing(balance, None);
    }
    costs_nothing(Some(Balance::RingHash(HashOn::Header("host".into()))), None);
}

fn default_fields() -> Vec<AccessField> {
    let all = AccessField::ALL.into_iter();
    let default = all.filter(|(name, _)| AccessField::DEFAULT.contains(name));
    default.map(|(_, field)| field).collect()
}

/// With traces on, a request that is not sampled has its fields written, and that is all.
#[test]
fn a_request_that_is_not_sampled_allocates_nothing() {
    struct Nowhere;
    impl Export for Nowhere {
        fn export(&mut self, _: &[u8]) -> Result<Taken, BatchRefused> {
            Ok(Taken { rejected: 0 })
        }
    }
    prove_that_it_counts();
    let settings = TraceSettings {
        sample: 1e-18,
        version: "0",
    };
    let budget = Budget::new(64 << 20);
    let tracer = Tracer::start(settings, budget.root(), Box::new(Nowhere)).expect("a thread");
    let gateway = Running::start_traced(servers(None), tracer);
    let mut client = TcpStream::connect(gateway.address).expect("connects");
    let traced = |flags: &str| {
        format!(
            "GET /a HTTP/1.1\r\nHost: localhost\r\ntracestate: a=1\r\n\
             traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}\r\n\r\n"
        )
    };
    let plain = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
    let mut allocations = |request: &str| {
        (0..50).for_each(|_| exchange(&mut client, request));
        let before = gateway.allocations();
        (0..1000).for_each(|_| exchange(&mut client, request));
        gateway.allocations() - before
    };
    assert!(allocations(&traced("01")) >= 1000, "a span is seen");
    // Housekeeping goes on meanwhile.
    let begun = allocations(&plain);
    assert!(begun < 20, "{begun} allocations in 1,000 requests");
    let continued = allocations(&traced("00"));
    assert!(continued < 20, "{continued} allocations in 1,000 requests");
}

/// rustls allocates for each record that it seals or opens, and nothing else does.
#[test]
fn a_request_over_tls_allocates_for_its_two_records() {
    let gateway = Running::start_tls(servers(None));
    let mut client = gateway.connect_tls();
    let request = "GET /a/b?c=d HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\r\n";
    (0..50).for_each(|_| exchange(&mut client, request));
    let before = gateway.allocations();
    (0..1000).for_each(|_| exchange(&mut client, request));
    let allocations = gateway.allocations() - before;
    println!("{allocations} allocations in 1,000 requests over TLS");
    assert!(
        (1000..2500).contains(&allocations),
        "{allocations} allocations in 1,000 requests over TLS"
    );
}

/// A stream takes the task of one before it, and its head and content lie in buffers of the pool.
#[test]
fn a_request_over_http2_allocates_nothing() {
    prove_that_it_counts();
    for at_once in [1, 10] {
        are_few(at_once, servers(None));
    }
}

/// With a server, its stream takes the place of one before it.
#[test]
fn a_request_from_http2_to_http2_allocates_nothing() {
    prove_that_it_counts();
    for at_once in [1, 10] {
        let servers = Servers {
            protocol: config::H2,
            keepalive: 16,
            ..Servers::of([ServerAddress::Ip(origin_of_http2())])
        };
        are_few(at_once, servers);
    }
}

#[track_caller]
fn are_few(at_once: usize, servers: Servers) {
    let allocations = allocations_over_http2(at_once, servers);
    // Housekeeping goes on meanwhile; and after a second without a request, ten tasks begin anew.
    assert!(
        allocations < 200,
        "{allocations} allocations in 1,000 requests over HTTP/2, {at_once} at once"
    );
}

/// Answers every request alike, on threads of its own.
fn origin_of_http2() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("a socket");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer_by_http2(socket));
            }
        });
    });
    address
}

async fn answer_by_http2(socket: tokio::net::TcpStream) {
    let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let head = http::Response::builder().header("content-length", RESPONSE_BYTES);
        let response = head.body(()).expect("valid");
        let mut content = respond.send_response(response, false).expect("it is open");
        let body = vec![b'z'; RESPONSE_BYTES].into();
        content.send_data(body, true).expect("it is open");
    }
}

/// Allocations of 1,000 requests on a connection, so many at once.
fn allocations_over_http2(at_once: usize, servers: Servers) -> u64 {
    let gateway = Running::start_h2c(servers);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(gateway.address);
        let socket = socket.await.expect("connects");
        let (mut requests, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let mut before = 0;
        // The first ones make tasks, connections to the origin, and the stock.
        let rounds = 1000 / at_once;
        for round in 0..50 + rounds {
            if round == 50 {
                before = gateway.allocations_later().await;
            }
            let mut responses = Vec::new();
            for _ in 0..at_once {
                let request = http::Request::get("http://localhost/a/b?c=d");
                let request = request.header("user-agent", "test").body(());
                requests = requests.ready().await.expect("it is open");
                let sent = requests.send_request(request.expect("valid"), true);
                responses.push(sent.expect("it is open").0);
            }
            for response in responses {
                receive_whole(response).await;
            }
        }
        let after = gateway.allocations_later().await;
        connection.abort();
        after - before
    })
}

async fn receive_whole(response: h2::client::ResponseFuture) {
    let response = response.await.expect("a response");
    assert_eq!(response.status(), 200);
    let mut content = response.into_body();
    let mut bytes = 0;
    while let Some(data) = content.data().await {
        let data = data.expect("content");
        bytes += data.len();
        let _ = content.flow_control().release_capacity(data.len());
    }
    assert_eq!(bytes, RESPONSE_BYTES);
}

#[test]
fn a_call_of_a_method_that_is_known_is_counted_without_allocating() {
    prove_that_it_counts();
    let budget = Budget::new(1 << 20);
    let lease = budget.root().lease();
    let calls = HttpMetrics::new(Labels::default(), 1).worker(0).calls();
    let call = || {
        let called = calls.begin(b"/shop.Orders/Get", &lease);
        calls.ended(called, Code::Ok, Some(Code::Ok));
    };
    call();
    let before = thread_allocations();
    (0..1000).for_each(|_| call());
    assert_eq!(thread_allocations() - before, 0);
}

/// With a policy: two servers, and everything else that an upstream can be told.
fn costs_nothing(balance: Option<Balance>, log: Option<AccessFormat>) {
    let what = format!("{balance:?}, {log:?}");
    let gateway = Running::start(servers(balance), log);
    for request in [
        "GET /a/b?c=d HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\n\r\n".to_owned(),
        "GET /bare/a HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{}",
            "y".repeat(500)
        ),
    ] {
        let mut client = TcpStream::connect(gateway.address).expect("connects");
        // The first ones make the connection to the origin, and the stock.
        (0..50).for_each(|_| exchange(&mut client, &request));
        let before = gateway.allocations();
        (0..1000).for_each(|_| exchange(&mut client, &request));
        let allocations = gateway.allocations() - before;
        // Housekeeping goes on meanwhile: timers, and this very question.
        assert!(
            allocations < 20,
            "{allocations} allocations in 1,000 requests of {request:.20} with {what}"
        );
    }
}

fn servers(balance: Option<Balance>) -> Servers {
    let Some(balance) = balance else {
        return Servers {
            keepalive: 16,
            ..Servers::of([ServerAddress::Ip(origin())])
        };
    };
    Servers {
        balance,
        keepalive: 16,
        sticky: Some(Sticky {
            cookie: "server".into(),
            ttl: Duration::from_secs(60),
        }),
        slow_start: Duration::from_secs(1),
        outlier: Some(Outlier::default()),
        retry: Some(Retry {
            attempts: 2,
            on: RetryOn::RESET.or(RetryOn::UNAVAILABLE),
            budget: 0.2,
        }),
        ..Servers::of([ServerAddress::Ip(origin()), ServerAddress::Ip(origin())])
    }
}

fn access_log(format: AccessFormat) -> Arc<AccessLog> {
    let lines = LineLog::open(Destination::File("/dev/null".into()), 1).expect("it is there");
    Arc::new(AccessLog::new(format, lines))
}

fn prove_that_it_counts() {
    let before = thread_allocations();
    drop(std::hint::black_box(Box::new(before)));
    assert_eq!(
        thread_allocations(),
        before + 1,
        "a planted allocation is seen"
    );
}

/// A gateway with one worker, which says how much its thread has allocated.
struct Running {
    address: SocketAddr,
    ask: mpsc::Sender<oneshot::Sender<u64>>,
    _gateway: InProcess,
    certificate: Option<CertificateDer<'static>>,
}

/// Logs and traces of requests.
#[derive(Default)]
struct Observed {
    log: Option<AccessFormat>,
    tracer: Option<Arc<Tracer>>,
}

impl Running {
    fn start(servers: Servers, log: Option<AccessFormat>) -> Self {
        Self::start_with(servers, log, None)
    }

    /// With a certificate for `localhost` that is in a folder of its own.
    fn start_tls(servers: Servers) -> Self {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let signed = signed.expect("random");
        let folder = std::env::temp_dir().join(format!("steppe-alloc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (cert, key) = (folder.join("a.crt"), folder.join("a.key"));
        std::fs::write(&cert, signed.cert.pem()).expect("writes");
        std::fs::write(&key, signed.signing_key.serialize_pem()).expect("writes");
        let session = ListenerConfig {
            certificates: vec![CertificateFiles {
                cert,
                key,
                ocsp: None,
            }],
            min_version: MinVersion::Tls13,
            client: ClientAuth::None,
            ticket_keys: None,
            alpn: vec![b"http/1.1".to_vec()],
        };
        let tls = ListenerTls {
            session,
            strict_transport_security: None,
        };
        let running = Self::start_with(servers, None, Some(tls));
        std::fs::remove_dir_all(folder).expect("it is there");
        Self {
            certificate: Some(signed.cert.der().clone()),
            ..running
        }
    }

    fn connect_tls(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        let certificate = self.certificate.clone().expect("it speaks TLS");
        roots.add(certificate).expect("valid");
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("valid");
        let socket = TcpStream::connect(self.address).expect("connects");
        StreamOwned::new(session, socket)
    }

    fn start_h2c(servers: Servers) -> Self {
        Self::start_speaking(config::H2C, servers, Observed::default(), None)
    }

    fn start_with(servers: Servers, log: Option<AccessFormat>, tls: Option<ListenerTls>) -> Self {
        let tracer = None;
        Self::start_speaking(config::H1, servers, Observed { log, tracer }, tls)
    }

    fn start_traced(servers: Servers, tracer: Arc<Tracer>) -> Self {
        let tracer = Some(tracer);
        Self::start_speaking(config::H1, servers, Observed { log: None, tracer }, None)
    }

    fn start_speaking(
        protocol: config::ProtocolName,
        servers: Servers,
        observed: Observed,
        tls: Option<ListenerTls>,
    ) -> Self {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let bound = bind(&any, 1).expect("binds");
        let listener = Listener {
            tls,
            ..Listener::of(bound[0].address().clone(), vec![protocol])
        };
        let ListenAddress::Tcp(address) = listener.address else {
            panic!("not TCP")
        };
        let (ask, mut asked) = mpsc::channel::<oneshot::Sender<u64>>(1);
        let budget = Budget::new(64 << 20);
        let setup = Setup {
            access: observed.log.map(access_log),
            tracer: observed.tracer,
            ..Setup::of(&budget, configuration(listener, servers), bound)
        };
        let gateway = InProcess::start(setup, || {
            tokio::task::spawn_local(async move {
                while let Some(answer) = asked.recv().await {
                    let _ = answer.send(thread_allocations());
                }
            });
        });
        Self {
            address,
            ask,
            _gateway: gateway,
            certificate: None,
        }
    }

    fn allocations(&self) -> u64 {
        let (answer, answered) = oneshot::channel();
        self.ask.blocking_send(answer).expect("the worker runs");
        answered.blocking_recv().expect("the worker answers")
    }

    async fn allocations_later(&self) -> u64 {
        let (answer, answered) = oneshot::channel();
        self.ask.send(answer).await.expect("the worker runs");
        answered.await.expect("the worker answers")
    }
}

/// Two routes to one origin: through a filter, and through none.
fn configuration(listener: Listener, servers: Servers) -> config::Gateway {
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let edits = FieldEdits {
        set: pair("x-gateway", "steppe"),
        ..FieldEdits::default()
    };
    let transform = Transform {
        request: edits.clone(),
        response: edits,
        ..Transform::default()
    };
    let path = "/{rest*}".parse().expect("valid");
    let bare = "/bare/{rest*}".parse().expect("valid");
    config::Gateway {
        listeners: vec![listener],
        upstreams: vec![Upstream {
            name: "o".into(),
            kind: UpstreamKind::Servers(servers),
        }],
        filters: vec![Filter {
            name: "f".into(),
            kind: FilterKind::Transform(transform),
        }],
        routes: vec![
            Route::of("bare", bare, Target::Upstream(0)),
            Route {
                filters: vec![0],
                total: Some(Duration::from_secs(60)),
                ..Route::of("all", path, Target::Upstream(0))
            },
        ],
        ..config::Gateway::default()
    }
}

/// Answers every request alike, each connection on a thread of its own.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.expect("accepts");
            std::thread::spawn(move || answer(connection));
        }
    });
    address
}

fn answer(mut connection: TcpStream) {
    let body = "z".repeat(RESPONSE_BYTES);
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {RESPONSE_BYTES}\r\n\r\n{body}");
    let mut request = vec![0; 4096];
    let mut filled = 0;
    while let Ok(count @ 1..) = connection.read(&mut request[filled..]) {
        filled += count;
        let text = String::from_utf8_lossy(&request[..filled]);
        let Some((head, content)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let expected = if head.starts_with("POST") { 500 } else { 0 };
        if content.len() == expected {
            filled = 0;
            connection.write_all(response.as_bytes()).expect("writes");
        }
    }
}

fn exchange(client: &mut (impl Read + Write), request: &str) {
    client.write_all(request.as_bytes()).expect("writes");
    let mut response = [0; 4096];
    let mut filled = 0;
    loop {
        filled += client.read(&mut response[filled..]).expect("reads");
        let text = String::from_utf8_lossy(&response[..filled]);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let content = text
            .split_once("\r\n\r\n")
            .map_or(0, |(_, content)| content.len());
        if content == RESPONSE_BYTES {
            return;
        }
    }
}
