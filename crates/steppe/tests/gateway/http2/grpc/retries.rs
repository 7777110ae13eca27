//! Calls that are sent to another server after a status of the first.

use steppe_testkit::{Curl, GrpcOrigin, GrpcReply, Section, Steppe, grpc_message};

use super::{call, node, status};

/// The names of statuses in `retry.on`, and their codes.
const CODES: [(&str, u8); 5] = [
    ("cancelled", 1),
    ("deadline-exceeded", 4),
    ("resource-exhausted", 8),
    ("internal", 13),
    ("unavailable", 14),
];

fn refusing(code: u8) -> GrpcOrigin {
    GrpcOrigin::start(move |_| GrpcReply::trailers_only(code))
}

fn echoing() -> GrpcOrigin {
    GrpcOrigin::start(|call| GrpcReply {
        content: vec![call.content.clone()],
        ..GrpcReply::message(b"", 0)
    })
}

fn between(origins: &[&GrpcOrigin], change: impl FnOnce(Section) -> Section) -> Steppe {
    let servers: Vec<_> = origins.iter().map(|origin| origin.address()).collect();
    node(&servers, change)
}

fn tried(node: &Steppe) -> f64 {
    let labels = [("outcome", "tried")];
    (node.metrics()).sum("steppe_http_upstream_retries_total", &labels)
}

/// Statuses of two calls, which begin at different servers.
fn statuses(node: &Steppe) -> [String; 2] {
    let one = || {
        let got = call(node, "/shop.Orders/Get");
        status(&got).unwrap_or_default().to_owned()
    };
    [one(), one()]
}

#[test]
fn each_status_is_retried_where_it_is_named() {
    for (on, code) in CODES {
        let (bad, good) = (refusing(code), echoing());
        let named = between(&[&bad, &good], |u| u.set("retry.on", [on]));
        for _ in 0..2 {
            let got = call(&named, "/shop.Orders/Get");
            assert_eq!(status(&got), Some("0"), "{on}");
            assert_eq!(got.body, grpc_message(b"ask"), "its content was sent again");
        }
        assert_eq!(tried(&named), 1.0, "{on}");
        let others = CODES.iter().filter(|(other, _)| *other != on);
        let others: Vec<_> = others.map(|(other, _)| *other).collect();
        let other = between(&[&bad, &good], |u| u.set("retry.on", others));
        let mut seen = statuses(&other);
        seen.sort();
        assert_eq!(seen, ["0".to_owned(), code.to_string()], "{on}");
    }
}

#[test]
fn retries_keep_to_their_attempts() {
    let origins = [refusing(14), refusing(14), echoing()];
    let origins = origins.each_ref();
    for (attempts, expected) in [(0, "14"), (1, "14"), (2, "0")] {
        let node = between(&origins, |u| {
            u.set("retry.attempts", attempts)
                .set("retry.on", ["unavailable"])
        });
        assert_eq!(status(&call(&node, "/shop.Orders/Get")), Some(expected));
        assert_eq!(tried(&node), f64::from(attempts));
    }
}

/// Nothing is retried after a message that came before the status, or if the request is no call of
/// gRPC.
#[test]
fn nothing_else_is_sent_again() {
    let late = GrpcOrigin::start(|_| GrpcReply::message(b"half", 14));
    let policy = |u: Section| u.set("retry.on", ["unavailable", "reset", "503"]);
    let node_of = |bad: &GrpcOrigin| {
        let good = echoing();
        let node = between(&[bad, &good], policy);
        (node, good)
    };
    let (node, _good) = node_of(&late);
    let mut seen = statuses(&node);
    seen.sort();
    assert_eq!(seen, ["0", "14"]);
    assert_eq!(tried(&node), 0.0);

    let refusing = refusing(14);
    let (node, _good) = node_of(&refusing);
    for _ in 0..2 {
        let got = Curl::new(&node.url("/shop.Orders/Get"))
            .args(["--http2-prior-knowledge", "--data-binary", "no call"])
            .run();
        assert_eq!(got.head.status(), 200, "{}", got.errors);
    }
    assert_eq!(tried(&node), 0.0);
}

/// A call with more content than is kept.
#[test]
fn a_long_call_keeps_its_first_status() {
    let (bad, good) = (refusing(14), echoing());
    let node = between(&[&bad, &good], |u| u.set("retry.on", ["unavailable"]));
    let file = (node.scratch()).write("long", grpc_message(&vec![b'x'; 200 << 10]));
    let data = format!("@{}", file.display());
    let mut seen: Vec<_> = (0..2)
        .map(|_| {
            let got = Curl::new(&node.url("/shop.Orders/Put"))
                .args(["--http2-prior-knowledge", "--data-binary", &data])
                .args(["-H", "content-type: application/grpc", "-H", "te: trailers"])
                .run();
            status(&got).unwrap_or_default().to_owned()
        })
        .collect();
    seen.sort();
    assert_eq!(seen, ["0", "14"]);
    assert_eq!(tried(&node), 0.0);
}
