//! The configurations of docs/gateway/http2.md and docs/gateway/grpc.md, run as they are there:
//! only addresses and the folder of the files are replaced.

use std::net::TcpListener;

use steppe_testkit::{
    Authority, Curl, CurlOutput, GrpcOrigin, GrpcReply, Issued, Leaf, NodeConfig, Port, Steppe,
    SteppeBuilder, page_example, page_examples,
};

/// A server of HTTP/2 with and without TLS, on addresses of its own.
const BACKEND: &str = r#"
[admin]
listen = "{admin}"
[[http.listener]]
listen = "{gateway}"
protocols = ["h2"]
[http.listener.tls]
certificates = [{ cert = "{scratch}/www.pem", key = "{scratch}/www.key" }]
[[http.listener]]
listen = "127.0.0.1:{plain}"
protocols = ["h2c"]
[http.upstream.hello]
respond = { body = "from behind\n" }
[[http.route]]
name = "all"
upstream = "hello"
"#;

/// The configuration of `page` below `heading`, with addresses of the test's own.
fn example(page: &str, heading: &str) -> NodeConfig {
    NodeConfig::parse(&page_example(page, heading))
        .set("admin.listen", "{admin}")
        .listener_at("0.0.0.0:8080", |l| l.set("listen", "{gateway}"))
}

fn authority() -> (Authority, Issued) {
    let ca = Authority::new("ca");
    let leaf = ca.issue(&Leaf::named(&["localhost", "127.0.0.1"]));
    (ca, leaf)
}

/// A node with the files of the pages.
fn builder((ca, leaf): &(Authority, Issued)) -> SteppeBuilder<'static> {
    Steppe::builder()
        .with_file("www.pem", &leaf.cert)
        .with_file("www.key", &leaf.key)
        .with_file("ca.pem", &ca.pem())
}

fn version(got: &CurlOutput) -> &str {
    got.figures["http_version"].as_str().unwrap_or_default()
}

/// A call by curl: returns the `grpc-status` of the response's head, if it has one.
fn call(node: &Steppe, path: &str, fields: [&str; 2]) -> Option<String> {
    let got = Curl::new(&node.url(path))
        .args(["--http2-prior-knowledge", "-X", "POST"])
        .args(["-H", "content-type: application/grpc", "-H", "te: trailers"])
        .args(fields)
        .run();
    assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
    assert_eq!(got.head.field("content-type"), Some("application/grpc"));
    got.head.field("grpc-status").map(str::to_owned)
}

#[test]
fn every_configuration_of_the_pages_is_valid() {
    let issued = authority();
    for (page, least) in [("gateway/http2", 2), ("gateway/grpc", 3)] {
        let examples = page_examples(page);
        assert!(examples.len() >= least, "{examples:?}");
        for (heading, toml) in examples {
            let (status, said) = builder(&issued).run(&["check"], &toml);
            assert!(status.success(), "{heading}: {said}");
        }
    }
}

#[test]
fn clients_agree_on_http2_or_begin_with_it() {
    let issued = authority();
    let (builder, secure) = builder(&issued).with_port("secure");
    let config = example("gateway/http2", "HTTP/2 with clients")
        .listener_at("0.0.0.0:8443", |l| l.set("listen", "127.0.0.1:{secure}"));
    let node = builder.start(&config);
    let ca = node.scratch().join("ca.pem");
    let get = |url: &str, option: &str| {
        let ca = ca.to_string_lossy();
        let got = Curl::new(url).args([option, "--cacert", &ca]).run();
        assert_eq!(got.body, b"hello\n", "{}", got.errors);
        version(&got).to_owned()
    };
    let (plain, secure) = (node.url("/"), format!("https://localhost:{secure}/"));
    assert_eq!(get(&secure, "--http2"), "2");
    assert_eq!(get(&secure, "--http1.1"), "1.1");
    assert_eq!(get(&plain, "--http2-prior-knowledge"), "2");
    assert_eq!(get(&plain, "--http1.1"), "1.1");
    // `Upgrade: h2c` is ignored.
    assert_eq!(get(&plain, "--http2"), "1.1");
}

#[test]
fn servers_are_spoken_to_by_either() {
    let issued = authority();
    let (backend, plain) = builder(&issued).with_port("plain");
    let backend = backend.start(BACKEND);
    let config = example("gateway/http2", "HTTP/2 with servers")
        .upstream("inside", |u| u.servers([format!("127.0.0.1:{plain}")]))
        .upstream("outside", |u| u.servers([backend.gateway()]));
    let node = builder(&issued).start(&config);
    for path in ["/inside/a", "/outside"] {
        for (option, spoken) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
            let got = Curl::new(&node.url(path)).args([option]).run();
            assert_eq!(
                got.body, b"from behind\n",
                "{path} {option}: {}",
                got.errors
            );
            assert_eq!(version(&got), spoken);
            // The protocols of the server and of the client, in this order.
            assert_eq!(got.head.all("via"), ["1.1 steppe", "2.0 steppe"]);
        }
    }
}

#[test]
fn calls_are_answered_as_grpc_has_it() {
    let issued = authority();
    // Accepts connections, and never answers.
    let port = Port::free();
    let hanging = TcpListener::bind(port.address()).expect("it is free");
    let config = example("gateway/grpc", "Proxy a gRPC service")
        .upstream("shop", |u| u.servers([port.address()]));
    let node = builder(&issued).start(&config);
    let status = |path: &str, timeout: &str| call(&node, path, ["-H", timeout]);
    let unimplemented = status("/shop.Nothing/Get", "grpc-timeout: 10S");
    assert_eq!(unimplemented.as_deref(), Some("12"));
    let late = status("/shop.Orders/Get", "grpc-timeout: 300m");
    assert_eq!(late.as_deref(), Some("4"));
    drop(hanging);
    let unavailable = status("/shop.Orders/Get", "grpc-timeout: 10S");
    assert_eq!(unavailable.as_deref(), Some("14"));
}

#[test]
fn browsers_call_servers_of_grpc() {
    let origin = GrpcOrigin::start(|_| GrpcReply::message(b"order", 0));
    let config = example("gateway/grpc", "Browsers: gRPC-Web")
        .upstream("shop", |u| u.servers([origin.address()]));
    let node = builder(&authority()).start(&config);
    let got = Curl::new(&node.url("/shop.Orders/Get"))
        .args(["-H", "content-type: application/grpc-web-text"])
        // A message without content.
        .args(["--data-binary", "AAAAAAA="])
        .run();
    let media_type = got.head.field("content-type");
    assert_eq!(
        media_type,
        Some("application/grpc-web-text"),
        "{}",
        got.errors
    );
    // A message, and the trailers.
    let expected = b"AAAAAAVvcmRlcg==gAAAABBncnBjLXN0YXR1czogMA0K";
    assert_eq!(got.body, expected, "{}", String::from_utf8_lossy(&got.body));
    assert_eq!(origin.calls()[0].content, [0; 5]);
}
