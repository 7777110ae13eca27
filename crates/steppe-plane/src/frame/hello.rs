//! HELLO: versions and limits, the first frame of each side. `docs/plane/protocol.md` §4.
//!
//! The layout is the same in all versions.

use super::field::{FieldError, Fields, put, u32_of, u64_of, unknown};
use super::header::{FrameHeader, FrameType};
use crate::limits::{CREDIT_BYTES_MAX, STANDING_CREDIT_MIN, STREAMS_MAX};

const STREAMS: u8 = 1;
const STREAM_CREDIT: u8 = 2;
const CONNECTION_CREDIT: u8 = 3;

/// Value of `aux`: a connection to a server of another protocol fails early.
const MAGIC: u64 = u64::from_be_bytes(*b"STEPPEPL");

/// The content of HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version that the sender speaks.
    pub oldest: u8,
    /// The newest version that the sender speaks.
    pub newest: u8,
    /// Streams that the receiver may have open: at most [`STREAMS_MAX`].
    pub streams_max: u32,
    /// Standing credit of each body that the receiver sends, in bytes: at least [`STANDING_CREDIT_MIN`].
    pub stream_credit: u32,
    /// Standing credit of all these bodies together: at least [`STANDING_CREDIT_MIN`].
    pub connection_credit: u64,
}

impl Hello {
    /// Reads a frame; `None` if it is not a HELLO of this protocol.
    ///
    /// # Errors
    /// [`FieldError`].
    pub fn read(header: &FrameHeader, payload: &[u8]) -> Option<Result<Self, FieldError>> {
        let is_hello = header.frame_type == FrameType::HELLO && header.aux == MAGIC;
        is_hello.then(|| {
            let [_, _, newest, oldest] = header.code.to_be_bytes();
            Self::read_fields(oldest, newest, payload)
        })
    }

    fn read_fields(oldest: u8, newest: u8, payload: &[u8]) -> Result<Self, FieldError> {
        let mut hello = Self {
            oldest,
            newest,
            streams_max: 0,
            stream_credit: STANDING_CREDIT_MIN,
            connection_credit: u64::from(STANDING_CREDIT_MIN),
        };
        for field in Fields::new(payload) {
            let (number, value) = field?;
            match number {
                STREAMS => hello.streams_max = u32_of(number, value)?.min(STREAMS_MAX),
                STREAM_CREDIT => hello.stream_credit = u32_of(number, value)?,
                CONNECTION_CREDIT => hello.connection_credit = u64_of(number, value)?,
                _ => unknown(number)?,
            }
        }
        if hello.stream_credit < STANDING_CREDIT_MIN {
            return Err(FieldError::Value(STREAM_CREDIT));
        }
        let connection = u64::from(STANDING_CREDIT_MIN)..=CREDIT_BYTES_MAX;
        if !connection.contains(&hello.connection_credit) {
            return Err(FieldError::Value(CONNECTION_CREDIT));
        }
        Ok(hello)
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::with_capacity(32);
        put(&mut fields, STREAMS, &self.streams_max.to_be_bytes());
        put(
            &mut fields,
            STREAM_CREDIT,
            &self.stream_credit.to_be_bytes(),
        );
        let connection = self.connection_credit.to_be_bytes();
        put(&mut fields, CONNECTION_CREDIT, &connection);
        let mut header = FrameHeader::new(FrameType::HELLO, 0);
        header.code = u32::from_be_bytes([0, 0, self.newest, self.oldest]);
        header.aux = MAGIC;
        header.len = u32::try_from(fields.len()).expect("three short fields");
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(&fields);
    }

    /// The newest version that both sides speak; `None` if there is none.
    #[must_use]
    pub fn agree(&self, other: &Self) -> Option<u8> {
        let version = self.newest.min(other.newest);
        (version >= self.oldest.max(other.oldest)).then_some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::HEADER_BYTES;

    fn hello() -> Hello {
        Hello {
            oldest: 1,
            newest: 1,
            streams_max: 1000,
            stream_credit: 131_072,
            connection_credit: 1 << 20,
        }
    }

    fn read(bytes: &[u8]) -> Option<Result<Hello, FieldError>> {
        let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>().expect("a header");
        Hello::read(&FrameHeader::read(header), payload)
    }

    #[test]
    fn a_hello_round_trips() {
        let mut bytes = Vec::new();
        hello().write(&mut bytes);
        assert_eq!(read(&bytes), Some(Ok(hello())));
        put(&mut bytes, 0x90, b"of a newer version");
        assert_eq!(read(&bytes), Some(Ok(hello())));
        bytes[23] ^= 1;
        assert_eq!(read(&bytes), None, "another protocol");
    }

    #[test]
    fn too_little_credit_is_refused() {
        type Change = fn(&mut Hello);
        let changes: [(Change, u8); 3] = [
            (|hello| hello.stream_credit = 131_071, STREAM_CREDIT),
            (|hello| hello.connection_credit = 131_071, CONNECTION_CREDIT),
            (
                |hello| hello.connection_credit = u64::MAX,
                CONNECTION_CREDIT,
            ),
        ];
        for (change, number) in changes {
            let mut changed = hello();
            change(&mut changed);
            let mut bytes = Vec::new();
            changed.write(&mut bytes);
            assert_eq!(read(&bytes), Some(Err(FieldError::Value(number))));
        }
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        let speaks = |oldest, newest| Hello {
            oldest,
            newest,
            ..hello()
        };
        assert_eq!(speaks(1, 1).agree(&speaks(1, 2)), Some(1));
        assert_eq!(speaks(1, 3).agree(&speaks(2, 5)), Some(3));
        assert_eq!(speaks(1, 1).agree(&speaks(2, 2)), None);
        assert_eq!(speaks(2, 2).agree(&speaks(1, 1)), None);
    }
}
