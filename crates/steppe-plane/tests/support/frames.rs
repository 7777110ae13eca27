//! Frames written without the crate's connections.

use steppe_plane::frame::{FrameHeader, FrameType, Head};

/// Encodes a frame.
pub fn frame(mut header: FrameHeader, payload: &[u8]) -> Vec<u8> {
    header.len = u32::try_from(payload.len()).expect("short");
    [&header.to_bytes()[..], payload].concat()
}

/// A HEADERS frame.
pub fn request(stream: u32, head: &Head<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    head.write(&mut payload);
    let mut header = FrameHeader::new(FrameType::HEADERS, stream);
    header.flags = head.flags();
    frame(header, &payload)
}
