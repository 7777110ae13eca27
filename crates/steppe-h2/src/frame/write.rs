//! Writers of frames that have no field block. Spec: RFC 9113 §6.

use super::{FrameHeader, FrameType, flag};
use crate::error::ErrorCode;
use crate::limits::FRAME_HEADER_BYTES;

/// The longest control frame: PING, or GOAWAY without debug data.
pub(crate) const CONTROL_FRAME_BYTES: usize = FRAME_HEADER_BYTES + 8;

/// A control frame, as octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControlFrame {
    octets: [u8; CONTROL_FRAME_BYTES],
    len: usize,
}

impl ControlFrame {
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn new(header: (FrameType, u8, u32), payload: &[u8]) -> Self {
        let (frame_type, flags, stream) = header;
        let header = FrameHeader {
            length: u32::try_from(payload.len()).expect("8 octets at most"),
            frame_type,
            flags,
            stream,
        };
        let len = FRAME_HEADER_BYTES + payload.len();
        let mut octets = [0; CONTROL_FRAME_BYTES];
        octets[..FRAME_HEADER_BYTES].copy_from_slice(&header.octets());
        octets[FRAME_HEADER_BYTES..len].copy_from_slice(payload);
        Self { octets, len }
    }

    pub(crate) fn rst_stream(stream: u32, code: ErrorCode) -> Self {
        Self::new((FrameType::RstStream, 0, stream), &code.0.to_be_bytes())
    }

    pub(crate) fn settings_ack() -> Self {
        Self::new((FrameType::Settings, flag::ACK, 0), &[])
    }

    pub(crate) fn ping(opaque: [u8; 8]) -> Self {
        Self::new((FrameType::Ping, 0, 0), &opaque)
    }

    pub(crate) fn ping_ack(opaque: [u8; 8]) -> Self {
        Self::new((FrameType::Ping, flag::ACK, 0), &opaque)
    }

    pub(crate) fn goaway(last_stream: u32, code: ErrorCode) -> Self {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last_stream.to_be_bytes());
        payload[4..].copy_from_slice(&code.0.to_be_bytes());
        Self::new((FrameType::Goaway, 0, 0), &payload)
    }

    pub(crate) fn window_update(stream: u32, increment: u32) -> Self {
        Self::new(
            (FrameType::WindowUpdate, 0, stream),
            &increment.to_be_bytes(),
        )
    }
}

/// Writes one setting.
pub(crate) fn setting(id: u16, value: u32) -> [u8; 6] {
    let [i1, i0] = id.to_be_bytes();
    let [v3, v2, v1, v0] = value.to_be_bytes();
    [i1, i0, v3, v2, v1, v0]
}

/// A frame as octets.
#[cfg(test)]
pub(crate) fn frame(frame_type: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        length: u32::try_from(payload.len()).expect("it is short"),
        frame_type,
        flags,
        stream,
    };
    [&header.octets()[..], payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_have_the_octets_of_the_rfc() {
        let reset = ControlFrame::rst_stream(3, ErrorCode::CANCEL);
        assert_eq!(reset.octets(), b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08");
        assert_eq!(
            ControlFrame::settings_ack().octets(),
            b"\0\0\0\x04\x01\0\0\0\0"
        );
        let ping = ControlFrame::ping_ack(*b"abcdefgh");
        assert_eq!(ping.octets(), b"\0\0\x08\x06\x01\0\0\0\0abcdefgh");
        assert_eq!(ControlFrame::ping(*b"abcdefgh").octets()[4], 0);
        let goaway = ControlFrame::goaway(7, ErrorCode::ENHANCE_YOUR_CALM);
        assert_eq!(
            goaway.octets(),
            b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x07\0\0\0\x0b"
        );
        let update = ControlFrame::window_update(5, 0x1234);
        assert_eq!(update.octets(), b"\0\0\x04\x08\0\0\0\0\x05\0\0\x12\x34");
        assert_eq!(setting(4, 0x0102_0304), [0, 4, 1, 2, 3, 4]);
    }
}
