//! The admin server over real sockets.

mod live;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_mem::Budget;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use steppe_plane::PlaneContext;

use super::*;
use crate::config;
use crate::memory::MemoryCollector;

/// A directory that goes away with its owner.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("steppe-admin-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("temporary files can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn loopback() -> ListenAddress {
    ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"))
}

fn settings() -> Settings {
    Settings {
        listen: loopback(),
        probes: None,
        token_file: None,
        tls: None,
    }
}

fn content(readiness: &Readiness) -> Content {
    let config = config::parse(config::DEFAULT_NAME, config::DEFAULT).expect("valid");
    let budget = Budget::new(64 << 20);
    let http = HttpMetrics::new(Labels::default(), 1);
    let mut metrics = Registry::default();
    metrics.register_collector(http.collector());
    metrics.register_collector(MemoryCollector::new(budget.clone(), Arc::default()));
    let dns = steppe_dns::DnsContext {
        budget: &budget,
        workers: 1,
        fetch: None,
    };
    let dns = DnsService::new(&dns).expect("random numbers");
    let plane = PlaneService::new(&PlaneContext {
        budget: &budget,
        workers: 1,
    });
    Content {
        metrics,
        memory: memory::Sources {
            budget,
            figures: Arc::default(),
            http,
        },
        upstreams: Arc::default(),
        caches: Arc::default(),
        dns,
        plane,
        certificates: Arc::default(),
        config: Status::new(&config, None),
        reload: tokio::sync::mpsc::channel(1).0,
        readiness: readiness.clone(),
        recent: Recent::default(),
    }
}

/// Time after which a test fails instead of waiting for an answer that never ends.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Serves on this runtime until it ends.
fn start(settings: &Settings, readiness: &Readiness) -> (ListenAddress, Option<ListenAddress>) {
    let admin = Admin::bind(settings, &Inherited::default()).expect("loopback can be bound");
    let addresses = (admin.address().clone(), admin.probes_address().cloned());
    tokio::spawn(admin.serve(content(readiness)).expect("within a runtime"));
    addresses
}

async fn exchange(address: &ListenAddress, request: &str) -> String {
    match address {
        ListenAddress::Tcp(address) => {
            talk(TcpStream::connect(address).await.expect("listens"), request).await
        }
        ListenAddress::Unix(path) => {
            talk(UnixStream::connect(path).await.expect("listens"), request).await
        }
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("is read");
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    let read = tokio::time::timeout(PATIENCE, read).await;
    read.expect("the response ends").expect("is answered");
    String::from_utf8(response).expect("text")
}

async fn get(address: &ListenAddress, target: &str) -> String {
    get_with(address, target, "").await
}

async fn get_with(address: &ListenAddress, target: &str, fields: &str) -> String {
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{fields}\r\n");
    exchange(address, &request).await
}

#[track_caller]
fn check(response: &str, status: &str, contains: &[&str]) {
    assert!(
        response.starts_with(&format!("HTTP/1.1 {status} ")),
        "{response}"
    );
    for part in contains {
        assert!(response.contains(part), "{part} in {response}");
    }
}

#[tokio::test]
async fn every_endpoint_answers_and_nothing_is_stored() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let fields = [
        "cache-control: no-store\r\n",
        "x-content-type-options: nosniff\r\n",
    ];
    for (target, contains) in [
        ("/", "/metrics "),
        ("/metrics", "application/openmetrics-text"),
        (
            "/metrics",
            "steppe_budget_limit_bytes{account=\"node\"} 67108864",
        ),
        ("/memory", "\"explained_ratio\""),
        ("/config", "\"workers\": \"auto\""),
        ("/healthz", "ok\n"),
    ] {
        let response = get(&admin, target).await;
        check(&response, "200", &[contains]);
        check(&response, "200", &fields);
    }
    check(&get(&admin, "/nothing").await, "404", &fields);
}

#[tokio::test]
async fn readiness_follows_the_node() {
    let readiness = Readiness::default();
    let (admin, _) = start(&settings(), &readiness);
    check(
        &get(&admin, "/readyz").await,
        "503",
        &["\r\n\r\nstarting\n"],
    );
    readiness.set(State::Ready);
    check(&get(&admin, "/readyz").await, "200", &["\r\n\r\nready\n"]);
    readiness.set(State::Draining);
    check(
        &get(&admin, "/readyz").await,
        "503",
        &["\r\n\r\ndraining\n"],
    );
    check(&get(&admin, "/healthz").await, "200", &[]);
}

#[tokio::test]
async fn other_methods_and_content_are_refused() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let request = |head: &str| format!("{head}Host: localhost\r\nConnection: close\r\n\r\n");
    let post = request("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n");
    check(
        &exchange(&admin, &post).await,
        "405",
        &["allow: GET,HEAD\r\n"],
    );
    let with_content = request("GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n");
    check(&exchange(&admin, &with_content).await, "413", &[]);
    let chunked = request("GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n");
    check(&exchange(&admin, &chunked).await, "413", &[]);
    let huge = request(&format!("GET / HTTP/1.1\r\nx: {}\r\n", "a".repeat(8 << 10)));
    check(&exchange(&admin, &huge).await, "431", &[]);
}

#[tokio::test]
async fn a_token_guards_all_but_the_probes() {
    let dir = TempDir::new();
    let file = dir.path().join("admin.token");
    std::fs::write(&file, "s3cret\n").expect("a temporary directory is writable");
    let settings = Settings {
        token_file: Some(file),
        ..settings()
    };
    let (admin, _) = start(&settings, &Readiness::default());
    for target in ["/metrics", "/memory", "/config", "/events", "/nothing"] {
        let challenge = "www-authenticate: Bearer realm=\"steppe admin\"\r\n";
        check(&get(&admin, target).await, "401", &[challenge]);
        let wrong = get_with(&admin, target, "Authorization: Bearer s3cres\r\n").await;
        check(&wrong, "401", &[challenge]);
    }
    let right = "Authorization: Bearer s3cret\r\n";
    check(&get_with(&admin, "/metrics", right).await, "200", &[]);
    check(&get_with(&admin, "/nothing", right).await, "404", &[]);
    let twice = format!("{right}{right}");
    check(&get_with(&admin, "/metrics", &twice).await, "401", &[]);
    check(&get(&admin, "/healthz").await, "200", &[]);
    check(&get(&admin, "/readyz").await, "503", &[]);
    // These files hold no data, and the page asks for the token.
    for target in ["/", "/page.css", "/page.js"] {
        check(&get(&admin, target).await, "200", &[]);
    }
}

#[tokio::test]
async fn probes_with_an_address_stand_there_alone() {
    let settings = Settings {
        probes: Some(loopback()),
        ..settings()
    };
    let (admin, probes) = start(&settings, &Readiness::default());
    let probes = probes.expect("was asked for");
    check(&get(&probes, "/healthz").await, "200", &[]);
    check(&get(&probes, "/readyz").await, "503", &[]);
    check(&get(&probes, "/metrics").await, "404", &[]);
    check(&get(&admin, "/healthz").await, "404", &[]);
    check(&get(&admin, "/metrics").await, "200", &[]);
}

#[tokio::test]
async fn a_rebound_name_does_not_reach_loopback() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let rebound = "GET /config HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    check(&exchange(&admin, rebound).await, "403", &["localhost"]);
    let nameless = "GET /config HTTP/1.0\r\n\r\n";
    assert!(
        exchange(&admin, nameless)
            .await
            .starts_with("HTTP/1.0 403 ")
    );
}

#[tokio::test]
async fn a_unix_socket_is_its_owners_and_takes_any_host() {
    let dir = TempDir::new();
    let path = dir.path().join("admin.sock");
    let settings = Settings {
        listen: ListenAddress::Unix(path.clone()),
        ..settings()
    };
    let (admin, _) = start(&settings, &Readiness::default());
    let mode = std::fs::metadata(&path)
        .expect("is bound")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let request = "GET /config HTTP/1.1\r\nHost: steppe\r\nConnection: close\r\n\r\n";
    check(&exchange(&admin, request).await, "200", &[]);
}

/// A connection on which `bytes` were sent.
async fn open(address: &ListenAddress, bytes: &str) -> TcpStream {
    let ListenAddress::Tcp(address) = address else {
        panic!("a TCP listener")
    };
    let mut stream = TcpStream::connect(address).await.expect("listens");
    stream.write_all(bytes.as_bytes()).await.expect("is read");
    stream
}

#[tokio::test]
async fn a_connection_beyond_the_limit_takes_the_place_that_was_idle_for_longest() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let mut idle = Vec::new();
    let mut start = [0; 8];
    for _ in 0..limits::CONNECTIONS_MAX {
        let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut stream = open(&admin, request).await;
        stream.read_exact(&mut start).await.expect("has a place");
        idle.push(stream);
    }
    check(&get(&admin, "/healthz").await, "200", &[]);
    let again = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (index, stream) in idle.iter_mut().enumerate().rev() {
        let _ = stream.write_all(again).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let answers = String::from_utf8_lossy(&rest).matches("ok\n").count();
        assert_eq!(
            answers,
            if index == 0 { 1 } else { 2 },
            "connection {index}"
        );
    }
}

#[tokio::test]
async fn half_heads_delay_nobody() {
    let apart = Settings {
        probes: Some(loopback()),
        ..settings()
    };
    let (main, probes) = start(&apart, &Readiness::default());
    let (together, _) = start(&settings(), &Readiness::default());
    for (address, target) in [
        (&probes.expect("was asked for"), "/healthz"),
        (&together, "/healthz"),
        (&main, "/metrics"),
    ] {
        for count in [limits::CONNECTIONS_MAX, 1_000] {
            let mut half = Vec::new();
            for _ in 0..count {
                half.push(open(address, "GET /healthz HTTP/1.1\r\n").await);
            }
            check(&get(address, target).await, "200", &[]);
            // The half-sent heads had not timed out: only one of them made room.
            let kept = half.iter().filter(|stream| is_open(stream)).count();
            assert_eq!(kept, limits::CONNECTIONS_MAX - 1, "of {count} at {target}");
        }
    }
}

#[tokio::test]
async fn a_probe_among_hundreds_that_come_at_once_keeps_its_place_until_it_is_answered() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let ListenAddress::Tcp(address) = admin else {
        panic!("a TCP listener")
    };
    // Blocking: the node accepts none of them before all are in the listener's queue.
    let queue = |bytes: &str| {
        let mut stream = std::net::TcpStream::connect(address).expect("listens");
        std::io::Write::write_all(&mut stream, bytes.as_bytes()).expect("is queued");
        stream
    };
    let half = "GET / HTTP/1.1\r\n";
    let before: Vec<_> = (0..300).map(|_| queue(half)).collect();
    let probe = queue("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let after: Vec<_> = (0..300).map(|_| queue(half)).collect();
    probe.set_nonblocking(true).expect("a socket");
    let probe = TcpStream::from_std(probe).expect("within a runtime");
    check(&talk(probe, "").await, "200", &[]);
    drop((before, after));
}

/// True if the node has neither answered nor closed the connection.
fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn requests_from_pages_of_other_sites_are_refused_everywhere() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let probes = Settings {
        probes: Some(loopback()),
        ..settings()
    };
    let (_, probes) = start(&probes, &Readiness::default());
    let probes = probes.expect("was asked for");
    let all = [
        "/",
        "/page.css",
        "/page.js",
        "/metrics",
        "/memory",
        "/memory/profile",
        "/config",
        "/reload",
        "/upstreams",
        "/events",
        "/healthz",
        "/readyz",
        "/nothing",
    ];
    let at_probes = ["/healthz", "/readyz", "/nothing"];
    let endpoints = all.map(|target| (&admin, target)).into_iter();
    for (address, target) in endpoints.chain(at_probes.map(|target| (&probes, target))) {
        for fields in [
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\n",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
            "Origin: http://attacker.example\r\n",
        ] {
            let response = get_with(address, target, fields).await;
            check(&response, "403", &["a page of another site"]);
        }
        if target == "/events" {
            continue;
        }
        let plain = get(address, target).await;
        let status = &plain["HTTP/1.1 ".len()..][..3];
        for fields in [
            "Sec-Fetch-Site: same-origin\r\n",
            "Sec-Fetch-Site: none\r\n",
        ] {
            check(&get_with(address, target, fields).await, status, &[]);
        }
    }
}

#[test]
fn mistakes_name_their_key() {
    let everywhere = ListenAddress::Tcp("0.0.0.0:0".parse().expect("an address"));
    let open = Settings {
        listen: everywhere,
        ..settings()
    };
    let refused = Admin::bind(&open, &Inherited::default()).expect_err("anybody could read it");
    assert_eq!(
        refused.to_string(),
        "admin.listen: 0.0.0.0:0 is reachable from other machines and needs admin.token_file"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = taken.local_addr().expect("bound");
    let probes = Settings {
        probes: Some(ListenAddress::Tcp(address)),
        ..settings()
    };
    let refused = Admin::bind(&probes, &Inherited::default()).expect_err("is taken");
    assert_eq!(
        refused.to_string(),
        format!("admin.probes: {address} is in use by another process")
    );
    let missing = Settings {
        token_file: Some("/nonexistent".into()),
        ..settings()
    };
    let refused = Admin::bind(&missing, &Inherited::default()).expect_err("no such file");
    assert!(
        refused
            .to_string()
            .starts_with("admin.token_file: cannot read /nonexistent: ")
    );
}
