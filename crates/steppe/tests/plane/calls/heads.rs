//! Heads of the gateway on routes into the plane: interim and final ones, before content is sent or read.

use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Request};
use steppe_testkit::{Curl, CurlRun, Peer, Steppe, eventually};
use tokio::sync::watch;

use super::{MIB, Scratch, Serving, body, echo, node, stream_back};

/// A client with `Expect: 100-continue` gets 100 (Continue) before it sends its content (RFC 9110 §10.1.1), and once; a
/// client that is refused gets the final response instead.
#[test]
fn a_client_that_waits_to_go_on_is_told_to() {
    let (node, plane) = node(|config| {
        let config = config.set("plane.max_payload", "1MiB");
        config.listener_at("{gateway}", |l| l.protocols(["h1", "h2c"]))
    });
    let _worker = Serving::start(plane, 16 * MIB, stream_back);
    for (framing, sent) in [
        ("content-length: 5", "hello".to_owned()),
        ("content-length: 300000", "7".repeat(300_000)),
        (
            "transfer-encoding: chunked",
            "5\r\nhello\r\n0\r\n\r\n".to_owned(),
        ),
    ] {
        let mut peer = Peer::connect(node.gateway());
        peer.send(format!(
            "POST /infer/x HTTP/1.1\r\nhost: a\r\n{framing}\r\nexpect: 100-continue\r\n\r\n"
        ));
        let head = peer.head().expect("an interim response");
        assert_eq!(head.status(), 100, "{framing}");
        peer.send(sent);
        let answer = peer.response();
        assert_eq!(answer.head.status(), 200, "{framing}");
        assert!(answer.body.len() == 5 || answer.body.len() == 300_000);
    }
    let mut peer = Peer::connect(node.gateway());
    peer.send(
        "POST /infer/x HTTP/1.1\r\nhost: a\r\ncontent-length: 2000000\r\nexpect: 100-continue\r\n\r\n",
    );
    assert_eq!(peer.head().expect("a response").status(), 413);
    // The same over HTTP/2, by a client that would wait for ten minutes.
    let file = Scratch::new("plane-expect");
    let file = file.write("content", body(300_000));
    let data = format!("@{}", file.display());
    let got = Curl::new(&node.url("/infer/x"))
        .args(["--http2-prior-knowledge", "-H", "Expect: 100-continue"])
        .args(["--expect100-timeout", "600", "--data-binary", &data]);
    let got = got.run();
    assert_eq!((got.exit, got.head.status()), (0, 200), "{got:?}");
    assert_eq!(got.body.len(), 300_000);
}

/// A request to upgrade the protocol calls no service.
#[test]
fn an_upgrade_is_not_implemented() {
    let (node, plane) = node(|config| config);
    let _echo = echo(plane, &[]);
    let mut peer = Peer::connect(node.gateway());
    peer.send(
        "GET /infer/x HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
    );
    let answer = peer.response();
    let said = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.head.status(), 501, "{said}");
    assert!(said.contains("WebSocket"), "{said}");
    let calls = node.admin_json("/plane")["calls"].take();
    assert_eq!(calls["finished"], serde_json::json!({}));
    // A server may ignore an upgrade to HTTP/2.
    let got = Curl::new(&node.url("/infer/x")).args(["--http2"]).run();
    assert_eq!(got.head.status(), 200, "{got:?}");
}

/// A request whose response has begun.
fn once_begun(node: &Steppe) -> CurlRun {
    let run = Curl::new(&node.url("/infer/x")).args(["-N"]).start();
    eventually("the head is there", || {
        run.so_far().head.start.lines().next().is_some()
    });
    run
}

/// The head of a stream of events arrives before its first event.
#[test]
fn the_head_goes_out_with_the_services_own() {
    let (node, plane) = node(|config| config);
    let (tell, told) = watch::channel(false);
    let _worker = Serving::start(plane, 16 * MIB, move |mut request: Request| {
        let mut told = told.clone();
        async move {
            request.response.begin(Payment::Standing).await?;
            told.wait_for(|told| *told).await.expect("it is told");
            request.response.send("data: 1\n\n".into()).await?;
            request.response.end()
        }
    });
    let run = once_begun(&node);
    let so_far = run.so_far();
    assert_eq!((so_far.head.status(), &*so_far.body), (200, &b""[..]));
    tell.send_replace(true);
    let got = run.finish();
    assert_eq!((got.exit, &*got.body), (0, &b"data: 1\n\n"[..]));
}

/// A response that fails after its head, and before its first byte, ends as an incomplete one.
#[test]
fn what_fails_behind_the_head_is_seen_to_be_incomplete() {
    let (node, plane) = node(|config| config);
    let (tell, told) = watch::channel(false);
    let _worker = Serving::start(plane, 16 * MIB, move |mut request: Request| {
        let mut told = told.clone();
        async move {
            request.response.begin(Payment::Standing).await?;
            told.wait_for(|told| *told).await.expect("it is told");
            Err(Failure::new(
                steppe_plane::Status::Internal,
                "inner workings",
            ))
        }
    });
    let run = once_begun(&node);
    tell.send_replace(true);
    let got = run.finish();
    assert_eq!(got.head.status(), 200, "{got:?}");
    assert_ne!(got.exit, 0, "curl takes it for whole: {got:?}");
}
