//! The access log: a line for each exchange, in a file that may be moved away, and who the
//! client is behind a proxy.

use std::path::Path;
use std::time::{Duration, Instant};

use steppe_testkit::{Curl, RawOrigin, Steppe, Wrk};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn node(origin: &RawOrigin, access: &str) -> Steppe {
    let toml = Steppe::PLAIN.replace("format = \"text\"", &format!("format = \"text\"\n{access}"));
    Steppe::builder(STEPPE)
        .with("origin", origin.address())
        .start(&toml)
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until the file has `count` lines: they are written some time after the response.
#[track_caller]
fn await_lines(path: &Path, count: usize) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let lines = lines(path);
        if lines.len() >= count {
            return lines;
        }
        assert!(Instant::now() < end, "{count} lines wanted: {lines:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_request_has_its_line_and_none_is_lost_when_the_file_moves() {
    let origin = RawOrigin::answering(OK);
    let access = "access = { file = \"{scratch}/access.log\", format = \"json\" }";
    let node = node(&origin, access);
    let (file, moved) = (
        node.scratch().join("access.log"),
        node.scratch().join("access.log.1"),
    );
    let first = Wrk::new(&node.url("/before"), 8, 1).run();
    std::fs::rename(&file, &moved).expect("it can be moved");
    node.hang_up();
    std::thread::sleep(Duration::from_millis(300));
    let second = Wrk::new(&node.url("/after"), 8, 1).run();
    assert_eq!((first.errors, second.errors), (0, 0));
    let answered = usize::try_from(first.requests + second.requests).expect("few");
    assert!(node.stop().success());
    let all: Vec<_> = [lines(&moved), lines(&file)].concat();
    // wrk counts no response that comes after its time.
    assert!(all.len() >= answered, "{} of {answered}", all.len());
    assert!(all.len() <= answered + 16, "{} of {answered}", all.len());
    assert!(lines(&file).iter().any(|line| line.contains("/after")));
    for line in all {
        let value: serde_json::Value = serde_json::from_str(&line).expect("a JSON object a line");
        assert_eq!(value["status"], 200, "{line}");
    }
}

#[test]
fn a_combined_line_is_as_others_write_it_and_has_no_byte_of_the_peers_unescaped() {
    let origin = RawOrigin::answering(OK);
    let access = "access = { file = \"{scratch}/access.log\", format = \"combined\" }";
    let node = node(&origin, access);
    let agent = "User-Agent: a\"b\\c\u{e9}";
    let _ = node.exchange(format!("GET /x?y HTTP/1.1\r\nHost: a\r\n{agent}\r\n\r\n"));
    let line = await_lines(&node.scratch().join("access.log"), 1).remove(0);
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(
        line.contains("] \"GET /x?y HTTP/1.1\" 200 2 \"-\" \""),
        "{line}"
    );
    assert!(line.ends_with("\"a\\x22b\\x5Cc\\xC3\\xA9\""), "{line}");
}

#[test]
fn the_proxy_protocol_says_who_the_client_is_to_those_that_trust_it() {
    let origin = RawOrigin::answering(OK);
    let toml = Steppe::PLAIN
        .replace(
            "protocols = [\"h1\"]",
            "protocols = [\"h1\"]\nproxy_protocol = true",
        )
        .replace(
            "[[http.listener]]",
            "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n[[http.listener]]",
        );
    let node = Steppe::builder(STEPPE)
        .with("origin", origin.address())
        .start(&toml);
    let output = Curl::new(&node.url("/")).args(["--haproxy-protocol"]).run();
    assert_eq!(output.exit, 0, "{}", output.errors);
    let header = "PROXY TCP4 192.0.2.7 198.51.100.1 4000 80\r\n";
    let answer = node.exchange(format!("{header}GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(answer.status(), 200);
    assert!(origin.received().contains("x-forwarded-for: 192.0.2.7"));
    // Without the header there is no telling who asks.
    node.connect()
        .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect_close();
}

#[test]
fn an_upstream_is_told_by_the_proxy_protocol_where_that_is_asked() {
    let origin = RawOrigin::answering(OK);
    for (version, starts_with) in [
        ("v1", "PROXY TCP4 127.0.0.1 "),
        ("v2", "\r\n\r\n\0\r\nQUIT\n"),
    ] {
        let toml = Steppe::PLAIN.replace(
            "[[http.route]]",
            &format!("proxy_protocol = \"{version}\"\n[[http.route]]"),
        );
        let node = Steppe::builder(STEPPE)
            .with("origin", origin.address())
            .start(&toml);
        let _ = node
            .connect()
            .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .some();
        assert!(origin.received().contains(starts_with), "{version}");
    }
}
