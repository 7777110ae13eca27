//! Calls whose server fails after its response has begun: clients get a status in the trailers.

use std::time::Duration;

use steppe_testkit::{
    Curl, CurlOutput, FieldSection, H2Frame, H2Server, RawOrigin, Steppe, eventually, grpc_message,
};

use super::{node, status};

/// The action of a server after its first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Closes its connection.
    Dies,
    /// Resets the stream.
    Resets,
    /// Sends nothing more.
    Hangs,
}

/// A server of gRPC that sends a head and a message, and after a time in which the node reads both, `end`s so.
fn failing(end: End, media_type: &'static str) -> RawOrigin {
    RawOrigin::start(move |peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(stream) = server.request() {
            let head = FieldSection::default().field(":status", "200");
            let head = head.field("content-type", media_type);
            server.send(&[
                H2Frame::opening(stream, &head),
                H2Frame::data(stream, grpc_message(b"half")),
            ]);
            // No frame tells that the client has the head. If it has not, the status would be in a head.
            std::thread::sleep(Duration::from_millis(300));
            match end {
                End::Dies => return,
                End::Resets => server.send(&[H2Frame::reset(stream)]),
                End::Hangs => {}
            }
        }
    })
}

/// Calls with these arguments of curl.
fn call(node: &Steppe, args: &[&str]) -> CurlOutput {
    let file = node.scratch().write("message", grpc_message(b"ask"));
    let data = format!("@{}", file.display());
    let curl = Curl::new(&node.url("/shop.Orders/List")).args(["--data-binary", &data]);
    args.iter().fold(curl, |curl, arg| curl.args([arg])).run()
}

const GRPC: &[&str] = &[
    "--http2-prior-knowledge",
    "-H",
    "te: trailers",
    "-H",
    "content-type: application/grpc",
];
const WEB: &[&str] = &["--http1.1", "-H", "content-type: application/grpc-web"];
const WEB_H2: &[&str] = &[
    "--http2-prior-knowledge",
    "-H",
    "content-type: application/grpc-web",
];

const ENDS: [(End, &str, &str); 3] = [
    (End::Dies, "14", "UNAVAILABLE"),
    (End::Resets, "14", "UNAVAILABLE"),
    (End::Hangs, "4", "DEADLINE_EXCEEDED"),
];

fn timeout(end: End) -> [&'static str; 2] {
    match end {
        End::Hangs => ["-H", "grpc-timeout: 500m"],
        End::Dies | End::Resets => ["-H", "grpc-timeout: 60S"],
    }
}

#[test]
fn a_call_whose_server_fails_ends_with_a_status_in_its_trailers() {
    for (end, code, name) in ENDS {
        let origin = failing(end, "application/grpc");
        let node = node(&[origin.address()], |u| u);
        let got = call(&node, &[GRPC, &timeout(end)].concat());
        assert_eq!((got.exit, got.head.status()), (0, 200), "{end:?}: {got:?}");
        assert_eq!(status(&got), Some(code), "{end:?}: {got:?}");
        if got.head.field("grpc-status").is_none() {
            assert_eq!(got.body, grpc_message(b"half"), "{end:?}");
        }
        let labels = [("status", name)];
        let counted = || node.metrics().sum("steppe_grpc_calls_total", &labels);
        eventually("it is counted", || counted() == 1.0);
    }
}

#[test]
fn clients_of_grpc_web_have_the_status_as_a_message() {
    for args in [WEB, WEB_H2] {
        for (end, code, _) in ENDS {
            let origin = failing(end, "application/grpc");
            let node = node(&[origin.address()], |u| u);
            let got = call(&node, &[args, &timeout(end)].concat());
            assert_eq!((got.exit, got.head.status()), (0, 200), "{end:?}: {got:?}");
            if got.head.field("grpc-status") == Some(code) {
                continue;
            }
            let text = String::from_utf8_lossy(&got.body).into_owned();
            let is_begun = got.body.starts_with(&grpc_message(b"half"));
            let is_told = text.contains(&format!("grpc-status: {code}\r\n"));
            assert!(is_begun && is_told, "{end:?} {args:?}: {text:?}");
        }
    }
}

/// A response that is not of gRPC, or whose client does not speak it, is cut: a proper end would make it look complete.
#[test]
fn other_responses_are_cut() {
    for (media_type, args) in [
        ("text/plain", GRPC),
        ("application/grpc", &["--http2-prior-knowledge"][..]),
        ("application/grpc", &["--http1.1"]),
    ] {
        let origin = failing(End::Dies, media_type);
        let node = node(&[origin.address()], |u| u);
        let got = call(&node, args);
        let is_refused = got.head.status() == 502 || got.head.field("grpc-status").is_some();
        assert!(
            got.exit != 0 || is_refused,
            "{media_type} {args:?}: {got:?}"
        );
    }
}
