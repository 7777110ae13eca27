//! The forwarder of the node, with a real server behind it.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use steppe_testkit::{Port, Process, Scratch, Steppe};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");
const PATIENCE: Duration = Duration::from_secs(10);

/// dnsmasq, which answers from a file of hosts. `None` where it is not installed.
fn dnsmasq(port: &Port) -> Option<(Process, Scratch)> {
    let version = Command::new("dnsmasq").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: dnsmasq is not installed");
        return None;
    }
    let scratch = Scratch::new("dns");
    scratch.write(
        "hosts",
        "192.0.2.7 www.example.org\n10.1.2.3 inside.example.org\n",
    );
    let mut command = Command::new("dnsmasq");
    command
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
        ])
        .args(["--no-resolv", "--no-hosts", "--log-facility=-"])
        .args([
            "--bind-interfaces",
            "--local-ttl=60",
            "--listen-address=127.0.0.1",
        ])
        .args(["--local=/example.org/", "--user="])
        .arg(format!("--port={}", port.number()))
        .arg(format!("--addn-hosts={}", scratch.join("hosts").display()));
    let mut process = Process::start("dnsmasq", command);
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(port.address()).is_err() {
        assert!(process.is_running(), "dnsmasq ended: {}", process.said());
        assert!(Instant::now() < end, "dnsmasq doesn't listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some((process, scratch))
}

/// Response code and number of answers for a name's IPv4 address.
fn ask(server: SocketAddr, name: &str) -> (u8, u8) {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).expect("a label"));
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket.send_to(&query, server).expect("is sent");
    let mut response = [0; 1500];
    let len = socket.recv(&mut response).expect("a response");
    assert!(
        len >= query.len() && response[..2] == query[..2],
        "a response to it"
    );
    (response[3] & 0x0f, response[7])
}

#[test]
fn a_real_server_answers_through_it_and_a_reload_changes_its_rules() {
    let port = Port::free();
    let Some(_server) = dnsmasq(&port) else {
        return;
    };
    let listen = Port::free().keep();
    let node = Steppe::builder(STEPPE)
        .with("listen", listen)
        .with("server", port.address())
        .start(CONFIG);
    assert_eq!(ask(listen, "www.example.org"), (0, 1));
    assert_eq!(ask(listen, "no.example.org"), (3, 0));
    assert_eq!(ask(listen, "ads.example.org"), (3, 0));
    assert_eq!(
        ask(listen, "inside.example.org"),
        (5, 0),
        "a private address"
    );
    let metrics = node.metrics();
    let blocked = metrics.sum("steppe_dns_events_total", &[("event", "blocked")]);
    assert!((blocked - 1.0).abs() < f64::EPSILON);
    node.set_config(&node.config().replace("suffix = \"ads.", "suffix = \"www."));
    assert_eq!(node.admin_post("/reload").status(), 200);
    assert_eq!(ask(listen, "www.example.org"), (3, 0));
    assert!(node.stop().success());
}

const CONFIG: &str = r#"
[node]
workers = 2
memory_budget = "64MiB"
[admin]
listen = "{admin}"
[http]
[[http.listener]]
listen = "{gateway}"
[http.upstream.here]
respond = {}
[[http.route]]
name = "all"
upstream = "here"
[[dns.listener]]
listen = "{listen}"
[dns.upstream.real]
servers = ["udp://{server}"]
[[dns.rule]]
suffix = "ads.example.org"
block = "nxdomain"
[[dns.rule]]
forward = "real"
"#;
