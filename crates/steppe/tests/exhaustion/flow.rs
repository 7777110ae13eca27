//! An HTTP/2 peer that sends as much as its peer's windows allow, on all open streams (RFC 9113 §5.2).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use steppe_testkit::H2Frame;

/// The initial window of a connection and of streams, in bytes: RFC 9113 §6.9.2.
const FIRST_WINDOW: i64 = 65_535;
/// The identifier of SETTINGS_INITIAL_WINDOW_SIZE: RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
/// The default maximum frame size, in bytes: RFC 9113 §4.2.
const FRAME_BYTES: i64 = 16 << 10;

/// Windows of a connection and its streams: bytes that may still be sent.
pub struct Flow {
    connection: i64,
    /// The window of each new stream.
    initial: i64,
    streams: BTreeMap<u32, i64>,
}

impl Flow {
    /// The windows of a connection without streams.
    pub fn new() -> Self {
        Self {
            connection: FIRST_WINDOW,
            initial: FIRST_WINDOW,
            streams: BTreeMap::new(),
        }
    }

    /// Opens a stream to send on.
    pub fn open(&mut self, stream: u32) {
        self.streams.insert(stream, self.initial);
    }

    /// Updates the windows by a frame of the peer. Returns the frame to answer with, if any.
    pub fn note(&mut self, frame: &H2Frame) -> Option<H2Frame> {
        match frame.kind {
            H2Frame::WINDOW_UPDATE => self.widen(frame.stream, number(&frame.payload)),
            H2Frame::RST_STREAM => _ = self.streams.remove(&frame.stream),
            H2Frame::SETTINGS if !frame.has(H2Frame::ACK) => {
                self.set(&frame.payload);
                let ack = H2Frame::new(H2Frame::SETTINGS, H2Frame::ACK, 0, Vec::new());
                return Some(ack);
            }
            _ => {}
        }
        None
    }

    fn widen(&mut self, stream: u32, bytes: i64) {
        if stream == 0 {
            self.connection += bytes;
        } else if let Some(window) = self.streams.get_mut(&stream) {
            *window += bytes;
        }
    }

    fn set(&mut self, settings: &[u8]) {
        for pair in settings.chunks_exact(6) {
            if pair[..2] == INITIAL_WINDOW_SIZE {
                let initial = number(&pair[2..]);
                let change = initial - std::mem::replace(&mut self.initial, initial);
                self.streams.values_mut().for_each(|left| *left += change);
            }
        }
    }

    /// The DATA frames that may be sent now, on each stream as much as its window allows.
    pub fn content(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (stream, left) in &mut self.streams {
            while *left > 0 && self.connection > 0 {
                let len = (*left).min(self.connection).min(FRAME_BYTES);
                *left -= len;
                self.connection -= len;
                let content = vec![7; usize::try_from(len).expect("positive")];
                bytes.extend(H2Frame::data(*stream, content).bytes());
            }
        }
        bytes
    }

    /// Sends as much as the windows allow, and reads on, until that was nothing for `quiet`.
    ///
    /// # Errors
    /// The connection ended, or no byte came within the socket's timeout.
    pub fn run(&mut self, mut socket: &TcpStream, quiet: Duration) -> io::Result<()> {
        let mut sent_at = Instant::now();
        while sent_at.elapsed() < quiet {
            let content = self.content();
            if !content.is_empty() {
                sent_at = Instant::now();
            }
            socket.write_all(&content)?;
            if let Some(answer) = self.note(&read_frame(socket)?) {
                socket.write_all(&answer.bytes())?;
            }
        }
        Ok(())
    }
}

/// Reads a number of 31 bits.
fn number(payload: &[u8]) -> i64 {
    let bytes = payload.first_chunk().expect("it has four bytes");
    u32::from_be_bytes(*bytes).into()
}

/// The next frame.
pub fn read_frame(mut socket: &TcpStream) -> io::Result<H2Frame> {
    let mut header = [0; 9];
    socket.read_exact(&mut header)?;
    let [a, b, c, kind, flags, stream @ ..] = header;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    socket.read_exact(&mut payload)?;
    Ok(H2Frame::new(
        kind,
        flags,
        u32::from_be_bytes(stream),
        payload,
    ))
}
