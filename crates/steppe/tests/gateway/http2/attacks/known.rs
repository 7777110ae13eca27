//! Requests that RFC 9113 has refused, and that are served: the `h2` crate takes what is wrong with them away before
//! the gateway sees their heads. They are left to the work on HTTP/2 frames of Steppe's own, below which
//! pseudo-fields are seen as they came.
//!
//! Each row fails by its name. One that is refused belongs into the tables of `injection.rs`. What is checked here
//! is that it does no harm: the server sees the request without what is wrong with it.

use super::injection::{Bench, Told, trailed, with};
use super::*;

/// True when a client of this request is refused, as it should be; panics where that did harm.
type Known = (&'static str, fn(&Bench) -> bool);

const KNOWN: &[Known] = &[
    // RFC 9113 §8.3.1: a path and a query. HTTP/1.1 answers 400.
    ("a fragment in :path", |bench| {
        served_as(bench, &with(":path", b"/a?b=c#d"), "GET /a?b=c HTTP/1.1")
    }),
    // RFC 3986 §3.1: a scheme has a letter at least. Beside an :authority it is seen, and refused.
    ("an empty :scheme beside a host", |bench| {
        let begin = FieldSection::default().field(":method", "GET");
        let fields = begin.field(":scheme", "").field(":path", "/bad");
        served_as(bench, &fields.field("host", "a"), "GET /bad HTTP/1.1")
    }),
    // RFC 9113 §8.1: pseudo-fields are in no trailers.
    (":path in trailers", |bench| {
        trailers_refused(bench, ":path", "/other")
    }),
    (":method in trailers", |bench| {
        trailers_refused(bench, ":method", "PUT")
    }),
    (":authority in trailers", |bench| {
        trailers_refused(bench, ":authority", "b")
    }),
    (":status in trailers", |bench| {
        trailers_refused(bench, ":status", "200")
    }),
];

fn served_as(bench: &Bench, fields: &FieldSection, line: &str) -> bool {
    let seen = bench.forwarded(fields);
    assert_eq!(seen, [line, "host: a"]);
    false
}

fn trailers_refused(bench: &Bench, name: &str, value: &str) -> bool {
    let (told, received) = trailed(bench, name, value);
    let begin = "POST /bad HTTP/1.1\r\nhost: a\r\n";
    assert!(received.starts_with(begin), "{name}: {received}");
    let end = "\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert!(received.ends_with(end), "{name}: {received}");
    told != Some(Told::Status(200))
}

#[test]
fn what_is_known_to_be_let_through_does_no_harm() {
    let bench = Bench::start();
    for (what, is_refused) in KNOWN {
        println!("known, and left to HTTP/2 frames of Steppe's own: {what}");
        assert!(
            !is_refused(&bench),
            "{what} is refused: a row of injection.rs"
        );
    }
}
