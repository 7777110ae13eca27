//! Clients of other authors, which verify the node's certificate: curl, OpenSSL, Python, Node.js,
//! Go, wrk.

use std::path::{Path, PathBuf};
use std::process::Command;

use steppe_testkit::{
    Authority, Curl, Leaf, Message, RawOrigin, SClient, Scratch, Steppe, Wrk, is_left_to_long_tier,
    skip,
};

use super::{GET_AND_CLOSE, NAME, OK, Site, eventually, expect_count, handshakes};

/// The content of a request and of its response, in bytes.
const MEGABYTE: usize = 1_000_000;

/// A node in front of a server that echoes content, and the file of the authority.
struct Echo {
    node: Steppe,
    _origin: RawOrigin,
    ca: PathBuf,
    scratch: Scratch,
}

impl Echo {
    fn start() -> Self {
        let authority = Authority::new("servers");
        let certificate = authority.issue(&Leaf::named(&[NAME, "localhost"]));
        let origin = RawOrigin::replying(echo);
        let node = Site::serving(&certificate).start(origin.address());
        let scratch = Scratch::new("clients");
        let ca = scratch.write("ca.crt", authority.pem());
        Self {
            node,
            _origin: origin,
            ca,
            scratch,
        }
    }

    fn port(&self) -> u16 {
        self.node.gateway().port()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.port())
    }

    fn curl(&self, paths: &[&str]) -> Curl {
        let resolve = format!("{NAME}:{}:127.0.0.1", self.port());
        let ca = self.ca.to_str().expect("a path in ASCII");
        let curl = Curl::new(&self.url(paths[0])).args(["--cacert", ca, "--resolve", &resolve]);
        paths[1..].iter().fold(curl, |curl, path| {
            curl.args(["-o", "/dev/null", &self.url(path)])
        })
    }

    /// Runs a program with the port and the authority's file as its arguments.
    #[track_caller]
    fn run(&self, command: &mut Command) {
        let command = command.arg(self.port().to_string()).arg(&self.ca);
        let output = command.output().expect("it was looked for");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("all is well"), "{said}");
    }
}

/// A response with the content of the request, in chunks if the path begins with `/chunked`.
fn echo(request: &Message) -> Vec<u8> {
    let body = &request.body;
    let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
    if request.target().starts_with("/chunked") {
        answer.extend(b"transfer-encoding: chunked\r\n\r\n");
        for part in body.chunks(7_000) {
            answer.extend(format!("{:x}\r\n", part.len()).into_bytes());
            answer.extend(part);
            answer.extend(b"\r\n");
        }
        answer.extend(b"0\r\n\r\n");
    } else {
        answer.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
        answer.extend(body);
    }
    answer
}

fn is_there(test: &str, program: &str, argument: &str) -> bool {
    let is_there = Command::new(program).arg(argument).output().is_ok();
    if !is_there {
        skip(test, &format!("{program} is not installed"));
    }
    is_there
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/tls")
        .join(name)
}

#[test]
fn curl_moves_content_both_ways_over_both_versions() {
    let echo = Echo::start();
    let content: Vec<u8> = (0..=250).cycle().take(MEGABYTE).collect();
    let file = echo.scratch.write("content", &content);
    let data = format!("@{}", file.display());
    for version in ["1.2", "1.3"] {
        let versions = [
            format!("--tlsv{version}"),
            "--tls-max".into(),
            version.into(),
        ];
        let versions = [&*versions[0], &*versions[1], &*versions[2]];
        for (path, how) in [
            ("/", "-Hx: y"),
            ("/chunked", "-HTransfer-Encoding: chunked"),
        ] {
            let curl = echo.curl(&[path]).args(versions);
            let curl = curl.args(["--data-binary", &data, how, "-H", "Expect:"]);
            let got = curl.run();
            assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
            assert!(
                got.body == content,
                "{version} {path}: {} bytes",
                got.body.len()
            );
        }
    }
    expect_count(&echo.node, "full", 4.0);
    // curl does verify: without the authority's file it fails.
    let resolve = format!("{NAME}:{}:127.0.0.1", echo.port());
    let got = Curl::new(&echo.url("/"))
        .args(["--resolve", &resolve])
        .run();
    assert_eq!(got.exit, 60, "{}", got.errors);
}

#[test]
fn curl_keeps_a_connection_alive() {
    let echo = Echo::start();
    let got = echo.curl(&["/1", "/2", "/chunked/3", "/4"]).run();
    assert_eq!((got.exit, got.heads.len()), (0, 4), "{}", got.errors);
    assert!(got.heads.iter().all(|head| head.status() == 200));
    expect_count(&echo.node, "full", 1.0);
}

#[test]
fn openssl_verifies_the_name() {
    let echo = Echo::start();
    let ca = echo.ca.to_str().expect("a path in ASCII");
    for version in ["-tls1_2", "-tls1_3"] {
        let client = SClient::new(echo.node.gateway());
        let client = client.args([version, "-CAfile", ca, "-verify_return_error"]);
        let client = client.args(["-verify_hostname", NAME, "-servername", NAME]);
        let said = client.request(GET_AND_CLOSE).run();
        assert_eq!(said.exit, 0, "{}", said.text);
        assert!(said.text.contains("Verification: OK"), "{}", said.text);
        assert!(said.text.contains("HTTP/1.1 200"), "{}", said.text);
    }
}

#[test]
fn python_is_served() {
    const TEST: &str = "python_is_served";
    if is_there(TEST, "python3", "--version") {
        Echo::start().run(Command::new("python3").arg(testdata("client.py")));
    }
}

#[test]
fn node_js_is_served() {
    const TEST: &str = "node_js_is_served";
    if is_there(TEST, "node", "--version") {
        Echo::start().run(Command::new("node").arg(testdata("client.js")));
    }
}

/// The first run compiles Go's library.
#[test]
fn go_is_served() {
    const TEST: &str = "go_is_served";
    if !is_left_to_long_tier(TEST) && is_there(TEST, "go", "version") {
        let mut go = Command::new("go");
        go.arg("run").arg(testdata("client.go"));
        // No module, and nothing from a network.
        go.env("GO111MODULE", "off").env("GOFLAGS", "");
        Echo::start().run(&mut go);
    }
}

#[test]
fn wrk_loads_it() {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let origin = RawOrigin::answering(OK);
    let node = Site::serving(&certificate).start(origin.address());
    let url = format!("https://{}/", node.gateway());
    let report = Wrk::new(&url, 10, 1).args(["-H", "Host: a.example"]).run();
    assert!(report.requests > 0, "{}", report.text);
    assert_eq!((report.refused, report.errors), (0, 0), "{}", report.text);
    eventually("its connections are counted", || {
        handshakes(&node, "full") + handshakes(&node, "resumed") == 10.0
    });
}
