//! Clients of the gateway that leave while their call is in some state: it is cancelled, and its memory freed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Request};
use steppe_testkit::{FieldSection, H2Frame, H2Peer, Peer, Steppe, eventually};

use super::{MIB, Serving, echo, node};

/// A request: the part that its client has sent, and the way its worker behaves.
#[derive(Debug, Clone, Copy)]
struct State {
    name: &'static str,
    /// The behavior of the worker, by its media type.
    worker: &'static str,
    length: Option<usize>,
    sent: usize,
    /// True if the call is open at the worker.
    is_called: bool,
}

const STATES: [State; 7] = [
    State {
        name: "content in one piece",
        worker: "a/read",
        length: Some(5),
        sent: 5,
        is_called: true,
    },
    State {
        name: "no content",
        worker: "a/read",
        length: Some(0),
        sent: 0,
        is_called: true,
    },
    State {
        name: "part of small content",
        worker: "a/read",
        length: Some(10),
        sent: 5,
        is_called: false,
    },
    State {
        name: "part of large content",
        worker: "a/read",
        length: Some(300_000),
        sent: 100_000,
        is_called: true,
    },
    State {
        name: "content of unknown length",
        worker: "a/read",
        length: None,
        sent: 10,
        is_called: true,
    },
    State {
        name: "content that the worker does not take",
        worker: "a/hold",
        length: Some(300_000),
        sent: 50_000,
        is_called: true,
    },
    State {
        name: "a response that is not read",
        worker: "a/stream",
        length: Some(5),
        sent: 5,
        is_called: true,
    },
];

/// A way of leaving.
#[derive(Debug, Clone, Copy)]
enum Way {
    Close,
    ResetConnection,
    ResetStream,
}

/// A client of either protocol.
enum Client {
    H1(Peer),
    H2(Box<H2Peer>, u32),
}

impl Client {
    fn h1(gateway: SocketAddr, state: State) -> Self {
        let framing = state.length.map_or_else(
            || "transfer-encoding: chunked".to_owned(),
            |length| format!("content-length: {length}"),
        );
        let content = vec![b'7'; state.sent];
        let mut bytes = format!(
            "POST /infer/x HTTP/1.1\r\nhost: a\r\ncontent-type: {}\r\n{framing}\r\n\r\n",
            state.worker
        )
        .into_bytes();
        match state.length {
            Some(_) => bytes.extend(content),
            None => bytes.extend(
                [
                    format!("{:x}\r\n", state.sent).as_bytes(),
                    &content,
                    b"\r\n",
                ]
                .concat(),
            ),
        }
        let mut peer = Peer::connect(gateway);
        peer.send(bytes);
        Self::H1(peer)
    }

    fn h2(gateway: SocketAddr, state: State) -> Self {
        let mut peer = H2Peer::connect(gateway);
        let mut fields = FieldSection::of("POST", "/infer/x").field("content-type", state.worker);
        if let Some(length) = state.length {
            fields = fields.field("content-length", length.to_string());
        }
        let stream = peer.stream();
        let is_whole = state.length == Some(state.sent);
        let content = vec![b'7'; state.sent.min(60_000)];
        let mut frames = vec![H2Frame::opening(stream, &fields)];
        frames.extend(
            content
                .chunks(16_000)
                .map(|part| H2Frame::data(stream, part)),
        );
        if is_whole {
            frames.push(H2Frame::last_data(stream, ""));
        }
        peer.send(&frames);
        Self::H2(Box::new(peer), stream)
    }

    fn leave(self, way: Way) {
        match (self, way) {
            (Self::H1(peer), Way::ResetConnection) => peer.reset(),
            (Self::H1(peer), _) => drop(peer),
            (Self::H2(mut peer, _), Way::ResetConnection) => {
                peer.socket().reset_at_end();
            }
            (Self::H2(peer, _), Way::Close) => drop(peer),
            (Self::H2(mut peer, stream), Way::ResetStream) => {
                peer.send(&[H2Frame::reset(stream)]);
                // The connection stays open for a while.
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(5));
                    drop(peer);
                });
            }
        }
    }
}

/// The numbers of calls that are open at workers, and that wait for one.
fn open(node: &Steppe) -> [u64; 2] {
    let report = node.admin_json("/plane");
    let services = report["services"].as_array().expect("a list");
    let workers = services
        .iter()
        .filter_map(|service| service["workers"].as_array());
    let calls = workers
        .flatten()
        .filter_map(|worker| worker["calls"].as_u64());
    [
        calls.sum(),
        report["queue"]["calls"].as_u64().expect("a number"),
    ]
}

fn gone(node: &Steppe) -> u64 {
    let metrics = node.admin_get("/metrics");
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let gone =
        |line: &&str| line.starts_with("steppe_http_closed_total") && line.contains("client_gone");
    let counts = metrics
        .lines()
        .filter(gone)
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

/// Waits until the call of `client` has ended and is counted as left.
#[track_caller]
fn is_noticed(node: &Steppe, what: &str, client: Client, way: Way) {
    let (left_before, begun) = (gone(node), Instant::now());
    client.leave(way);
    eventually(what, || {
        open(node) == [0, 0] && gone(node) == left_before + 1
    });
    let took = begun.elapsed();
    println!("{what}: {took:?}");
    assert!(took < Duration::from_secs(30), "{what}: {took:?}");
}

async fn serve(mut request: Request) -> Result<(), Failure> {
    if request.content_type.as_deref() == Some("a/stream") {
        request.response.begin(Payment::Granted).await?;
        loop {
            request.response.send(vec![7; 60_000].into()).await?;
        }
    }
    if request.content_type.as_deref() != Some("a/hold") {
        while request.body.next().await?.is_some() {}
    }
    std::future::pending().await
}

#[test]
fn a_client_that_leaves_is_noticed_in_every_state() {
    let (node, plane) = node(|config| {
        let config = config.set("plane.queue.wait", "10m");
        config.listener_at("{gateway}", |l| l.protocols(["h1", "h2c"]))
    });
    let _worker = Serving::start(plane, 64 * MIB, serve);
    for state in STATES {
        let h1 = [Way::Close, Way::ResetConnection].map(|way| (false, way));
        let h2 = [Way::Close, Way::ResetConnection, Way::ResetStream].map(|way| (true, way));
        for (is_h2, way) in h1.into_iter().chain(h2) {
            let client = match is_h2 {
                false => Client::h1(node.gateway(), state),
                true => Client::h2(node.gateway(), state),
            };
            let protocol = if is_h2 { "h2" } else { "h1" };
            let what = format!("{protocol}, {}, {way:?}", state.name);
            match state.is_called {
                true => eventually(&what, || open(&node) == [1, 0]),
                // The gateway waits for the rest of the content.
                false => std::thread::sleep(Duration::from_millis(200)),
            }
            is_noticed(&node, &what, client, way);
        }
    }
}

#[test]
fn a_client_that_leaves_while_it_waits_for_a_worker_is_noticed() {
    let (node, plane) = node(|config| {
        let config = config.set("plane.queue.wait", "10m");
        config.listener_at("{gateway}", |l| l.protocols(["h1", "h2c"]))
    });
    let _worker = echo(plane, &["--calls", "1", "--hold", "600s"]);
    let held = Client::h1(node.gateway(), STATES[0]);
    eventually("one is held", || open(&node) == [1, 0]);
    for way in [Way::Close, Way::ResetConnection, Way::ResetStream] {
        for make in [Client::h1, Client::h2] {
            let waits = make(node.gateway(), STATES[0]);
            let protocol = if matches!(waits, Client::H2(..)) {
                "h2"
            } else {
                "h1"
            };
            eventually("another waits", || open(&node) == [1, 1]);
            let (before, begun) = (gone(&node), Instant::now());
            waits.leave(way);
            let what = format!("{protocol}, waits for a worker, {way:?}");
            eventually(&what, || open(&node) == [1, 0] && gone(&node) == before + 1);
            println!("{what}: {:?}", begun.elapsed());
        }
    }
    is_noticed(&node, "the one that is held", held, Way::Close);
}
