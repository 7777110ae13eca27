//! The chunked coding, decoded in place. Spec: RFC 9112 §7.1.
//!
//! Invariant: a [`Decoder`] never looks at a byte twice, keeps none, and
//! refuses what another reader could take otherwise: bare LF, signs, spaces
//! around the size, sizes beyond 64 bits.

use crate::limits::CHUNK_EXTENSION_BYTES_MAX;

/// Where in the coding a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoder {
    state: ChunkState,
    /// Bytes of extensions so far, in the whole message.
    extension_bytes: usize,
}

/// The result of decoding some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkProgress {
    /// Bytes of content, moved to the front.
    pub content: usize,
    /// Bytes that were read; what follows them was not touched.
    pub consumed: usize,
    /// The last chunk has been: the trailer section begins after `consumed`.
    pub is_last: bool,
}

/// Why a chunked message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A chunk size that is no hexadecimal number of 64 bits.
    #[error("malformed chunk size")]
    Size,
    /// A byte that can't stand in an extension, or a bare CR or LF.
    #[error("malformed chunk extension or line end")]
    Extension,
    /// More bytes of extensions than a message may have.
    #[error("chunk extensions too large")]
    ExtensionsTooLarge,
    /// No CRLF where a chunk's data ends.
    #[error("chunk data not followed by CRLF")]
    DataEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// Before the first digit of a size.
    Start,
    /// Within the digits.
    Size(u64),
    /// After the digits.
    Extension(u64),
    /// After the CR of a size's line.
    SizeLf(u64),
    /// This much data to come; never zero.
    Data(u64),
    DataCr,
    DataLf,
    /// After the last chunk.
    Trailers,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            state: ChunkState::Start,
            extension_bytes: 0,
        }
    }
}

impl Decoder {
    /// Decodes `bytes` as far as they go: content is moved to their front.
    ///
    /// # Errors
    /// [`ChunkError`]; the message can't be read on.
    pub fn decode(&mut self, bytes: &mut [u8]) -> Result<ChunkProgress, ChunkError> {
        let (mut at, mut content) = (0, 0);
        while at < bytes.len() && self.state != ChunkState::Trailers {
            if let ChunkState::Data(left) = self.state {
                let here = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - at);
                bytes.copy_within(at..at + here, content);
                at += here;
                content += here;
                let left = left - here as u64;
                self.state = if left == 0 {
                    ChunkState::DataCr
                } else {
                    ChunkState::Data(left)
                };
            } else {
                self.state = self.step(bytes[at])?;
                at += 1;
            }
        }
        Ok(ChunkProgress {
            content,
            consumed: at,
            is_last: self.state == ChunkState::Trailers,
        })
    }

    fn step(&mut self, byte: u8) -> Result<ChunkState, ChunkError> {
        match (self.state, byte) {
            (ChunkState::Start, _) => {
                Ok(ChunkState::Size(hex_digit(byte).ok_or(ChunkError::Size)?))
            }
            (ChunkState::Size(size) | ChunkState::Extension(size), b'\r') => {
                Ok(ChunkState::SizeLf(size))
            }
            (ChunkState::Size(size), b';') => self.extension(size),
            (ChunkState::Size(size), _) => {
                let digit = hex_digit(byte).ok_or(ChunkError::Size)?;
                // The last four bits are free for it.
                let size = size.checked_mul(16).ok_or(ChunkError::Size)?;
                Ok(ChunkState::Size(size + digit))
            }
            (ChunkState::Extension(size), b'\t' | 0x20..=0x7e | 0x80..) => self.extension(size),
            (ChunkState::SizeLf(0), b'\n') => Ok(ChunkState::Trailers),
            (ChunkState::SizeLf(size), b'\n') => Ok(ChunkState::Data(size)),
            (ChunkState::DataCr, b'\r') => Ok(ChunkState::DataLf),
            (ChunkState::DataLf, b'\n') => Ok(ChunkState::Start),
            (ChunkState::DataCr | ChunkState::DataLf, _) => Err(ChunkError::DataEnd),
            _ => Err(ChunkError::Extension),
        }
    }

    fn extension(&mut self, size: u64) -> Result<ChunkState, ChunkError> {
        self.extension_bytes += 1;
        let is_bounded = self.extension_bytes <= CHUNK_EXTENSION_BYTES_MAX;
        is_bounded
            .then_some(ChunkState::Extension(size))
            .ok_or(ChunkError::ExtensionsTooLarge)
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content and what follows the last chunk, the input given in pieces.
    fn decode(text: &str, piece: usize) -> Result<(String, String, bool), ChunkError> {
        let (mut decoder, mut content, mut rest) = (Decoder::default(), Vec::new(), Vec::new());
        let mut is_last = false;
        for piece in text.as_bytes().chunks(piece) {
            let mut piece = piece.to_vec();
            let decoded = decoder.decode(&mut piece)?;
            content.extend_from_slice(&piece[..decoded.content]);
            rest.extend_from_slice(&piece[decoded.consumed..]);
            is_last = decoded.is_last;
        }
        let text = |bytes| String::from_utf8(bytes).expect("ASCII");
        Ok((text(content), text(rest), is_last))
    }

    #[test]
    fn content_comes_out_however_it_is_cut() {
        let text = "5\r\nhello\r\n1C;a=b\r\n of twenty-eight bytes more.\r\n00\r\nX: y\r\n\r\n";
        let content = "hello of twenty-eight bytes more.";
        for piece in 1..text.len() {
            let expected = (content.to_owned(), "X: y\r\n\r\n".to_owned(), true);
            assert_eq!(decode(text, piece), Ok(expected), "in pieces of {piece}");
        }
    }

    #[test]
    fn what_has_two_readings_is_refused() {
        for (text, error) in [
            ("\r\n", ChunkError::Size),
            (" 5\r\n", ChunkError::Size),
            ("+5\r\n", ChunkError::Size),
            ("-1\r\n", ChunkError::Size),
            ("0x5\r\n", ChunkError::Size),
            ("5 \r\n", ChunkError::Size),
            ("5\n", ChunkError::Size),
            ("g\r\n", ChunkError::Size),
            ("10000000000000000\r\n", ChunkError::Size),
            ("5;a\n", ChunkError::Extension),
            ("5;a\rb", ChunkError::Extension),
            ("5;\0\r\n", ChunkError::Extension),
            ("5\rx", ChunkError::Extension),
            ("1\r\naX", ChunkError::DataEnd),
            ("1\r\na\n", ChunkError::DataEnd),
            ("1\r\na\rX", ChunkError::DataEnd),
        ] {
            assert_eq!(decode(text, 100), Err(error), "{text:?}");
        }
        assert!(
            decode("ffffffffffffffff\r\nabc", 100).is_ok(),
            "64 bits are allowed"
        );
    }

    #[test]
    fn extensions_are_bounded_over_the_whole_message() {
        let chunk = format!("1;{}\r\na\r\n", "x".repeat(CHUNK_EXTENSION_BYTES_MAX / 2));
        assert_eq!(
            decode(&chunk.repeat(3), 64),
            Err(ChunkError::ExtensionsTooLarge)
        );
    }
}
