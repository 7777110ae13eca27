//! HTTP/2, toward clients and toward servers.

use steppe_testkit::{FieldSection, H2Frame};

use crate::flood::{Crowd, Flood, SilentOrigin};

/// The preface of a client (RFC 9113 §3.4), and settings that leave everything as it is.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A connection's bytes: the preface and `frames`.
pub fn connection(frames: impl IntoIterator<Item = H2Frame>) -> Vec<u8> {
    let mut bytes = BEGIN.to_vec();
    frames
        .into_iter()
        .for_each(|frame| bytes.extend_from_slice(&frame.bytes()));
    bytes
}

/// The streams that a client may begin, in their order.
pub fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// Requests whose heads have so many bytes.
pub fn heads(count: u32, head_bytes: usize) -> Vec<u8> {
    let fields = FieldSection::of("GET", "/flood/a").field("x", vec![b'a'; head_bytes]);
    connection(streams(count).map(|stream| H2Frame::request(stream, &fields)))
}

/// 100 heads of 15 KB each, for a server that answers nothing.
#[test]
fn heads_that_wait_for_memory() {
    let origin = SilentOrigin::start();
    Flood::new("h2c, heads of 15 KB, silent server", 64)
        .toward(origin.address(), "h1")
        .run(|node| {
            let mut crowd = Crowd::connect(node.gateway(), 150);
            let sent = crowd.send(&heads(100, 15_000));
            println!("{} MiB were taken", sent >> 20);
            crowd
        });
}
