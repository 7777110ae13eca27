//! Tests of a client against frames that are written by hand.

mod memory;
mod peer;
mod streams;

use steppe_h2::ErrorCode;

use self::peer::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PUSH_PROMISE, Peer,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, fields, frame, head, line, reset, response, setting,
};

const INITIAL_WINDOW_SIZE: u16 = 4;
const ZERO: &[u8] = b"\0\0";

/// Streams of the first three queries.
const STREAMS: [u32; 3] = [1, 3, 5];

/// A peer to which queries 1, 2 and so on were sent.
fn asked(count: u16) -> Peer {
    let mut peer = Peer::new();
    for id in 1..=count {
        assert_eq!(peer.send(id), Ok(()));
    }
    peer.frames();
    peer
}

fn content(text: &str) -> Vec<u8> {
    [ZERO, text.as_bytes()].concat()
}

#[test]
fn queries_are_sent_before_anything_has_come_and_push_is_refused() {
    let mut peer = Peer::unknown();
    assert_eq!(peer.send(7), Ok(()));
    let frames = peer.frames();
    let kinds: Vec<_> = frames
        .iter()
        .map(|&(kind, stream, _)| (kind, stream))
        .collect();
    assert_eq!(
        kinds,
        [(SETTINGS, 0), (WINDOW_UPDATE, 0), (HEADERS, 1), (DATA, 1)]
    );
    let push = b"\0\x02\0\0\0\0";
    assert!(frames[0].2.chunks(6).any(|setting| setting == push));
    assert_eq!(frames[3].2, b"\0\0 query", "the id is zero");
    peer.receive(&[frame(SETTINGS, 0, 0, &[])]);
    let promise = [&[0, 0, 0, 2][..], &fields()].concat();
    assert_eq!(
        peer.receive(&[frame(PUSH_PROMISE, END_HEADERS, 1, &promise)]),
        ""
    );
    assert!(peer.ended().contains("PROTOCOL_ERROR"), "{}", peer.ended());
}

#[test]
fn responses_come_in_any_order_and_cut() {
    for read_bytes in [1, 2, 7, usize::MAX] {
        let mut peer = asked(3);
        peer.read_bytes = read_bytes;
        let outcomes = peer.receive(&[
            head(5),
            head(1),
            frame(DATA, 0, 5, &content("thi")),
            frame(DATA, END_STREAM, 1, &content("first")),
            frame(DATA, 0, 5, b"rd"),
            response(3, &content("second")),
            frame(DATA, END_STREAM, 5, b""),
        ]);
        assert_eq!(outcomes, "1: first\n2: second\n3: third");
        assert_eq!(peer.client.queries(), 0);
        assert!(peer.frames().iter().all(|(kind, ..)| *kind != RST_STREAM));
    }
}

#[test]
fn padding_trailers_and_interim_responses_are_no_content() {
    let mut peer = asked(2);
    let padded = [&[5][..], &content("padded"), &[0; 5]].concat();
    let interim = frame(HEADERS, END_HEADERS, 3, &line(":status", "103"));
    let trailers = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        3,
        &line("content-type", "x"),
    );
    let outcomes = peer.receive(&[
        head(1),
        frame(DATA, PADDED | END_STREAM, 1, &padded),
        interim,
        head(3),
        frame(DATA, PADDED, 3, &padded),
        trailers,
    ]);
    assert_eq!(outcomes, "1: padded\n2: padded");
}

/// A stream has more padding, and all streams more content, than the window of the connection.
#[test]
fn windows_are_given_back_padding_included() {
    let mut peer = asked(3);
    let padded = [&[255][..], &[b'x'; 100], &[0; 255]].concat();
    for (stream, id) in STREAMS.into_iter().zip(1..) {
        peer.receive(&[head(stream)]);
        for _ in 0..600 {
            assert_eq!(peer.receive(&[frame(DATA, PADDED, stream, &padded)]), "");
        }
        let outcome = peer.receive(&[frame(DATA, END_STREAM, stream, b"")]);
        assert_eq!(outcome, format!("{id}: 59998 bytes"), "{}", peer.ended());
    }
}

#[test]
fn the_longest_message_is_taken_and_a_longer_one_is_not() {
    for (bytes, want) in [
        (65_535, "1: 65533 bytes"),
        (65_536, "1 failed: more than 65535 bytes"),
    ] {
        let mut peer = asked(2);
        let mut outcomes = peer.receive(&[head(1)]);
        for part in vec![0; bytes].chunks(16_000) {
            outcomes += &peer.receive(&[frame(DATA, 0, 1, part)]);
        }
        outcomes += &peer.receive(&[frame(DATA, END_STREAM, 1, b"")]);
        assert_eq!(outcomes, want);
        assert_eq!(peer.receive(&[response(3, &content("ok"))]), "2: ok");
    }
}

#[test]
fn a_response_that_is_no_message_fails_its_query_alone() {
    let status = |status| [line(":status", status), line("content-type", "text/plain")].concat();
    let other_type = [vec![0x88], line("content-type", "text/html")].concat();
    let capital = [fields(), line("Server", "x")].concat();
    let with_length = [fields(), line("content-length", "9")].concat();
    let two = [fields(), line(":status", "200")].concat();
    for (block, want) in [
        (status("503"), "status 503"),
        (status("204"), "status 204"),
        (
            other_type,
            "the content type is not application/dns-message",
        ),
        (
            vec![0x88],
            "the content type is not application/dns-message",
        ),
        (capital, "malformed response (PROTOCOL_ERROR)"),
        (two, "malformed response (PROTOCOL_ERROR)"),
        (
            line("content-type", "x"),
            "malformed response (PROTOCOL_ERROR)",
        ),
        (with_length, "malformed response (PROTOCOL_ERROR)"),
    ] {
        let mut peer = asked(2);
        let outcomes = peer.receive(&[
            frame(HEADERS, END_HEADERS, 1, &block),
            frame(DATA, END_STREAM, 1, &content("x")),
        ]);
        assert_eq!(outcomes, format!("1 failed: {want}"));
        let frames = peer.frames();
        assert!(
            frames
                .iter()
                .any(|(kind, stream, _)| (*kind, *stream) == (RST_STREAM, 1))
        );
        assert_eq!(peer.receive(&[response(3, &content("ok"))]), "2: ok");
    }
    for short in [&b""[..], b"x"] {
        let mut peer = asked(1);
        let outcome = peer.receive(&[response(1, short)]);
        assert_eq!(outcome, "1 failed: the content is not a DNS message");
    }
}

#[test]
fn fields_above_the_limit_fail_their_query_and_the_table_stays_in_step() {
    let mut peer = asked(3);
    let long = "v".repeat(6000);
    let many: Vec<_> = (0..3).flat_map(|_| line("set-cookie", &long)).collect();
    let (first, rest) = many.split_at(9000);
    // RFC 7541 §6.2.1: an entry of the dynamic table, behind the limit.
    let entry = [&[0x40][..], &line("x", "y")[1..]].concat();
    let outcomes = peer.receive(&[
        frame(HEADERS, 0, 1, &[fields(), first.to_vec()].concat()),
        frame(CONTINUATION, 0, 1, rest),
        frame(CONTINUATION, END_HEADERS, 1, &entry),
        frame(HEADERS, END_HEADERS, 3, &[fields(), vec![0xbe]].concat()),
        frame(DATA, END_STREAM, 3, &content("ok")),
    ]);
    assert_eq!(outcomes, "1 failed: more than 16384 bytes of fields\n2: ok");
    // Near the limit, in lines longer than a buffer at first.
    let block = [fields(), line("csp", &long), line("a", &long)].concat();
    let outcomes = peer.receive(&[
        frame(HEADERS, END_HEADERS, 5, &block),
        frame(DATA, END_STREAM, 5, &content("ok")),
    ]);
    assert_eq!(outcomes, "3: ok");
}

#[test]
fn fields_far_above_the_limit_and_floods_of_continuation_end_the_connection() {
    let huge = line("x", &"v".repeat(8000));
    let far_above = (0..9).map(|_| frame(CONTINUATION, 0, 1, &huge));
    let flood = (0..30).map(|_| frame(CONTINUATION, 0, 1, b""));
    for (frames, reason) in [
        (far_above.collect::<Vec<_>>(), "far above its limit"),
        (flood.collect(), "too many frames"),
    ] {
        let mut peer = asked(2);
        peer.receive(&[frame(HEADERS, 0, 1, &fields())]);
        assert_eq!(peer.receive(&frames), "");
        let ended = peer.ended();
        assert!(
            ended.contains(reason) && ended.contains("ENHANCE_YOUR_CALM"),
            "{ended}"
        );
        // Queries have no outcome: their connection has ended.
        assert_eq!(peer.receive(&[response(3, &content("x"))]), "");
    }
}

#[test]
fn content_waits_for_windows() {
    let mut peer = Peer::new();
    peer.receive(&[setting(INITIAL_WINDOW_SIZE, 3)]);
    assert_eq!([peer.send(1), peer.send(2)], [Ok(()), Ok(())]);
    assert_eq!(
        peer.sent(),
        [(1, b"\0\0 ".to_vec()), (3, b"\0\0 ".to_vec())]
    );
    peer.receive(&[frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 9])]);
    assert_eq!(peer.sent(), [(3, b"query".to_vec())]);
    // A query that fails is not sent to its end.
    assert_eq!(
        peer.receive(&[reset(1, ErrorCode::CANCEL)]),
        "1 failed: the server reset the stream (CANCEL)"
    );
    peer.receive(&[setting(INITIAL_WINDOW_SIZE, 65_535)]);
    assert_eq!(peer.sent(), []);
    assert_eq!(peer.receive(&[response(3, &content("ok"))]), "2: ok");
}

#[test]
fn pings_are_answered_and_a_flood_of_them_ends_the_connection() {
    let mut peer = asked(1);
    peer.receive(&[frame(PING, 0, 0, b"12345678")]);
    assert_eq!(peer.frames(), [(PING, 0, b"12345678".to_vec())]);
    peer.receive(&vec![frame(PING, 0, 0, b"12345678"); 1100]);
    assert!(
        peer.ended().contains("ENHANCE_YOUR_CALM"),
        "{}",
        peer.ended()
    );
}
