//! `compress`: short content that becomes gzip all at once, and content that turns out to be longer.

use serde_json::Value;
use steppe_testkit::{FieldSection, H2Frame, H2Peer, PATIENCE, RawOrigin, observe_until};

use super::compress::{PYTHON, decoded};
use super::{VERSIONS, filtered, get, noise, records, response};

const KEYS: &str = "kind = \"compress\"\nmin_bytes = 0\nalgorithms = [\"gzip\"]";
const MODES: [&str; 2] = ["off", "pad"];
const JSON: &str = "content-type: application/json\r\n";
/// Bytes of content that is gathered, at most.
const GATHERED_BYTES: usize = 64 << 10;

fn content(kind: &str, bytes: usize) -> Vec<u8> {
    let mut content = match kind {
        "noise" => noise(bytes),
        _ => records(bytes, 7),
    };
    content.truncate(bytes);
    content
}

fn chunked(content: &[u8], piece_bytes: usize) -> Vec<u8> {
    let mut out =
        format!("HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for piece in content.chunks(piece_bytes) {
        out.extend(format!("{:x}\r\n", piece.len()).bytes());
        out.extend(piece);
        out.extend(b"\r\n");
    }
    out.extend(b"0\r\nchecksum: 42\r\n\r\n");
    out
}

fn without_head(mut message: Vec<u8>) -> Vec<u8> {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n");
    message.split_off(end.expect("it has a head") + 4)
}

#[test]
fn short_content_is_whole_however_long_it_is_and_comes() {
    // `/FRAMING/KIND/BYTES`
    let origin = RawOrigin::replying(|request| {
        let parts: Vec<&str> = request.target().split('/').skip(1).collect();
        let bytes = parts[2].parse().expect("a number");
        let content = content(parts[1], bytes);
        match parts[0] {
            "known" => response(JSON, &content),
            "chunk" => chunked(&content, bytes.max(1)),
            _ => chunked(&content, 3001),
        }
    });
    for mode in MODES {
        let node = filtered(&origin, &format!("{KEYS}\nbreach = \"{mode}\""));
        for framing in ["known", "chunk", "chunks"] {
            for (kind, bytes) in [
                ("records", 1),
                ("records", 60),
                ("records", 10 << 10),
                ("noise", 10 << 10),
                ("records", GATHERED_BYTES),
                ("noise", GATHERED_BYTES),
                ("records", GATHERED_BYTES + 1),
            ] {
                let path = format!("/{framing}/{kind}/{bytes}");
                let content = content(kind, bytes);
                for version in VERSIONS {
                    let got = get(&node, &path, &[version, "-H", "accept-encoding: gzip"]);
                    assert_eq!(got.head.field("content-encoding"), Some("gzip"), "{path}");
                    assert_eq!(got.head.field("content-length"), None, "{path}");
                    let read = decoded("python3", &["-c", PYTHON], &got.body);
                    assert!(read == content, "{path} {mode} {version}");
                    let has_trailer = got.trailers.iter().any(|(name, _)| name == "checksum");
                    assert_eq!(has_trailer, framing != "known", "{path} {version}");
                }
            }
        }
    }
}

/// Half of the content is there, and the rest comes only after the client has that: nothing waits for the whole then.
#[test]
fn what_pauses_goes_on() {
    const HALF_BYTES: usize = 5000;
    let content = content("records", 2 * HALF_BYTES);
    for is_known in [true, false] {
        let (tell, told) = std::sync::mpsc::sync_channel::<()>(1);
        let told = std::sync::Mutex::new(told);
        let (mut first, rest) = match is_known {
            true => (response(JSON, &content), content[HALF_BYTES..].to_vec()),
            false => (
                chunked(&content, HALF_BYTES),
                without_head(chunked(&content[HALF_BYTES..], HALF_BYTES)),
            ),
        };
        first.truncate(first.len() - rest.len());
        let origin = RawOrigin::start(move |peer| {
            while peer.request().is_some() {
                peer.send(&first);
                let told = told.lock().expect("no panic").recv_timeout(PATIENCE);
                if told.is_err() {
                    return;
                }
                peer.send(&rest);
            }
        });
        for mode in MODES {
            let node = filtered(&origin, &format!("{KEYS}\nbreach = \"{mode}\""));
            for version in VERSIONS {
                let curl = steppe_testkit::Curl::new(&node.url("/"));
                let accept = [version, "--compressed", "-H", "accept-encoding: gzip"];
                let curl = curl.args(accept).start();
                let what = format!("half of it came: {is_known} {mode} {version}");
                let came = || curl.so_far().body.len();
                observe_until(&what, came, |bytes| *bytes >= HALF_BYTES);
                tell.send(()).expect("the origin is there");
                let got = curl.finish();
                assert_eq!(got.exit, 0, "{is_known} {mode} {version}");
                assert!(got.body == content, "{is_known} {mode} {version}");
            }
        }
    }
}

/// Streams of which the client reads nothing have encoders; content that was compressed at once has none any more.
#[test]
fn short_responses_in_flight_share_one_encoder() {
    const STREAMS: usize = 40;
    /// One encoder, bytes that a lease draws ahead, and some encoders for responses that pause on a busy machine. One
    /// for each response would take 15 MiB.
    const SHARED_BYTES: u64 = 4 << 20;
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let content = content("records", 20 << 10);
    let origin = RawOrigin::answering(response(JSON, &content));
    let node = filtered(&origin, &format!("{KEYS}\nbreach = \"off\""));
    let mut peer = H2Peer::begin(node.connect(), &[(INITIAL_WINDOW_SIZE, 0)]);
    peer.send(&[H2Frame::window(0, 1 << 24)]);
    let fields = FieldSection::of("GET", "/").field("accept-encoding", "gzip");
    let streams: Vec<u32> = (0..STREAMS).map(|_| peer.request(&fields)).collect();
    for &stream in &streams {
        while peer.so_far(stream).status.is_none() {
            peer.frame().expect("it is there");
        }
    }
    let memory = node.admin_json("/memory");
    let reserved = reserved_bytes(&memory["budget"], "compress f").expect("the filter's account");
    assert!(reserved > 0, "{memory}");
    assert!(reserved <= SHARED_BYTES, "{reserved} bytes: {memory}");
    for &stream in &streams {
        peer.send(&[H2Frame::window(stream, 1 << 20)]);
    }
    for &stream in &streams {
        let answer = peer.answer(stream);
        assert!(answer.is_ended, "{answer:?}");
        assert!(decoded("python3", &["-c", PYTHON], &answer.content) == content);
    }
}

/// Reserved bytes of the account of this name, anywhere below `account`.
fn reserved_bytes(account: &Value, name: &str) -> Option<u64> {
    if account["name"].as_str()?.ends_with(name) {
        return account["reserved_bytes"].as_u64();
    }
    let children = account["children"].as_array()?;
    children
        .iter()
        .find_map(|child| reserved_bytes(child, name))
}
