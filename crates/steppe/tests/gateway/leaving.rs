//! Clients that leave, over each protocol, in each state of an exchange, in each way: the node notices at once, cancels
//! its requests to servers, and frees all that the exchange holds.
//!
//! Every timeout of the node is longer than a test waits, so a client that leaves unnoticed fails its case. The time
//! until the node notices is printed, and not limited.

mod client;

use std::fmt;
use std::time::{Duration, Instant};

use steppe_testkit::{
    Authority, FullQueue, H2Frame, Leaf, NodeConfig, RawOrigin, Section, Steppe, eventually,
    observe_until,
};

use client::{Client, Protocol, Way};

/// The state of an exchange: each has a route of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Content waits for a server that grants no window.
    Content,
    /// A connection to a server is being established.
    Connect,
    /// The node waits for the response's head.
    Head,
    /// A filter waits for another service.
    Filter,
    /// The client does not read its response.
    Response,
}

const STATES: [State; 5] = [
    State::Content,
    State::Connect,
    State::Head,
    State::Filter,
    State::Response,
];

/// Clients of one case.
const CLIENTS: usize = 4;

const NAME: &str = "a";

impl State {
    fn path(self) -> &'static str {
        match self {
            Self::Content => "/content",
            Self::Connect => "/connect",
            Self::Head => "/head",
            Self::Filter => "/filter",
            Self::Response => "/response",
        }
    }
}

/// A node, and the servers that have its exchanges wait.
struct Site {
    node: Steppe,
    _servers: [RawOrigin; 3],
    _queue: FullQueue,
}

impl Site {
    fn start(protocol: Protocol) -> Self {
        let silent = RawOrigin::start(|peer| drop(peer.rest()));
        // Content waits from its first byte: every window is 0 (RFC 9113 §6.5.2).
        let deaf = RawOrigin::start(|peer| {
            const INITIAL_WINDOW_SIZE: u16 = 4;
            peer.send(H2Frame::settings(&[(INITIAL_WINDOW_SIZE, 0)]).bytes());
            drop(peer.rest());
        });
        let endless = RawOrigin::start(|peer| {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
            if peer.try_head().is_ok_and(|head| head.is_some()) {
                let _ = peer.try_send(head.as_bytes());
                while peer.try_send(&[b'x'; 64 << 10]).is_ok() {}
            }
        });
        let queue = FullQueue::new();
        let patient = |u: Section, server: String| {
            u.servers([server])
                .set("timeouts.connect", "600s")
                .set("timeouts.first_byte", "600s")
                .set("timeouts.idle", "600s")
        };
        let address = |origin: &RawOrigin| origin.address().to_string();
        let routed = |config: NodeConfig, name: &'static str| {
            config.add_route(name, |r| r.path(&format!("/{name}")).upstream(name))
        };
        let config = NodeConfig::bare()
            .protocols(protocol.names())
            .listener(|l| {
                l.set("timeouts.idle", "600s")
                    .set("timeouts.write_stall", "600s")
            })
            .add_upstream("head", |u| patient(u, address(&silent)))
            .add_upstream("content", |u| {
                patient(u, address(&deaf)).set("protocol", "h2c")
            })
            .add_upstream("response", |u| patient(u, address(&endless)))
            .add_upstream("connect", |u| patient(u, queue.address().to_string()))
            .add_filter("ask", |f| {
                f.set("kind", "forward-auth")
                    .set("upstream", "head")
                    .set("path", "/ask")
                    .set("timeout", "600s")
            });
        let config = ["content", "connect", "head", "response"]
            .into_iter()
            .fold(config, routed)
            .add_route("filter", |r| {
                r.path("/filter").upstream("response").filters(["ask"])
            });
        let (builder, config) = match protocol.is_encrypted() {
            false => (Steppe::builder(), config),
            true => {
                let issued = Authority::new("servers").issue(&Leaf::named(&[NAME]));
                let table = Section::new()
                    .set("cert", "{scratch}/a.crt")
                    .set("key", "{scratch}/a.key");
                let builder = Steppe::builder()
                    .with_file("a.crt", &issued.cert)
                    .with_file("a.key", &issued.key);
                (
                    builder,
                    config.listener(|l| l.set("tls.certificates", vec![table])),
                )
            }
        };
        Self {
            node: builder.start(&config),
            _servers: [silent, deaf, endless],
            _queue: queue,
        }
    }

    /// Requests in flight to servers, those that wait for a connection included.
    fn active(&self) -> u64 {
        self.of_servers("active")
    }

    /// Requests that the node has sent to servers.
    fn given(&self) -> u64 {
        self.of_servers("requests")
    }

    fn of_servers(&self, figure: &str) -> u64 {
        let report = self.node.admin_json("/upstreams");
        let upstreams = report["upstreams"].as_array().expect("a list");
        let servers = upstreams
            .iter()
            .flat_map(|upstream| upstream["servers"].as_array().expect("a list"));
        servers
            .map(|server| server[figure].as_u64().expect("a number"))
            .sum()
    }

    fn seen(&self) -> Seen {
        let metrics = self.node.metrics();
        let reserved = |wanted: &dyn Fn(&str) -> bool| {
            let report = self.node.admin_json("/memory");
            let children = report["budget"]["children"].as_array().expect("accounts");
            let wanted = children
                .iter()
                .filter(|child| child["name"].as_str().is_some_and(wanted));
            wanted
                .map(|child| child["reserved_bytes"].as_u64().expect("a number"))
                .sum()
        };
        Seen {
            active: self.active(),
            connections: metrics.sum("steppe_http_connections", &[]),
            streams: metrics.sum("steppe_http_streams", &[("side", "downstream")]),
            gone: metrics.sum("steppe_http_closed_total", &[("reason", "client_gone")]),
            route_bytes: reserved(&|name| name.starts_with("route ")),
            listener_bytes: reserved(&|name| name.starts_with("listener ")),
        }
    }

    /// Makes clients begin, wait and leave; returns the time until the node's figures are as before.
    fn leave(&self, case: Case) -> Duration {
        let before = self.seen();
        let mut clients: Vec<Client> = (0..CLIENTS)
            .map(|_| Client::begin(&self.node, case))
            .collect();
        eventually(&format!("they wait: {case}"), || {
            self.active() == CLIENTS as u64
        });
        // The bytes of the clients have come as far as the node reads.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(self.active(), CLIENTS as u64, "{case}");
        let left_at = Instant::now();
        clients.iter_mut().for_each(|client| client.leave(case.way));
        let wanted = Seen {
            gone: before.gone + CLIENTS as f64,
            ..before
        };
        let stays = case.way == Way::ResetStream;
        steppe_testkit::observe_until(
            &format!("they are gone: {case}"),
            || self.seen(),
            |seen| match stays {
                false => *seen == wanted,
                true => {
                    let streams = (seen.active, seen.gone, seen.route_bytes);
                    streams == (0, wanted.gone, 0) && seen.streams == 0.0
                }
            },
        );
        let elapsed = left_at.elapsed();
        drop(clients);
        eventually("their connections have ended", || self.seen() == wanted);
        elapsed
    }
}

/// Figures of the node for what exchanges hold.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    active: u64,
    connections: f64,
    streams: f64,
    gone: f64,
    route_bytes: u64,
    listener_bytes: u64,
}

/// One combination of protocol, state, request and way to leave.
#[derive(Debug, Clone, Copy)]
struct Case {
    protocol: Protocol,
    state: State,
    /// True if the request is complete.
    is_whole: bool,
    way: Way,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = if self.is_whole { "whole" } else { "open" };
        write!(
            f,
            "{:?}, {:?}, request {request}, {:?}",
            self.protocol, self.state, self.way
        )
    }
}

fn every_way(protocol: Protocol) {
    let site = Site::start(protocol);
    for state in STATES {
        for is_whole in [true, false] {
            for &way in protocol.ways() {
                let case = Case {
                    protocol,
                    state,
                    is_whole,
                    way,
                };
                println!("{case}: {:?}", site.leave(case));
            }
        }
    }
}

#[test]
fn clients_of_http_1_that_leave_are_missed_in_every_state() {
    every_way(Protocol::H1);
}

#[test]
fn clients_of_http_1_over_tls_that_leave_are_missed_in_every_state() {
    every_way(Protocol::H1Tls);
}

#[test]
fn clients_of_http_2_that_leave_are_missed_in_every_state() {
    every_way(Protocol::H2c);
}

#[test]
fn clients_of_http_2_over_tls_that_leave_are_missed_in_every_state() {
    every_way(Protocol::H2);
}

/// Streams that were reset do not count as open, but their exchanges end with them: however many streams a client
/// begins and resets while their content waits for the server, one exchange is left.
#[test]
fn streams_that_are_reset_while_their_content_waits_hold_no_exchange() {
    let site = Site::start(Protocol::H2c);
    let case = Case {
        protocol: Protocol::H2c,
        state: State::Content,
        is_whole: true,
        way: Way::ResetStream,
    };
    let mut client = Client::begin(&site.node, case);
    // Each request has reached its server: resets of streams that were never processed are a flood (CVE-2023-44487).
    for given in 1..=100 {
        let waits = |seen: &(u64, u64)| *seen == (given, 1);
        observe_until("one waits", || (site.given(), site.active()), waits);
        client.leave(Way::ResetStream);
        client.begin_again(case);
    }
    observe_until("one is left", || site.active(), |&active| active == 1);
}

/// Pipelined requests come from a client that waits for its responses.
#[test]
fn a_request_behind_another_is_no_sign_of_leaving() {
    let origin = RawOrigin::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(300));
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    for _ in 0..3 {
        assert_eq!(peer.response().text(), "ok");
    }
}
