//! Headers of records and of handshake messages, as far as they are bounded here.
//!
//! Spec: RFC 8446 §5.1 and §4, RFC 5246 §6.2.

/// A record's header: content type, version, length.
pub(super) const HEADER_BYTES: usize = 5;

/// A record's fragment at most: RFC 5246 §6.2.3, which is more than RFC 8446 has.
pub(super) const BYTES_MAX: usize = (1 << 14) + 2048;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// A handshake message's header: type, length.
const MESSAGE_HEADER_BYTES: usize = 4;

/// Error for bytes that begin no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a TLS record")]
pub(super) struct NoRecord;

/// Bytes of the record at the start, with its header; `None` while not all of it is there.
pub(super) fn whole(bytes: &[u8]) -> Result<Option<usize>, NoRecord> {
    let Some(&[kind, major, _, high, low]) = bytes.first_chunk() else {
        return Ok(None);
    };
    let fragment = usize::from(u16::from_be_bytes([high, low]));
    if !(20..=24).contains(&kind) || major != 3 || fragment > BYTES_MAX {
        return Err(NoRecord);
    }
    let bytes_needed = HEADER_BYTES + fragment;
    Ok((bytes.len() >= bytes_needed).then_some(bytes_needed))
}

/// Bytes at the start to give rustls next; `None` while a record is incomplete. Bytes that begin no
/// record are given whole: rustls names the error, and seals an alert.
pub(super) fn next(bytes: &[u8]) -> Option<usize> {
    whole(bytes).unwrap_or(Some(bytes.len()))
}

/// A reason why a first flight is not given to rustls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// A request of HTTP, without TLS.
    PlainHttp,
    /// No handshake of TLS begins so.
    NoHello,
    /// The message is larger than it may be.
    TooLarge,
}

/// Follows the records of a ClientHello as their bytes come, each byte looked at once.
#[derive(Debug, Default)]
pub struct HelloReader {
    /// Begin of the next record.
    at: usize,
    /// Bytes of the message in the records before that.
    message: usize,
    /// Length of the message with its header, once that is known.
    needed: Option<usize>,
    header: [u8; MESSAGE_HEADER_BYTES],
}

impl HelloReader {
    /// Bytes up to the end of the record that ends the ClientHello, of at most `bytes_max`;
    /// `None` while some are lacking.
    /// # Errors
    /// The reason why there is no ClientHello, as soon as that is known.
    pub fn read(&mut self, bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, HelloError> {
        if bytes.first().is_some_and(u8::is_ascii_uppercase) {
            return Err(HelloError::PlainHttp);
        }
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            if rest.first().is_some_and(|&kind| kind != HANDSHAKE) {
                return Err(HelloError::NoHello);
            }
            let Some(record) = whole(rest).map_err(|NoRecord| HelloError::NoHello)? else {
                return Ok(None);
            };
            self.take(&rest[HEADER_BYTES..record]);
            self.at += record;
            if let Some(needed) = self.needed {
                if needed > bytes_max {
                    return Err(HelloError::TooLarge);
                }
                if self.message >= needed {
                    return Ok(Some(self.at));
                }
            }
            if self.message >= 1 && self.header[0] != CLIENT_HELLO {
                return Err(HelloError::NoHello);
            }
        }
    }

    fn take(&mut self, fragment: &[u8]) {
        let lacking = MESSAGE_HEADER_BYTES.saturating_sub(self.message);
        for (place, byte) in self.header.iter_mut().skip(self.message).zip(fragment) {
            *place = *byte;
        }
        self.message += fragment.len();
        if lacking > 0 && self.message >= MESSAGE_HEADER_BYTES {
            let [_, high, middle, low] = self.header;
            let message = u32::from_be_bytes([0, high, middle, low]);
            self.needed = Some(MESSAGE_HEADER_BYTES + message as usize);
        }
    }
}

/// True for a close_notify that is not encrypted (RFC 5246 §7.2.1): within a handshake of TLS 1.2 rustls takes it for
/// a warning, and waits on.
pub(super) fn is_close_notify(record: &[u8]) -> bool {
    const ALERT: u8 = 21;
    matches!(*record, [ALERT, _, _, 0, 2, _, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fragment: &[u8]) -> Vec<u8> {
        let len = u16::try_from(fragment.len()).expect("small").to_be_bytes();
        [&[HANDSHAKE, 3, 1], &len[..], fragment].concat()
    }

    fn message(len: usize) -> Vec<u8> {
        let bytes = u32::try_from(len).expect("small").to_be_bytes();
        [&[CLIENT_HELLO], &bytes[1..], &vec![7; len]].concat()
    }

    #[test]
    fn a_hello_ends_with_its_last_record_however_it_is_cut() {
        let hello = message(300);
        for size in [1, 2, 3, 4, 5, 100, 303, 304] {
            let bytes: Vec<u8> = hello.chunks(size).flat_map(record).collect();
            let mut reader = HelloReader::default();
            for end in 0..bytes.len() {
                assert_eq!(reader.read(&bytes[..end], 4096), Ok(None), "{size} {end}");
            }
            let more = [&bytes[..], b"more"].concat();
            assert_eq!(reader.read(&more, 4096), Ok(Some(bytes.len())), "{size}");
        }
    }

    #[test]
    fn what_is_no_hello_is_refused_as_soon_as_it_is_known() {
        let read = |bytes: &[u8]| HelloReader::default().read(bytes, 200);
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Err(HelloError::PlainHttp));
        assert_eq!(read(b"\x16\x03\x01"), Ok(None));
        assert_eq!(read(b"\x15"), Err(HelloError::NoHello));
        assert_eq!(read(b"\x80\x2e\x01\x03\x01"), Err(HelloError::NoHello));
        assert_eq!(read(&record(&[2, 0, 0, 9, 9])), Err(HelloError::NoHello));
        assert_eq!(read(&record(&message(201)[..9])), Err(HelloError::TooLarge));
        assert_eq!(read(b"\x16\x03\x01\xff\xff"), Err(HelloError::NoHello));
    }
}
