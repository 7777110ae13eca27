//! A client of HTTP/2 that sends just the frames that a test wants, and reads the responses.
//!
//! SETTINGS are acknowledged; nothing else is sent automatically, no WINDOW_UPDATE either. Only the
//! status of a field section is read, without a dynamic table: the client's settings set its size
//! to 0. Spec: RFC 9113, RFC 7541.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::peer::{Peer, escape};

/// A frame, to send or received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct H2Frame {
    /// RFC 9113 §6: 0 is DATA, 9 CONTINUATION.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream identifier; 0 is the connection.
    pub stream: u32,
    /// The payload, which follows the header.
    pub payload: Vec<u8>,
}

/// The response received on one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct H2Answer {
    /// The last status.
    pub status: Option<u16>,
    /// Content of its DATA frames.
    pub content: Vec<u8>,
    /// The code of the RST_STREAM that ended it.
    pub reset: Option<u32>,
    /// END_STREAM came.
    pub is_ended: bool,
}

impl H2Answer {
    /// True if nothing more comes on the stream.
    pub fn is_over(&self) -> bool {
        self.is_ended || self.reset.is_some()
    }

    /// The content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }
}

/// The field section of a header list, in the plainest encoding.
#[derive(Debug, Clone, Default)]
pub struct FieldSection(Vec<u8>);

impl H2Frame {
    /// RFC 9113 §6.1.
    pub const DATA: u8 = 0;
    /// RFC 9113 §6.2.
    pub const HEADERS: u8 = 1;
    /// RFC 9113 §6.3.
    pub const PRIORITY: u8 = 2;
    /// RFC 9113 §6.4.
    pub const RST_STREAM: u8 = 3;
    /// RFC 9113 §6.5.
    pub const SETTINGS: u8 = 4;
    /// RFC 9113 §6.7.
    pub const PING: u8 = 6;
    /// RFC 9113 §6.8.
    pub const GOAWAY: u8 = 7;
    /// RFC 9113 §6.9.
    pub const WINDOW_UPDATE: u8 = 8;
    /// RFC 9113 §6.10.
    pub const CONTINUATION: u8 = 9;

    /// Flag of DATA and HEADERS: nothing more of the stream follows.
    pub const END_STREAM: u8 = 0x1;
    /// Flag of SETTINGS and PING.
    pub const ACK: u8 = 0x1;
    /// Flag of HEADERS and CONTINUATION: the field section ends here.
    pub const END_HEADERS: u8 = 0x4;

    /// A frame of any kind.
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        let payload = payload.into();
        Self {
            kind,
            flags,
            stream,
            payload,
        }
    }

    /// A whole header list that ends its stream.
    pub fn request(stream: u32, fields: &FieldSection) -> Self {
        let flags = Self::END_STREAM | Self::END_HEADERS;
        Self::new(Self::HEADERS, flags, stream, fields.0.as_slice())
    }

    /// A whole header list that content follows.
    pub fn opening(stream: u32, fields: &FieldSection) -> Self {
        Self::new(
            Self::HEADERS,
            Self::END_HEADERS,
            stream,
            fields.0.as_slice(),
        )
    }

    /// Content that more follows.
    pub fn data(stream: u32, content: impl Into<Vec<u8>>) -> Self {
        Self::new(Self::DATA, 0, stream, content)
    }

    /// The last content of a stream.
    pub fn last_data(stream: u32, content: impl Into<Vec<u8>>) -> Self {
        Self::new(Self::DATA, Self::END_STREAM, stream, content)
    }

    /// A response of 200 that content follows.
    pub fn ok(stream: u32) -> Self {
        // RFC 7541, Appendix A: `:status: 200` is the eighth.
        Self::new(Self::HEADERS, Self::END_HEADERS, stream, [0x88])
    }

    /// Ends a stream that was not processed, with REFUSED_STREAM.
    pub fn refused(stream: u32) -> Self {
        Self::new(Self::RST_STREAM, 0, stream, 7_u32.to_be_bytes())
    }

    /// GOAWAY: no stream after `last` was processed, and no new one will be.
    pub fn goaway(last: u32) -> Self {
        let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        Self::new(Self::GOAWAY, 0, 0, payload)
    }

    /// Ends a stream, with CANCEL.
    pub fn reset(stream: u32) -> Self {
        Self::new(Self::RST_STREAM, 0, stream, 8_u32.to_be_bytes())
    }

    /// Opens a window by so many bytes.
    pub fn window(stream: u32, bytes: u32) -> Self {
        Self::new(Self::WINDOW_UPDATE, 0, stream, bytes.to_be_bytes())
    }

    /// Settings: identifiers and values.
    pub fn settings(settings: &[(u16, u32)]) -> Self {
        let pair =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.iter().flat_map(pair).collect();
        Self::new(Self::SETTINGS, 0, 0, payload)
    }

    /// The encoded frame.
    ///
    /// # Panics
    /// When the payload's length does not fit 24 bits.
    pub fn bytes(&self) -> Vec<u8> {
        let len = u32::try_from(self.payload.len()).expect("it is small");
        let [0, len @ ..] = len.to_be_bytes() else {
            panic!("a length has 24 bits");
        };
        let stream = self.stream.to_be_bytes();
        let mut bytes = [&len[..], &[self.kind, self.flags], &stream].concat();
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// True if the frame has this flag.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number of 32 bits at this offset of the payload.
    fn number(&self, at: usize) -> u32 {
        let bytes = self.payload.get(at..at + 4).expect("it is long enough");
        u32::from_be_bytes(bytes.try_into().expect("these are four"))
    }
}

impl FieldSection {
    /// The pseudo-fields of a request by `http` to the host `a`, the host of most tests.
    pub fn of(method: &str, path: &str) -> Self {
        Self::default()
            .field(":method", method)
            .field(":scheme", "http")
            .field(":authority", "a")
            .field(":path", path)
    }

    /// A field, literally and not kept (RFC 7541 §6.2.2).
    #[must_use]
    pub fn field(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.literal(0, name.as_ref(), value.as_ref())
    }

    /// A field, literally, which no hop may keep (RFC 7541 §6.2.3).
    #[must_use]
    pub fn never_indexed(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.literal(0x10, name.as_ref(), value.as_ref())
    }

    /// A field, literally, which the table of fields gets as its first (RFC 7541 §6.2.1).
    #[must_use]
    pub fn kept(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.literal(0x40, name.as_ref(), value.as_ref())
    }

    /// The field with this index, `count` times (RFC 7541 §6.1). The table's first is 62.
    #[must_use]
    pub fn indexed(mut self, index: u8, count: usize) -> Self {
        assert!(index < 127, "it fits one byte");
        self.0.extend(std::iter::repeat_n(0x80 | index, count));
        self
    }

    /// The section as encoded so far.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn literal(mut self, first: u8, name: &[u8], value: &[u8]) -> Self {
        self.0.push(first);
        for text in [name, value] {
            self.length(text.len());
            self.0.extend_from_slice(text);
        }
        self
    }

    /// RFC 7541 §5.1, with a prefix of seven bits.
    fn length(&mut self, length: usize) {
        let low = |number: usize| u8::try_from(number & 0x7f).expect("seven bits");
        if length < 0x7f {
            return self.0.push(low(length));
        }
        self.0.push(0x7f);
        let mut rest = length - 0x7f;
        while rest > 0x7f {
            self.0.push(0x80 | low(rest));
            rest >>= 7;
        }
        self.0.push(low(rest));
    }
}

/// A client of HTTP/2.
#[derive(Debug)]
pub struct H2Peer {
    peer: Peer,
    answers: BTreeMap<u32, H2Answer>,
    goaway: Option<u32>,
    next_stream: u32,
    /// Bytes by which WINDOW_UPDATE has opened windows, by stream.
    granted: BTreeMap<u32, u64>,
    /// Initial window of a stream.
    first_window: u64,
}

/// The client's connection preface (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// RFC 9113 §6.5.2.
const HEADER_TABLE_SIZE: u16 = 1;

/// The same.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// RFC 9113 §6.9.2.
const FIRST_WINDOW: u64 = 65_535;

impl H2Peer {
    /// Connects, and sends the preface and settings that leave windows as they are.
    ///
    /// # Panics
    /// When nothing listens there.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::begin(Peer::connect(address), &[])
    }

    /// Begins on a connection with these settings, and a dynamic table of 0 bytes.
    #[track_caller]
    pub fn begin(mut peer: Peer, settings: &[(u16, u32)]) -> Self {
        let settings = [&[(HEADER_TABLE_SIZE, 0)], settings].concat();
        peer.send([PREFACE, &H2Frame::settings(&settings).bytes()].concat());
        Self {
            peer,
            answers: BTreeMap::new(),
            goaway: None,
            next_stream: 1,
            granted: BTreeMap::new(),
            first_window: FIRST_WINDOW,
        }
    }

    /// The connection, for bytes as they are.
    pub fn socket(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// The number of a new stream.
    pub fn stream(&mut self) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Sends frames, in one piece.
    ///
    /// # Panics
    /// When the other end doesn't take them.
    #[track_caller]
    pub fn send(&mut self, frames: &[H2Frame]) -> &mut Self {
        let bytes: Vec<u8> = frames.iter().flat_map(H2Frame::bytes).collect();
        self.peer.send(bytes);
        self
    }

    /// Sends a request without content on a new stream, whose number it returns.
    #[track_caller]
    pub fn request(&mut self, fields: &FieldSection) -> u32 {
        let stream = self.stream();
        self.send(&[H2Frame::request(stream, fields)]);
        stream
    }

    /// Sends a request and reads the response.
    #[track_caller]
    pub fn exchange(&mut self, fields: &FieldSection) -> H2Answer {
        let stream = self.request(fields);
        self.answer(stream)
    }

    /// GETs a path of the host `a`.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> H2Answer {
        self.exchange(&FieldSection::of("GET", path))
    }

    /// Sends `bytes` until the other end has gone or takes nothing for `quiet`; returns the number of
    /// bytes sent.
    pub fn flood(&mut self, bytes: &[u8], quiet: Duration) -> usize {
        self.peer.send_until_stall(bytes, quiet)
    }

    /// Reads and records a frame, and acknowledges SETTINGS; `None` when the connection has ended.
    ///
    /// # Panics
    /// When none comes in time.
    #[track_caller]
    pub fn frame(&mut self) -> Option<H2Frame> {
        let frame = read_frame(&mut self.peer)?;
        self.take_note(&frame);
        if frame.kind == H2Frame::SETTINGS && !frame.has(H2Frame::ACK) {
            // The other end may have closed meanwhile.
            let ack = H2Frame::new(H2Frame::SETTINGS, H2Frame::ACK, 0, Vec::new());
            let _ = self.peer.try_send(&ack.bytes());
        }
        Some(frame)
    }

    fn take_note(&mut self, frame: &H2Frame) {
        if frame.kind == H2Frame::GOAWAY {
            // The last GOAWAY counts: a graceful shutdown sends two.
            self.goaway = Some(frame.number(4));
        }
        if frame.kind == H2Frame::WINDOW_UPDATE {
            *self.granted.entry(frame.stream).or_default() += u64::from(frame.number(0));
        }
        if frame.kind == H2Frame::SETTINGS {
            for pair in frame.payload.chunks_exact(6) {
                let value = u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]);
                if pair[..2] == INITIAL_WINDOW_SIZE.to_be_bytes() {
                    self.first_window = value.into();
                }
            }
        }
        let answer = match frame.kind {
            H2Frame::DATA | H2Frame::HEADERS | H2Frame::RST_STREAM => {
                self.answers.entry(frame.stream).or_default()
            }
            _ => return,
        };
        match frame.kind {
            H2Frame::DATA => answer.content.extend_from_slice(&frame.payload),
            // A second list without a status is trailers.
            H2Frame::HEADERS => answer.status = status(&frame.payload).or(answer.status),
            _ => answer.reset = Some(frame.number(0)),
        }
        answer.is_ended |= frame.kind != H2Frame::RST_STREAM && frame.has(H2Frame::END_STREAM);
    }

    /// The response received on a stream so far.
    pub fn so_far(&self, stream: u32) -> H2Answer {
        self.answers.get(&stream).cloned().unwrap_or_default()
    }

    /// Bytes of content that may be sent in all on a stream that is the only one of its connection, by
    /// the frames read so far.
    pub fn granted(&self, stream: u32) -> u64 {
        let of = |stream: u32| self.granted.get(&stream).copied().unwrap_or(0);
        (FIRST_WINDOW + of(0)).min(self.first_window + of(stream))
    }

    /// Reads until a stream, or the connection, is over; returns the response on the stream.
    #[track_caller]
    pub fn answer(&mut self, stream: u32) -> H2Answer {
        while !self.so_far(stream).is_over() && self.frame().is_some() {}
        self.so_far(stream)
    }

    /// Reads until there is a frame of this kind; `None` when the connection ends before.
    #[track_caller]
    pub fn await_frame(&mut self, kind: u8) -> Option<H2Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Reads until the connection ends; returns the code of its GOAWAY, if there was one.
    #[track_caller]
    pub fn end(&mut self) -> Option<u32> {
        while self.frame().is_some() {}
        self.goaway
    }

    /// The code of the GOAWAY that came, if one did.
    pub fn goaway(&self) -> Option<u32> {
        self.goaway
    }
}

/// Reads a frame; `None` when the connection has ended.
pub(crate) fn read_frame(peer: &mut Peer) -> Option<H2Frame> {
    let header = peer.try_bytes(9)?;
    let len = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let payload = peer.try_bytes(usize::try_from(len).expect("24 bits"))?;
    let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    Some(H2Frame::new(header[3], header[4], stream, payload))
}

/// The status that a header list begins with: in the table of RFC 7541, Appendix A, it has the
/// indexes from 8 to 14.
fn status(section: &[u8]) -> Option<u16> {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let mut section = section;
    // Dynamic table size updates.
    while let [0x20..=0x3f, rest @ ..] = section {
        section = rest;
    }
    match *section {
        [index @ 0x88..=0x8e, ..] => Some(INDEXED[usize::from(index - 0x88)]),
        [0x08 | 0x18 | 0x48..=0x4e, length, ref rest @ ..] => {
            let text = &rest[..usize::from(length & 0x7f)];
            let digits = if length & 0x80 == 0 {
                String::from_utf8_lossy(text).into_owned()
            } else {
                huffman_digits(text)
            };
            let status = digits.parse();
            Some(status.unwrap_or_else(|_| panic!("no status: {}", escape(section))))
        }
        _ => None,
    }
}

/// Three digits in the code of RFC 7541, Appendix B: 0 to 2 have five bits, 3 to 9 six.
fn huffman_digits(text: &[u8]) -> String {
    let mut bits = text
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at & 1)));
    let mut more = |code: u32, count: u32| {
        (0..count).fold(code, |code, _| code << 1 | bits.next().unwrap_or(1))
    };
    let mut digit = || match more(0, 5) {
        code @ 0..=2 => code,
        code => more(code, 1).wrapping_sub(0x19) + 3,
    };
    let digits = (0..3).map(|_| char::from_digit(digit(), 10).unwrap_or('?'));
    digits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_however_it_is_encoded() {
        assert_eq!(status(&[0x20, 0x88]), Some(200));
        assert_eq!(status(&[0x8d, 0x00]), Some(404));
        assert_eq!(status(b"\x48\x03431"), Some(431));
        // RFC 7541 §C.6.1 and §C.6.2.
        assert_eq!(status(&[0x48, 0x82, 0x64, 0x02]), Some(302));
        assert_eq!(status(&[0x48, 0x83, 0x64, 0x0e, 0xff]), Some(307));
        assert_eq!(status(&[0x0f, 0x0d, 0x01, 0x37]), None);
    }

    #[test]
    fn fields_are_written_as_the_rfc_has_them() {
        // RFC 7541 §C.1.2 has 1337 with a prefix of five bits; the rest is the same.
        let long = FieldSection::default().field("a", vec![b'x'; 1337]);
        assert_eq!(long.bytes()[..5], [0, 1, b'a', 0x7f, 0xba]);
        assert_eq!(long.bytes()[5], 0x09);
        // RFC 7541 §C.2.1.
        let kept = FieldSection::default().kept("custom-key", "custom-header");
        assert_eq!(kept.bytes(), b"\x40\x0acustom-key\x0dcustom-header");
    }

    #[test]
    fn a_frame_has_the_header_of_the_rfc() {
        let frame = H2Frame::window(0x0102_0304, 7);
        assert_eq!(frame.bytes(), [0, 0, 4, 8, 0, 1, 2, 3, 4, 0, 0, 0, 7]);
    }
}
