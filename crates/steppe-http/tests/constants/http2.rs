//! Connections and streams of HTTP/2, with clients and with servers.

use steppe_h2::ConnectionMemory;
use steppe_http::config;
use steppe_testkit::{FieldSection, H2Frame, H2Server, RawOrigin};

use crate::running::{Before, Running, Sides};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Of a client, with settings that leave everything as it is (RFC 9113 §3.4).
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A client's bytes: so many requests.
fn requests(count: u32) -> Vec<u8> {
    let fields = FieldSection::of("GET", "/");
    let streams = (1..).step_by(2).take(count as usize);
    let frames = streams.flat_map(|stream| H2Frame::request(stream, &fields).bytes());
    BEGIN.iter().copied().chain(frames).collect()
}

/// Connections of a measurement: each of a client has many to the server.
const COUNT: usize = 64;

fn in_front_of(origin: RawOrigin) -> Running {
    let running = Running::start(Sides {
        listens: config::H2C,
        count: COUNT,
        ..Sides::of_http1(origin)
    });
    // What is made once.
    drop(running.connections(requests(1), |_| ()));
    running.await_end_of_connections();
    running
}

fn silent() -> RawOrigin {
    RawOrigin::start_plain(|peer| peer.drain())
}

/// A connection without streams is charged with little more than it takes, and with memory that is kept for what comes
/// while the budget has no room: scratch memory, control frames, and a read of 4 KiB.
#[test]
fn connections_are_charged_with_what_they_take() {
    let running = in_front_of(silent());
    let before = Before::of(&running);
    let held = running.connections(requests(0), |_| ());
    before.is_covered("a connection of HTTP/2");
    let sizes = before.sizes();
    let kept = ConnectionMemory::reserved_bytes() + 4096;
    let accounted = sizes.taken + i64::try_from(kept).expect("it is small");
    assert!(accounted * 115 >= sizes.charged * 100, "{sizes:?}");
    drop(held);
}

/// Tables that grow by doubling take most per stream when they have just grown.
#[test]
fn streams_that_wait_are_charged_with_what_they_take() {
    are_covered("streams that wait", &[1, 5, 17, 33], silent(), requests);
}

/// The budget's second line of defense closes connections, and their streams give back what they hold.
#[test]
fn connections_that_are_shed_give_back_what_their_streams_hold() {
    let running = in_front_of(silent());
    let held = running.connections(requests(17), |_| ());
    running.shed_all();
    running.await_end_of_connections();
    drop(held);
}

/// Tables and tasks that streams leave behind are charged until the connection ends.
#[test]
fn places_of_streams_are_charged_with_what_they_take() {
    let origin = RawOrigin::start(|peer| {
        while let Some(request) = peer.request() {
            if request.start.contains("/wait") {
                return peer.drain();
            }
            peer.send(OK);
        }
    });
    // While a stream is open, tasks stay for more.
    let sent = |count| {
        let waits = H2Frame::request(2 * count + 1, &FieldSection::of("GET", "/wait"));
        [requests(count), waits.bytes()].concat()
    };
    are_covered("streams that are over", &[17, 33, 65], origin, sent);
}

/// The charges of a connection that has sent so many requests cover what it takes, and it gives that back.
fn are_covered(what: &str, counts: &[u32], origin: RawOrigin, sent: impl Fn(u32) -> Vec<u8>) {
    let running = in_front_of(origin);
    for &count in counts {
        let before = Before::of(&running);
        let held = running.connections(sent(count), |_| ());
        before.is_covered(&format!("{count} {what}"));
        drop(held);
        before.is_given_back(&format!("{count} {what}"));
    }
}

/// HPACK's table of a client's fields, full of those that take most for what it counts of them: 120 with names of two
/// bytes and no value, in heads of as many fields as are allowed.
#[test]
fn tables_of_fields_are_charged_with_what_they_take() {
    let letters = || (b'a'..=b'p').map(char::from);
    let mut names = letters().flat_map(|first| letters().map(move |second| [first, second]));
    let mut kept = |count: usize| {
        let fields = FieldSection::of("GET", "/");
        let names = names.by_ref().take(count);
        names.fold(fields, |fields, name| {
            fields.kept(String::from_iter(name), "")
        })
    };
    let heads = [kept(80), kept(45)];
    let frames = heads.iter().zip([1, 3]);
    let frames = frames.flat_map(|(fields, stream)| H2Frame::request(stream, fields).bytes());
    let bytes: Vec<u8> = BEGIN.iter().copied().chain(frames).collect();
    // Their responses are read, and their places charged: the table alone is left of them.
    let running = in_front_of(RawOrigin::answering(OK));
    let before = Before::of(&running);
    let held = running.connections(bytes, |_| ());
    before.is_covered("a connection with a full table of fields");
    drop(held);
}

/// Clients of HTTP/1.1, whose requests share a connection to a server.
#[test]
fn streams_with_servers_are_charged_with_what_they_take() {
    let origin = RawOrigin::start_plain(|peer| {
        if let Some(mut server) = H2Server::begin(peer, &[]) {
            server.drain();
        }
    });
    let running = Running::start(Sides {
        asks: config::H2,
        count: COUNT,
        ..Sides::of_http1(origin)
    });
    let before = Before::of(&running);
    let held = running.connections("GET / HTTP/1.1\r\nHost: a\r\n\r\n", |_| ());
    before.is_covered("a request that waits for a server of HTTP/2");
    drop(held);
}
