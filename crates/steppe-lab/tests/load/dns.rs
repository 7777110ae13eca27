//! DNS loads, against a real dnsmasq and servers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use steppe_lab::load::Interval;
use steppe_lab::scenario::{DnsLoad, Load, LoadKind, Pace};

use crate::servers::{Process, Scripted, await_tcp, free_addr};
use crate::{errors_of, load, open, run_until, start};

/// dnsmasq that knows `host.test` and everything below `wild.test`, and nothing else of `test`.
struct NameServer {
    _process: Process,
    addr: SocketAddr,
}

impl NameServer {
    fn start() -> Self {
        let addr = free_addr();
        let child = Command::new("dnsmasq")
            .args(["--keep-in-foreground", "--conf-file=/dev/null", "--user="])
            .args([
                "--pid-file=",
                "--no-resolv",
                "--no-hosts",
                "--log-facility=-",
            ])
            .args([
                "--bind-interfaces",
                "--listen-address=127.0.0.1",
                "--local=/test/",
            ])
            .args([
                "--host-record=host.test,10.1.2.3",
                "--address=/wild.test/10.1.2.4",
            ])
            .args([format!("--port={}", addr.port()), long_text()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Process(child);
        await_tcp(addr);
        Self {
            _process: process,
            addr,
        }
    }
}

/// A TXT record of more than 512 bytes.
fn long_text() -> String {
    let part = "x".repeat(200);
    format!("--txt-record=long.test,{part},{part},{part}")
}

fn dns(server: SocketAddr, name: &str) -> DnsLoad {
    DnsLoad {
        server,
        tcp: false,
        names: vec![name.to_owned()],
        spread: 1000,
        record_type: "A".to_owned(),
        expect_rcode: "NOERROR".to_owned(),
        connections: 2,
    }
}

fn closed(dns: DnsLoad) -> Load {
    load(LoadKind::Dns(dns), Pace::Closed)
}

fn until(load: &Load, count: u64) -> Interval {
    let mut driver = start(load);
    run_until(&mut driver, 0, |sum| sum.operations + sum.errors >= count)
}

#[test]
fn a_real_server_answers_over_both_transports() {
    let server = NameServer::start();
    for tcp in [false, true] {
        let mut dns = dns(server.addr, "{n}.wild.test");
        dns.names.push("HOST.test".to_owned());
        dns.tcp = tcp;
        let interval = until(&closed(dns), 500);
        assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
        assert_eq!(interval.service.len(), interval.operations);
    }
}

#[test]
fn an_open_loop_of_questions_accounts_for_all_of_them() {
    let server = NameServer::start();
    let interval = until(
        &load(LoadKind::Dns(dns(server.addr, "host.test")), open(500.0)),
        100,
    );
    let accounted = interval.operations + interval.errors + interval.dropped;
    assert_eq!(interval.intended, Some(accounted));
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
}

#[test]
fn response_codes_and_truncation_are_told_apart() {
    let server = NameServer::start();
    let nowhere = dns(server.addr, "no{n}.test");
    let interval = until(&closed(nowhere.clone()), 20);
    assert_eq!(errors_of(&interval, "rcode NXDOMAIN"), interval.errors);
    let expected = DnsLoad {
        expect_rcode: "NXDOMAIN".to_owned(),
        ..nowhere
    };
    assert_eq!(until(&closed(expected), 20).errors, 0);
    let long = DnsLoad {
        record_type: "TXT".to_owned(),
        ..dns(server.addr, "long.test")
    };
    let interval = until(&closed(long.clone()), 20);
    assert_eq!(interval.operations, 0);
    assert_eq!(errors_of(&interval, "truncated"), interval.errors);
    let interval = until(&closed(DnsLoad { tcp: true, ..long }), 20);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
}

#[test]
fn nobody_there_is_refused_over_both_transports() {
    for tcp in [false, true] {
        let mut dns = dns(free_addr(), "host.test");
        dns.tcp = tcp;
        let interval = until(&closed(dns), 4);
        assert_eq!(
            errors_of(&interval, "refused"),
            interval.errors,
            "{interval:?}"
        );
        assert!(interval.errors < 50);
    }
}

/// A server that sends junk and answers to other questions before the right one, which it sends
/// twice.
#[test]
fn answers_to_other_questions_are_not_taken() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((len, peer)) = socket.recv_from(&mut buf) {
            let mut answer = buf[..len].to_vec();
            // The QR bit marks a response.
            answer[2] |= 0x80;
            let mut forged = answer.clone();
            forged[0] ^= 1;
            // An answer for another name, with a response code that would be an error.
            let mut other = answer.clone();
            other[13] ^= 1;
            other[3] |= 2;
            for message in [&[0][..], &forged, &other, &answer, &answer] {
                let _ = socket.send_to(message, peer);
            }
        }
    });
    let interval = until(&closed(dns(addr, "host.test")), 50);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
}

#[test]
fn silence_is_a_timeout() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut silent = closed(dns(socket.local_addr().unwrap(), "host.test"));
    silent.timeout = Duration::from_millis(20);
    let interval = until(&silent, 4);
    assert_eq!(errors_of(&interval, "timeout"), interval.errors);
}

#[test]
fn a_server_that_closes_after_each_answer_is_asked_again() {
    let server = Scripted::start(|mut stream| {
        let mut len = [0; 2];
        if stream.read_exact(&mut len).is_err() {
            return;
        }
        let mut message = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut message).unwrap();
        message[2] |= 0x80;
        let _ = stream.write_all(&[&len[..], &message].concat());
    });
    let mut dns = dns(server.addr, "host.test");
    dns.tcp = true;
    dns.connections = 1;
    let interval = until(&closed(dns), 10);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
    assert!(server.connections.load(Ordering::Relaxed) >= 10);
}
