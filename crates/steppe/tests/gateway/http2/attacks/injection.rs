//! Requests of HTTP/2 that would become other requests, or more than one, in HTTP/1.1.
//!
//! Spec: RFC 9113 §8, §10.3.

use super::*;

/// The answer to a request that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Status(u16),
    Reset(u32),
    /// The connection ends, with this code.
    Goaway(u32),
}

fn told(answer: &H2Answer) -> Option<Told> {
    let reset = answer.reset.map(Told::Reset);
    answer.status.map(Told::Status).or(reset)
}

/// A node, its server, and the bytes that a good request has at the server.
struct Bench {
    origin: RawOrigin,
    node: Steppe,
    good: String,
}

impl Bench {
    fn start() -> Self {
        Self::with(|listener| listener)
    }

    /// Starts both, with this change to the node's listener.
    fn with(change: impl FnOnce(Section) -> Section) -> Self {
        let origin = RawOrigin::answering(OK);
        let node = node_with(&origin, change);
        expect_served(&node);
        let good = origin.received();
        assert!(
            good.starts_with("GET /good HTTP/1.1\r\nhost: a\r\n"),
            "{good}"
        );
        origin.forget();
        Self { origin, node, good }
    }

    /// Sends `frames` of stream 1, and then a good request: on the same connection unless that has ended. Returns the
    /// answer to the frames. Panics if the server receives anything but the good request.
    #[track_caller]
    fn refused(&self, what: &str, frames: &[H2Frame]) -> Option<Told> {
        self.origin.forget();
        let mut peer = connect(&self.node);
        peer.stream();
        peer.send(frames);
        let answer = peer.answer(1);
        let goaway = peer.goaway();
        if goaway.is_some() {
            peer = connect(&self.node);
        }
        let next = peer.get("/good");
        assert_eq!(next.status, Some(200), "the next after {what}: {answer:?}");
        assert_eq!(self.origin.received(), self.good, "{what}: {answer:?}");
        goaway.map(Told::Goaway).or_else(|| told(&answer))
    }

    /// The lines that a served request has at the server, without the fields that the node adds.
    #[track_caller]
    fn forwarded(&self, fields: &FieldSection) -> Vec<String> {
        self.origin.forget();
        let answer = connect(&self.node).exchange(fields);
        assert_eq!(answer.status, Some(200), "{fields:?}");
        let received = self.origin.received();
        let lines = received.trim_end_matches("\r\n").split("\r\n");
        let added = ["forwarded:", "x-forwarded-", "via:"];
        let is_own = |line: &&str| !added.iter().any(|name| line.starts_with(name));
        lines.filter(is_own).map(str::to_owned).collect()
    }
}

/// The usual pseudo-fields, one of them replaced.
fn with(name: &str, value: &[u8]) -> FieldSection {
    let usual = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let mut fields = FieldSection::default();
    for (usual, usually) in usual {
        let value = if usual == name {
            value
        } else {
            usually.as_bytes()
        };
        fields = fields.field(usual, value);
    }
    fields
}

fn get() -> FieldSection {
    FieldSection::of("GET", "/bad")
}

/// Asserts that each is refused on its own stream, in one of the `expected` ways.
#[track_caller]
fn expect_each(bench: &Bench, rows: &[(&str, FieldSection)], expected: &[Told]) {
    let mut wrong = Vec::new();
    for (what, fields) in rows {
        let told = bench.refused(what, &[H2Frame::request(1, fields)]);
        println!("{what}: {told:?}");
        if !told.is_some_and(|told| expected.contains(&told)) {
            wrong.push(format!("{what}: {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Refusals after which the connection goes on.
const REFUSED: [Told; 2] = [Told::Reset(PROTOCOL_ERROR), Told::Status(400)];

/// RFC 9113 §5.4.1: a node may treat an error of a stream as one of the connection.
const REFUSED_OR_ENDED: [Told; 3] = [REFUSED[0], REFUSED[1], Told::Goaway(PROTOCOL_ERROR)];

/// RFC 9113 §8.2.1: a line end or a control in a value, which HTTP/1.1 would parse as its own.
#[test]
fn values_that_end_a_line() {
    let bench = Bench::start();
    let value = |value: &[u8]| get().field("x-value", value);
    let smuggled = b"a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    let rows = [
        ("CR", value(b"a\rb")),
        ("LF", value(b"a\nb")),
        ("CR LF", value(b"a\r\nx-other: b")),
        ("a request", value(smuggled)),
        ("NUL", value(b"a\0b")),
        ("DEL", value(b"a\x7fb")),
        ("a control", value(b"a\x01b")),
        ("CR at the end", value(b"a\r")),
        ("LF in a cookie", get().field("cookie", "a=b\nx: y")),
        ("LF in a host", get().field("host", "a\nx: y")),
        ("LF in TE", get().field("te", "trailers\nx: y")),
    ];
    expect_each(&bench, &rows, &REFUSED_OR_ENDED);
}

/// RFC 9113 §8.2.1. HTTP/1.1 strips the space, so the server would see another value.
#[test]
fn values_with_a_space_at_an_end() {
    let bench = Bench::start();
    let rows = [" a", "a ", "\ta", "a\t", " "].map(|value| (value, get().field("x-value", value)));
    expect_each(&bench, &rows, &[Told::Status(400)]);
}

/// RFC 9113 §8.2.1: names are tokens in lower case.
#[test]
fn names_that_are_none() {
    let bench = Bench::start();
    let name = |name: &[u8]| get().field(name, "b");
    let rows = [
        ("upper case", name(b"X-Value")),
        ("one upper case", name(b"x-valuE")),
        ("CR LF", name(b"x\r\ny")),
        ("a line", name(b"x: y\r\nz")),
        ("LF", name(b"x\ny")),
        ("NUL", name(b"x\0y")),
        ("a space", name(b"x y")),
        ("a space after", name(b"x ")),
        ("a colon", name(b"x:y")),
        ("a colon after", name(b"transfer-encoding:")),
        ("no name", name(b"")),
        ("a letter of no token", name(b"x\xe9")),
        ("a quote", name(b"x\"y")),
        ("a bracket", name(b"x[y")),
        ("a slash", name(b"x/y")),
    ];
    expect_each(&bench, &rows, &REFUSED_OR_ENDED);
}

/// RFC 9113 §8.3.1: pseudo-fields become the request line and `Host`.
#[test]
fn request_lines_of_more_than_one_line() {
    let bench = Bench::start();
    let mut rows = Vec::new();
    let injections: [(&str, &[u8]); 6] = [
        ("CR", b"\r"),
        ("LF", b"\n"),
        ("NUL", b"\0"),
        ("a space", b" "),
        ("a request line", b" HTTP/1.1\r\nx: y\r\n\r\nGET /smuggled"),
        ("a letter of no ASCII", b"\xe9"),
    ];
    let places: [(&str, &[u8]); 4] = [
        (":method", b"GET"),
        (":path", b"/a"),
        (":authority", b"a"),
        (":scheme", b"http"),
    ];
    for (name, begin) in places {
        for (what, injected) in injections {
            let fields = with(name, &[begin, injected, b"b"].concat());
            rows.push((format!("{what} in {name}"), fields));
        }
    }
    for (what, name, value) in [
        ("no method", ":method", &b""[..]),
        ("a colon in the method", ":method", b"GET:"),
        ("no path", ":path", b""),
        ("a path without a slash", ":path", b"a"),
        ("a URL for a path", ":path", b"http://b/"),
        ("a host for a path", ":path", b"@b/"),
        ("a user", ":authority", b"user@a"),
        ("a path in the authority", ":authority", b"a/b"),
        ("two authorities", ":authority", b"a,b"),
        ("a port that is none", ":authority", b"a:b"),
        ("a letter of no ASCII in a query", ":path", b"/?\xe9"),
        ("a space in a query", ":path", b"/? "),
        ("no scheme's name", ":scheme", b""),
        ("a scheme that begins with a digit", ":scheme", b"1http"),
    ] {
        rows.push((what.to_owned(), with(name, value)));
    }
    let rows: Vec<_> = rows
        .iter()
        .map(|(what, fields)| (what.as_str(), fields.clone()))
        .collect();
    expect_each(&bench, &rows, &REFUSED_OR_ENDED);
}

/// RFC 9113 §8.2.2: a request has no connection-specific fields.
#[test]
fn fields_of_a_connection() {
    let bench = Bench::start();
    let rows = [
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("connection", "close"),
        ("connection", "x-forwarded-for"),
        ("keep-alive", "timeout=5"),
        ("upgrade", "h2c"),
        ("proxy-connection", "keep-alive"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ];
    let rows = rows.map(|(name, value)| (name, get().field(name, value)));
    expect_each(&bench, &rows, &REFUSED);
    let served = bench.forwarded(&get().field("te", "trailers"));
    assert_eq!(served[..2], ["GET /bad HTTP/1.1", "host: a"]);
}

/// RFC 9113 §8.3: each pseudo-field is known, occurs once, and is before all fields.
#[test]
fn pseudo_fields_out_of_place() {
    let bench = Bench::start();
    let without = |absent: &str| {
        let usual = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
        let present = usual.iter().filter(|(name, _)| *name != absent);
        let begin = FieldSection::default().field(":authority", "a");
        present.fold(begin, |fields, (name, value)| fields.field(name, value))
    };
    let rows = [
        (
            "after a field",
            without(":path").field("x", "y").field(":path", "/"),
        ),
        ("method twice", get().field(":method", "GET")),
        ("path twice", get().field(":path", "/other")),
        ("authority twice", get().field(":authority", "a")),
        ("scheme twice", get().field(":scheme", "http")),
        ("unknown", get().field(":unknown", "a")),
        ("of a response", get().field(":status", "200")),
        ("no method", without(":method")),
        ("no scheme", without(":scheme")),
        ("no path", without(":path")),
        ("a protocol", get().field(":protocol", "websocket")),
    ];
    expect_each(&bench, &rows, &REFUSED_OR_ENDED);
}

#[test]
fn hosts_beside_authorities() {
    let bench = Bench::start();
    let path = || {
        let begin = FieldSection::default().field(":method", "GET");
        begin.field(":scheme", "http").field(":path", "/bad")
    };
    let line = ["GET /bad HTTP/1.1", "host: a"];
    for (what, fields) in [
        ("an authority", get()),
        ("the same twice", get().field("host", "a")),
        ("the same, but for case", get().field("host", "A")),
        ("a host alone", path().field("host", "a")),
    ] {
        assert_eq!(bench.forwarded(&fields), line, "{what}");
    }
    let rows = [
        ("another", get().field("host", "b")),
        ("another port", get().field("host", "a:81")),
        (
            "the same, and another",
            get().field("host", "a").field("host", "b"),
        ),
        ("none", get().field("host", "")),
        ("two hosts", path().field("host", "a").field("host", "b")),
        ("neither", path()),
    ];
    expect_each(&bench, &rows, &[Told::Status(400)]);
}

/// No route has CONNECT among its methods.
#[test]
fn connect_is_refused() {
    let bench = Bench::start();
    let short = FieldSection::default().field(":method", "CONNECT");
    let rows = [("CONNECT", short.field(":authority", "a:443"))];
    expect_each(&bench, &rows, &[Told::Status(501)]);
}

/// A server without WebSockets answers with a page: forwarded as 200 it would be a tunnel (RFC 8441 §5).
#[test]
fn what_is_no_upgrade_opens_no_tunnel() {
    let bench = Bench::start();
    let asked = |protocol| with(":method", b"CONNECT").field(":protocol", protocol);
    let answer = connect(&bench.node).exchange(&asked("websocket"));
    assert_eq!(answer.status, Some(502));
    let rows = [("another protocol", asked("connect-udp"))];
    expect_each(&bench, &rows, &[Told::Status(501)]);
}

/// RFC 9113 §8.2.3: HTTP/1.1 has one `Cookie` line.
#[test]
fn crumbs_of_cookies_become_one_line() {
    let bench = Bench::start();
    let crumbs = get()
        .field("cookie", "a=b")
        .field("x", "y")
        .field("cookie", "c=d; e=f");
    let seen = bench.forwarded(&crumbs.field("cookie", "g=h"));
    let cookies: Vec<_> = seen
        .iter()
        .filter(|line| line.starts_with("cookie"))
        .collect();
    assert_eq!(cookies, ["cookie: a=b; c=d; e=f; g=h"], "{seen:?}");
}

#[test]
fn underscores_are_dropped_or_refused() {
    let bench = Bench::start();
    let fields = get()
        .field("x_forwarded_for", "192.0.2.66")
        .field("x_plain", "z")
        .field("x-kept", "y");
    let seen = bench.forwarded(&fields);
    assert_eq!(seen, ["GET /bad HTTP/1.1", "host: a", "x-kept: y"]);
    let lax = Bench::with(|l| l.set("underscores", "pass"));
    let seen = lax.forwarded(&fields);
    let expected = ["GET /bad HTTP/1.1", "host: a", "x_plain: z", "x-kept: y"];
    assert_eq!(seen, expected, "not an alias of what the gateway sets");
    let strict = Bench::with(|l| l.set("underscores", "refuse"));
    expect_each(&strict, &[("an underscore", fields)], &[Told::Status(400)]);
}

/// RFC 9113 §8.1.1: a `content-length` that differs from the length of the content.
#[test]
fn lengths_that_lie() {
    let bench = Bench::start();
    let post = |length: &str| FieldSection::of("POST", "/bad").field("content-length", length);
    let rows = [
        ("of no content", post("5")),
        ("no number", post("x")),
        ("a sign", post("+0")),
        ("a list", post("0, 0")),
        ("more than numbers hold", post("18446744073709551616")),
        ("twice", post("0").field("content-length", "0")),
        ("two", post("0").field("content-length", "5")),
    ];
    expect_each(&bench, &rows, &REFUSED);
    let twice = H2Frame::opening(1, &post("5").field("content-length", "6"));
    let told = bench.refused("two of some", &[twice, H2Frame::last_data(1, "hello")]);
    assert!(told.is_some_and(|told| REFUSED.contains(&told)), "{told:?}");
}

/// The head may be forwarded before the error shows; the server must neither take the bytes for a complete request, nor
/// later ones for a part of it.
#[test]
fn lengths_that_turn_out_to_lie() {
    for (what, length) in [("too small", "2"), ("too large", "50")] {
        let origin = RawOrigin::answering(OK);
        let node = node(&origin);
        let mut peer = connect(&node);
        let fields = FieldSection::of("POST", "/bad").field("content-length", length);
        let stream = peer.stream();
        peer.send(&[
            H2Frame::opening(stream, &fields),
            H2Frame::last_data(stream, "hello"),
        ]);
        let answer = peer.answer(stream);
        assert_eq!(answer.reset, Some(PROTOCOL_ERROR), "{what}: {answer:?}");
        assert_eq!(peer.get("/good").status, Some(200), "{what}");
        for bytes in origin.connections() {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let content = text
                .split_once("\r\n\r\n")
                .map_or("", |(_, content)| content);
            // An idle connection of the pool is among them.
            let is_good = text.is_empty() || text.starts_with("GET /good ") && content.is_empty();
            let is_cut = text.starts_with("POST /bad ") && ["", "hello"].contains(&content);
            assert!(is_good || is_cut, "{what}: {text:?}");
        }
    }
}

/// Sends a request with this field in its trailers; returns the answer, and the bytes at the server.
#[track_caller]
fn trailed(bench: &Bench, name: &str, value: &str) -> (Option<Told>, String) {
    bench.origin.forget();
    let mut peer = connect(&bench.node);
    let stream = peer.stream();
    peer.send(&[
        H2Frame::opening(stream, &FieldSection::of("POST", "/bad")),
        H2Frame::data(stream, "hello"),
        H2Frame::request(stream, &FieldSection::default().field(name, value)),
    ]);
    let answer = peer.answer(stream);
    let received = bench.origin.received();
    expect_served(&bench.node);
    (
        peer.goaway().map(Told::Goaway).or_else(|| told(&answer)),
        received,
    )
}

/// RFC 9113 §8.1: trailers cannot become another request.
#[test]
fn trailers_that_are_none() {
    let bench = Bench::start();
    for (what, name, value) in [
        ("a line end", "x", "y\r\nz: z"),
        ("a request", "x", "y\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"),
        ("upper case", "X", "y"),
        ("a space before", "x", " y"),
        ("a quote in a name", "x\"y", "z"),
        ("of a connection", "transfer-encoding", "chunked"),
        ("a path", ":path", "/other"),
        ("a method", ":method", "PUT"),
        ("an authority", ":authority", "b"),
        ("a status", ":status", "200"),
    ] {
        let (told, received) = trailed(&bench, name, value);
        let is_refused = told.is_some_and(|told| REFUSED_OR_ENDED.contains(&told));
        assert!(is_refused, "{what}: {told:?}");
        // The server must not take the request for complete.
        assert!(!received.contains("0\r\n"), "{what}: {received}");
    }
}

/// RFC 9113 §8.3.1: `:path` is a path and a query, without a fragment. RFC 3986 §3.1: a scheme begins with a letter.
#[test]
fn targets_that_are_none() {
    let bench = Bench::start();
    let begin = FieldSection::default().field(":method", "GET");
    let no_scheme = begin.field(":scheme", "").field(":path", "/bad");
    let rows = [
        ("a fragment in :path", with(":path", b"/a?b=c#d")),
        (
            "an empty :scheme beside a host",
            no_scheme.field("host", "a"),
        ),
    ];
    expect_each(&bench, &rows, &REFUSED);
}
