//! gRPC-Web: gRPC for clients that see no frames and no trailers. Spec: gRPC Web (PROTOCOL-WEB.md).
//!
//! Messages are those of gRPC; a last one, of a kind of its own, has the trailers. In the text
//! coding all of it is base64, and padding may stand behind each message.
//!
//! Sans-IO: bytes in, bytes out. Invariants: what comes out does not depend on how what went in was
//! cut, and a state has a fixed size.
//!
//! # Deviations
//! Text that a plain decoder would refuse is refused: other letters, padding that is wrong or
//! missing, bits left over.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steppe_mem::{Buffer, Lease, OverBudget};

use super::media_type::{MEDIA_TYPE, rest_of};
use crate::encoder::{Encoder, Put};
use crate::field::{FieldBlock, FieldId};
use crate::head::{ContentLength, RequestHead};

/// The coding of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageCoding {
    /// Binary.
    Binary,
    /// Base64.
    Text,
}

/// The content is not base64 as gRPC-Web has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not base64")]
pub struct NotText;

/// Decodes the text coding.
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// Bits of the present group of four letters.
    bits: u32,
    letters: u8,
    padding: u8,
}

/// Encodes content as text. A message that is whole can be decoded at once: padding follows it.
#[derive(Debug, Default)]
pub struct TextEncoder {
    place: MessagePosition,
    /// Bytes that make no group of three yet.
    carried: [u8; 3],
    carried_count: usize,
}

/// Progress of [`TextEncoder::encode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedText {
    /// Bytes that were taken.
    pub read: usize,
    /// Bytes that they became.
    pub written: usize,
}

/// A position in a stream of messages.
#[derive(Debug, Default)]
struct MessagePosition {
    /// The message's prefix, without its first byte once it is whole.
    prefix: [u8; PREFIX_BYTES],
    prefix_count: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

/// A byte of flags, and a length.
const PREFIX_BYTES: usize = 5;

/// The flag of the message that has the trailers.
const TRAILERS_FLAG: u8 = 0x80;

const BINARY: &str = "application/grpc-web";
const TEXT: &str = "application/grpc-web-text";

impl MessageCoding {
    /// The coding of a media type of gRPC-Web.
    #[must_use]
    pub fn of(media_type: &[u8]) -> Option<Self> {
        let is = |known: &str| rest_of(media_type, known).is_some();
        match () {
            () if is(BINARY) => Some(Self::Binary),
            () if is(TEXT) => Some(Self::Text),
            () => None,
        }
    }

    /// The media type of messages in whatever format.
    fn media_type(self) -> &'static str {
        match self {
            Self::Binary => BINARY,
            Self::Text => TEXT,
        }
    }

    /// The media type of an answer without messages.
    #[must_use]
    pub fn media_type_of_refusal(self) -> &'static str {
        // The format that every client knows.
        match self {
            Self::Binary => "application/grpc-web+proto",
            Self::Text => "application/grpc-web-text+proto",
        }
    }
}

/// Makes a request of gRPC of one of gRPC-Web, whose content is in `coding`.
pub(crate) fn to_grpc(head: &mut RequestHead, coding: MessageCoding) -> Result<(), OverBudget> {
    rename(&mut head.fields, coding.media_type(), MEDIA_TYPE)?;
    head.takes_trailers = true;
    if coding == MessageCoding::Text && head.length != ContentLength::Empty {
        head.length = ContentLength::Unknown;
    }
    Ok(())
}

/// Makes a response's fields those of gRPC-Web.
pub(crate) fn from_grpc(fields: &mut FieldBlock, coding: MessageCoding) -> Result<(), OverBudget> {
    rename(fields, MEDIA_TYPE, coding.media_type())?;
    // What it announces comes as content.
    fields.remove_where(|id| id == FieldId::Trailer);
    Ok(())
}

/// Changes the name of a media type, and leaves what follows it.
fn rename(fields: &mut FieldBlock, from: &str, to: &str) -> Result<(), OverBudget> {
    let value = fields.values(FieldId::ContentType).next();
    let rest = value.and_then(|value| rest_of(value, from));
    let renamed = [to.as_bytes(), rest.unwrap_or_default()].concat();
    fields.set(b"content-type", &renamed)
}

/// The message that has `trailers`: `name: value` lines. Those that no trailer may be are left out.
pub(crate) fn trailers(trailers: &FieldBlock, lease: &Lease) -> Result<Buffer, OverBudget> {
    let lines = trailers.iter();
    let lines = lines.filter(|(id, name, _)| !id.is_refused_as_trailer(name));
    let lines = lines.map(|(_, name, value)| (name, value));
    let bytes = trailers_bytes(lines.clone());
    let mut message = Buffer::take(lease, bytes)?;
    let mut out = Encoder::new(message.spare_mut());
    write_trailers(lines, &mut out);
    let written = out.finish().expect("it was taken for them");
    message.advance(written);
    Ok(message)
}

/// Bytes of the message that [`write_trailers`] writes.
pub fn trailers_bytes<'a>(lines: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> usize {
    let line = |(name, value): (&[u8], &[u8])| name.len() + value.len() + b": \r\n".len();
    PREFIX_BYTES + lines.map(line).sum::<usize>()
}

/// Writes the message that has the trailers `lines`.
///
/// # Panics
/// Where they are 4 GiB: a trailer section is far below that.
pub fn write_trailers<'a>(
    lines: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    out: &mut impl Put,
) {
    let len = trailers_bytes(lines.clone()) - PREFIX_BYTES;
    let len = u32::try_from(len).expect("trailers are bounded");
    out.put(&[TRAILERS_FLAG]);
    out.put(&len.to_be_bytes());
    for (name, value) in lines {
        for byte in name {
            out.put(&[byte.to_ascii_lowercase()]);
        }
        out.put(b": ");
        out.put(value);
        out.put(b"\r\n");
    }
}

impl TextDecoder {
    /// Bytes that as many letters become, at most.
    #[must_use]
    pub fn decoded_bytes_max(letters: usize) -> usize {
        letters.div_ceil(4) * 3 + 3
    }

    /// Decodes the next letters into `out`, which has room for
    /// [`decoded_bytes_max`](Self::decoded_bytes_max); says how many bytes they are.
    ///
    /// # Errors
    /// [`NotText`]; no further letters make sense then.
    ///
    /// # Panics
    /// Where `out` has too little room.
    pub fn decode(&mut self, text: &[u8], out: &mut [u8]) -> Result<usize, NotText> {
        let mut written = 0;
        for &letter in text {
            if letter == b'=' {
                self.pad()?;
            } else {
                let value = VALUES[usize::from(letter)];
                if value == NO_LETTER || self.padding > 0 {
                    return Err(NotText);
                }
                self.bits = self.bits << 6 | u32::from(value);
                self.letters += 1;
            }
            if self.letters + self.padding == 4 {
                let count = self.letters - 1;
                let bytes = (self.bits << (6 * self.padding)).to_be_bytes();
                let bytes = &bytes[1..=usize::from(count)];
                out[written..written + bytes.len()].copy_from_slice(bytes);
                written += bytes.len();
                *self = Self::default();
            }
        }
        Ok(written)
    }

    fn pad(&mut self) -> Result<(), NotText> {
        // Two letters have four bits too many, three have two.
        let left_over = match self.letters {
            2 => 0b1111,
            3 => 0b11,
            _ => return Err(NotText),
        };
        self.padding += 1;
        let is_canonical = self.bits & left_over == 0;
        is_canonical.then_some(()).ok_or(NotText)
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// [`NotText`] in the middle of a group.
    pub fn finish(&self) -> Result<(), NotText> {
        (self.letters == 0).then_some(()).ok_or(NotText)
    }
}

impl TextEncoder {
    /// `out` has room for at least so much, or nothing is encoded.
    pub const ROOM_MIN: usize = 8;

    /// Encodes as much of `content` as `out` has room for.
    pub fn encode(&mut self, content: &[u8], out: &mut [u8]) -> EncodedText {
        let (mut read, mut written) = (0, 0);
        while read < content.len() {
            // The last group is for padding.
            let groups = ((out.len() - written) / 4).saturating_sub(1);
            if groups == 0 {
                break;
            }
            let left = &content[read..];
            let fitting = left.len().min(3 * groups - self.carried_count);
            let (bytes, is_end) = self.place.pass(&left[..fitting]);
            read += bytes;
            written += self.put(&left[..bytes], &mut out[written..]);
            if is_end {
                written += self.finish(&mut out[written..]);
            }
        }
        EncodedText { read, written }
    }

    /// Nothing more comes, or a message has ended: writes what was carried, at most four letters.
    /// Says how many.
    ///
    /// # Panics
    /// Where `out` has less room.
    pub fn finish(&mut self, out: &mut [u8]) -> usize {
        let count = std::mem::take(&mut self.carried_count);
        write_base64(&self.carried[..count], out)
    }

    /// True when [`TextEncoder::finish`] has something to write.
    #[must_use]
    pub fn is_carrying(&self) -> bool {
        self.carried_count > 0
    }

    /// Encodes whole groups, and carries the rest.
    fn put(&mut self, mut bytes: &[u8], out: &mut [u8]) -> usize {
        let mut written = 0;
        while self.carried_count > 0 && !bytes.is_empty() {
            self.carried[self.carried_count] = bytes[0];
            self.carried_count += 1;
            bytes = &bytes[1..];
            if self.carried_count == 3 {
                written += self.finish(&mut out[written..]);
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() / 3 * 3);
        written += write_base64(whole, &mut out[written..]);
        if !rest.is_empty() {
            self.carried[..rest.len()].copy_from_slice(rest);
            self.carried_count = rest.len();
        }
        written
    }
}

impl MessagePosition {
    /// Goes on by some of `bytes`, up to the end of a message; says how many, and whether it is
    /// there.
    fn pass(&mut self, bytes: &[u8]) -> (usize, bool) {
        let missing = (PREFIX_BYTES - self.prefix_count).min(bytes.len());
        self.prefix[self.prefix_count..][..missing].copy_from_slice(&bytes[..missing]);
        self.prefix_count += missing;
        if self.prefix_count < PREFIX_BYTES {
            return (missing, false);
        }
        if missing > 0 {
            let [_, len @ ..] = self.prefix;
            self.left = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
        }
        let more = self.left.min(bytes.len() - missing);
        self.left -= more;
        let is_end = self.left == 0;
        if is_end {
            self.prefix_count = 0;
        }
        (missing + more, is_end)
    }
}

fn write_base64(bytes: &[u8], out: &mut [u8]) -> usize {
    let written = STANDARD.encode_slice(bytes, out);
    written.expect("the callers keep room")
}

/// The value of a byte that is not a letter.
const NO_LETTER: u8 = 0xff;

/// Values of letters (RFC 4648 §4).
const VALUES: [u8; 256] = {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NO_LETTER; 256];
    let mut value = 0;
    while value < 64 {
        values[letters[value as usize] as usize] = value;
        value += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, NotText> {
        let (mut decoder, mut content) = (TextDecoder::default(), Vec::new());
        for piece in pieces {
            let mut out = vec![0; TextDecoder::decoded_bytes_max(piece.len())];
            let written = decoder.decode(piece, &mut out)?;
            content.extend_from_slice(&out[..written]);
        }
        decoder.finish().map(|()| content)
    }

    fn encode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, room: usize) -> Vec<u8> {
        let (mut encoder, mut text) = (TextEncoder::default(), Vec::new());
        let mut out = vec![0; room];
        for mut piece in pieces {
            while !piece.is_empty() {
                let encoded = encoder.encode(piece, &mut out);
                assert!(encoded.read > 0, "it goes on");
                text.extend_from_slice(&out[..encoded.written]);
                piece = &piece[encoded.read..];
            }
        }
        let written = encoder.finish(&mut out);
        text.extend_from_slice(&out[..written]);
        text
    }

    fn message(content: &[u8]) -> Vec<u8> {
        let len = u32::try_from(content.len()).expect("small");
        [&[0][..], &len.to_be_bytes(), content].concat()
    }

    #[test]
    fn codings_are_told_by_media_type() {
        for (value, expected) in [
            ("application/grpc-web", Some(MessageCoding::Binary)),
            ("application/grpc-web+proto", Some(MessageCoding::Binary)),
            (
                "Application/gRPC-Web+json; charset=utf-8",
                Some(MessageCoding::Binary),
            ),
            ("application/grpc-web-text", Some(MessageCoding::Text)),
            ("application/grpc-web-text+proto", Some(MessageCoding::Text)),
            ("application/grpc", None),
            ("application/grpc+proto", None),
            ("application/grpc-webx", None),
            ("application/grpc-web-texts", None),
            ("", None),
        ] {
            assert_eq!(MessageCoding::of(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn text_may_be_padded_behind_every_message() {
        for (text, expected) in [
            ("", Some(&b""[..])),
            ("QUJD", Some(b"ABC")),
            ("QUI=", Some(b"AB")),
            ("QQ==", Some(b"A")),
            ("QQ==QUI=QUJDQQ==", Some(b"AABABCA")),
            ("Q", None),
            ("QUI", None),
            ("QQ=", None),
            ("QQ=Q", None),
            ("Q===", None),
            ("====", None),
            ("QUJD=", None),
            ("QUI==", None),
            ("QR==", None),
            ("QUJ=", None),
            ("QUJD\n", None),
            ("QU-_", None),
            ("QUJ\u{e4}", None),
        ] {
            assert_eq!(
                decode([text.as_bytes()]).ok().as_deref(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_message_is_out_when_it_is_whole() {
        let mut encoder = TextEncoder::default();
        let mut out = [0; 64];
        let encoded = encoder.encode(&message(b"ab"), &mut out);
        assert_eq!(
            (encoded.read, &out[..encoded.written]),
            (7, &b"AAAAAAJhYg=="[..])
        );
        let encoded = encoder.encode(&message(b""), &mut out);
        assert_eq!(&out[..encoded.written], b"AAAAAAA=");
        // A part of one waits for the rest of its group.
        let encoded = encoder.encode(&message(b"abc")[..7], &mut out);
        assert_eq!(&out[..encoded.written], b"AAAAAANh");
        assert_eq!(encoder.finish(&mut out), 4);
        assert_eq!(&out[..4], b"Yg==");
    }

    #[test]
    fn trailers_are_a_message_of_lines() {
        let lines = [(&b"Grpc-Status"[..], &b"0"[..]), (b"x-Sum", b"a: b")];
        let mut out = Vec::new();
        write_trailers(lines.into_iter(), &mut out);
        assert_eq!(out, b"\x80\0\0\0\x1dgrpc-status: 0\r\nx-sum: a: b\r\n");
        assert_eq!(out.len(), trailers_bytes(lines.into_iter()));
    }

    /// `bytes`, cut into pieces of these lengths.
    fn cut<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        for &length in lengths {
            let (piece, later) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = later;
        }
        pieces.push(rest);
        pieces
    }

    proptest! {
        #[test]
        fn text_is_the_same_however_content_is_cut(
            messages in vec(vec(any::<u8>(), 0..40), 0..6),
            rest in vec(any::<u8>(), 0..8),
            lengths in vec(0_usize..20, 0..20),
            room in TextEncoder::ROOM_MIN..80,
        ) {
            let content: Vec<u8> = messages.iter().flat_map(|each| message(each)).chain(rest).collect();
            let text = encode([&content[..]], 4096);
            prop_assert_eq!(&text, &encode(cut(&content, &lengths), room));
            prop_assert_eq!(decode(cut(&text, &lengths)), Ok(content));
        }

        #[test]
        fn any_bytes_are_read_alike_however_they_are_cut(
            text in "[A-Fa-f+/=\n]{0,40}",
            lengths in vec(0_usize..9, 0..12),
        ) {
            let at_once = decode([text.as_bytes()]);
            prop_assert_eq!(at_once, decode(cut(text.as_bytes(), &lengths)));
        }

        #[test]
        fn any_bytes_are_encoded(content in vec(any::<u8>(), 0..200), room in 8_usize..64) {
            let text = encode([&content[..]], room);
            prop_assert_eq!(decode([&text[..]]), Ok(content));
        }
    }
}
