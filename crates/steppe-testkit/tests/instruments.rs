//! The kit's instruments, each against something known, before anyone trusts them.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use steppe_testkit::{
    Carrier, Cgroup, Curl, FlowOrigin, FlowPlan, MemoryMeter, Nginx, PATIENCE, Peer, Process,
    RawOrigin, SteadyClient, SteadyLoad, SteadyProtocol, Strace, TcpStates, Wrk, download, skip,
    upload, websocket_connect, websocket_echo,
};

#[test]
fn nginx_serves_what_curl_and_wrk_ask() {
    let nginx = Nginx::start("location /ok { return 200 hello; } location / { root {root}; }");
    nginx.file("file", "content");
    let url = |path: &str| format!("http://{}{path}", nginx.address());
    let got = Curl::new(&url("/file")).run();
    assert_eq!(
        (got.exit, got.head.status(), got.body.as_slice()),
        (0, 200, &b"content"[..])
    );
    assert_eq!(Curl::new(&url("/none")).run().head.status(), 404);
    let load = Wrk::new(&url("/ok"), 4, 1).run();
    assert!(
        load.requests > 100 && load.errors == 0 && load.refused == 0,
        "{load:?}"
    );
    let load = Wrk::new(&url("/none"), 4, 1).run();
    assert_eq!(load.refused, load.requests);
}

#[test]
fn a_raw_origin_remembers_every_byte() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx");
    let mut peer = Peer::connect(origin.address());
    assert_eq!(
        peer.send("GET / HTTP/1.1\r\nA : b\r\n\r\n")
            .response()
            .text(),
        "x"
    );
    let chunked = "PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(peer.send(chunked).response().text(), "x");
    drop(peer);
    origin.wait_until("the end is seen", |origin| origin.closed() == [true]);
    assert_eq!(
        origin.received(),
        format!("GET / HTTP/1.1\r\nA : b\r\n\r\n{chunked}")
    );
}

#[test]
fn a_websocket_echoes() {
    let origin = websocket_echo();
    let (mut socket, _) = websocket_connect(origin.address(), "/echo");
    socket.send("hello".into()).expect("the socket is open");
    assert_eq!(socket.read().expect("an echo comes"), "hello".into());
}

#[test]
fn measured_flows_keep_the_pace_and_verify_content() {
    let origin = FlowOrigin::start(4 << 20);
    let plan = FlowPlan {
        gateway: origin.address(),
        connections: 50,
        carrier: Carrier::Http1,
        bytes_each: 160 << 10,
        reader_bytes_per_second: 80 << 10,
        patience: Duration::from_secs(30),
    };
    let up = upload(&plan, &origin);
    assert_eq!(
        (up.served, up.refused, up.cut, up.wrong),
        (50, 0, 0, 0),
        "{up:?}"
    );
    assert!(up.bytes_per_second() < 5.5e6, "{up:?}");
    let down = download(&plan);
    assert_eq!(
        (down.served, down.wrong, down.bytes),
        (50, 0, 50 * (160 << 10)),
        "{down:?}"
    );
    assert!(down.bytes_per_second_each() < 110e3, "{down:?}");
}

#[test]
fn flows_notice_refusals_cuts_and_wrong_bytes() {
    let plan = |origin: &RawOrigin| FlowPlan {
        gateway: origin.address(),
        connections: 3,
        carrier: Carrier::Http1,
        bytes_each: 1000,
        reader_bytes_per_second: 1 << 20,
        patience: Duration::from_secs(5),
    };
    let refusing = RawOrigin::answering(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
    );
    assert_eq!(download(&plan(&refusing)).refused, 3);
    let rude = RawOrigin::answering("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(download(&plan(&rude)).wrong, 3);
    let lying = RawOrigin::answering(
        [
            b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".as_slice(),
            &[7; 1000],
        ]
        .concat(),
    );
    assert_eq!(download(&plan(&lying)).wrong, 3);
    let cutting = RawOrigin::start(|peer| {
        let _ = peer.request();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
    });
    let cut = download(&plan(&cutting));
    assert_eq!((cut.cut, cut.served), (3, 0), "{cut:?}");
}

#[test]
fn measured_a_cgroup_kills_what_outgrows_it_and_counts_that() {
    let cgroup = match Cgroup::with_memory(64 << 20) {
        Ok(cgroup) => cgroup,
        Err(reason) => {
            return skip(
                "measured_a_cgroup_kills_what_outgrows_it_and_counts_that",
                &reason,
            );
        }
    };
    assert_eq!(cgroup.kills(), 0);
    let mut command = cgroup.command("perl");
    command
        .arg("-e")
        .arg("my $x = 'x' x (160 << 20); sleep 30;");
    let mut hog = Process::start("hog", command);
    assert!(!hog.wait(Duration::from_secs(30)).success());
    assert!(cgroup.kills() > 0);
    assert!(cgroup.peak_bytes().is_none_or(|peak| peak > 48 << 20));
}

#[test]
fn measured_the_meter_sees_a_peak_that_has_passed() {
    let code = "my $x = 'x' x (50 << 20); undef $x; $| = 1; print qq(done\\n); sleep 1;";
    let mut command = Command::new("perl");
    command.arg("-e").arg(code);
    let mut process = Process::start("perl", command);
    let meter = MemoryMeter::watch(process.id());
    process.wait(Duration::from_secs(30));
    let peak = meter.finish();
    assert!(
        (50 << 20..200 << 20).contains(&peak.high_water_bytes),
        "{peak:?}"
    );
}

#[test]
fn measured_strace_counts_the_calls_of_a_running_server() {
    let origin = Nginx::start("return 200 ok;");
    let strace = match Strace::attach(origin.workers()[0]) {
        Ok(strace) => strace,
        Err(reason) => {
            return skip(
                "measured_strace_counts_the_calls_of_a_running_server",
                &reason,
            );
        }
    };
    let mut peer = Peer::connect(origin.address());
    for _ in 0..100 {
        assert_eq!(
            peer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                .response()
                .text(),
            "ok"
        );
    }
    let counts = strace.finish();
    let received = counts.get("recvfrom").copied().unwrap_or(0);
    assert!((100..=205).contains(&received), "{counts:?}");
}

#[test]
fn a_connection_that_its_peer_left_is_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    let (server, _) = listener.accept().expect("it came");
    assert!(TcpStates::of(std::process::id()).established() >= 2);
    drop(client);
    let until = Instant::now() + PATIENCE;
    while TcpStates::forgotten(std::process::id()) == 0 {
        assert!(Instant::now() < until, "it is not seen");
    }
    drop(server);
}

#[test]
fn a_steady_load_tells_good_answers_from_others() {
    let answers = [
        ("200 OK", "hello", true),
        ("200 OK", "hallo", false),
        ("503 Service Unavailable", "hello", false),
    ];
    for (status, content, is_good) in answers {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 5\r\n\r\n");
        let origin = RawOrigin::answering(format!("{head}{content}"));
        let client = SteadyClient {
            address: origin.address(),
            protocol: SteadyProtocol::Http1,
            tls: None,
            path: "/",
        };
        let load = SteadyLoad::start(&[client], 1000.0, 2, "hello");
        let until = Instant::now() + PATIENCE;
        while load.served() < 5 && load.failures().len() < 5 {
            assert!(Instant::now() < until, "nothing happens");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(load.served() > 0, is_good, "{status} {content}");
        assert_eq!(load.failures().is_empty(), is_good, "{status} {content}");
    }
}
