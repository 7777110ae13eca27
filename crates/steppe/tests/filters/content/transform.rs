//! `transform`: fields by patterns, and JSON content.

use std::io::Write;
use std::time::Duration;

use steppe_testkit::{Curl, Message, NodeConfig, RawOrigin, Steppe};

use super::compress::decoded;
use super::{VERSIONS, filtered, filtering, get, refused, response};

const JSON: &str = "content-type: application/json\r\n";

/// An origin that answers with the request that it received, as text.
fn mirror() -> RawOrigin {
    RawOrigin::replying(|request| response("content-type: text/plain\r\n", &told(request)))
}

fn start(origin: &RawOrigin, config: &NodeConfig) -> Steppe {
    Steppe::builder()
        .with("origin", origin.address())
        .start(config)
}

fn told(request: &Message) -> Vec<u8> {
    let fields = [
        "x-user",
        "x-tenant",
        "content-length",
        "content-encoding",
        "expect",
        "x-long",
    ];
    let mut text = format!("{} {}\n", request.method(), request.target());
    for name in fields {
        for value in request.all(name) {
            text += &format!("{name}: {value}\n");
        }
    }
    text += "\n";
    [text.as_bytes(), &request.body].concat()
}

/// The request that the origin received, sent with these fields.
#[track_caller]
fn seen(node: &Steppe, version: &str, path: &str, fields: &[&str]) -> String {
    let fields = fields.iter().flat_map(|field| ["-H", field]);
    let args: Vec<_> = fields.chain([version]).collect();
    String::from_utf8_lossy(&get(node, path, &args).body).into_owned()
}

/// The status, and the request that the origin received, for content sent by curl.
#[track_caller]
fn sent(node: &Steppe, version: &str, content: &[u8], args: &[&str]) -> (u16, String) {
    let file = node.scratch().write("content", content);
    let data = format!("@{}", file.display());
    let has_type = args.iter().any(|arg| arg.starts_with("content-type:"));
    let json: &[&str] = match has_type {
        true => &[],
        false => &["-H", "content-type: application/json"],
    };
    let all = [&["--data-binary", &data, version], json, args].concat();
    let got = get(node, "/", &all);
    (
        got.head.status(),
        String::from_utf8_lossy(&got.body).into_owned(),
    )
}

const REWRITES: &str = r#"kind = "transform"
[[request_headers.rewrite]]
header = "x-user"
pattern = "^(?<name>[a-z]+)@.*$"
to = "${name}"
[[request_headers.rewrite]]
header = "x-tenant"
from = "path"
pattern = "^/t/(?<tenant>[^/]*)/(?<rest>.*)$"
to = "${tenant}-${rest}"
[[request_headers.rewrite]]
header = "x-long"
from = "header:x-text"
pattern = "(a+)+$"
to = "found ${0}"
[[response_headers.rewrite]]
header = "location"
pattern = "^http://internal(?<path>/.*)$"
to = "https://www.example.com${path}"
[[response_headers.rewrite]]
header = "x-origin"
from = "header:server"
pattern = "^(?<name>\\w+)/"
to = "${name}""#;

#[test]
fn request_fields_are_made_of_what_patterns_find() {
    let origin = mirror();
    let node = filtered(&origin, REWRITES);
    for version in VERSIONS {
        let fields = ["x-user: ada@example.com", "x-tenant: mine"];
        let found = seen(&node, version, "/t/acme/a/b", &fields);
        assert!(found.contains("x-user: ada\n"), "{found}");
        assert!(found.contains("x-tenant: acme-a/b\n"), "{found}");
        assert!(!found.contains("mine"), "{found}");
        // If no pattern matches, the fields stay.
        let fields = ["x-user: Ada", "x-tenant: mine"];
        let kept = seen(&node, version, "/other", &fields);
        assert!(
            kept.contains("x-user: Ada\n") && kept.contains("x-tenant: mine\n"),
            "{kept}"
        );
    }
}

#[test]
fn each_line_of_a_field_is_rewritten_by_itself() {
    let origin = mirror();
    let node = filtered(&origin, REWRITES);
    for version in VERSIONS {
        let lines = ["x-user: ada@a", "x-user: Bob", "x-user: eve@b"];
        let text = seen(&node, version, "/", &lines);
        assert!(
            text.contains("x-user: ada\nx-user: Bob\nx-user: eve\n"),
            "{text}"
        );
    }
}

#[test]
fn response_fields_are_made_of_what_patterns_find() {
    let fields = "location: http://internal/a?b=c\r\nserver: nginx/1.22\r\n";
    let origin = RawOrigin::answering(response(fields, b"ok"));
    let node = filtered(&origin, REWRITES);
    for version in VERSIONS {
        let got = get(&node, "/", &[version]);
        assert_eq!(
            got.head.field("location"),
            Some("https://www.example.com/a?b=c")
        );
        assert_eq!(got.head.field("x-origin"), Some("nginx"));
    }
}

#[test]
fn what_a_group_matched_ends_no_field_and_no_line() {
    let origin = mirror();
    let node = filtered(&origin, REWRITES);
    for version in VERSIONS {
        for evil in [
            "%0d%0aX-Evil:%201",
            "%0D%0AX-Evil:1",
            "%00",
            "%0a",
            "a%250d%250ab",
        ] {
            let got = get(&node, &format!("/t/{evil}/x"), &[version]);
            let text = String::from_utf8_lossy(&got.body).into_owned();
            // Refused, or passed on in one escaped line.
            if got.head.status() == 200 {
                let line = text.lines().find(|line| line.starts_with("x-tenant: "));
                let line = line.unwrap_or_else(|| panic!("{evil}: {text}"));
                assert!(line.ends_with("-x") && line.contains('%'), "{evil}: {text}");
                assert!(!text.to_lowercase().contains("\nx-evil"), "{evil}: {text}");
            } else {
                assert_eq!(got.head.status(), 400, "{evil}");
            }
        }
    }
}

/// A pattern that would take years with backtracking; here the request's own deadline would end it.
#[test]
fn a_pattern_takes_time_in_proportion() {
    let origin = mirror();
    let config =
        filtering(REWRITES).listener(|l| l.protocols(["h1"]).set("limits.header_bytes", "128KiB"));
    let node = start(&origin, &config);
    let long = "a".repeat(50_000);
    let field = format!("x-text: {long}!");
    let got = get(&node, "/", &["-H", &field]);
    assert_eq!(got.head.status(), 200);
    assert!(!String::from_utf8_lossy(&got.body).contains("found"));
    let field = format!("x-text: {long}");
    let got = get(&node, "/", &["-H", &field]);
    assert!(String::from_utf8_lossy(&got.body).contains(&format!("x-long: found {long}\n")));
}

const EDITS: &str = r#"kind = "transform"
request_json = { set = { source = '"edge"' }, remove = ["secret", "user.token"], rename = { id = "key" }, max_bytes = "64KiB" }
response_json = { set = { "made.by" = "true" }, remove = ["items.secret"], rename = { old = "new" }, max_bytes = "64KiB" }"#;

#[test]
fn json_of_requests_is_edited_and_has_its_length() {
    let origin = mirror();
    let node = filtered(&origin, EDITS);
    let text = br#"{"id": 12345678901234567890, "n": 1.50, "secret": "x", "user": {"token": 1, "name": "a"}}"#;
    let expected = r#"{"n":1.50,"key":12345678901234567890,"source":"edge","user":{"name":"a"}}"#;
    for version in VERSIONS {
        for args in [&[][..], &["-H", "transfer-encoding: chunked"]] {
            let args = if version == VERSIONS[1] {
                &[][..]
            } else {
                args
            };
            let (status, got) = sent(&node, version, text, args);
            assert_eq!(status, 200);
            let length = format!("content-length: {}\n", expected.len());
            assert!(got.contains(&length), "{got}");
            assert!(got.ends_with(&format!("\n\n{expected}")), "{got}");
        }
    }
}

#[test]
fn what_was_not_modified_has_the_entity_tag_of_what_was_edited() {
    let origin = RawOrigin::replying(|request| match request.field("if-none-match") {
        Some(_) => b"HTTP/1.1 304 Not Modified\r\netag: \"j\"\r\n\r\n".to_vec(),
        None => response("content-type: application/json\r\netag: \"j\"\r\n", b"{}"),
    });
    let node = filtered(&origin, EDITS);
    for version in VERSIONS {
        let edited = get(&node, "/", &[version]);
        assert_eq!(edited.head.field("etag"), Some("W/\"j\""));
        let held = ["-H", "if-none-match: W/\"j\"", version];
        let unchanged = get(&node, "/", &held);
        assert_eq!(unchanged.head.status(), 304);
        assert_eq!(unchanged.head.field("etag"), Some("W/\"j\""));
    }
}

#[test]
fn encoded_json_of_requests_is_decoded_up_to_the_limit() {
    let origin = mirror();
    let node = filtered(&origin, EDITS);
    let text = br#"{"id":1,"secret":"x"}"#;
    let expected = r#"{"key":1,"source":"edge"}"#;
    let bomb = vec![b'0'; 10 << 20];
    for (coding, program, args) in [
        ("gzip", "gzip", &["-9c"][..]),
        ("br", "brotli", &["-c"]),
        ("zstd", "zstd", &["-qc"]),
    ] {
        let field = format!("content-encoding: {coding}");
        let small = decoded(program, args, text);
        let large = decoded(program, args, &bomb);
        assert!(large.len() < 60 << 10, "{coding}: it is short on its way");
        for version in VERSIONS {
            let (status, got) = sent(&node, version, &small, &["-H", &field]);
            assert_eq!(status, 200, "{coding}");
            assert!(got.ends_with(&format!("\n\n{expected}")), "{coding}: {got}");
            assert!(!got.contains("content-encoding"), "{got}");
            let (status, _) = sent(&node, version, &large, &["-H", &field]);
            assert_eq!(status, 413, "{coding} {version}");
            let (status, _) = sent(&node, version, &small[..small.len() - 1], &["-H", &field]);
            assert_eq!(status, 400, "{coding} {version}: it is cut");
        }
    }
    for field in ["content-encoding: compress", "content-encoding: gzip, br"] {
        let (status, _) = sent(&node, VERSIONS[0], text, &["-H", field]);
        assert_eq!(status, 415, "{field}");
    }
}

#[test]
fn requests_that_are_too_long_or_no_json_are_refused() {
    let origin = mirror();
    let node = filtered(&origin, EDITS);
    let long = [b"[\"", &vec![b'a'; 70 << 10][..], b"\"]"].concat();
    for version in VERSIONS {
        let (status, _) = sent(&node, version, &long, &[]);
        assert_eq!(status, 413, "{version}");
        for broken in [&b"{\"a\":1"[..], b"", b"{'a':1}", b"\xff"] {
            let (status, _) = sent(&node, version, broken, &[]);
            let expected = if broken.is_empty() { 200 } else { 400 };
            assert_eq!(status, expected, "{version} {broken:?}");
        }
        // The type is not declared as JSON.
        let (status, got) = sent(
            &node,
            version,
            b"{'a':1",
            &["-H", "content-type: text/plain"],
        );
        assert_eq!(status, 200, "{got}");
    }
    let (status, _) = sent(
        &node,
        VERSIONS[0],
        &long,
        &["-H", "transfer-encoding: chunked"],
    );
    assert_eq!(status, 413);
    let refused = node.metrics().sum("steppe_http_filter_answers_total", &[]);
    assert_eq!(
        refused,
        4.0 * VERSIONS.len() as f64 + 1.0,
        "each is the filter's"
    );
    // No part of the refused requests has reached the origin.
    assert!(!origin.received().contains("aaaa"));
}

#[test]
fn a_client_that_waits_to_go_on_is_told_so() {
    let origin = mirror();
    let node = filtered(&origin, EDITS);
    let mut peer = node.connect();
    peer.send(
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: 8\r\n\r\n",
    );
    assert_eq!(peer.head().expect("it is told").status(), 100);
    peer.send("{\"id\":1}");
    let answer = peer.response_to("POST");
    assert!(
        answer
            .text()
            .ends_with("\n\n{\"key\":1,\"source\":\"edge\"}")
    );
    assert!(!answer.text().contains("expect:"), "{}", answer.text());
}

#[test]
fn json_of_responses_is_edited_and_has_its_length() {
    let text = r#"{"old": 1e400, "items": [{"secret": 1, "a": 2}, {"b": 3}], "z": "é"}"#;
    let expected = r#"{"z":"é","items":[{"a":2},{"b":3}],"made":{"by":true},"new":1e400}"#;
    let known = response(&format!("{JSON}etag: \"v1\"\r\n"), text.as_bytes());
    let chunked = format!(
        "HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        &text[..5],
        text.len() - 5,
        &text[5..]
    );
    let origin = RawOrigin::replying(move |request| match request.target() {
        "/known" => known.clone(),
        _ => chunked.clone().into_bytes(),
    });
    let node = filtered(&origin, EDITS);
    for version in VERSIONS {
        for path in ["/known", "/chunked"] {
            let got = get(&node, path, &[version, "-H", "accept-encoding: gzip"]);
            assert_eq!(String::from_utf8_lossy(&got.body), expected, "{path}");
            let length = expected.len().to_string();
            assert_eq!(
                got.head.field("content-length"),
                Some(&length[..]),
                "{path}"
            );
            assert_eq!(got.head.field("transfer-encoding"), None);
            let etag = (path == "/known").then_some("W/\"v1\"");
            assert_eq!(got.head.field("etag"), etag);
        }
        let head = get(&node, "/known", &[version, "--head"]);
        assert_eq!(head.head.field("content-length"), None);
    }
    assert!(origin.received().contains("accept-encoding: identity"));
}

/// The digests are those of the server's bytes.
#[test]
fn digests_in_trailers_do_not_stay() {
    let chunked = format!(
        "HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\
         checksum: 42\r\nrepr-digest: sha-256=:AA==:\r\netag: \"a\"\r\n\r\n"
    );
    let origin = RawOrigin::answering(chunked);
    let node = filtered(&origin, EDITS);
    for version in VERSIONS {
        let got = get(&node, "/", &[version]);
        let names: Vec<_> = got.trailers.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["checksum"], "{version}");
    }
}

/// Messages of gRPC in JSON have frames around them.
#[test]
fn calls_in_json_are_left_alone() {
    let origin = mirror();
    let node = filtered(&origin, EDITS);
    let message = b"\0\0\0\0\x07{\"a\":1}";
    let (status, text) = sent(
        &node,
        VERSIONS[1],
        message,
        &["-H", "content-type: application/grpc+json"],
    );
    assert_eq!(status, 200, "{text}");
    assert!(text.ends_with("{\"a\":1}"), "{text}");
    // The request's type does not determine that of the response, and another field line may count.
    let origin = RawOrigin::answering(response(JSON, b"{\"old\":1}"));
    let node = filtered(&origin, EDITS);
    let call = "content-type: application/grpc";
    let got = get(&node, "/", &["-X", "POST", "-H", call]);
    assert_eq!(got.body, b"{\"made\":{\"by\":true},\"new\":1}");
    let both = [
        "-H",
        call,
        "-H",
        "content-type: application/json",
        "-d",
        "{\"id\":1}",
    ];
    assert_eq!(get(&node, "/", &both).head.status(), 200);
    assert!(origin.received().contains("\"key\":1"));
}

/// A field that a filter removes from a response is not sent before it in an interim one.
#[test]
fn early_hints_have_links_alone_where_there_are_filters() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nx-internal: 10.0.0.7\r\n\
                 set-cookie: a=b\r\n\r\n";
    let answer = response("x-internal: 10.0.0.7\r\n", b"ok");
    let origin = RawOrigin::answering([hints.as_bytes(), &answer].concat());
    let node = filtered(
        &origin,
        "kind = \"transform\"\nresponse_headers = { remove = [\"x-internal\"] }",
    );
    for version in VERSIONS {
        let got = get(&node, "/", &[version]);
        let [early, last] = &got.heads[..] else {
            panic!("{:?}", got.heads);
        };
        assert_eq!((early.status(), last.status()), (103, 200));
        assert_eq!(early.field("link"), Some("</a.css>; rel=preload"));
        for name in ["x-internal", "set-cookie"] {
            assert_eq!((early.field(name), last.field(name)), (None, None));
        }
    }
}

#[test]
fn responses_that_can_not_be_edited_are_refused_before_a_byte() {
    let long = [b"[\"", &vec![b'a'; 70 << 10][..], b"\"]"].concat();
    let chunked = {
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n");
        let mut out = head.into_bytes();
        for piece in long.chunks(8 << 10) {
            let _ = write!(out, "{:x}\r\n", piece.len());
            out.extend(piece);
            out.extend(b"\r\n");
        }
        out.extend(b"0\r\n\r\n");
        out
    };
    let origin = RawOrigin::replying(move |request| match request.target() {
        "/long" => response(JSON, &long),
        "/chunked" => chunked.clone(),
        "/broken" => response(JSON, b"{\"a\":1"),
        "/encoded" => response(&format!("{JSON}content-encoding: gzip\r\n"), b"whatever"),
        "/part" => response(&format!("{JSON}content-range: bytes 0-1/9\r\n"), b"{}"),
        _ => response("content-type: text/plain\r\n", b"{\"a\":1"),
    });
    let node = filtered(&origin, EDITS);
    for version in VERSIONS {
        for path in ["/long", "/chunked", "/broken", "/encoded", "/part"] {
            let got = get(&node, path, &[version]);
            assert_eq!(got.head.status(), 502, "{path} {version}");
        }
        let got = get(&node, "/text", &[version]);
        assert_eq!(got.body, b"{\"a\":1", "it does not say that it is JSON");
    }
    let lenient = filtering(EDITS).filter("f", |f| {
        f.set("request_json.unreadable", "pass")
            .set("response_json.unreadable", "pass")
    });
    let node = start(&origin, &lenient);
    for version in VERSIONS {
        let got = get(&node, "/broken", &[version]);
        assert_eq!((got.head.status(), &got.body[..]), (200, &b"{\"a\":1"[..]));
    }
}

/// A `compress` filter before it encodes the edited content, and determines its length.
#[test]
fn what_was_edited_is_compressed_by_a_filter_before() {
    let text = format!("{{\"old\":1,\"pad\":\"{}\"}}", "ab ".repeat(2000));
    let origin = RawOrigin::answering(response(JSON, text.as_bytes()));
    let config = filtering(EDITS)
        .add_filter("pack", |f| f.set("kind", "compress").set("breach", "off"))
        .route("all", |r| r.filters(["pack", "f"]));
    let node = start(&origin, &config);
    for version in VERSIONS {
        let got = get(
            &node,
            "/",
            &[version, "-H", "accept-encoding: gzip", "--compressed"],
        );
        assert_eq!(got.head.field("content-encoding"), Some("gzip"));
        assert_eq!(got.head.field("content-length"), None);
        assert!(got.body.ends_with(b"\"made\":{\"by\":true},\"new\":1}"));
    }
}

/// The server is lost before it answers: the request is sent again, edited the same.
#[test]
fn an_edited_request_is_sent_again_whole() {
    let origin = RawOrigin::start(|peer| {
        let Some(first) = peer.request() else { return };
        let answer = response("content-type: text/plain\r\n", &told(&first));
        peer.send(&answer);
        // The next request on this connection is lost.
        let _ = peer.request();
    });
    let node = filtered(&origin, EDITS);
    for _ in 0..3 {
        let got = Curl::new(&node.url("/"))
            .args([
                "-X",
                "PUT",
                "-H",
                "content-type: application/json",
                "-d",
                "{\"id\":1}",
            ])
            .run();
        assert_eq!(got.head.status(), 200, "{}", got.errors);
        assert!(got.body.ends_with(b"\n\n{\"key\":1,\"source\":\"edge\"}"));
    }
}

#[test]
fn a_client_that_stalls_within_its_content_is_told_so() {
    let origin = mirror();
    let config = filtering(EDITS).listener(|l| l.protocols(["h1"]).set("timeouts.idle", "200ms"));
    let node = start(&origin, &config);
    let mut peer = node.connect();
    peer.patience(Duration::from_secs(20));
    peer.send(
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\n\
         Content-Length: 8\r\n\r\n{\"id\"",
    );
    assert_eq!(peer.response_to("POST").status(), 408);
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn a_mistake_is_told_with_its_place() {
    for (keys, word) in [
        ("request_json = { set = { a = \"text\" } }", "is not JSON"),
        ("request_json = { remove = [\"a..b\"] }", "member"),
        (
            "request_json = { remove = [\"a\"], set = { \"a.b\" = \"1\" } }",
            "the same member",
        ),
        (
            "request_json = { rename = { a = \"b\" }, remove = [\"b\"] }",
            "the same member",
        ),
        ("request_json = {}", "remove"),
        (
            "request_headers = { rewrite = [{ header = \"content-length\", pattern = \"1\", to = \"2\" }] }",
            "can't be edited",
        ),
        (
            "response_json = { remove = [\"a\"], max_bytes = \"1GiB\" }",
            "8MiB",
        ),
        (
            "response_headers = { rewrite = [{ header = \"a\", from = \"path\", pattern = \"a\", to = \"b\" }] }",
            "no path",
        ),
        (
            "request_headers = { rewrite = [{ header = \"a\", pattern = \"(a\", to = \"b\" }] }",
            "regular expression",
        ),
        (
            "request_headers = { rewrite = [{ header = \"a\", pattern = \"a\", to = \"${b}\" }] }",
            "no group",
        ),
    ] {
        let said = refused(&format!("kind = \"transform\"\n{keys}"));
        assert!(said.contains(word), "{keys}: {said}");
    }
}
