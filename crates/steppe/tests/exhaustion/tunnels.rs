//! WebSockets, over HTTP/1.1 (RFC 6455) and HTTP/2 (RFC 8441), toward either side: tunnels of which one end sends as
//! much as possible, and the other one does not read.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use steppe_testkit::{
    FieldSection, H2Frame, OriginPeer, RawOrigin, is_left_to_long_tier, websocket_accept,
};

use crate::flood::{Crowd, Flood};
use crate::flow::{Flow, read_frame};
use crate::http2::{connection, streams};
use crate::row::Origin;

/// The sending end of a row's tunnels; the other end does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Client,
    Server,
}

/// The protocol of a side of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Http {
    One,
    Two,
}

/// A client's upgrade to a WebSocket.
const UPGRADE: &str = "GET /flood/a HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\n\
     upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Bytes of a sender over HTTP/1.1 in all: more than both kernels hold.
const SENT_BYTES: usize = 8 << 20;
/// Time without a frame after which the node opens no window any more.
const STALL: Duration = Duration::from_secs(2);
/// Interval of the bytes that a server sends to detect the end of a connection.
const SIGN: Duration = Duration::from_secs(2);
/// A timeout longer than a case takes.
const PATIENT: Duration = Duration::from_secs(3600);

const CLIENTS_OF_HTTP1: usize = 1000;
const CLIENTS_OF_HTTP2: usize = 40;
const TUNNELS_OF_EACH: u32 = 50;

/// A server of HTTP/1.1 that begins each tunnel.
fn h1_origin(sender: Sender) -> Origin {
    Origin::Scripted(RawOrigin::start_plain(move |peer| {
        let Some(head) = peer.head() else { return };
        let key = head.field("sec-websocket-key").unwrap_or_default();
        let accept = websocket_accept(key.as_bytes());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-accept: {accept}\r\n\r\n"
        );
        if peer.try_send(answer.as_bytes()).is_err() {
            return;
        }
        if sender == Sender::Server {
            peer.send_until_stall(&[7; SENT_BYTES], PATIENT);
        }
        stay(peer);
    }))
}

/// Waits without reading until the connection has ended: sending fails then.
fn stay(peer: &mut OriginPeer) {
    while peer.try_send(b"a").is_ok() {
        std::thread::sleep(SIGN);
    }
}

/// A server of HTTP/2 that begins each tunnel; one that does not read opens no window.
fn h2_origin(sender: Sender) -> Origin {
    Origin::Scripted(RawOrigin::start_plain(move |peer| {
        let _ = serve(peer.stream(), sender);
    }))
}

fn serve(mut socket: &TcpStream, sender: Sender) -> io::Result<()> {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    socket.read_exact(&mut [0; 24])?;
    let settings = [(ENABLE_CONNECT_PROTOCOL, 1), (INITIAL_WINDOW_SIZE, 0)];
    socket.write_all(&H2Frame::settings(&settings).bytes())?;
    let mut flow = Flow::new();
    loop {
        let frame = read_frame(socket)?;
        if frame.kind == H2Frame::HEADERS {
            socket.write_all(&H2Frame::ok(frame.stream).bytes())?;
            if sender == Sender::Server {
                flow.open(frame.stream);
            }
        }
        if let Some(answer) = flow.note(&frame) {
            socket.write_all(&answer.bytes())?;
        }
        socket.write_all(&flow.content())?;
    }
}

/// The bytes of a client of HTTP/2 that requests tunnels.
fn extended_connects() -> Vec<u8> {
    let fields = FieldSection::of("CONNECT", "/flood/a")
        .field(":protocol", "websocket")
        .field("sec-websocket-version", "13");
    connection(streams(TUNNELS_OF_EACH).map(|stream| H2Frame::opening(stream, &fields)))
}

/// Clients of HTTP/2 that send as much as their windows allow, and leave the last received bytes unread.
fn send_by_windows(gateway: SocketAddr) -> Vec<TcpStream> {
    let begin = |_| {
        let mut socket = TcpStream::connect(gateway).expect("it listens");
        let timeouts = socket.set_read_timeout(Some(STALL));
        timeouts.expect("a socket can have one");
        let _ = socket.write_all(&extended_connects());
        socket
    };
    let sockets: Vec<_> = (0..CLIENTS_OF_HTTP2).map(begin).collect();
    std::thread::scope(|scope| {
        for socket in &sockets {
            scope.spawn(move || {
                let mut flow = Flow::new();
                streams(TUNNELS_OF_EACH).for_each(|stream| flow.open(stream));
                let _ = flow.run(socket, STALL);
            });
        }
    });
    sockets
}

/// Tunnels of clients and servers of these protocols.
#[track_caller]
fn tunnels((client, server): (Http, Http), sender: Sender, budget_mib: u64) {
    let (origin, protocol) = match server {
        Http::One => (h1_origin(sender), "h1"),
        Http::Two => (h2_origin(sender), "h2c"),
    };
    let name = format!("WebSockets, {client:?} to {server:?}, by the {sender:?}, {budget_mib} MiB");
    let flood = Flood::new(&name, budget_mib).toward(origin.address(), protocol);
    match (client, sender) {
        (Http::Two, Sender::Client) => flood.run(|node| send_by_windows(node.gateway())),
        (Http::Two, Sender::Server) => {
            flood.run(|node| crowd(node.gateway(), CLIENTS_OF_HTTP2, &extended_connects()));
        }
        (Http::One, _) => {
            let mut bytes = UPGRADE.as_bytes().to_vec();
            if sender == Sender::Client {
                bytes.resize(SENT_BYTES, 7);
            }
            flood.run(|node| crowd(node.gateway(), CLIENTS_OF_HTTP1, &bytes));
        }
    }
}

fn crowd(gateway: SocketAddr, connections: usize, bytes: &[u8]) -> Crowd {
    let mut crowd = Crowd::connect(gateway, connections).leaving_by_reset();
    let sent = crowd.send(bytes);
    println!("{} MiB were taken", sent >> 20);
    crowd
}

#[test]
fn clients_of_tunnels_read_nothing() {
    tunnels((Http::One, Http::One), Sender::Server, 64);
}

#[test]
fn every_row_of_tunnels() {
    if is_left_to_long_tier("every row of tunnels") {
        return;
    }
    let ways =
        [Http::One, Http::Two].map(|client| [Http::One, Http::Two].map(|server| (client, server)));
    for budget_mib in [64, 16, 256] {
        for way in ways.concat() {
            tunnels(way, Sender::Server, budget_mib);
            tunnels(way, Sender::Client, budget_mib);
        }
    }
}
