//! One address that attempts to use all of the memory, beside a neighbour on another one.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use steppe_testkit::{
    FieldSection, H2Frame, H2Server, NodeConfig, Peer, RawOrigin, Steppe, observe_until,
};

use crate::flood::{Crowd, Flood, SilentOrigin};
use crate::http2::{connection, streams};

/// A budget so small that a few hundred bodies are fifty times its size.
const BUDGET_MIB: u64 = 16;
const BODY_BYTES: usize = 1 << 20;
const CONNECTIONS: usize = 300;
const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A request with a body that a silent server never takes; `fields` end with CRLF.
fn upload(fields: &str) -> Vec<u8> {
    let head = format!(
        "POST /flood/a HTTP/1.1\r\nhost: a\r\n{fields}content-length: {}\r\n\r\n",
        2 * BODY_BYTES
    );
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + BODY_BYTES, b'a');
    bytes
}

fn uploads(node: &Steppe, bytes: &[u8]) -> Crowd {
    let crowd = Crowd::connect(node.gateway(), CONNECTIONS);
    let mut crowd = crowd.leaving_by_reset();
    let sent = crowd.send(bytes);
    println!("{} MiB were taken", sent >> 20);
    // The memory that a client holds is shown by `/memory`.
    let top = &node.admin_json("/memory")["clients"]["top"][0];
    println!("most is held by {top}");
    crowd
}

#[test]
fn uploads_of_one_address_leave_room_for_others() {
    let origin = SilentOrigin::start();
    Flood::new("one address, uploads by HTTP/1.1", BUDGET_MIB)
        .toward(origin.address(), "h1")
        .run(|node| uploads(node, &upload("")));
}

#[test]
fn a_neighbour_by_http_2_is_served() {
    let origin = SilentOrigin::start();
    Flood::new("one address, uploads, neighbour by h2c", BUDGET_MIB)
        .toward(origin.address(), "h1")
        .neighbour(is_served_by_curl)
        .run(|node| uploads(node, &upload("")));
}

#[test]
fn streams_of_one_address_leave_room_for_others() {
    let origin = SilentOrigin::start();
    let head = FieldSection::of("POST", "/flood/a").field("content-length", "1000000");
    let frames = streams(100).flat_map(|stream| {
        let data = H2Frame::data(stream, vec![b'a'; 16_000]);
        [H2Frame::opening(stream, &head), data]
    });
    let bytes = connection(frames);
    Flood::new("one address, uploads by h2c", BUDGET_MIB)
        .toward(origin.address(), "h1")
        .run(|node| {
            let mut crowd = Crowd::connect(node.gateway(), CONNECTIONS);
            crowd.send(&bytes);
            crowd
        });
}

/// All clients come from one proxy, which names them: one of them attempts to use everything.
#[test]
fn clients_of_a_trusted_proxy_have_shares_of_their_own() {
    let origin = SilentOrigin::start();
    Flood::new("one client of a proxy, uploads", BUDGET_MIB)
        .config(|config| config.set("http.trusted_proxies", ["127.0.0.0/8"]))
        .toward(origin.address(), "h1")
        .neighbour(|node| is_served_for("198.51.100.2", node))
        .run(|node| uploads(node, &upload("x-forwarded-for: 198.51.100.1\r\n")));
}

/// A connection to a server of HTTP/2 frees the memory of a client's uploads: none of it counts for the client then.
#[test]
fn uploads_that_are_over_hold_nothing() {
    const UPLOADS: usize = 200;
    let origin = RawOrigin::start_plain(|peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(stream) = server.request() {
            server.send(&[H2Frame::ok(stream), H2Frame::last_data(stream, "ok")]);
        }
    });
    let config = NodeConfig::plain().upstream("origin", |u| u.set("protocol", "h2c"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(config);
    let mut peer = Peer::connect(node.gateway());
    for _ in 0..UPLOADS {
        peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n");
        peer.send([b'a'; 100]);
        assert_eq!(peer.response().text(), "ok");
    }
    observe_until(
        "the client holds little",
        || node.admin_json("/memory")["clients"]["top"][0].take(),
        |top| top["charged_bytes"].as_u64() < Some(64 << 10),
    );
}

/// Sends one request by HTTP/2 from another address, by curl; returns true if it was served.
fn is_served_by_curl(node: &Steppe) -> bool {
    let mut curl = Command::new("curl");
    curl.args([
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--http2-prior-knowledge",
    ]);
    curl.args(["--max-time", "30", "--interface", &NEIGHBOUR.to_string()]);
    curl.arg(format!("http://{}/neighbour", node.gateway()));
    let output = curl.output().expect("curl is installed");
    output.stdout == b"200"
}

/// Sends one request from the attack's address, for a client that the proxy names; returns true if it was served.
fn is_served_for(client: &str, node: &Steppe) -> bool {
    let mut peer = Peer::connect_from(Ipv4Addr::LOCALHOST.into(), node.gateway());
    let head = format!(
        "GET /neighbour HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {client}\r\nconnection: close\r\n\r\n"
    );
    let sent = peer.try_send(head.as_bytes());
    let head = sent.ok().and_then(|()| peer.try_head().ok().flatten());
    head.is_some_and(|head| head.status() == 200)
}
