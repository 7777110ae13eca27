//! Admin over TLS, and the commands that connect to it.

use std::fs;
use std::process::Output;

use steppe_testkit::{
    Curl, CurlOutput, Issued, NodeConfig, Peer, Port, Process, Scratch, Steppe, eventually,
};

/// A configuration whose admin has TLS.
fn config() -> NodeConfig {
    NodeConfig::bare()
        .set("admin.tls.cert", "{scratch}/admin.crt")
        .set("admin.tls.key", "{scratch}/admin.key")
        .add_upstream("hello", |u| u.set("respond.body", "hello"))
        .add_route("all", |r| r.path("/{rest*}").upstream("hello"))
}

/// A node whose admin has TLS.
struct Node {
    _process: Process,
    _ports: [Port; 2],
    scratch: Scratch,
    /// The URL of the admin listener.
    url: String,
    /// The path of the certificate that clients trust: the first one of the admin listener.
    ca: String,
}

impl Node {
    fn start() -> Self {
        let scratch = Scratch::new("admin-tls");
        let Issued { cert, key, .. } = Issued::self_signed("127.0.0.1");
        scratch.write("admin.crt", &cert);
        scratch.write("admin.key", &key);
        let ca = scratch.write("ca.crt", &cert);
        let ports = [Port::free(), Port::free()];
        let [gateway, admin] = ports.each_ref().map(Port::address);
        let config = config()
            .listener(|l| l.set("listen", gateway))
            .set("admin.listen", admin)
            .set("admin.tls.cert", &*scratch.join("admin.crt"))
            .set("admin.tls.key", &*scratch.join("admin.key"));
        let mut command = Steppe::command();
        command.arg("run").arg("-c");
        command.arg(scratch.write("steppe.toml", config.to_string()));
        let node = Self {
            _process: Process::start("steppe", command),
            _ports: ports,
            scratch,
            url: format!("https://{admin}"),
            ca: ca.to_string_lossy().into_owned(),
        };
        eventually("the node is ready", || {
            let got = node.get("/readyz");
            got.exit == 0 && got.head.status() == 200
        });
        node
    }

    fn get(&self, path: &str) -> CurlOutput {
        let got = Curl::new(&format!("{}{path}", self.url));
        got.args(["--cacert", &self.ca]).run()
    }
}

fn steppe(args: &[&str]) -> Output {
    let output = Steppe::command().args(args).output();
    output.expect("the binary is there")
}

#[test]
fn admin_answers_over_tls_and_to_nobody_without() {
    let node = Node::start();
    for path in ["/metrics", "/certificates", "/"] {
        let got = node.get(path);
        assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
    }
    let told = node.get("/certificates").body;
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    let listener = node.url.replace("https://", "admin ");
    assert_eq!(told["certificates"][0]["listener"], listener);
    let plain = Curl::new(&node.url.replace("https:", "http:")).run();
    assert_ne!(plain.exit, 0);
    assert!(plain.body.is_empty());
}

#[test]
fn probes_that_stand_apart_stand_without_tls() {
    let Issued { cert, key, .. } = Issued::self_signed("127.0.0.1");
    let (builder, port) = Steppe::builder().with_port("port");
    let apart = config()
        .set("admin.listen", "127.0.0.1:{port}")
        .set("admin.probes", "{admin}");
    let node = builder
        .with_file("admin.crt", &cert)
        .with_file("admin.key", &key)
        .start(&apart);
    assert_eq!(node.admin_get("/healthz").status(), 200);
    let page = Curl::new(&format!("https://127.0.0.1:{port}/")).args(["-k"]);
    assert_eq!(page.run().head.status(), 200);
}

/// 64 connections may be open: more than that, silent within their handshakes, delay no request.
#[test]
fn half_a_handshake_keeps_no_place() {
    let node = Node::start();
    let address = node.url.replace("https://", "");
    let silent = || {
        let mut peer = Peer::connect(address.parse().expect("an address"));
        // The begin of a record of the handshake.
        peer.send([22, 3, 1]);
        peer
    };
    let _silent: Vec<Peer> = (0..200).map(|_| silent()).collect();
    for _ in 0..3 {
        let got = node.get("/healthz");
        assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
    }
}

#[test]
fn a_new_certificate_of_admin_is_taken_over() {
    let node = Node::start();
    let Issued { cert, key, .. } = Issued::self_signed("127.0.0.1");
    for (name, text) in [("admin.key", &key), ("admin.crt", &cert), ("ca.crt", &cert)] {
        let new = node.scratch.write("new", text);
        fs::rename(new, node.scratch.join(name)).expect("renames");
    }
    eventually("the new certificate", || node.get("/healthz").exit == 0);
}

#[test]
fn health_and_top_ask_over_tls_and_verify_whom() {
    let node = Node::start();
    let (url, ca) = (&node.url, &node.ca);
    for args in [
        &["health", "--admin", url, "--ca", ca][..],
        &["top", "--once", "--admin", url, "--ca", ca],
    ] {
        let output = steppe(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        assert!(!output.stdout.is_empty(), "{args:?}");
    }
    let other = Issued::self_signed("127.0.0.1").cert;
    let other = node.scratch.write("other.crt", other);
    let other = other.to_string_lossy();
    for args in [
        &["health", "--admin", url, "--ca", &other][..],
        &["top", "--once", "--admin", url, "--ca", &other],
    ] {
        let output = steppe(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(errors.contains("invalid peer certificate"), "{errors}");
    }
}

#[test]
fn health_knows_the_certificate_of_its_own_configuration() {
    let node = Node::start();
    let file = node.scratch.join("steppe.toml");
    let args = ["health", "-c", &file.to_string_lossy()];
    let output = steppe(&args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"ready\n", "{errors}");
    let other = Issued::self_signed("127.0.0.1").cert;
    node.scratch.write("admin.crt", other);
    let output = steppe(&args);
    assert!(!output.status.success());
}
