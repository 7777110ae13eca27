//! gRPC-Web in front of servers of gRPC, by either protocol of its clients.

use steppe_testkit::{Curl, CurlOutput, GrpcOrigin, GrpcReply, Steppe, eventually, grpc_message};

use super::{in_front_of, node};

const PROTOCOLS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// POSTs `content` with this media type.
fn post(node: &Steppe, protocol: &str, media_type: &str, content: &[u8]) -> CurlOutput {
    let file = node.scratch().write("content", content);
    let (data, media_type) = (
        format!("@{}", file.display()),
        format!("content-type: {media_type}"),
    );
    let got = Curl::new(&node.url("/shop.Orders/Get"))
        .args([protocol, "--data-binary", &data, "-H", &media_type])
        .args(["-H", "x-grpc-web: 1"])
        .run();
    assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
    got
}

/// A server that echoes the content, with fields in its trailers.
fn echoing() -> GrpcOrigin {
    GrpcOrigin::start(|call| GrpcReply {
        head: vec![("x-head".to_owned(), "h".to_owned())],
        content: vec![call.content.clone(), grpc_message(b"another")],
        trailers: Some(vec![
            ("grpc-status".to_owned(), "0".to_owned()),
            ("x-sum".to_owned(), "a: b".to_owned()),
            // Not forwarded as a trailer of HTTP either.
            ("set-cookie".to_owned(), "a=b".to_owned()),
        ]),
    })
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let mut bytes = [0; 4];
        bytes[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bytes);
        let letter = |at: usize| {
            let value = usize::try_from(bits >> (18 - 6 * at) & 63).expect("six bits");
            let is_padding = at > group.len();
            char::from(if is_padding { b'=' } else { LETTERS[value] })
        };
        (0..4).map(letter).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

const TRAILERS: &[u8] = b"\x80\0\0\0\x1dgrpc-status: 0\r\nx-sum: a: b\r\n";

#[test]
fn calls_in_binary_have_their_trailers_as_a_message() {
    let origin = echoing();
    let node = in_front_of(&origin);
    let ask = grpc_message(b"\x00\xffask");
    for protocol in PROTOCOLS {
        let got = post(&node, protocol, "application/grpc-web+proto", &ask);
        let media_type = got.head.field("content-type");
        assert_eq!(media_type, Some("application/grpc-web"), "{protocol}");
        assert_eq!(got.head.field("x-head"), Some("h"));
        assert_eq!(got.head.field("grpc-status"), None);
        assert_eq!(got.head.field("content-length"), None);
        let expected = [&ask[..], &grpc_message(b"another"), TRAILERS].concat();
        assert_eq!(got.body, expected, "{protocol}");
        assert!(got.trailers.is_empty(), "{:?}", got.trailers);
    }
    for call in origin.calls() {
        assert_eq!(call.field("content-type"), Some("application/grpc+proto"));
        assert_eq!(call.field("te"), Some("trailers"));
        assert_eq!(call.content, ask);
    }
    let labels = [
        ("service", "shop.Orders"),
        ("method", "Get"),
        ("status", "OK"),
    ];
    eventually("they are counted", || {
        node.metrics().sum("steppe_grpc_calls_total", &labels) == 2.0
    });
}

#[test]
fn calls_in_text_are_base64_both_ways() {
    let origin = echoing();
    let node = in_front_of(&origin);
    // Larger than the pieces that are read and translated at once, and in parts that are padded.
    let large = grpc_message(&vec![b'x'; 200_000]);
    let ask = [&grpc_message(b"a")[..], &large].concat();
    let text = [base64(&grpc_message(b"a")), base64(&large)].concat();
    for protocol in PROTOCOLS {
        let got = post(
            &node,
            protocol,
            "application/grpc-web-text",
            text.as_bytes(),
        );
        let media_type = got.head.field("content-type");
        assert_eq!(media_type, Some("application/grpc-web-text"));
        let messages = [
            &text,
            &*base64(&grpc_message(b"another")),
            &base64(TRAILERS),
        ];
        assert!(got.body == messages.concat().as_bytes(), "{protocol}");
    }
    for call in origin.calls() {
        assert_eq!(call.field("content-type"), Some("application/grpc"));
        assert_eq!(call.field("content-length"), None);
        assert!(call.content == ask, "{} bytes", call.content.len());
    }
}

#[test]
fn a_status_without_messages_is_in_the_head() {
    let origin = GrpcOrigin::start(|_| GrpcReply::trailers_only(5));
    let node = in_front_of(&origin);
    for protocol in PROTOCOLS {
        let got = post(&node, protocol, "application/grpc-web", &grpc_message(b""));
        assert_eq!(got.head.field("grpc-status"), Some("5"));
        let media_type = got.head.field("content-type");
        assert_eq!(media_type, Some("application/grpc-web"));
        assert!(got.body.is_empty());
    }
}

#[test]
fn errors_of_the_gateway_are_in_the_head() {
    let origin = echoing();
    let live = in_front_of(&origin);
    let address = origin.address();
    for protocol in PROTOCOLS {
        let media_type = "application/grpc-web-text+proto";
        for broken in ["AAAAAA", "AAAA!AAA", "A==="] {
            let got = post(&live, protocol, media_type, broken.as_bytes());
            assert_eq!(got.head.field("grpc-status"), Some("13"), "{broken}");
            assert_eq!(got.head.field("content-type"), Some(media_type));
            assert!(got.body.is_empty());
        }
    }
    drop((origin, live));
    let dead = node(&[address], |u| u);
    for protocol in PROTOCOLS {
        let got = post(&dead, protocol, "application/grpc-web", b"");
        assert_eq!(got.head.field("grpc-status"), Some("14"));
        let media_type = got.head.field("content-type");
        assert_eq!(media_type, Some("application/grpc-web+proto"));
    }
}

/// The content is kept in the encoding that the server gets.
#[test]
fn a_call_is_sent_again_as_one_of_grpc() {
    let (bad, good) = (
        GrpcOrigin::start(|_| GrpcReply::trailers_only(14)),
        echoing(),
    );
    let servers = [bad.address(), good.address()];
    let node = node(&servers, |u| u.set("retry.on", ["unavailable"]));
    let ask = grpc_message(b"ask");
    for _ in 0..2 {
        let text = base64(&ask);
        let got = post(
            &node,
            PROTOCOLS[0],
            "application/grpc-web-text",
            text.as_bytes(),
        );
        assert!(got.body.starts_with(text.as_bytes()));
    }
    assert_eq!(bad.calls().len(), 1);
    let calls = good.calls();
    assert!(calls.len() == 2 && calls.iter().all(|call| call.content == ask));
}

#[test]
fn a_client_may_ask_for_another_coding_than_it_sends() {
    let origin = echoing();
    let node = in_front_of(&origin);
    let file = node.scratch().write("content", grpc_message(b"ask"));
    let data = format!("@{}", file.display());
    let got = Curl::new(&node.url("/shop.Orders/Get"))
        .args(["--data-binary", &data])
        .args(["-H", "content-type: application/grpc-web+proto"])
        .args(["-H", "accept: application/grpc-web-text"])
        .run();
    let media_type = got.head.field("content-type");
    assert_eq!(media_type, Some("application/grpc-web-text"));
    let ask = base64(&grpc_message(b"ask"));
    assert!(got.body.starts_with(ask.as_bytes()));
}
