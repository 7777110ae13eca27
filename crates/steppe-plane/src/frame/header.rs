//! The header of every frame.
//!
//! ```text
//!  0       4      5       6          8         12       16       24
//! | length | type | flags | reserved | stream  | code   | aux    |
//! |   4    |  1   |   1   |    2     |   4     |   4    |   8    |
//! ```
//! Big-endian. `docs/plane/protocol.md` §3.

use std::fmt;

use crate::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX, HEADER_BYTES};

/// The type of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameType(pub u8);

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload that follows.
    pub len: u32,
    /// Type of the frame.
    pub frame_type: FrameType,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The stream, or 0 for the connection.
    pub stream: u32,
    /// A status, versions, or the rest of a message in bytes, by type.
    pub code: u32,
    /// A sum of credit, an offset, a time or an opaque number, by type.
    pub aux: u64,
}

/// The reason why a header is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The payload exceeds the limit of its type.
    #[error("{frame_type} of {len} bytes, at most {max} are allowed")]
    Length {
        /// Type of the frame.
        frame_type: FrameType,
        /// Length of the payload in the header.
        len: u32,
        /// Limit of the type.
        max: usize,
    },
    /// A type below 128 is unknown.
    #[error("{0} is not a frame type of this version")]
    Type(FrameType),
    /// A flag that must be understood is unknown.
    #[error("{frame_type} with unknown flags {flags:#04x}")]
    Flags {
        /// Type of the frame.
        frame_type: FrameType,
        /// All flags of the frame.
        flags: u8,
    },
    /// A stream number where none belongs, or none where one is needed.
    #[error("{frame_type} is not allowed on stream {stream}")]
    Stream {
        /// Type of the frame.
        frame_type: FrameType,
        /// Stream in the header.
        stream: u32,
    },
}

/// Flags, by type. Unknown flags of the upper half are ignored.
pub mod flag {
    /// HEADERS, DATA: the body is paid for with credit that is granted to its stream.
    pub const ANNOUNCED: u8 = 0x01;
    /// HEADERS: the request is to be refused if it would have to wait for room.
    pub const DO_NOT_QUEUE: u8 = 0x02;
    /// RESET: the peer is asked to end the stream early; the stream goes on until then.
    pub const STOP: u8 = 0x01;
    /// RESET: the request was not processed; any such request may be sent again.
    pub const UNPROCESSED: u8 = 0x02;
    /// PING: the reply to a PING.
    pub const ACK: u8 = 0x01;
    /// GOAWAY: no stream is open any more.
    pub const DRAINED: u8 = 0x01;

    /// Flags that must be understood.
    pub(super) const CRITICAL: u8 = 0x0f;
}

impl FrameType {
    /// Limits and versions; each side's first frame.
    pub const HELLO: Self = Self(1);
    /// Begins a request or a response.
    pub const HEADERS: Self = Self(2);
    /// Bytes of a message.
    pub const DATA: Self = Self(3);
    /// Raises the credit of a stream or of the connection.
    pub const CREDIT: Self = Self(4);
    /// Closes a stream at once, or asks for its end.
    pub const RESET: Self = Self(5);
    /// Ends a request or a response.
    pub const END: Self = Self(6);
    /// Asks for a reply, as a sign of life.
    pub const PING: Self = Self(7);
    /// Announces that the sender accepts no further streams.
    pub const GOAWAY: Self = Self(8);
    /// The services that the sender offers.
    pub const SERVICES: Self = Self(9);

    /// Unknown types with this number or a greater one are skipped.
    const OPTIONAL: u8 = 0x80;

    /// True if this version of the protocol defines the type.
    #[must_use]
    pub fn is_known(self) -> bool {
        (Self::HELLO.0..=Self::SERVICES.0).contains(&self.0)
    }

    fn payload_max(self) -> usize {
        if self == Self::DATA || !self.is_known() {
            DATA_BYTES_MAX
        } else {
            CONTROL_BYTES_MAX
        }
    }

    fn known_flags(self) -> u8 {
        match self {
            Self::HEADERS => flag::ANNOUNCED | flag::DO_NOT_QUEUE,
            Self::DATA => flag::ANNOUNCED,
            Self::RESET => flag::STOP | flag::UNPROCESSED,
            Self::PING => flag::ACK,
            Self::GOAWAY => flag::DRAINED,
            _ => 0,
        }
    }
}

impl FrameHeader {
    /// A header of `frame_type` for `stream`, everything else zero.
    #[must_use]
    pub fn new(frame_type: FrameType, stream: u32) -> Self {
        Self {
            len: 0,
            frame_type,
            flags: 0,
            stream,
            code: 0,
            aux: 0,
        }
    }

    /// Reads a header. The reserved bytes are ignored.
    #[must_use]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let &[l0, l1, l2, l3, frame_type, flags, _, _, ref rest @ ..] = bytes;
        let &[s0, s1, s2, s3, c0, c1, c2, c3, ref aux @ ..] = rest;
        Self {
            len: u32::from_be_bytes([l0, l1, l2, l3]),
            frame_type: FrameType(frame_type),
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            code: u32::from_be_bytes([c0, c1, c2, c3]),
            aux: u64::from_be_bytes(*aux),
        }
    }

    /// Encodes the header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.len.to_be_bytes());
        bytes[4] = self.frame_type.0;
        bytes[5] = self.flags;
        bytes[8..12].copy_from_slice(&self.stream.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.code.to_be_bytes());
        bytes[16..].copy_from_slice(&self.aux.to_be_bytes());
        bytes
    }

    /// True if `flag` is set.
    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks the parts that do not depend on the state of the connection.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn check(&self) -> Result<(), FrameError> {
        let frame_type = self.frame_type;
        let max = frame_type.payload_max();
        if self.len as usize > max {
            return Err(FrameError::Length {
                frame_type,
                len: self.len,
                max,
            });
        }
        if !frame_type.is_known() {
            let is_optional = frame_type.0 >= FrameType::OPTIONAL;
            return is_optional
                .then_some(())
                .ok_or(FrameError::Type(frame_type));
        }
        if self.flags & flag::CRITICAL & !frame_type.known_flags() != 0 {
            return Err(FrameError::Flags {
                frame_type,
                flags: self.flags,
            });
        }
        let is_of_stream = match frame_type {
            FrameType::HEADERS | FrameType::DATA | FrameType::RESET | FrameType::END => true,
            FrameType::CREDIT => self.stream != 0,
            _ => false,
        };
        if is_of_stream != (self.stream != 0) {
            return Err(FrameError::Stream {
                frame_type,
                stream: self.stream,
            });
        }
        Ok(())
    }

    /// Credit that DATA costs, in bytes. On standing credit, payload and header; on granted credit, the
    /// payload alone, so that a body costs its length however it is split. An empty message costs a header
    /// on either: none is free.
    #[must_use]
    pub fn cost(&self) -> u64 {
        let is_granted = self.has(flag::ANNOUNCED) && self.len > 0;
        let header = if is_granted { 0 } else { HEADER_BYTES };
        u64::from(self.len) + header as u64
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::HELLO => "HELLO",
            Self::HEADERS => "HEADERS",
            Self::DATA => "DATA",
            Self::CREDIT => "CREDIT",
            Self::RESET => "RESET",
            Self::END => "END",
            Self::PING => "PING",
            Self::GOAWAY => "GOAWAY",
            Self::SERVICES => "SERVICES",
            Self(number) => return write!(f, "type {number:#04x}"),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = FrameHeader {
            len: 0x0102,
            frame_type: FrameType::DATA,
            flags: flag::ANNOUNCED,
            stream: 0x0304_0506,
            code: 0x0708_090a,
            aux: 0x0b0c_0d0e_0f10_1112,
        };
        assert_eq!(FrameHeader::read(&header.to_bytes()), header);
        assert_eq!(header.check(), Ok(()));
        assert_eq!(header.cost(), 0x0102);
        let empty = FrameHeader { len: 0, ..header };
        assert_eq!(empty.cost(), 24);
        let standing = FrameHeader { flags: 0, ..header };
        assert_eq!(standing.cost(), 0x0102 + 24);
    }

    #[test]
    fn reserved_bytes_are_ignored() {
        let header = FrameHeader::new(FrameType::PING, 0);
        let mut bytes = header.to_bytes();
        (bytes[6], bytes[7]) = (0xff, 0xff);
        assert_eq!(FrameHeader::read(&bytes), header);
    }

    fn checked(frame_type: u8, change: impl Fn(&mut FrameHeader)) -> Result<(), FrameError> {
        let frame_type = FrameType(frame_type);
        let stream = match frame_type {
            FrameType::HEADERS | FrameType::DATA | FrameType::RESET | FrameType::END => 1,
            _ => 0,
        };
        let mut header = FrameHeader::new(frame_type, stream);
        change(&mut header);
        header.check()
    }

    #[test]
    fn unknown_types_are_skipped_or_refused() {
        assert_eq!(checked(0, |_| {}), Err(FrameError::Type(FrameType(0))));
        assert_eq!(
            checked(0x7f, |_| {}),
            Err(FrameError::Type(FrameType(0x7f)))
        );
        assert_eq!(checked(0x80, |header| header.stream = 9), Ok(()));
        assert_eq!(checked(0xff, |header| header.len = 65_536), Ok(()));
        assert!(checked(0xff, |header| header.len = 65_537).is_err());
    }

    #[test]
    fn every_type_checks_length_flags_and_stream() {
        for frame_type in FrameType::HELLO.0..=FrameType::SERVICES.0 {
            assert_eq!(checked(frame_type, |_| {}), Ok(()), "{frame_type}");
            let optional = checked(frame_type, |header| header.flags = 0xf0);
            assert_eq!(optional, Ok(()), "{frame_type}");
            let critical = checked(frame_type, |header| header.flags = 0x08);
            assert!(matches!(critical, Err(FrameError::Flags { .. })));
            let max = FrameType(frame_type).payload_max();
            assert_eq!(max == 65_536, FrameType(frame_type) == FrameType::DATA);
            let long = checked(frame_type, |header| {
                header.len = u32::try_from(max).expect("small") + 1;
            });
            assert!(matches!(long, Err(FrameError::Length { .. })));
            let other = checked(frame_type, |header| header.stream = 1 - header.stream);
            let is_either = FrameType(frame_type) == FrameType::CREDIT;
            assert_eq!(other.is_ok(), is_either, "{frame_type}");
        }
    }
}
