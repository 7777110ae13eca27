//! `compress`: encoded responses, and those left as they are.

use std::io::Write;
use std::process::{Command, Stdio};

use steppe_testkit::{
    FieldSection, H2Frame, H2Peer, NodeConfig, PATIENCE, RawOrigin, Steppe, eventually,
};

use super::{VERSIONS, filtered, filtering, get, records, refused, response};

const KEYS: &str = "kind = \"compress\"\nbreach = \"off\"";
const JSON: &str = "content-type: application/json\r\n";
const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

/// An origin of 10 KiB of JSON with these additional fields.
fn json_origin(fields: &str) -> (RawOrigin, Vec<u8>) {
    let content = records(10 << 10, 7);
    let origin = RawOrigin::answering(response(&format!("{JSON}{fields}"), &content));
    (origin, content)
}

/// The output of another program for encoded content.
pub(super) fn decoded(program: &str, args: &[&str], encoded: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut input = child.stdin.take().expect("it is piped");
    let encoded = encoded.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&encoded));
    let output = child.wait_with_output().expect("it runs");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "{program} {args:?}");
    output.stdout
}

const NODE: &str = "const z = require('zlib'), fs = require('fs');
const input = fs.readFileSync(0);
process.stdout.write(z[process.argv[1]](input));";
/// A Python program that decodes one gzip, with nothing behind it.
pub(super) const PYTHON: &str = "import sys, zlib
decoder = zlib.decompressobj(31)
out = decoder.decompress(sys.stdin.buffer.read()) + decoder.flush()
assert decoder.eof and not decoder.unused_data
sys.stdout.buffer.write(out)";

#[test]
fn each_coding_is_read_by_the_decoders_of_others() {
    let (origin, content) = json_origin("");
    // All of the decoders must read the padded form, too.
    for keys in [KEYS, "kind = \"compress\"\nbreach = \"pad\""] {
        let node = filtered(&origin, keys);
        for version in VERSIONS {
            for coding in CODINGS {
                let accept = format!("accept-encoding: {coding}");
                let raw = get(&node, "/", &[version, "-H", &accept]);
                assert_eq!(raw.head.field("content-encoding"), Some(coding));
                assert_eq!(raw.head.field("content-length"), None);
                assert_eq!(raw.head.field("vary"), Some("accept-encoding"));
                let share = raw.body.len() * 100 / content.len();
                assert!(share < 40, "{coding} leaves {share} % of it");
                let whole = get(&node, "/", &[version, "-H", &accept, "--compressed"]);
                assert!(whole.body == content, "curl: {coding} {version}");
                let other = match coding {
                    "gzip" => vec![
                        ("gzip", vec!["-dc"]),
                        ("python3", vec!["-c", PYTHON]),
                        ("node", vec!["-e", NODE, "gunzipSync"]),
                    ],
                    "br" => vec![
                        ("node", vec!["-e", NODE, "brotliDecompressSync"]),
                        ("brotli", vec!["-dc"]),
                    ],
                    _ => vec![("zstd", vec!["-dcq"])],
                };
                for (program, args) in other {
                    let read = decoded(program, &args, &raw.body);
                    assert!(read == content, "{program}: {coding} {version} {keys}");
                }
            }
        }
    }
}

#[test]
fn the_client_s_weights_come_first_and_then_the_order_of_the_keys() {
    let (origin, content) = json_origin("");
    let node = filtered(&origin, &format!("{KEYS}\nalgorithms = [\"br\", \"gzip\"]"));
    for (accept, expected) in [
        ("gzip, br, zstd", Some("br")),
        ("gzip;q=1.0, br;q=0.5", Some("gzip")),
        ("br;q=0, *", Some("gzip")),
        ("*", Some("br")),
        ("zstd", None),
        ("gzip;q=0", None),
        ("identity;q=0.8, gzip;q=0.5", None),
        ("gzip;q=2", None),
        ("", None),
    ] {
        for version in VERSIONS {
            let field = match accept {
                "" => "accept-encoding;".to_owned(),
                accept => format!("accept-encoding: {accept}"),
            };
            let got = get(&node, "/", &[version, "-H", &field]);
            assert_eq!(got.head.field("content-encoding"), expected, "{accept}");
            // The response could have been another one.
            assert_eq!(got.head.field("vary"), Some("accept-encoding"), "{accept}");
            assert_eq!(got.body == content, expected.is_none(), "{accept}");
        }
    }
    let metrics = node.metrics();
    let gzip = [("coding", "gzip"), ("filter", "f")];
    let counted = |name: &str| metrics.sum(name, &gzip);
    assert_eq!(count(counted("steppe_http_compressed_total")), 4);
    let read = count(counted("steppe_http_compressed_content_bytes_total"));
    assert_eq!(read, 4 * content.len());
    let written = count(counted("steppe_http_compressed_bytes_total"));
    assert!(written > 0 && written < read / 2, "{written} of {read}");
    let refused = [("filter", "f"), ("reason", "not_accepted")];
    let refused = metrics.sum("steppe_http_uncompressed_total", &refused);
    assert_eq!(count(refused), 10);
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters of a test are small whole numbers"
)]
fn count(value: f64) -> usize {
    value as usize
}

/// Fields of a response, whether it is encoded, and whether it varies.
const HEADS: [(&str, bool, bool); 12] = [
    ("content-type: text/html; charset=utf-8\r\n", true, true),
    ("content-type: TEXT/CSS\r\n", true, true),
    ("content-type: application/json\r\n", true, true),
    ("content-type: application/jsonx\r\n", false, false),
    ("content-type: image/png\r\n", false, false),
    ("content-type: text/event-stream\r\n", false, false),
    ("x-none: 1\r\n", false, false),
    (
        "content-type: text/html\r\ncontent-encoding: br\r\n",
        false,
        false,
    ),
    (
        "content-type: text/html\r\ncache-control: public, No-Transform\r\n",
        false,
        false,
    ),
    (
        "content-type: text/html\r\ncontent-range: bytes 0-9/20\r\n",
        false,
        true,
    ),
    (
        "content-type: text/html\r\nvary: cookie, Accept-Encoding\r\n",
        true,
        false,
    ),
    ("content-type: text/html\r\nvary: *\r\n", true, false),
];

#[test]
fn only_what_is_configured_and_may_be_is_encoded() {
    for (fields, is_encoded, is_marked) in HEADS {
        let content = records(4 << 10, 3);
        let origin = RawOrigin::answering(response(fields, &content));
        let node = filtered(&origin, KEYS);
        for version in VERSIONS {
            let got = get(&node, "/", &[version, "-H", "accept-encoding: gzip"]);
            let coding = got.head.field("content-encoding");
            assert_eq!(coding == Some("gzip"), is_encoded, "{fields}");
            let marks = got.head.all("vary").contains(&"accept-encoding");
            assert_eq!(marks, is_marked, "{fields}: {:?}", got.head.all("vary"));
            if !is_encoded {
                assert!(got.body == content, "{fields}");
            }
        }
    }
}

#[test]
fn types_are_those_that_are_named() {
    let content = records(4 << 10, 3);
    let origin = RawOrigin::replying(move |request| {
        let media_type = request.target().trim_start_matches('/');
        response(&format!("content-type: {media_type}\r\n"), &content)
    });
    let types = "types = [\"application/*\", \"text/event-stream\"]";
    let node = filtered(&origin, &format!("{KEYS}\n{types}"));
    for version in VERSIONS {
        for (media_type, is_encoded) in [
            ("application/jsonx", true),
            ("text/event-stream", true),
            ("text/html", false),
        ] {
            let path = format!("/{media_type}");
            let got = get(&node, &path, &[version, "-H", "accept-encoding: gzip"]);
            let coding = got.head.field("content-encoding");
            assert_eq!(coding == Some("gzip"), is_encoded, "{media_type}");
        }
    }
}

#[test]
fn a_client_may_forbid_it_and_short_content_is_left() {
    let (origin, content) = json_origin("");
    let node = filtered(&origin, &format!("{KEYS}\nmin_bytes = 20000"));
    let got = get(&node, "/", &["-H", "accept-encoding: gzip"]);
    assert_eq!(got.head.field("content-encoding"), None);
    assert_eq!(got.head.field("vary"), None);
    assert_eq!(got.body, content);
    let node = filtered(&origin, KEYS);
    let transform = [
        "-H",
        "accept-encoding: gzip",
        "-H",
        "cache-control: no-transform",
    ];
    let got = get(&node, "/", &transform);
    assert_eq!(got.head.field("content-encoding"), None);
    assert_eq!(got.head.field("vary"), Some("accept-encoding"));
}

#[test]
fn validators_and_digests_of_other_bytes_do_not_stay() {
    let fields = "etag: \"v1\"\r\naccept-ranges: bytes\r\ncontent-digest: sha-256=:AA==:\r\n\
                  content-md5: AA==\r\n";
    let (origin, _) = json_origin(fields);
    let node = filtered(&origin, KEYS);
    for version in VERSIONS {
        let got = get(&node, "/", &[version, "-H", "accept-encoding: br"]);
        assert_eq!(got.head.field("etag"), Some("W/\"v1\""));
        assert_eq!(got.head.field("accept-ranges"), Some("none"));
        assert_eq!(got.head.field("content-digest"), None);
        assert_eq!(got.head.field("content-md5"), None);
        let plain = get(&node, "/", &[version]);
        assert_eq!(plain.head.field("etag"), Some("\"v1\""));
        assert_eq!(plain.head.field("accept-ranges"), Some("bytes"));
        assert_eq!(plain.head.field("content-digest"), Some("sha-256=:AA==:"));
    }
}

#[test]
fn head_and_not_modified_say_what_get_would() {
    let content = records(10 << 10, 7);
    let whole = response(&format!("{JSON}etag: \"v1\"\r\n"), &content);
    let head = whole[..whole.len() - content.len()].to_vec();
    let origin = RawOrigin::replying(move |request| {
        if request.field("if-none-match").is_some() {
            return b"HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n".to_vec();
        }
        match request.method() {
            "HEAD" => head.clone(),
            _ => whole.clone(),
        }
    });
    let node = filtered(&origin, KEYS);
    for version in VERSIONS {
        let accept = ["-H", "accept-encoding: gzip"];
        let got = get(&node, "/", &[&accept[..], &[version]].concat());
        let head = get(&node, "/", &[&accept[..], &[version, "--head"]].concat());
        for name in [
            "content-encoding",
            "content-length",
            "etag",
            "vary",
            "content-type",
        ] {
            assert_eq!(head.head.field(name), got.head.field(name), "{name}");
        }
        let held = ["-H", "if-none-match: W/\"v1\"", version];
        let unchanged = get(&node, "/", &[&accept[..], &held].concat());
        assert_eq!(unchanged.head.status(), 304);
        assert_eq!(unchanged.head.field("etag"), Some("W/\"v1\""));
        assert_eq!(unchanged.head.field("vary"), Some("accept-encoding"));
        assert_eq!(unchanged.head.field("content-encoding"), None);
        let held = ["-H", "if-none-match: \"v1\"", version];
        let plain = get(&node, "/", &held);
        assert_eq!(plain.head.field("etag"), Some("\"v1\""));
        assert_eq!(plain.head.field("vary"), Some("accept-encoding"));
    }
}

#[test]
fn parts_of_a_representation_and_no_content_are_left_alone() {
    let origin = RawOrigin::replying(|request| {
        let answer: &[u8] = match request.target() {
            "/part" => {
                b"HTTP/1.1 206 Partial Content\r\ncontent-type: text/plain\r\n\
                  content-range: bytes 0-3/5000\r\ncontent-length: 4\r\n\r\nabcd"
            }
            "/none" => b"HTTP/1.1 204 No Content\r\ncontent-type: text/plain\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n",
        };
        answer.to_vec()
    });
    let node = filtered(&origin, KEYS);
    for version in VERSIONS {
        for (path, status, content) in [
            ("/part", 206, "abcd"),
            ("/none", 204, ""),
            ("/empty", 200, ""),
        ] {
            let got = get(
                &node,
                path,
                &[
                    version,
                    "-H",
                    "accept-encoding: gzip",
                    "-H",
                    "range: bytes=0-3",
                ],
            );
            assert_eq!(
                (got.head.status(), &got.body[..]),
                (status, content.as_bytes())
            );
            assert_eq!(got.head.field("content-encoding"), None, "{path}");
        }
    }
}

#[test]
fn a_level_says_how_hard_a_coding_tries() {
    let content = records(200 << 10, 13);
    let origin = RawOrigin::answering(response(JSON, &content));
    let lengths = |level: u8| {
        let levels = format!("levels = {{ gzip = {level}, br = {level}, zstd = {level} }}");
        let node = filtered(&origin, &format!("{KEYS}\n{levels}"));
        CODINGS.map(|coding| {
            let accept = format!("accept-encoding: {coding}");
            get(&node, "/", &["-H", &accept]).body.len()
        })
    };
    let (fast, hard) = (lengths(1), lengths(6));
    for (at, coding) in CODINGS.into_iter().enumerate() {
        assert!(hard[at] < fast[at], "{coding}: {fast:?} {hard:?}");
    }
}

/// Megabytes in both framings, through a buffer of a few: the content is streamed.
#[test]
fn long_content_is_whole_and_never_gathered() {
    let content = records(6 << 20, 11);
    let known = response(JSON, &content);
    let chunked = {
        let mut out =
            format!("HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n").into_bytes();
        for piece in content.chunks(70_001) {
            out.extend(format!("{:x}\r\n", piece.len()).bytes());
            out.extend(piece);
            out.extend(b"\r\n");
        }
        out.extend(b"0\r\nchecksum: 42\r\ncontent-digest: sha-256=:AA==:\r\netag: \"a\"\r\n\r\n");
        out
    };
    let origin = RawOrigin::replying(move |request| match request.target() {
        "/known" => known.clone(),
        _ => chunked.clone(),
    });
    let node = filtered(
        &origin,
        &format!("{KEYS}\nlevels = {{ gzip = 1, br = 1, zstd = 1 }}"),
    );
    for version in VERSIONS {
        for coding in CODINGS {
            for path in ["/known", "/chunked"] {
                let accept = format!("accept-encoding: {coding}");
                let got = get(&node, path, &[version, "--compressed", "-H", &accept]);
                assert_eq!(got.head.field("content-encoding"), Some(coding));
                assert!(got.body == content, "{path} {coding} {version}");
                let has_trailer = got.trailers.iter().any(|(name, _)| name == "checksum");
                assert_eq!(has_trailer, path == "/chunked", "{path} {coding} {version}");
                let is_of_plain = |(name, _): &(String, String)| name != "checksum";
                assert!(!got.trailers.iter().any(is_of_plain), "{:?}", got.trailers);
            }
        }
    }
    // Of twelve downloads of 6 MB, none was ever in memory at once.
    let memory = node.admin_json("/memory");
    let peak = memory["budget"]["peak_bytes"].as_u64();
    assert!(peak.is_none_or(|peak| peak < 16 << 20), "{peak:?}");
}

/// An origin that sends an event, and the next one only after the test has received the first.
fn events(fields: &'static str) -> (RawOrigin, std::sync::mpsc::SyncSender<()>) {
    let (tell, told) = std::sync::mpsc::sync_channel::<()>(1);
    let told = std::sync::Mutex::new(told);
    let origin = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{fields}transfer-encoding: chunked\r\n\r\n"
            ));
            for event in ["data: one\n\n", "data: two\n\n"] {
                peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
                if told
                    .lock()
                    .expect("no panic")
                    .recv_timeout(PATIENCE)
                    .is_err()
                {
                    return;
                }
            }
            peer.send("0\r\n\r\n");
        }
    });
    (origin, tell)
}

#[test]
fn an_event_goes_on_when_it_came() {
    let types = "types = [\"text/event-stream\", \"text/plain\"]\nmin_bytes = 0";
    for fields in [
        "content-type: text/event-stream\r\n",
        "content-type: text/plain\r\n",
    ] {
        for coding in CODINGS {
            let (origin, tell) = events(fields);
            let node = filtered(&origin, &format!("{KEYS}\n{types}"));
            for version in VERSIONS {
                let accept = format!("accept-encoding: {coding}");
                let curl = steppe_testkit::Curl::new(&node.url("/"));
                let curl = curl.args([version, "--compressed", "-H", &accept]).start();
                for expected in ["data: one\n\n", "data: one\n\ndata: two\n\n"] {
                    let what = format!("{fields} {coding} {version}: {expected:?}");
                    eventually(&what, || curl.so_far().body == expected.as_bytes());
                    tell.send(()).expect("the origin is there");
                }
                assert_eq!(curl.finish().exit, 0, "{fields} {coding} {version}");
            }
        }
    }
}

#[test]
fn files_that_are_compressed_already_stay_so() {
    let content = records(10 << 10, 5);
    let config = filtering(KEYS)
        .remove("http.upstream.origin")
        .route("all", |r| {
            r.remove("upstream")
                .set("files.root", "{scratch}")
                .set("files.precompressed", ["br"])
        });
    let text = String::from_utf8(content.clone()).expect("it is text");
    let node = Steppe::builder()
        .with_file("a.json", &text)
        .with_file("a.json.br", "whatever br says")
        .with_file("b.json", &text)
        .start(&config);
    for version in VERSIONS {
        let got = get(
            &node,
            "/a.json",
            &[version, "-H", "accept-encoding: br, gzip"],
        );
        assert_eq!(got.head.all("content-encoding"), ["br"]);
        assert_eq!(got.body, b"whatever br says");
        let got = get(
            &node,
            "/a.json",
            &[version, "--compressed", "-H", "accept-encoding: gzip"],
        );
        assert_eq!(got.head.all("content-encoding"), ["gzip"]);
        assert!(got.body == content);
        assert_eq!(got.head.all("vary"), ["accept-encoding"]);
        let part = get(
            &node,
            "/b.json",
            &[version, "-H", "accept-encoding: gzip", "-r", "0-3"],
        );
        assert_eq!((part.head.status(), &part.body[..]), (206, &content[..4]));
        assert_eq!(part.head.field("content-encoding"), None);
    }
}

#[test]
fn strict_leaves_what_may_vary_by_a_secret() {
    let content = records(10 << 10, 7);
    let plain = response(JSON, &content);
    let cookie = response(&format!("{JSON}set-cookie: id=1\r\n"), &content);
    let origin = RawOrigin::replying(move |request| match request.target() {
        "/login" => cookie.clone(),
        _ => plain.clone(),
    });
    let keys = "kind = \"compress\"\nbreach = \"strict\"\nsecret_paths = [\"/account/{rest*}\"]";
    let node = filtered(&origin, keys);
    let own = node.gateway();
    let same = format!("origin: http://{own}");
    let referer = format!("referer: http://{own}/page?x=http://evil.example/");
    let is_encoded = |path: &str, fields: &[&str]| {
        let fields = fields.iter().flat_map(|field| ["-H", field]);
        let args: Vec<_> = ["-H", "accept-encoding: gzip"]
            .into_iter()
            .chain(fields)
            .collect();
        let got: Vec<_> = VERSIONS
            .iter()
            .map(|version| {
                let got = get(&node, path, &[&args[..], &[version]].concat());
                assert_eq!(got.head.field("vary"), Some("accept-encoding"));
                got.head.field("content-encoding").is_some()
            })
            .collect();
        assert_eq!(got[0], got[1], "{path} {args:?}");
        got[0]
    };
    assert!(is_encoded("/", &[]));
    for same in [
        &same,
        &referer,
        "sec-fetch-site: same-origin",
        "sec-fetch-site: none",
    ] {
        assert!(is_encoded("/", &[same]), "{same}");
    }
    for secret in [
        "cookie: a=b",
        "authorization: Bearer x",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: whatever",
        "origin: https://evil.example",
        "origin: null",
        "referer: https://evil.example/?http://a",
    ] {
        assert!(!is_encoded("/", &[secret]), "{secret}");
    }
    // The browser's own statement about the site outranks fields that a page may set.
    assert!(!is_encoded("/", &["sec-fetch-site: cross-site", &same]));
    assert!(!is_encoded("/login", &[]));
    assert!(!is_encoded("/account/1", &[]));
    assert!(is_encoded("/accounts", &[]));
}

/// Applies whether the filter stands before or behind the one that authenticates.
#[test]
fn strict_leaves_what_a_filter_has_let_somebody_in_for() {
    let origin = RawOrigin::answering(response(JSON, &records(10 << 10, 7)));
    let service = RawOrigin::answering("HTTP/1.1 204 No Content\r\n\r\n");
    let config = NodeConfig::plain()
        .add_filter("pack", |f| {
            f.set("kind", "compress").set("breach", "strict")
        })
        .add_filter("ask", |f| {
            f.set("kind", "forward-auth")
                .set("upstream", "service")
                .set("path", "/")
        })
        .add_upstream("service", |u| u.servers([service.address()]));
    let node = |filters: &[&str]| {
        let config = config.clone().route("all", |r| r.filters(filters));
        Steppe::builder()
            .with("origin", origin.address())
            .start(&config)
    };
    for (filters, coding) in [
        (&["pack"][..], Some("gzip")),
        (&["pack", "ask"], None),
        (&["ask", "pack"], None),
    ] {
        let got = get(&node(filters), "/", &["-H", "accept-encoding: gzip"]);
        assert_eq!(got.head.field("content-encoding"), coding, "{filters:?}");
    }
}

#[test]
fn padded_content_has_one_length_each_and_another_for_other_content() {
    let origin = RawOrigin::replying(|request| {
        let seed = request.target().len() as u64;
        response(JSON, &records(10 << 10, seed))
    });
    let padded = filtered(&origin, "kind = \"compress\"\nbreach = \"pad\"");
    let bare = filtered(&origin, KEYS);
    for coding in CODINGS {
        let accept = format!("accept-encoding: {coding}");
        let bytes = |node: &Steppe, path: &str, version| {
            get(node, path, &[version, "-H", &accept]).body.len()
        };
        let mut added = Vec::new();
        for path in ["/1", "/12", "/123", "/1234"] {
            let plain = bytes(&bare, path, VERSIONS[0]);
            let long = bytes(&padded, path, VERSIONS[0]);
            for version in VERSIONS {
                assert_eq!(bytes(&padded, path, version), long, "{coding}: asked again");
            }
            assert!(long >= plain, "{coding}");
            added.push(long - plain);
        }
        added.dedup();
        assert!(added.len() > 1, "{coding}: {added:?}");
    }
}

#[test]
fn a_client_of_http_1_0_gets_it_until_the_end() {
    let (origin, content) = json_origin("");
    let node = filtered(&origin, KEYS);
    let got = get(
        &node,
        "/",
        &["--http1.0", "--compressed", "-H", "accept-encoding: gzip"],
    );
    assert_eq!(got.head.field("content-encoding"), Some("gzip"));
    assert_eq!(got.head.field("transfer-encoding"), None);
    assert!(got.body == content);
}

/// Encoder contexts are reused: many responses, of many streams at once, are each whole.
#[test]
fn responses_side_by_side_do_not_mix() {
    let origin = RawOrigin::replying(|request| {
        let seed = request.target().bytes().map(u64::from).sum();
        response(JSON, &records(40 << 10, seed))
    });
    let node = filtered(&origin, KEYS);
    let mut peer = H2Peer::connect(node.gateway());
    peer.send(&[H2Frame::window(0, 1 << 24)]);
    let paths: Vec<String> = (0..24)
        .map(|at| format!("/{}", "x".repeat(at + 1)))
        .collect();
    let streams: Vec<u32> = paths
        .iter()
        .map(|path| {
            let fields = FieldSection::of("GET", path).field("accept-encoding", "gzip");
            peer.request(&fields)
        })
        .collect();
    for (path, stream) in paths.iter().zip(streams) {
        let answer = peer.answer(stream);
        let expected = records(40 << 10, path.bytes().map(u64::from).sum());
        assert!(
            decoded("gzip", &["-dc"], &answer.content) == expected,
            "{path}"
        );
    }
}

#[test]
fn a_mistake_is_told_with_its_place() {
    for (keys, word) in [
        ("types = [\"json\"]", "media type"),
        ("types = [\"*/json\"]", "media type"),
        ("levels = { br = 11 }", "from 1 to 6"),
        ("algorithms = [\"gzip\", \"gzip\"]", "named twice"),
        ("algorithms = [\"deflate\"]", "zstd"),
        ("secret_paths = [\"/a\"]", "no effect"),
        ("secret = 1", "secret_paths"),
    ] {
        let said = refused(&format!("kind = \"compress\"\n{keys}"));
        assert!(said.contains(word), "{keys}: {said}");
    }
}
