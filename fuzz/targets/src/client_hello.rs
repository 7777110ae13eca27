//! The records of a ClientHello: the same verdict however their bytes come, and the one of a reader that
//! puts the message together.
//!
//! The first byte is the size of the pieces.

use steppe_net::tls::record::{HelloError, HelloReader};

const BYTES_MAX: usize = 1024;

type Verdict = Result<Option<usize>, HelloError>;

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((&piece_bytes, bytes)) = input.split_first() else {
        return;
    };
    let at_once = HelloReader::default().read(bytes, BYTES_MAX);
    assert_eq!(in_pieces(bytes, usize::from(piece_bytes).max(1)), at_once);
    assert_eq!(plain(bytes), at_once);
    // Bytes that follow change no verdict.
    if at_once != Ok(None) {
        let more = [bytes, b"\x16\x03\x01"].concat();
        assert_eq!(HelloReader::default().read(&more, BYTES_MAX), at_once);
    }
}

/// The verdict on bytes as a connection brings them: each time a piece more of the same bytes.
fn in_pieces(bytes: &[u8], piece_bytes: usize) -> Verdict {
    let mut reader = HelloReader::default();
    for end in (0..bytes.len()).step_by(piece_bytes) {
        match reader.read(&bytes[..end], BYTES_MAX) {
            Ok(None) => {}
            verdict => return verdict,
        }
    }
    reader.read(bytes, BYTES_MAX)
}

/// RFC 8446 §5.1, for whole inputs: fragments are collected, then looked at.
fn plain(bytes: &[u8]) -> Verdict {
    let (mut message, mut at) = (Vec::new(), 0);
    if bytes.first().is_some_and(u8::is_ascii_uppercase) {
        return Err(HelloError::PlainHttp);
    }
    loop {
        let header = &bytes[at..bytes.len().min(at + 5)];
        if header.first().is_some_and(|&kind| kind != 22) {
            return Err(HelloError::NoHello);
        }
        let &[_, major, _, high, low] = header else {
            return Ok(None);
        };
        let fragment = usize::from(u16::from_be_bytes([high, low]));
        if major != 3 || fragment > (1 << 14) + 2048 {
            return Err(HelloError::NoHello);
        }
        let Some(fragment) = bytes.get(at + 5..at + 5 + fragment) else {
            return Ok(None);
        };
        message.extend_from_slice(fragment);
        at += 5 + fragment.len();
        if let &[_, high, middle, low, ..] = &message[..] {
            let needed = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
            if needed > BYTES_MAX {
                return Err(HelloError::TooLarge);
            }
            if message.len() >= needed {
                return Ok(Some(at));
            }
        }
        if message.first().is_some_and(|&kind| kind != 1) {
            return Err(HelloError::NoHello);
        }
    }
}
