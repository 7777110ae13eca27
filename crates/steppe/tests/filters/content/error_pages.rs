//! `error-pages` on the wire.

use steppe_testkit::eventually;

use super::*;

const BUSY: &str = "<!doctype html><title>Busy</title><p>Back in a minute.\n";

/// A node whose one route has these filters, in front of `origin`; `f` is that of `PAGES`.
fn started(origin: &RawOrigin, filters: &[&str], config: NodeConfig) -> Steppe {
    Steppe::builder()
        .with("origin", origin.address())
        .with_file("busy.html", BUSY)
        .with_file("hs256.key", "a secret that is long enough for HS256")
        .start(config.route("all", |r| r.filters(filters)))
}

/// A configuration with the filter `f`.
fn pages() -> NodeConfig {
    NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .add_filter("f", |f| f.set("kind", "error-pages").with_toml(PAGES))
}

const PAGES: &str = r#"
pages = [
  { status = "500, 502-504", file = "{scratch}/busy.html" },
  { status = "404", body = '{"error":"not here"}', content_type = "application/problem+json" },
  { status = "4xx", body = "no" },
]
"#;

fn text(got: &CurlOutput) -> String {
    String::from_utf8_lossy(&got.body).into_owned()
}

/// Status, media type and content.
fn said(got: &CurlOutput) -> (u16, Option<&str>, String) {
    let media_type = got.head.field("content-type");
    (got.head.status(), media_type, text(got))
}

/// Status and media type of an answer to HEAD, which has no content.
#[track_caller]
fn announced(got: &CurlOutput) -> (u16, Option<&str>) {
    assert_eq!(got.figures["size_download"], 0, "{got:?}");
    (got.head.status(), got.head.field("content-type"))
}

const HTML: Option<&str> = Some("text/html; charset=utf-8");
const TEXT: Option<&str> = Some("text/plain; charset=utf-8");

fn answers(node: &Steppe) -> f64 {
    let labels = [("filter", "f")];
    node.metrics()
        .sum("steppe_http_filter_answers_total", &labels)
}

#[test]
fn what_the_node_fails_with_is_said_by_a_page() {
    // The origin accepts connections and answers nonsense.
    let origin = RawOrigin::answering("nonsense\r\n\r\n");
    let node = started(&origin, &["f"], pages());
    let length = BUSY.len().to_string();
    for (at, version) in VERSIONS.into_iter().enumerate() {
        let got = get(&node, "/", &[version]);
        assert_eq!(said(&got), (502, HTML, BUSY.to_owned()), "{version}");
        assert_eq!(got.head.all("content-length"), [&*length]);
        let head = get(&node, "/", &[version, "--head"]);
        assert_eq!(announced(&head), (502, HTML), "{version}");
        assert_eq!(head.head.all("content-length"), [&*length]);
        let count = 2.0 * (at as f64 + 1.0);
        eventually("both are counted", || answers(&node) == count);
    }
}

/// A client of HTTP/1.1 pipelines its next request behind an answer with replaced content.
#[test]
fn a_connection_goes_on_behind_a_page() {
    let origin = RawOrigin::answering("nonsense\r\n\r\n");
    let node = started(&origin, &["f"], pages());
    let mut peer = node.connect();
    for method in ["GET", "HEAD", "GET"] {
        peer.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = peer.response_to(method);
        assert_eq!(answer.status(), 502, "{method}");
        let content = if method == "HEAD" { "" } else { BUSY };
        assert_eq!(answer.text(), content, "{method}");
    }
}

#[test]
fn what_filters_refuse_keeps_its_status_and_fields() {
    let origin = RawOrigin::answering(response("", b"ok"));
    let limit = "[http.filter.limit]\nkind = \"rate-limit\"\nrate = 1\nper = \"1h\"\nburst = 1\n";
    let node = started(&origin, &["f", "limit"], pages().with_toml(limit));
    assert_eq!(text(&get(&node, "/", &[VERSIONS[0]])), "ok");
    for version in VERSIONS {
        let refused = get(&node, "/", &[version]);
        assert_eq!(said(&refused), (429, TEXT, "no".to_owned()), "{version}");
        assert!(refused.head.field("retry-after").is_some(), "{refused:?}");
        assert!(refused.head.field("ratelimit").is_some(), "{refused:?}");
    }
    let jwt = "[http.filter.jwt]\nkind = \"jwt\"\n\
               keys = [{ algorithm = \"HS256\", secret_file = \"{scratch}/hs256.key\" }]\n";
    let node = started(&origin, &["f", "jwt"], pages().with_toml(jwt));
    for version in VERSIONS {
        let refused = get(&node, "/", &[version]);
        assert_eq!(said(&refused), (401, TEXT, "no".to_owned()), "{version}");
        assert_eq!(
            refused.head.field("www-authenticate"),
            Some("Bearer realm=\"steppe\"")
        );
        let head = get(&node, "/", &[version, "--head"]);
        assert_eq!(announced(&head), (401, TEXT), "{version}");
        assert_eq!(head.head.all("content-length"), ["2"]);
    }
    // Filters before it keep their own answers.
    let node = started(&origin, &["jwt", "f"], pages().with_toml(jwt));
    assert_ne!(text(&get(&node, "/", &[VERSIONS[0]])), "no");
}

#[test]
fn a_server_has_its_own_words_unless_all_are_replaced() {
    let gone = "HTTP/1.1 404 Not Found\r\netag: \"1\"\r\ncontent-encoding: gzip\r\ncontent-type: text/html\r\n\
                set-cookie: a=1\r\nx-kept: 1\r\ncontent-length: 6\r\n\r\nserver";
    let empty = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n";
    let origin = RawOrigin::replying(move |request| match (request.method(), request.target()) {
        ("HEAD", _) => gone.trim_end_matches("server").into(),
        (_, "/gone") => gone.into(),
        (_, "/empty") => empty.into(),
        _ => response("", b"ok"),
    });
    let node = started(&origin, &["f"], pages());
    for version in VERSIONS {
        let got = get(&node, "/gone", &[version]);
        assert_eq!(said(&got), (404, Some("text/html"), "server".to_owned()));
        assert_eq!(got.head.field("etag"), Some("\"1\""));
    }
    let all = pages().filter("f", |f| f.set("of", "all"));
    let node = started(&origin, &["f"], all);
    let before = origin.accepted();
    for version in VERSIONS {
        let got = get(&node, "/gone", &[version]);
        let expected = "{\"error\":\"not here\"}".to_owned();
        let problem = Some("application/problem+json");
        assert_eq!(said(&got), (404, problem, expected), "{version}");
        for of_content in ["etag", "content-encoding"] {
            assert_eq!(got.head.field(of_content), None, "{version}");
        }
        for kept in ["set-cookie", "x-kept"] {
            assert!(got.head.field(kept).is_some(), "{version} {kept}");
        }
        let head = get(&node, "/gone", &[version, "--head"]);
        assert_eq!(announced(&head), (404, problem), "{version}");
        assert_eq!(head.head.all("content-length"), ["20"]);
        let empty = get(&node, "/empty", &[version]);
        assert_eq!(said(&empty), (503, HTML, BUSY.to_owned()), "{version}");
        assert_eq!(empty.head.field("retry-after"), Some("9"));
        assert_eq!(text(&get(&node, "/", &[version])), "ok");
    }
    // The replaced response was read to its end.
    assert_eq!(origin.accepted() - before, 1);
}

#[test]
fn an_upstream_that_is_words_is_a_server() {
    let origin = RawOrigin::answering(response("", b"ok"));
    let sorry = "[http.upstream.sorry]\nrespond = { status = 503, body = \"sorry\" }\n\
                 [[http.route]]\nname = \"sorry\"\npath = \"/sorry\"\nupstream = \"sorry\"\nfilters = [\"f\"]\n";
    for (of, expected) in [("gateway", "sorry"), ("all", BUSY)] {
        let config = pages().filter("f", |f| f.set("of", of)).with_toml(sorry);
        let node = started(&origin, &["f"], config);
        for version in VERSIONS {
            assert_eq!(text(&get(&node, "/sorry", &[version])), expected, "{of}");
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_said_by_a_page_which_is_compressed() {
    let origin = RawOrigin::answering(response("", b"ok"));
    let folder = "[http.filter.pack]\nkind = \"compress\"\nalgorithms = [\"gzip\"]\nmin_bytes = 1\nbreach = \"off\"\n\
        types = [\"application/problem+json\"]\n\
        [[http.route]]\nname = \"files\"\npath = \"/files/{rest*}\"\nfilters = [\"pack\", \"f\"]\n\
        files = { root = \"{scratch}\" }\n";
    let node = started(&origin, &["f"], pages().with_toml(folder));
    for version in VERSIONS {
        let found = get(&node, "/files/busy.html", &[version]);
        assert_eq!(text(&found), BUSY);
        let args = [version, "--compressed", "-H", "accept-encoding: gzip"];
        let lost = get(&node, "/files/lost", &args);
        assert_eq!(lost.head.field("content-encoding"), Some("gzip"));
        assert_eq!(text(&lost), "{\"error\":\"not here\"}", "{version}");
    }
}

#[test]
fn a_call_is_told_of_errors_in_its_own_way() {
    let origin = RawOrigin::answering("nonsense\r\n\r\n");
    let node = started(&origin, &["f"], pages());
    let args = ["-H", "content-type: application/grpc", "-d", "x"];
    let got = get(&node, "/a.B/C", &[&[VERSIONS[1]], &args[..]].concat());
    assert_eq!((got.head.status(), text(&got)), (200, String::new()));
    assert!(got.head.field("grpc-status").is_some(), "{got:?}");
}

#[test]
fn a_file_is_read_again_by_a_reload() {
    let origin = RawOrigin::answering("nonsense\r\n\r\n");
    let node = started(&origin, &["f"], pages());
    assert_eq!(text(&get(&node, "/", &[])), BUSY);
    // The largest page that is allowed, which is sent whole.
    let large = "x".repeat(64 << 10);
    node.scratch().write("busy.html", &large);
    assert_eq!(text(&get(&node, "/", &[])), BUSY);
    assert_eq!(node.admin_post("/reload").status(), 200);
    for version in VERSIONS {
        assert!(text(&get(&node, "/", &[version])) == large, "{version}");
    }
    for unusable in [String::new(), large + "x"] {
        node.scratch().write("busy.html", &unusable);
        assert_ne!(node.admin_post("/reload").status(), 200);
    }
}

#[test]
fn a_page_that_can_not_be_used_is_named() {
    for (content, says) in [("", "the file is empty"), ("x", "larger than 65536 bytes")] {
        let builder = Steppe::builder()
            .with("origin", "127.0.0.1:1")
            .with_file("busy.html", &content.repeat(65_537));
        let config = pages().route("all", |r| r.filters(["f"]));
        let (status, said) = builder.run(&["check"], &config);
        assert!(!status.success() && said.contains(says), "{said}");
    }
}
