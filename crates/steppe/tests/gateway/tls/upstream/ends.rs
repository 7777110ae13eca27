//! The ends of a server's connection: with `close_notify`, or cut by an attacker who wants a
//! response to look complete (RFC 8446 §6.1, RFC 9112 §9.8).

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};

use steppe_testkit::{OriginPeer, RawOrigin, TlsServer};

use super::*;

/// An action that ends a connection of the origin.
type End = fn(&mut OriginPeer);

const ORDERLY: End = |peer| {
    peer.finish().drain();
};
const CUT: End = |peer| {
    peer.cut().drain();
};

/// Answers the first request of each connection with `response`, and ends the connection when
/// `client` sends a signal or is dropped.
fn ending(
    authority: &Authority,
    (response, end): (&'static str, End),
    client: Receiver<()>,
) -> RawOrigin {
    let (tls, client) = (
        TlsServer::showing(&authority.issue(&local())),
        Mutex::new(client),
    );
    RawOrigin::start_tls(tls, move |peer| {
        if peer.request().is_some() {
            peer.send(response);
            let client = client.lock().unwrap_or_else(PoisonError::into_inner);
            // An error means that the sender was dropped, which is a signal too.
            let _ = client.recv();
            end(peer);
        }
    })
}

/// The time of the end: right after the response, or once the client has the first bytes of its
/// content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    AtOnce,
    Later,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The response was complete; its content.
    Complete(String),
    /// The client got 502, or its connection ended within the response; and the node counted an
    /// early end of the server's connection.
    Failed,
}

fn outcome(response: &'static str, (end, when): (End, When)) -> Outcome {
    let authority = Authority::new("one");
    let (client, origin) = sync_channel(1);
    let origin = ending(&authority, (response, end), origin);
    let node = node(&authority, origin.address(), (CA, ""));
    if when == When::AtOnce {
        client.send(()).expect("the origin is there");
    }
    let mut peer = node.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = peer.head().expect("a response");
    let mut rest = Vec::new();
    if when == When::Later {
        rest = peer.some();
        client.send(()).expect("the origin is there");
    }
    rest.extend(peer.rest());
    let rest = String::from_utf8_lossy(&rest).into_owned();
    let labels = [("reason", "upstream_reset")];
    let is_reset = node.metrics().sum("steppe_http_closed_total", &labels) > 0.0;
    let length = head.field("content-length").map(str::parse::<usize>);
    let is_complete = match length {
        Some(length) => length == Ok(rest.len()),
        None => rest.ends_with("0\r\n\r\n"),
    };
    match head.status() {
        200 if is_complete && !is_reset => Outcome::Complete(rest),
        200 if !is_complete && is_reset => Outcome::Failed,
        502 if is_reset && when == When::AtOnce => Outcome::Failed,
        status => panic!("{status} {rest:?} complete: {is_complete}, reset: {is_reset}"),
    }
}

#[test]
fn a_response_that_is_delimited_by_close_needs_close_notify() {
    let response = "HTTP/1.1 200 OK\r\n\r\nhello";
    for when in [When::AtOnce, When::Later] {
        let whole = Outcome::Complete("5\r\nhello\r\n0\r\n\r\n".to_owned());
        assert_eq!(outcome(response, (ORDERLY, when)), whole);
        assert_eq!(outcome(response, (CUT, when)), Outcome::Failed);
    }
}

#[test]
fn a_complete_response_needs_none() {
    let length = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for end in [ORDERLY, CUT] {
        let whole = Outcome::Complete("hello".to_owned());
        assert_eq!(outcome(length, (end, When::AtOnce)), whole);
        let whole = Outcome::Complete("5\r\nhello\r\n0\r\n\r\n".to_owned());
        assert_eq!(outcome(chunked, (end, When::AtOnce)), whole);
    }
}

#[test]
fn an_incomplete_response_fails_either_way() {
    for how in [ORDERLY, CUT] {
        for when in [When::AtOnce, When::Later] {
            let length = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello";
            assert_eq!(outcome(length, (how, when)), Outcome::Failed);
            let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
            assert_eq!(outcome(chunked, (how, when)), Outcome::Failed);
        }
        for head in ["", "HTTP/1.1 200 OK\r\nserver:"] {
            assert_eq!(
                outcome(head, (how, When::AtOnce)),
                Outcome::Failed,
                "{head:?}"
            );
        }
    }
}

/// A connection that was cut after a complete response is not reused, and that counts as no
/// failure.
#[test]
fn a_kept_connection_that_is_cut_is_no_failure() {
    let authority = Authority::new("one");
    let (_, ended) = sync_channel(1);
    let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let origin = ending(&authority, (response, CUT), ended);
    let node = node(&authority, origin.address(), (CA, ""));
    for count in 1..=4 {
        assert_eq!(get(&node).text(), "ok");
        assert_eq!(origin.accepted(), count);
        origin.wait_until("it is closed here too", |origin| {
            origin.closed().iter().all(|closed| *closed)
        });
    }
    assert_eq!(server(&node)["failures"], 0);
}

/// A server that leaves within the handshake, without any alert.
#[test]
fn a_server_that_leaves_in_the_handshake_is_named() {
    let origin = RawOrigin::start(|peer| {
        peer.some();
    });
    let node = node(&Authority::new("one"), origin.address(), (CA, ""));
    assert_eq!(get(&node).status(), 502);
    assert_eq!(reason(&node), "TLS handshake failed");
}

/// The handshake is part of `timeouts.connect`.
#[test]
fn a_server_that_says_nothing_is_given_up() {
    let origin = RawOrigin::start(|peer| peer.drain());
    let lines = "timeouts = { connect = \"100ms\" }";
    let node = node(&Authority::new("one"), origin.address(), (CA, lines));
    assert_eq!(get(&node).status(), 504);
    origin.wait_until("it is closed", |origin| origin.closed() == [true]);
}
