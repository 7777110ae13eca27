//! A server whose frames are written by hand, and the client that it talks to.

use std::io::IoSlice;
use std::time::Instant;

use steppe_h2::frame::PREFACE;
use steppe_h2::{ConnectionError, ErrorCode};
use steppe_mem::{Budget, Buffer, Chunk};

use super::super::{HttpsClient, NotSent, Outcome, Target};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    let header = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&header, payload].concat()
}

pub(super) fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

pub(super) fn goaway(last: u32, code: ErrorCode) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.0.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

pub(super) fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

/// A field line as a literal with a new name. RFC 7541 §6.2.2.
pub(super) fn line(name: &str, value: &str) -> Vec<u8> {
    let string = |text: &str| {
        let bytes = text.len();
        let length = match u8::try_from(bytes) {
            Ok(short @ 0..=126) => vec![short],
            _ => {
                // RFC 7541 §5.1.
                let rest = bytes - 127;
                let septet = |shift: usize| u8::try_from(rest >> shift & 0x7f).expect("seven bits");
                vec![127, septet(0) | 0x80, septet(7) | 0x80, septet(14)]
            }
        };
        [&length, text.as_bytes()].concat()
    };
    [vec![0], string(name), string(value)].concat()
}

/// The fields of a good response.
pub(super) fn fields() -> Vec<u8> {
    let status = vec![0x88];
    [status, line("content-type", "application/dns-message")].concat()
}

pub(super) fn head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &fields())
}

pub(super) fn response(stream: u32, content: &[u8]) -> Vec<u8> {
    [head(stream), frame(DATA, END_STREAM, stream, content)].concat()
}

/// A query with this id.
pub(super) fn query(id: u16) -> Vec<u8> {
    [&id.to_be_bytes()[..], b" query"].concat()
}

/// A client, as its connection sees it.
pub(super) struct Peer {
    pub(super) budget: Budget,
    pub(super) client: HttpsClient,
    pub(super) now: Instant,
    /// Bytes of one read.
    pub(super) read_bytes: usize,
    output: Vec<u8>,
    ended: Option<ConnectionError>,
}

impl Peer {
    /// A peer whose settings have not come.
    pub(super) fn unknown() -> Self {
        let (budget, now) = (Budget::new(4 << 20), Instant::now());
        let target = Target::new("dns.test".into(), "/dns-query".into());
        let lease = budget.root().lease();
        let client = HttpsClient::new(target.expect("a target"), &lease, now);
        let mut peer = Self {
            client: client.expect("room"),
            budget,
            now,
            read_bytes: usize::MAX,
            output: Vec::new(),
            ended: None,
        };
        let preface = peer.write();
        assert!(preface.starts_with(PREFACE), "{preface:?}");
        peer.output = preface[PREFACE.len()..].to_vec();
        peer
    }

    /// A peer whose settings have come, without any value.
    pub(super) fn new() -> Self {
        let mut peer = Self::unknown();
        assert_eq!(peer.receive(&[frame(SETTINGS, 0, 0, &[])]), "");
        peer.frames();
        peer
    }

    pub(super) fn send(&mut self, id: u16) -> Result<(), NotSent> {
        self.client.send(&query(id), self.now)
    }

    /// Outcomes of frames of the server, one a line.
    pub(super) fn receive(&mut self, frames: &[Vec<u8>]) -> String {
        let mut outcomes = Vec::new();
        let bytes = frames.concat();
        for part in bytes.chunks(self.read_bytes.min(bytes.len().max(1))) {
            let lease = self.budget.root().lease();
            let mut buffer = Buffer::take(&lease, part.len()).expect("room");
            buffer.put(part).expect("room");
            let mut input = Chunk::from(buffer);
            loop {
                let received = self.client.receive(&mut input, self.now);
                match received {
                    Ok(Some(outcome)) => outcomes.push(told(&outcome)),
                    Ok(None) if input.is_empty() => break,
                    Ok(None) => {}
                    Err(error) => {
                        self.ended.get_or_insert(error);
                        break;
                    }
                }
                let written = self.write();
                self.output.extend(written);
            }
            let written = self.write();
            self.output.extend(written);
        }
        outcomes.join("\n")
    }

    /// The violation that has ended the connection.
    pub(super) fn ended(&self) -> String {
        self.ended
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    /// Outcomes of queries that expire by now.
    pub(super) fn expire(&mut self) -> String {
        let expired = std::iter::from_fn(|| self.client.expire(self.now));
        let told: Vec<_> = expired.map(|outcome| told(&outcome)).collect();
        told.join("\n")
    }

    fn write(&mut self) -> Vec<u8> {
        let mut written = Vec::new();
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.client.slices(&mut slices);
            if count == 0 {
                return written;
            }
            let slices = slices[..count].iter();
            let bytes: Vec<u8> = slices.flat_map(|slice| slice.iter().copied()).collect();
            written.extend_from_slice(&bytes);
            self.client.written(bytes.len());
        }
    }

    /// Frames that the client has written since the last call: kind, stream, and payload but for fields.
    pub(super) fn frames(&mut self) -> Vec<(u8, u32, Vec<u8>)> {
        let mut bytes = std::mem::take(&mut self.output);
        bytes.extend(self.write());
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while let Some((&[l2, l1, l0, kind, _, s3, s2, s1, s0], after)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes([0, l2, l1, l0]) as usize;
            let (payload, next) = after.split_at(length);
            let payload = if kind == HEADERS { &[] } else { payload };
            frames.push((kind, u32::from_be_bytes([s3, s2, s1, s0]), payload.to_vec()));
            rest = next;
        }
        frames
    }

    /// Content that the client has sent since the last call, by stream.
    pub(super) fn sent(&mut self) -> Vec<(u32, Vec<u8>)> {
        let frames = self.frames().into_iter();
        let data = frames.filter(|(kind, ..)| *kind == DATA);
        data.map(|(_, stream, payload)| (stream, payload)).collect()
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Response(message) => {
            let (id, rest) = message.filled().split_first_chunk().expect("an id");
            let id = u16::from_be_bytes(*id);
            match rest.len() {
                0..=20 => format!("{id}: {}", String::from_utf8_lossy(rest)),
                bytes => format!("{id}: {bytes} bytes"),
            }
        }
        Outcome::Failed { id, error } => format!("{id} failed: {error}"),
        Outcome::Refused { id } => format!("{id} refused"),
        Outcome::Leaving => "leaving".to_owned(),
    }
}
