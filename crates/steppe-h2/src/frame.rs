//! Frames: header, flags, and the rules of length and stream identifier. Spec: RFC 9113 §4, §6.
//!
//! ```text
//!  0        3      4       5          9
//! | length | type | flags | R+stream | payload
//! |  24    |  8   |   8   |   1+31   | length octets
//! ```

pub(crate) mod write;

use crate::error::{ErrorCode, Violation};
use crate::limits::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES};

/// The octets that a client sends first. RFC 9113 §3.4.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of a frame. RFC 9113 §6, RFC 9218 §7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameType {
    /// Content (§6.1).
    Data,
    /// The beginning of a field block (§6.2).
    Headers,
    /// A priority of RFC 7540, which is ignored (§6.3).
    Priority,
    /// The end of a stream (§6.4).
    RstStream,
    /// Settings of the sender, or their acknowledgment (§6.5).
    Settings,
    /// A pushed request (§6.6).
    PushPromise,
    /// A question whether the peer responds (§6.7).
    Ping,
    /// The end of a connection (§6.8).
    Goaway,
    /// Credit of flow control (§6.9).
    WindowUpdate,
    /// More of a field block (§6.10).
    Continuation,
    /// The priority of a response (RFC 9218 §7.1).
    PriorityUpdate,
    /// A type that is ignored (§5.5).
    Unknown(u8),
}

impl FrameType {
    const fn of(byte: u8) -> Self {
        match byte {
            0x0 => Self::Data,
            0x1 => Self::Headers,
            0x2 => Self::Priority,
            0x3 => Self::RstStream,
            0x4 => Self::Settings,
            0x5 => Self::PushPromise,
            0x6 => Self::Ping,
            0x7 => Self::Goaway,
            0x8 => Self::WindowUpdate,
            0x9 => Self::Continuation,
            0x10 => Self::PriorityUpdate,
            other => Self::Unknown(other),
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Self::Data => 0x0,
            Self::Headers => 0x1,
            Self::Priority => 0x2,
            Self::RstStream => 0x3,
            Self::Settings => 0x4,
            Self::PushPromise => 0x5,
            Self::Ping => 0x6,
            Self::Goaway => 0x7,
            Self::WindowUpdate => 0x8,
            Self::Continuation => 0x9,
            Self::PriorityUpdate => 0x10,
            Self::Unknown(byte) => byte,
        }
    }
}

/// Flags, by type. RFC 9113 §6.
pub mod flag {
    /// SETTINGS, PING: the acknowledgment of one.
    pub const ACK: u8 = 0x1;
    /// DATA, HEADERS: the sender sends nothing more on this stream.
    pub const END_STREAM: u8 = 0x1;
    /// HEADERS, CONTINUATION: the field block ends here.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: padding follows the payload.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: fields of a priority of RFC 7540 come first.
    pub const PRIORITY: u8 = 0x20;
}

/// The header of a frame. RFC 9113 §4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Octets of the payload, below 2^24.
    pub length: u32,
    /// The type.
    pub frame_type: FrameType,
    /// See [`flag`].
    pub flags: u8,
    /// The stream identifier, below 2^31; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads a header. The reserved bit is ignored.
    #[must_use]
    pub fn read(bytes: [u8; FRAME_HEADER_BYTES]) -> Self {
        let [l2, l1, l0, frame_type, flags, s3, s2, s1, s0] = bytes;
        Self {
            length: u32::from_be_bytes([0, l2, l1, l0]),
            frame_type: FrameType::of(frame_type),
            flags,
            stream: u32::from_be_bytes([s3 & 0x7f, s2, s1, s0]),
        }
    }

    /// The header's octets.
    #[must_use]
    pub fn octets(self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, l2, l1, l0] = self.length.to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [
            l2,
            l1,
            l0,
            self.frame_type.byte(),
            self.flags,
            s3,
            s2,
            s1,
            s0,
        ]
    }

    /// True when the frame has this flag.
    #[must_use]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks length and stream identifier by the rules of the frame's type.
    ///
    /// All violations of length end the connection: a stream error would be allowed for DATA and PRIORITY (§4.2), but
    /// no peer of any use sends either.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(self) -> Result<(), Violation> {
        let size = |reason| Err(Violation::connection(ErrorCode::FRAME_SIZE_ERROR, reason));
        if self.length > FRAME_BYTES_MAX {
            return size("the frame is longer than SETTINGS_MAX_FRAME_SIZE");
        }
        let is_of_stream = self.stream != 0;
        match self.frame_type {
            FrameType::Data | FrameType::Headers | FrameType::Continuation if !is_of_stream => {
                return Err(Violation::protocol("the frame needs a stream"));
            }
            FrameType::Priority | FrameType::RstStream if !is_of_stream => {
                return Err(Violation::protocol("the frame needs a stream"));
            }
            FrameType::Settings | FrameType::Ping | FrameType::Goaway if is_of_stream => {
                return Err(Violation::protocol("the frame belongs to no stream"));
            }
            FrameType::PriorityUpdate if is_of_stream => {
                return Err(Violation::protocol("the frame belongs to no stream"));
            }
            FrameType::PushPromise => {
                return Err(Violation::protocol("PUSH_PROMISE is not allowed"));
            }
            _ => {}
        }
        match (self.frame_type, self.length) {
            (FrameType::Priority, length) if length != 5 => size("PRIORITY has 5 octets"),
            (FrameType::RstStream, length) if length != 4 => size("RST_STREAM has 4 octets"),
            (FrameType::Settings, length) if self.has(flag::ACK) && length != 0 => {
                size("an acknowledgment of SETTINGS has no payload")
            }
            (FrameType::Settings, length) if length % 6 != 0 => size("each setting has 6 octets"),
            (FrameType::Ping, length) if length != 8 => size("PING has 8 octets"),
            (FrameType::Goaway, length) if length < 8 => size("GOAWAY has 8 octets at least"),
            (FrameType::WindowUpdate, length) if length != 4 => size("WINDOW_UPDATE has 4 octets"),
            (FrameType::PriorityUpdate, length) if length < 4 => {
                size("PRIORITY_UPDATE has 4 octets at least")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(frame_type: FrameType, length: u32, stream: u32) -> FrameHeader {
        FrameHeader {
            length,
            frame_type,
            flags: 0,
            stream,
        }
    }

    #[test]
    fn octets_are_read_as_they_were_written() {
        for byte in 0..=u8::MAX {
            let header = FrameHeader {
                length: 0x01_02_03,
                frame_type: FrameType::of(byte),
                flags: 0xa5,
                stream: 0x7fff_fffe,
            };
            let octets = header.octets();
            assert_eq!(octets[..5], [1, 2, 3, byte, 0xa5]);
            assert_eq!(FrameHeader::read(octets), header);
        }
        let reserved = FrameHeader::read([0, 0, 0, 0, 0, 0x80, 0, 0, 1]);
        assert_eq!(reserved.stream, 1, "the reserved bit is ignored");
    }

    #[test]
    fn lengths_and_streams_are_checked_by_type() {
        use FrameType::*;
        let valid = [
            header(Data, 0, 1),
            header(Data, 16_384, 1),
            header(Headers, 0, 1),
            header(Priority, 5, 1),
            header(RstStream, 4, 1),
            header(Settings, 12, 0),
            header(Ping, 8, 0),
            header(Goaway, 20, 0),
            header(WindowUpdate, 4, 0),
            header(WindowUpdate, 4, 1),
            header(Continuation, 1, 1),
            header(PriorityUpdate, 4, 0),
            header(Unknown(0xfe), 16_384, 7),
        ];
        for header in valid {
            assert_eq!(header.check(), Ok(()), "{header:?}");
        }
        let invalid = [
            header(Data, 16_385, 1),
            header(Data, 1, 0),
            header(Headers, 1, 0),
            header(Priority, 4, 1),
            header(Priority, 5, 0),
            header(RstStream, 3, 1),
            header(RstStream, 4, 0),
            header(Settings, 7, 0),
            header(Settings, 6, 1),
            header(PushPromise, 4, 1),
            header(Ping, 7, 0),
            header(Ping, 8, 1),
            header(Goaway, 7, 0),
            header(Goaway, 8, 1),
            header(WindowUpdate, 5, 0),
            header(Continuation, 1, 0),
            header(PriorityUpdate, 3, 0),
            header(PriorityUpdate, 4, 1),
            header(Unknown(0xfe), 16_385, 7),
        ];
        for header in invalid {
            assert!(header.check().is_err(), "{header:?}");
        }
        let acknowledged = FrameHeader {
            flags: flag::ACK,
            ..header(Settings, 6, 0)
        };
        assert!(acknowledged.check().is_err());
    }
}
