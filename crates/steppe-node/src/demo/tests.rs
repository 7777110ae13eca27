//! The demo origin over real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use steppe_testkit::Port;

use super::*;

fn start() -> Demo {
    start_at(([127, 0, 0, 1], 0).into())
}

fn start_at(address: SocketAddr) -> Demo {
    let listener = TcpListener::bind(address).expect("loopback");
    spawn(listener).expect("threads can be had")
}

fn exchange(demo: &Demo, request: &str) -> String {
    let mut stream = TcpStream::connect(demo.address()).expect("listens");
    stream.write_all(request.as_bytes()).expect("is read");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("is answered");
    String::from_utf8_lossy(&response).into_owned()
}

fn get(demo: &Demo, target: &str) -> String {
    exchange(
        demo,
        &format!("GET {target} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n"),
    )
}

#[track_caller]
fn check(response: &str, status: &str, end: &str) {
    assert!(
        response.starts_with(&format!("HTTP/1.1 {status} ")),
        "{response}"
    );
    assert!(response.ends_with(end), "{response}");
}

#[test]
fn the_page_shows_any_path_and_method() {
    let demo = start();
    let page = get(&demo, "/any/path?q=%3C");
    check(&page, "200", "</html>\n");
    assert!(page.contains("<pre>GET /any/path?q=%3C HTTP/1.1</pre>"));
    assert!(page.contains("<tr><td>host<td>demo"));
    let put = exchange(
        &demo,
        "PUT / HTTP/1.1\r\nHost: demo\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert!(put.contains("<pre>PUT / HTTP/1.1</pre>"));
}

#[test]
fn bytes_are_counted_and_bounded() {
    let demo = start();
    let response = get(&demo, "/bytes/100000");
    check(&response, "200", ".");
    assert_eq!(
        response.split_once("\r\n\r\n").expect("a head").1.len(),
        100_000
    );
    check(&get(&demo, "/bytes/0"), "200", "\r\n\r\n");
    check(
        &get(&demo, "/bytes/1073741825"),
        "400",
        "at most 1073741824 are allowed\n",
    );
    check(&get(&demo, "/bytes/x"), "400", "");
}

#[test]
fn content_is_echoed() {
    let demo = start();
    let response = exchange(
        &demo,
        "POST /echo HTTP/1.1\r\nHost: demo\r\nConnection: close\r\nContent-Type: text/x\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    check(&response, "200", "0\r\n\r\n");
    assert!(response.contains("content-type: text/x\r\n") && response.contains("hello"));
}

#[test]
fn a_status_is_answered_as_asked() {
    let demo = start();
    check(
        &get(&demo, "/status/503"),
        "503",
        "503 Service Unavailable\n",
    );
    check(&get(&demo, "/status/204"), "204", "\r\n\r\n");
    check(
        &get(&demo, "/status/101"),
        "400",
        "the status must be 200 to 599\n",
    );
}

#[test]
fn a_slow_answer_says_how_slow() {
    let demo = start();
    check(&get(&demo, "/slow?ms=1"), "200", "waited 1 ms\n");
    check(
        &get(&demo, "/slow?ms=soon"),
        "400",
        "`ms` must be a number of milliseconds\n",
    );
}

#[test]
fn events_come_one_by_one() {
    let demo = start();
    let mut stream = TcpStream::connect(demo.address()).expect("listens");
    stream
        .write_all(b"GET /events HTTP/1.1\r\nHost: demo\r\n\r\n")
        .expect("is read");
    let mut seen = String::new();
    while !seen.contains("data: 1 s") {
        let mut part = [0; 1_024];
        let count = stream.read(&mut part).expect("goes on");
        assert!(count > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    assert!(seen.contains("content-type: text/event-stream"));
    assert!(seen.contains("event: tick\nid: 0\ndata: 0 s\n\n"));
}

#[test]
fn a_web_socket_echoes() {
    let demo = start();
    let mut stream = TcpStream::connect(demo.address()).expect("listens");
    stream
        .write_all(
            b"GET /ws HTTP/1.1\r\nHost: demo\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .expect("is read");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    // RFC 6455 §5.7: a masked text frame with "Hello", and the expected answer frame.
    let masked = [
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];
    stream.write_all(&masked).expect("is read");
    let mut echoed = [0; 7];
    stream.read_exact(&mut echoed).expect("is answered");
    assert_eq!(&echoed, b"\x81\x05Hello");
}

#[test]
fn it_stops_when_dropped() {
    let port = Port::free();
    let demo = start_at(port.address());
    drop(demo);
    assert!(TcpStream::connect(port.address()).is_err());
}
