//! Thousands of idle connections to the forwarder: each is charged, closed in time, and leaves nothing behind.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use steppe_dns::limits::{CONNECTION_BYTES, CONNECTIONS_PER_WORKER_MAX};
use steppe_testkit::{
    Forwarder, Steppe, ask_dns, eventually, is_long, raise_file_limit, resident_bytes, skip,
};

const WORKERS: usize = 3;
const ROUNDS: usize = 3;

/// Connections from one address: far fewer than it has ports, though those of rounds before still wait.
const PER_ADDRESS: usize = 2_000;

/// Memory of the process besides the charged bytes: the tasks of connections are charged, the kernel's pages are not
/// counted here, and allocators round up.
const SLACK_BYTES: u64 = 8 << 20;

const CONFIG: &str = r#"
[dns.cache]
bytes = "4MiB"
[[dns.rule]]
block = "nxdomain"
"#;

fn connections() -> usize {
    if is_long() { 10_000 } else { 3_000 }
}

/// Connects from an address of its own for each few thousand, as one has too few ports.
fn connect(number: usize, listen: SocketAddr) -> TcpStream {
    let last = u8::try_from(2 + number / PER_ADDRESS).expect("a few addresses");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
    socket.bind(&from.into()).expect("loopback");
    socket.connect(&listen.into()).expect("it listens");
    socket.into()
}

/// Resident anonymous memory in bytes.
fn anonymous(node: &Steppe) -> u64 {
    let [_, anonymous] = resident_bytes(node.id());
    anonymous
}

/// Bytes that the forwarder has reserved.
fn reserved(node: &Steppe) -> u64 {
    let memory = node.admin_json("/memory");
    let accounts = memory["budget"]["children"].as_array().cloned();
    let accounts = accounts.expect("the node has accounts");
    let dns = accounts.iter().find(|account| account["name"] == "dns");
    dns.and_then(|account| account["reserved_bytes"].as_u64())
        .expect("the forwarder has one")
}

#[test]
fn idle_connections_are_charged_closed_and_leave_nothing() {
    let count = connections();
    assert!(
        count < WORKERS * CONNECTIONS_PER_WORKER_MAX * 9 / 10,
        "there is room"
    );
    if raise_file_limit() < count as u64 + 500 {
        return skip("idle_connections", "the limit on open files is too low");
    }
    let forwarder = Steppe::builder()
        .with("workers", WORKERS)
        .with("budget", "256MiB")
        .start_forwarder(CONFIG);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    ask_dns(listen, "www.example.org");
    let (charged_before, resident_before) = (reserved(&node), anonymous(&node));
    let mut peaks = Vec::new();
    for round in 1..=ROUNDS {
        let mut idle: Vec<_> = (0..count).map(|number| connect(number, listen)).collect();
        let wanted = charged_before + (count * CONNECTION_BYTES) as u64;
        eventually("all are served", || reserved(&node) >= wanted);
        let charged = reserved(&node) - charged_before;
        let resident = anonymous(&node).saturating_sub(resident_before);
        println!(
            "round {round}: {count} connections, {} bytes charged and {} resident each",
            charged / count as u64,
            resident / count as u64,
        );
        assert!(
            resident <= charged + SLACK_BYTES,
            "{resident} of {charged} bytes are charged"
        );
        peaks.push(resident);
        // The clients send no query: the forwarder closes.
        for stream in &mut idle {
            assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
        }
        eventually("what was charged is given back", || {
            reserved(&node) <= charged_before + (1 << 20)
        });
    }
    assert!(peaks[ROUNDS - 1] <= peaks[0] + SLACK_BYTES, "{peaks:?}");
    let metrics = node.metrics();
    for event in ["refused", "evicted"] {
        let series = "steppe_dns_connection_events_total";
        let happened = metrics.sum(series, &[("event", event)]);
        assert!(happened < 1.0, "{event}: {happened}");
    }
    assert!(node.stop().success());
}
