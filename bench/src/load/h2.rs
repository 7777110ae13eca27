//! A minimal HTTP/2 client: one GET a connection, and a response with status 200.
//!
//! Invariants: a response counts only when its status was 200 and its stream ended well; an exchange
//! ends after the settings of both sides, so that nothing of an idle server is left unread.
//! Leaves out: everything else (a second request, trailers, padding, tables of fields).

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
/// Flow-control window that holds any response, without a WINDOW_UPDATE later.
const WINDOW_BYTES: u32 = 1 << 30;
/// RFC 9113 §6.5.2: a table of fields of 0 bytes, and the window.
const OWN_SETTINGS: [(u16, u32); 2] = [(1, 0), (4, WINDOW_BYTES)];

/// Encodes everything that a client sends first: the preface, and a GET on the first stream.
///
/// # Panics
/// When a text is longer than 126 bytes, the most whose length takes one byte.
pub fn get(scheme: &str, authority: &str, path: &str) -> Vec<u8> {
    let settings: Vec<u8> = OWN_SETTINGS
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    // RFC 7541, Appendix A: 2 is GET; 6 and 7 are the schemes, 1 and 4 the names of the others.
    let mut fields = vec![0x82, if scheme == "https" { 0x87 } else { 0x86 }];
    for (name, value) in [(1, authority), (4, path)] {
        let length = u8::try_from(value.len())
            .ok()
            .filter(|length| *length < 0x7f);
        fields.extend([name, length.expect("a short text")]);
        fields.extend_from_slice(value.as_bytes());
    }
    [
        PREFACE,
        &frame(SETTINGS, 0, 0, &settings),
        &frame(WINDOW_UPDATE, 0, 0, &WINDOW_BYTES.to_be_bytes()),
        &frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields),
    ]
    .concat()
}

/// Sends the bytes of [`get`] and reads the whole response; returns the length of its content.
///
/// # Errors
/// When the connection fails, or the response is not what the origin sends.
pub async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
    decoder: &mut Decoder,
) -> Result<usize> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = stream.read(&mut buffer).await?;
        ensure!(count > 0, "closed before the response was complete");
        let answer = decoder.receive(&buffer[..count])?;
        if !answer.is_empty() {
            stream.write_all(&answer).await?;
            stream.flush().await?;
        }
        if decoder.is_done() {
            return Ok(decoder.content_bytes);
        }
    }
}

/// Reads frames, keeping no content.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    content_bytes: usize,
    is_answered: bool,
    has_ended: bool,
    has_settings: bool,
    is_acknowledged: bool,
}

impl Decoder {
    /// True when the stream has ended, and settings of both sides are in force.
    pub fn is_done(&self) -> bool {
        self.has_ended && self.has_settings && self.is_acknowledged
    }

    /// Decodes received bytes; returns the bytes to send in reply.
    ///
    /// # Errors
    /// A response that is not what the origin sends, or the end of the connection.
    pub fn receive(&mut self, received: &[u8]) -> Result<Vec<u8>> {
        self.pending.extend_from_slice(received);
        let (mut at, mut answer) = (0, Vec::new());
        while let Some((header, rest)) = self.pending[at..].split_first_chunk::<HEADER_BYTES>() {
            let length = usize::try_from(u32::from_be_bytes([0, header[0], header[1], header[2]]))?;
            let Some(payload) = rest.get(..length) else {
                break;
            };
            let (kind, flags) = (header[3], header[4]);
            match kind {
                HEADERS if !self.is_answered => {
                    ensure!(is_ok(payload), "a status that is not 200");
                    self.is_answered = true;
                    self.has_ended |= flags & END_STREAM != 0;
                }
                DATA | HEADERS => {
                    self.content_bytes += length;
                    self.has_ended |= flags & END_STREAM != 0;
                }
                RST_STREAM | GOAWAY => {
                    let code = payload.last().context("a frame without its code")?;
                    ensure!(kind == GOAWAY || *code == 0, "the stream was reset: {code}");
                    ensure!(kind == RST_STREAM, "the server leaves: {code}");
                }
                SETTINGS if flags & ACK != 0 => self.is_acknowledged = true,
                SETTINGS => {
                    self.has_settings = true;
                    answer.extend(frame(SETTINGS, ACK, 0, &[]));
                }
                _ => {}
            }
            at += HEADER_BYTES + length;
        }
        self.pending.drain(..at);
        Ok(answer)
    }
}

/// True if a field block begins with the status 200, after any dynamic table size updates.
fn is_ok(fields: &[u8]) -> bool {
    let mut fields = fields
        .iter()
        .skip_while(|byte| (0x20..0x40).contains(*byte));
    fields.next() == Some(&0x88)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is small");
    let length = &length.to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(fields: &[u8]) -> Vec<u8> {
        [
            frame(SETTINGS, 0, 0, &[]),
            frame(SETTINGS, ACK, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, fields),
            frame(DATA, 0, 1, b"abc"),
            frame(DATA, END_STREAM, 1, b"de"),
        ]
        .concat()
    }

    #[test]
    fn a_response_is_complete_at_its_last_byte_however_it_is_cut() {
        let bytes = answered(&[0x20, 0x88]);
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::default();
            let (first, second) = bytes.split_at(cut);
            let mut sent = decoder.receive(first).expect("valid");
            assert!(!decoder.is_done(), "cut at {cut}");
            sent.extend(decoder.receive(second).expect("valid"));
            assert!(decoder.is_done(), "cut at {cut}");
            assert_eq!(decoder.content_bytes, 5);
            assert_eq!(
                sent,
                frame(SETTINGS, ACK, 0, &[]),
                "settings are taken once"
            );
        }
    }

    #[test]
    fn a_response_waits_for_the_settings_of_both_sides() {
        let bytes = answered(&[0x88]);
        let mut decoder = Decoder::default();
        decoder.receive(&bytes[HEADER_BYTES..]).expect("valid");
        assert!(decoder.has_ended && !decoder.is_done());
        decoder.receive(&bytes[..HEADER_BYTES]).expect("valid");
        assert!(decoder.is_done());
    }

    #[test]
    fn what_the_origin_never_sends_is_an_error() {
        for (bytes, expected) in [
            (answered(&[0x8d]), "a status that is not 200"),
            (
                frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()),
                "the stream was reset: 8",
            ),
            (
                frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]),
                "the server leaves: 11",
            ),
        ] {
            let error = Decoder::default().receive(&bytes).expect_err("not ours");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_request_is_short_and_whole() {
        let bytes = get("https", "localhost:1", "/");
        assert!(bytes.starts_with(PREFACE));
        assert!(bytes.ends_with(b"\x82\x87\x01\x0blocalhost:1\x04\x01/"));
    }
}
