//! Calls of gRPC through the node: counted, retried, and translated.

mod ends;
mod metrics;
mod retries;
mod web;

use std::net::SocketAddr;

use steppe_testkit::{Curl, CurlOutput, GrpcOrigin, NodeConfig, Section, Steppe, grpc_message};

/// A node that speaks HTTP/2 without TLS at both ends, and HTTP/1.1 to clients too; `servers`
/// answer all paths of two segments, with this change to their upstream.
fn node(servers: &[SocketAddr], change: impl FnOnce(Section) -> Section) -> Steppe {
    let config = NodeConfig::bare()
        .protocols(["h1", "h2c"])
        .add_upstream("shop", |u| {
            change(u.servers(servers).set("protocol", "h2c"))
        })
        .add_route("shop", |r| r.path("/{service}/{method}").upstream("shop"));
    Steppe::builder().start(&config)
}

fn in_front_of(origin: &GrpcOrigin) -> Steppe {
    node(&[origin.address()], |u| u)
}

/// POSTs a message to a method by HTTP/2.
fn call(node: &Steppe, path: &str) -> CurlOutput {
    let file = node.scratch().write("message", grpc_message(b"ask"));
    let data = format!("@{}", file.display());
    post(node, path, &["--data-binary", &data])
}

/// The same without content, for calls that are answered before content could arrive: curl 7.88
/// misses the end of a response that arrives before its own content is out.
fn call_early(node: &Steppe, path: &str) -> CurlOutput {
    post(node, path, &["-X", "POST"])
}

fn post(node: &Steppe, path: &str, content: &[&str]) -> CurlOutput {
    let mut curl = Curl::new(&node.url(path))
        .args(["--http2-prior-knowledge", "-H", "te: trailers"])
        .args(["-H", "content-type: application/grpc"]);
    for arg in content {
        curl = curl.args([arg]);
    }
    let got = curl.run();
    assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
    got
}

/// The status of a call, in its trailers or its head.
fn status(got: &CurlOutput) -> Option<&str> {
    let is_status = |(name, _): &&(String, String)| name == "grpc-status";
    let in_trailers = got.trailers.iter().find(is_status);
    let in_trailers = in_trailers.map(|(_, value)| value.as_str());
    in_trailers.or_else(|| got.head.field("grpc-status"))
}
