//! Responses of servers of HTTP/2 that are malformed, or only look so, seen by clients of both protocols.
//!
//! Spec: RFC 9113 §8, RFC 9110 §6.4.1.

use steppe_testkit::{FieldSection, H2Frame, H2Peer, H2Server, NodeConfig, RawOrigin, Steppe};

/// Frames that a server sends on a stream, in two steps: the node has read the first before the second is sent.
type Script = fn(u32) -> [Vec<H2Frame>; 2];

/// The name of the script, and the status that clients get for it.
type Row = (&'static str, Script, u16);

fn status(status: &str) -> FieldSection {
    FieldSection::default().field(":status", status)
}

fn head(stream: u32, fields: &FieldSection) -> H2Frame {
    H2Frame::opening(stream, fields)
}

/// An empty DATA frame with END_STREAM.
fn end(stream: u32) -> H2Frame {
    H2Frame::last_data(stream, "")
}

fn trailers(stream: u32, fields: &FieldSection) -> H2Frame {
    H2Frame::request(stream, fields)
}

/// A response of 200 with a field of this name.
fn named(stream: u32, name: &[u8]) -> Vec<H2Frame> {
    let fields = status("200").field(name, "b");
    vec![head(stream, &fields), H2Frame::last_data(stream, "ok")]
}

/// A response of 200 with a trailer of this name.
fn trailed(stream: u32, name: &[u8]) -> Vec<H2Frame> {
    let trailer = FieldSection::default().field(name, "200");
    let content = H2Frame::data(stream, "ok");
    vec![H2Frame::ok(stream), content, trailers(stream, &trailer)]
}

/// RFC 9113 §8.1.1: a response without content by definition may have the `content-length` of other content.
const WITHOUT_CONTENT: &[Row] = &[
    (
        "304 by HEADERS",
        |s| [vec![trailers(s, &status("304"))], vec![]],
        304,
    ),
    (
        "304, then an empty DATA",
        |s| [vec![head(s, &status("304")), end(s)], vec![]],
        304,
    ),
    (
        "304 with a length by HEADERS",
        |s| {
            [
                vec![trailers(s, &status("304").field("content-length", "1234"))],
                vec![],
            ]
        },
        304,
    ),
    (
        "304 with a length, then an empty DATA",
        |s| {
            [
                vec![
                    head(s, &status("304").field("content-length", "1234")),
                    end(s),
                ],
                vec![],
            ]
        },
        304,
    ),
    (
        "304 with a length, and the empty DATA later",
        |s| {
            [
                vec![head(s, &status("304").field("content-length", "1234"))],
                vec![end(s)],
            ]
        },
        304,
    ),
    (
        "304 with a length, an empty DATA, and the end later",
        |s| {
            let fields = status("304").field("content-length", "1234");
            [vec![head(s, &fields), H2Frame::data(s, "")], vec![end(s)]]
        },
        304,
    ),
    (
        "204, then an empty DATA",
        |s| [vec![head(s, &status("204")), end(s)], vec![]],
        204,
    ),
    (
        "204, and the empty DATA later",
        |s| [vec![head(s, &status("204"))], vec![end(s)]],
        204,
    ),
    (
        "204 with DATA",
        |s| {
            [
                vec![head(s, &status("204")), H2Frame::last_data(s, "no")],
                vec![],
            ]
        },
        502,
    ),
    (
        "204, and DATA later",
        |s| {
            [
                vec![head(s, &status("204"))],
                vec![H2Frame::last_data(s, "no")],
            ]
        },
        502,
    ),
    (
        "304 with DATA",
        |s| {
            [
                vec![head(s, &status("304")), H2Frame::last_data(s, "no")],
                vec![],
            ]
        },
        502,
    ),
    (
        "304, and DATA later",
        |s| {
            [
                vec![head(s, &status("304"))],
                vec![H2Frame::last_data(s, "no")],
            ]
        },
        502,
    ),
    (
        "304 with a length and as much DATA",
        |s| {
            let fields = status("304").field("content-length", "2");
            [vec![head(s, &fields), H2Frame::last_data(s, "no")], vec![]]
        },
        502,
    ),
    (
        "304 with a length and less DATA",
        |s| {
            let fields = status("304").field("content-length", "1234");
            [vec![head(s, &fields), H2Frame::last_data(s, "no")], vec![]]
        },
        502,
    ),
    (
        "304 with a length and less DATA, and the end later",
        |s| {
            let fields = status("304").field("content-length", "1234");
            [vec![head(s, &fields), H2Frame::data(s, "no")], vec![end(s)]]
        },
        502,
    ),
    (
        "304 with a length and more DATA",
        |s| {
            let fields = status("304").field("content-length", "1");
            [vec![head(s, &fields), H2Frame::last_data(s, "no")], vec![]]
        },
        502,
    ),
    (
        "200 with a length and no DATA",
        |s| {
            [
                vec![head(s, &status("200").field("content-length", "5")), end(s)],
                vec![],
            ]
        },
        502,
    ),
    (
        "200 with a length of 0 and DATA",
        |s| {
            let fields = status("200").field("content-length", "0");
            [vec![head(s, &fields), H2Frame::last_data(s, "no")], vec![]]
        },
        502,
    ),
];

/// RFC 9113 §8.2.1, §8.3: names are tokens, and a response has one pseudo-field.
const FIELDS: &[Row] = &[
    ("a field", |s| [named(s, b"x-y"), vec![]], 200),
    ("a quote in a name", |s| [named(s, b"x\"y"), vec![]], 502),
    ("a space in a name", |s| [named(s, b"x y"), vec![]], 502),
    ("a colon in a name", |s| [named(s, b"x:y"), vec![]], 502),
    ("upper case in a name", |s| [named(s, b"X-y"), vec![]], 502),
    (
        "a field of a connection",
        |s| [named(s, b"connection"), vec![]],
        502,
    ),
    ("no status", |s| [named_without_status(s), vec![]], 502),
    ("two statuses", |s| [named(s, b":status"), vec![]], 502),
    (
        "an unknown pseudo-field",
        |s| [named(s, b":unknown"), vec![]],
        502,
    ),
    (":path in a response", |s| [named(s, b":path"), vec![]], 502),
    (
        ":method in a response",
        |s| [named(s, b":method"), vec![]],
        502,
    ),
    (
        ":status in trailers",
        |s| [trailed(s, b":status"), vec![]],
        502,
    ),
    (
        "a quote in a name of 103",
        |s| {
            let interim = head(s, &status("103").field("x\"y", "b"));
            [[vec![interim], named(s, b"x-y")].concat(), vec![]]
        },
        502,
    ),
];

fn named_without_status(stream: u32) -> Vec<H2Frame> {
    let fields = FieldSection::default().field("x-y", "b");
    vec![head(stream, &fields), H2Frame::last_data(stream, "ok")]
}

/// A node that speaks both protocols, in front of a server of HTTP/2 that follows `script`.
fn serve(script: Script) -> (RawOrigin, Steppe) {
    let origin = RawOrigin::start(move |peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(stream) = server.request() {
            let [mut first, second] = script(stream);
            if !second.is_empty() {
                first.push(H2Frame::new(H2Frame::PING, 0, 0, [0; 8]));
                server.send(&first);
                while let Some(frame) = server.frame() {
                    if frame.kind == H2Frame::PING && frame.has(H2Frame::ACK) {
                        break;
                    }
                }
                server.send(&second);
            } else {
                server.send(&first);
            }
        }
    });
    let config = NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .upstream("origin", |u| u.set("protocol", "h2c"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    (origin, node)
}

/// The status that a client of HTTP/1.1 gets, and one of HTTP/2.
fn seen(node: &Steppe) -> [u16; 2] {
    let h1 = node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status();
    let h2 = H2Peer::connect(node.gateway()).get("/");
    [h1, h2.status.unwrap_or(0)]
}

#[track_caller]
fn expect_each(rows: &[Row]) {
    let wrong = rows.iter().filter_map(|(what, script, expected)| {
        let (_origin, node) = serve(*script);
        let seen = seen(&node);
        (seen != [*expected; 2]).then(|| format!("{what}: {seen:?}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_has_no_content_has_none() {
    expect_each(WITHOUT_CONTENT);
}

#[test]
fn fields_that_are_none() {
    expect_each(FIELDS);
}
