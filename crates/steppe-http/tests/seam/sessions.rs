//! A toy protocol without byte streams: sessions that share a datagram socket, as those of QUIC do.
//!
//! A client opens a session with the datagram `open`, and ends it with `close`. A datagram answers each; one more tells
//! each session of a drain.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use steppe_http::codec::DatagramCodec;
use steppe_http::config::{Gateway, Listener};
use steppe_http::gateway::{ClientContext, Endpoint};
use steppe_mem::Budget;
use steppe_net::accept::ConnectionEnds;
use steppe_net::{ListenAddress, PeerAddress, Phase, bind, bind_datagram};
use steppe_testkit::eventually;

use crate::in_process::{InProcess, Setup};
use crate::line::{LINE, Line};
use crate::peers::LineClient;

/// The protocol's name in a configuration.
const KNOCKS: &str = "knocks";
const DATAGRAM_BYTES: usize = 64;

/// The codec.
#[derive(Debug)]
struct Knocks;

impl DatagramCodec for Knocks {
    fn serve(&self, endpoint: Endpoint) {
        tokio::task::spawn_local(serve(endpoint));
    }
}

/// Clients of the sessions that are open, by address. Each session counts until its entry is removed.
type Sessions = HashMap<SocketAddr, Rc<ClientContext>>;

async fn serve(endpoint: Endpoint) {
    let mut sessions = Sessions::new();
    let mut room = [0; DATAGRAM_BYTES];
    let drain = endpoint.listener.settings().drain.clone();
    let draining = drain.reached(Phase::Draining);
    tokio::pin!(draining);
    let mut are_told = false;
    while !are_told || !sessions.is_empty() {
        tokio::select! {
            received = endpoint.socket.recv_from(&mut room) => {
                let (count, peer) = received.expect("a datagram");
                let answer = match &room[..count] {
                    b"close" if sessions.remove(&peer).is_some() => "closed".to_owned(),
                    b"open" if !are_told => open(&endpoint, &mut sessions, peer),
                    _ => "refused".to_owned(),
                };
                endpoint.socket.send_to(answer.as_bytes(), peer).await.expect("room");
            }
            () = &mut draining, if !are_told => {
                are_told = true;
                for peer in sessions.keys() {
                    endpoint.socket.send_to(b"drain", peer).await.expect("room");
                }
            }
        }
    }
}

fn open(endpoint: &Endpoint, sessions: &mut Sessions, peer: SocketAddr) -> String {
    let ends = ConnectionEnds {
        peer: PeerAddress::Ip(peer),
        destination: endpoint.socket.local_addr().ok(),
    };
    match endpoint.listener.admit(ends) {
        Ok(client) => {
            sessions.insert(peer, client);
            "opened".to_owned()
        }
        Err(refused) => refused.to_string(),
    }
}

/// A client of one session.
struct Client(UdpSocket);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let hung_after = Duration::from_secs(60);
        socket
            .set_read_timeout(Some(hung_after))
            .expect("a timeout");
        socket.connect(address).expect("loopback");
        Self(socket)
    }

    fn ask(&self, datagram: &str) -> String {
        self.0.send(datagram.as_bytes()).expect("room");
        self.told()
    }

    fn told(&self) -> String {
        let mut room = [0; DATAGRAM_BYTES];
        let count = self.0.recv(&mut room).expect("it answers");
        String::from_utf8(room[..count].to_vec()).expect("text")
    }
}

/// A gateway that speaks lines and the toy protocol at one address, with room for `connections` of both.
fn start(connections: usize) -> (InProcess, SocketAddr) {
    let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let bound = bind(&any, 1).expect("loopback");
    let ListenAddress::Tcp(address) = *bound[0].address() else {
        unreachable!("it was bound to TCP")
    };
    let datagrams = bind_datagram(address, 1).expect("its port is free for UDP");
    let mut listener = Listener::of(ListenAddress::Tcp(address), vec![LINE, KNOCKS]);
    listener.limits.connections = connections;
    let config = Gateway {
        listeners: vec![listener],
        ..Gateway::default()
    };
    let budget = Budget::new(64 << 20);
    let codecs = steppe_http::codecs()
        .with_downstream(LINE, Arc::new(Line))
        .with_datagrams(KNOCKS, Arc::new(Knocks));
    let setup = Setup {
        codecs,
        datagrams,
        ..Setup::of(&budget, config, bound)
    };
    (InProcess::start(setup, || ()), address)
}

#[test]
fn sessions_and_connections_share_a_limit() {
    let (_gateway, address) = start(2);
    let (first, second) = (Client::connect(address), Client::connect(address));
    assert_eq!(first.ask("open"), "opened");
    let mut line = LineClient::connect(address);
    assert_eq!(line.ask("GET a /at/x\n"), "404 \n");
    assert_eq!(second.ask("open"), "too many connections");
    assert_eq!(first.ask("close"), "closed");
    assert_eq!(second.ask("open"), "opened");
    // Nor has a connection room.
    assert_eq!(LineClient::connect(address).line(), "503 \n");
    drop(line);
    eventually("the connection's room is free", || {
        first.ask("open") == "opened"
    });
}

#[test]
fn a_drain_waits_for_sessions() {
    let (gateway, address) = start(10);
    let clients = [(); 3].map(|()| Client::connect(address));
    for client in &clients {
        assert_eq!(client.ask("open"), "opened");
    }
    gateway.drain.enter(Phase::Draining);
    for client in &clients {
        assert_eq!(client.told(), "drain");
    }
    assert_eq!(Client::connect(address).ask("open"), "refused");
    for client in &clients {
        assert!(!gateway.has_drained());
        assert_eq!(client.ask("close"), "closed");
    }
    assert_eq!(gateway.drained().dropped, 0);
}

#[test]
fn a_drain_that_times_out_drops_sessions() {
    let (gateway, address) = start(10);
    let clients = [(); 2].map(|()| Client::connect(address));
    for client in &clients {
        assert_eq!(client.ask("open"), "opened");
    }
    gateway.drain.enter(Phase::Draining);
    assert_eq!(clients[0].told(), "drain");
    assert_eq!(clients[0].ask("close"), "closed");
    gateway.drain.enter(Phase::Stopped);
    assert_eq!(gateway.drained().dropped, 1);
}

#[test]
fn a_listener_that_is_retired_drains_its_sessions() {
    let (gateway, address) = start(10);
    let client = Client::connect(address);
    assert_eq!(client.ask("open"), "opened");
    // The change does not wait for the session, which goes on.
    gateway.change(Gateway::default());
    assert_eq!(client.told(), "drain");
    assert_eq!(Client::connect(address).ask("open"), "refused");
    assert_eq!(client.ask("close"), "closed");
    eventually("the socket is closed", || bind_datagram(address, 1).is_ok());
    assert!(!gateway.has_drained(), "the worker goes on");
}
