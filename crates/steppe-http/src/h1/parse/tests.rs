//! Heads that are read, those that need more, and those that have two readings.

use steppe_mem::{Budget, Buffer};

use super::*;
use crate::field::Underscores;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 200,
    fields: 3,
};

fn lease() -> Lease {
    Budget::new(1 << 20).root().lease()
}

fn request_of(text: &str) -> Result<Option<RequestLine>, ParseError> {
    request(text.as_bytes(), LIMITS, &mut FieldList::take(), &lease())
}

fn response_of(text: &str) -> Result<Option<StatusLine>, ParseError> {
    response(text.as_bytes(), LIMITS, &mut FieldList::take(), &lease())
}

#[test]
fn a_head_is_read_and_what_follows_is_left() {
    let text = b"GET /a?b HTTP/1.1\r\nHost:  x \r\nEmpty:\r\n\r\nnext";
    let mut fields = FieldList::take();
    let line = request(text, LIMITS, &mut fields, &lease())
        .expect("valid")
        .expect("whole");
    assert_eq!(line.method.of(text), b"GET");
    assert_eq!(line.target.of(text), b"/a?b");
    assert_eq!(line.version, Version::Http11);
    assert_eq!(&text[line.head_bytes..], b"next");
    let values: Vec<&[u8]> = fields.iter().map(|field| field.value(text)).collect();
    assert_eq!(values, [&b"x"[..], b""]);
}

#[test]
fn one_empty_line_before_a_request_is_skipped() {
    let line = request_of("\r\nGET / HTTP/1.1\r\n\r\n").expect("valid");
    let line = line.expect("whole");
    assert_eq!((line.method.start(), line.head_bytes), (2, 20));
}

#[test]
fn values_lose_the_space_around_them() {
    let text = b"A: \t x\t y \t\r\nB:z\r\nC: \t \r\n\r\n";
    let mut fields = FieldList::take();
    let read = trailers(text, LIMITS, &mut fields, &lease());
    assert_eq!(read, Ok(Some(text.len())));
    let lines = fields
        .iter()
        .map(|field| (field.name(text), field.value(text)));
    let expected: [(&[u8], &[u8]); 3] = [(b"A", b"x\t y"), (b"B", b"z"), (b"C", b"")];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn names_with_underscores_are_told_apart() {
    let kept = |text: &str| {
        let mut bytes = Buffer::take(&lease(), text.len()).expect("room");
        bytes.put(text.as_bytes()).expect("room");
        let mut fields = FieldList::take();
        trailers(bytes.filled(), LIMITS, &mut fields, bytes.lease()).expect("valid");
        let mut fields = FieldBlock::new(bytes, fields);
        let applied = fields.apply_underscores(Underscores::Drop);
        applied.expect("nothing is refused");
        let values = fields
            .iter()
            .flat_map(|(_, _, value)| value.iter().copied());
        String::from_utf8(values.collect()).expect("ASCII")
    };
    assert_eq!(kept("a-b:1\r\na_b:2\r\nAB:3\r\n\r\n"), "13");
    assert_eq!(kept("_:1\r\nab:2\r\nb_:3\r\n\r\n"), "2");
}

#[test]
fn a_higher_minor_version_is_read_as_1_1() {
    for minor in 0..=9 {
        let expected = match minor {
            0 => Version::Http10,
            _ => Version::Http11,
        };
        let line = request_of(&format!("GET / HTTP/1.{minor}\r\n\r\n"));
        assert_eq!(
            line.map(|line| line.map(|line| line.version)),
            Ok(Some(expected))
        );
        let line = response_of(&format!("HTTP/1.{minor} 200 OK\r\n\r\n"));
        assert_eq!(
            line.map(|line| line.map(|line| line.version)),
            Ok(Some(expected))
        );
    }
}

#[test]
fn every_prefix_of_a_head_needs_more() {
    let text = "POST /a HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(request_of(&text[..end]), Ok(None), "{:?}", &text[..end]);
        assert!(!may_be_complete(
            &text.as_bytes()[..end],
            end.saturating_sub(1)
        ));
    }
    assert!(may_be_complete(text.as_bytes(), text.len() - 1));
    let text = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(response_of(&text[..end]), Ok(None), "{:?}", &text[..end]);
    }
}

#[test]
fn what_has_two_readings_is_refused() {
    for (text, error) in [
        ("GET  / HTTP/1.1\r\n", ParseError::FirstLine),
        (" GET / HTTP/1.1\r\n", ParseError::FirstLine),
        ("GET / HTTP/1.1 \r\n", ParseError::FirstLine),
        ("GET / http/1.1\r\n", ParseError::FirstLine),
        ("GET /\r\n", ParseError::FirstLine),
        ("GET / x HTTP/1.1\r\n", ParseError::FirstLine),
        ("GET /\u{e9} HTTP/1.1\r\n", ParseError::FirstLine),
        // Without a method, and without a target.
        (" / HTTP/1.1\r\n\r\n", ParseError::FirstLine),
        ("GET  HTTP/1.1\r\n\r\n", ParseError::FirstLine),
        ("GET / x", ParseError::FirstLine),
        ("GET / HTTP/2.0\r\n", ParseError::Version),
        ("GET / HTTP/0.9\r\n", ParseError::Version),
        ("GET / HTTP/1.11\r\n", ParseError::FirstLine),
        ("GET / HTTP/1.1\n", ParseError::LineEnd),
        ("\r\n\r\nGET / HTTP/1.1\r\n", ParseError::FirstLine),
        ("GET / HTTP/1.1\r\nA : b\r\n", ParseError::Field),
        ("GET / HTTP/1.1\r\n: b\r\n", ParseError::Field),
        ("GET / HTTP/1.1\r\nA\r\n", ParseError::Field),
        ("GET / HTTP/1.1\r\nA: b\r\n c\r\n", ParseError::Folding),
        ("GET / HTTP/1.1\r\n A: b\r\n", ParseError::Folding),
        ("GET / HTTP/1.1\r\nA: b\rc\r\n", ParseError::LineEnd),
        ("GET / HTTP/1.1\r\nA: b\n", ParseError::LineEnd),
        ("GET / HTTP/1.1\r\nA: b\0\r\n", ParseError::Field),
        ("GET / HTTP/1.1\r\n\n", ParseError::LineEnd),
        ("GET / HTTP/1.1\r\n\rX", ParseError::LineEnd),
        (
            "GET / HTTP/1.1\r\na:\r\nb:\r\nc:\r\nd:\r\n",
            ParseError::TooManyFields,
        ),
    ] {
        assert_eq!(request_of(text), Err(error), "{text:?}");
    }
}

#[test]
fn too_long_a_head_is_refused_by_the_part_that_is_too_long() {
    let target = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(200));
    assert_eq!(request_of(&target[..200]), Err(ParseError::TargetTooLong));
    assert_eq!(request_of(&target), Err(ParseError::TargetTooLong));
    let field = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(200));
    assert_eq!(request_of(&field[..200]), Err(ParseError::TooLarge));
    assert_eq!(request_of(&field), Err(ParseError::TooLarge));
    // A line that has just room leaves none for what must follow it.
    let line = format!("GET /{} HTTP/1.1\r\n", "a".repeat(200 - 16));
    assert_eq!(line.len(), 200);
    assert_eq!(request_of(&line), Err(ParseError::TooLarge));
    // As long as may be.
    for (first, is_request) in [("GET / HTTP/1.1", true), ("HTTP/1.1 200 OK", false)] {
        let head = |bytes: usize| {
            let rest = bytes - first.len() - "\r\nA: \r\n\r\n".len();
            format!("{first}\r\nA: {}\r\n\r\n", "a".repeat(rest))
        };
        let bytes_of = |text: &str| match is_request {
            true => request_of(text).map(|line| line.map(|line| line.head_bytes)),
            false => response_of(text).map(|line| line.map(|line| line.head_bytes)),
        };
        assert_eq!(bytes_of(&head(200)), Ok(Some(200)), "{first}");
        assert_eq!(bytes_of(&head(200)[..199]), Ok(None), "{first}");
        assert_eq!(bytes_of(&head(201)), Err(ParseError::TooLarge), "{first}");
        assert_eq!(bytes_of(&head(201)[..200]), Err(ParseError::TooLarge));
    }
    let reason = format!("HTTP/1.1 200 {}", "a".repeat(200));
    assert_eq!(response_of(&reason[..199]), Ok(None));
    assert_eq!(response_of(&reason[..200]), Err(ParseError::TooLarge));
}

#[test]
fn status_lines_are_read_and_refused() {
    let status = |text: &str| response_of(text).map(|line| line.map(|line| line.status));
    assert_eq!(status("HTTP/1.1 204\r\n\r\n"), Ok(Some(204)));
    assert_eq!(status("HTTP/1.0 404 Not Found\r\n\r\n"), Ok(Some(404)));
    for text in [
        "HTTP/1.1 99 \r\n\r\n",
        "HTTP/1.1 600 x\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/1.1x200",
        "HTTP/1.1x200 OK\r\n\r\n",
    ] {
        assert_eq!(status(text), Err(ParseError::FirstLine), "{text:?}");
    }
    assert_eq!(
        status("HTTP/1.1 200 a\rb\r\n\r\n"),
        Err(ParseError::LineEnd)
    );
    for (text, reason) in [
        ("HTTP/1.1 204\r\n\r\n", ""),
        ("HTTP/1.1 204 \r\n\r\n", ""),
        ("HTTP/1.1 404 Not Found\r\n\r\n", "Not Found"),
    ] {
        let line = response_of(text).expect("valid").expect("whole");
        assert_eq!(line.reason.of(text.as_bytes()), reason.as_bytes());
    }
}

#[test]
fn words_of_bytes_are_skipped_as_single_bytes_are() {
    fn check<const FIRST: u8>() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[at] = byte;
                let is_skipped = (FIRST..=0x7e).contains(&byte);
                let expected = if is_skipped { 16 } else { at.min(16) };
                let skipped = skip_from::<FIRST>(&bytes, 0);
                assert_eq!(skipped, expected, "0x{byte:02x} at {at}");
            }
        }
    }
    check::<b' '>();
    check::<b'!'>();
}

#[test]
fn a_list_of_lines_that_finds_no_room_refuses_the_head() {
    let limits = HeadLimits {
        bytes: 64 << 10,
        fields: 1000,
    };
    let text = format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(991));
    let read = |budget_bytes| {
        let lease = Budget::new(budget_bytes).root().lease();
        let mut fields = FieldList::take();
        request(text.as_bytes(), limits, &mut fields, &lease).map(|line| line.is_some())
    };
    assert_eq!(read(16 << 10), Err(ParseError::OverBudget));
    assert_eq!(read(128 << 10), Ok(true));
}

#[test]
fn sections_that_come_byte_by_byte_are_parsed_a_few_times() {
    let parses = |text: &str| {
        let bytes = text.as_bytes();
        let at = |end: &usize| section_may_be_complete(&bytes[..*end], end - 1);
        let ends: Vec<_> = (1..=bytes.len()).filter(at).collect();
        assert_eq!(
            ends.last(),
            Some(&bytes.len()),
            "{text:?} is seen when it ends"
        );
        ends.len()
    };
    assert_eq!(parses("\r\n"), 2);
    let few = parses("A: b\r\n\r\n");
    // The first two times, and when it ends.
    assert_eq!(few, 3);
    assert_eq!(parses(&format!("{}\r\n", "A: b\r\n".repeat(30))), few);
    // Also where part of the empty line comes with what is before it.
    assert!(section_may_be_complete(b"A: b\r\n\r\n", 6));
    assert!(section_may_be_complete(b"A: b\r\n\r\n", 7));
}

#[test]
fn trailers_end_with_an_empty_line() {
    let mut fields = FieldList::take();
    let mut read = |text: &[u8]| {
        let read = trailers(text, LIMITS, &mut fields, &lease());
        (read, fields.len())
    };
    assert_eq!(read(b"\r\nrest"), (Ok(Some(2)), 0));
    assert_eq!(read(b"A: b\r\n\r\n"), (Ok(Some(8)), 1));
    assert_eq!(read(b"A: b\r\n").0, Ok(None));
    let long = format!("A: {}\r\n\r\n", "a".repeat(200 - 7));
    assert_eq!(read(long.as_bytes()).0, Ok(Some(200)));
    assert_eq!(read(&long.as_bytes()[..199]).0, Ok(None));
    let longer = long.replace("A:", "AA:");
    assert_eq!(read(longer.as_bytes()).0, Err(ParseError::TooLarge));
    let part = &longer.as_bytes()[..200];
    assert_eq!(read(part).0, Err(ParseError::TooLarge));
}
