//! A connection with a log of its events, and of the frames that it writes.

use std::fmt::Write as _;

use super::*;
use crate::error::ErrorCode;
use crate::frame::FrameHeader;
use crate::hpack::{FieldSink, Indexing};
use crate::limits::FRAME_HEADER_BYTES;

pub(super) type Log = Vec<String>;

/// A section as text, in memory of a bounded size.
#[derive(Debug, Default)]
pub(in crate::connection) struct Text {
    bytes: Vec<u8>,
    filled: usize,
    line: usize,
    name: Option<usize>,
    last: (usize, usize),
    room: usize,
    pub(super) lines: Vec<(String, String)>,
}

impl Text {
    pub(in crate::connection) fn new(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }
}

impl FieldSink for Text {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        // Two octets at a time, so that strings come in pieces.
        let bytes = bytes.min(2).min(self.room - self.filled.min(self.room));
        self.bytes.resize(self.filled + bytes, 0);
        Some(&mut self.bytes[self.filled..]).filter(|room| !room.is_empty())
    }

    fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    fn end_name(&mut self) {
        self.name = Some(self.filled);
    }

    fn end_field(&mut self, _: Indexing) {
        let name = self.name.take().expect("the name is over");
        self.last = (self.line, name);
        self.line = self.filled;
        let (name, value) = self.last();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        self.lines.push((text(name), text(value)));
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let (start, name) = self.last;
        self.bytes[start..self.filled].split_at(name - start)
    }

    fn lost(&mut self, _: usize) {
        unreachable!("scratch memory takes what has no room");
    }
}

impl Section for Text {
    fn has_room(&mut self, _: usize) -> bool {
        self.filled < self.room
    }

    fn unfinished(&self) -> (&[u8], Option<&[u8]>) {
        let line = &self.bytes[self.line..self.filled];
        match self.name {
            Some(name) => {
                let (name, value) = line.split_at(name - self.line);
                (name, Some(value))
            }
            None => (line, None),
        }
    }
}

pub(super) struct Peer {
    pub(super) budget: Budget,
    pub(super) connection: Connection<Text, ()>,
    pub(super) input: Chunk,
    /// Decides about field blocks as they begin.
    pub(super) decides: bool,
    /// Lets go of streams that end or are reset.
    pub(super) releases: bool,
    /// Opens windows again for content that came.
    pub(super) consumes: bool,
    /// Takes what is written.
    pub(super) reads: bool,
    /// Room of a section.
    pub(super) room: usize,
    /// All frames that were written.
    pub(super) written: Vec<u8>,
    log: Log,
}

impl Peer {
    /// A server behind the preface of its client, and an empty SETTINGS frame.
    pub(super) fn server() -> Self {
        let mut peer = Self::new(Role::Server);
        peer.receive(&[&PREFACE[..], &frame(FrameType::Settings, 0, 0, &[])].concat());
        expect![[r#"
            settings
            > Settings 0 flags 0
            > Settings 0 flags 1"#]]
        .assert_eq(&peer.log());
        peer
    }

    /// A client behind the empty SETTINGS frame of its server.
    pub(super) fn client() -> Self {
        let mut peer = Self::new(Role::Client);
        peer.receive(&frame(FrameType::Settings, 0, 0, &[]));
        expect![[r#"
            settings
            > Settings 0 flags 0
            > Settings 0 flags 1"#]]
        .assert_eq(&peer.log());
        peer
    }

    /// Opens a stream with a request by this method, of which content follows or not.
    pub(super) fn ask(&mut self, method: &str, end: EndStream) -> StreamId {
        let whole = [
            (":method", method),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/"),
        ];
        let lines = match method {
            "CONNECT" => lines(&[whole[0], whole[2]]),
            _ => lines(&whole),
        };
        let opened = self.connection.open(lines.iter().copied(), end, ());
        opened.expect("it opens a stream")
    }

    /// A side whose peer has sent nothing.
    pub(super) fn new(role: Role) -> Self {
        let budget = Budget::new(4 << 20);
        let lease = budget.root().lease();
        let reserve = lease
            .try_reserve(ConnectionMemory::reserved_bytes())
            .expect("room");
        let local = LocalSettings {
            concurrent_streams_max: match role {
                Role::Server => 4,
                Role::Client => 0,
            },
            section_bytes_max: 1000,
            section_lines_max: 50,
        };
        let now = Instant::now();
        let connection = Connection::new(
            role,
            local,
            Memory {
                lease: lease.clone(),
                reserve,
            },
            now,
        );
        let empty = Buffer::take(&lease, 1).expect("room");
        Self {
            budget,
            connection,
            input: empty.into(),
            decides: true,
            releases: false,
            consumes: true,
            reads: true,
            room: usize::MAX,
            written: Vec::new(),
            log: Log::new(),
        }
    }

    pub(super) fn chunk(&self, bytes: &[u8]) -> Option<Chunk> {
        let lease = self.budget.root().lease();
        let mut buffer = Buffer::take(&lease, bytes.len()).expect("room");
        buffer.put(bytes).expect("room");
        Some(buffer.into())
    }

    /// Gives bytes of the other side to the connection.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let all = [self.input.filled(), bytes].concat();
        self.input = self.chunk(&all).expect("there is one");
        let now = Instant::now();
        loop {
            // As one whose memory was handed on.
            let input = Some(&mut self.input).filter(|input| !input.is_empty());
            match self.connection.receive(input, now) {
                Ok(Some(event)) => self.take(event),
                Ok(None) if !self.connection.takes_input() && self.reads => self.write(),
                Ok(None) | Err(_) => break,
            }
        }
        if self.reads {
            self.write();
        }
    }

    /// The next event of what has come.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = self
            .connection
            .receive(Some(&mut self.input), Instant::now());
        event.expect("the connection goes on")
    }

    fn take(&mut self, event: Event) {
        let line = match event {
            Event::Begins(_) if self.decides => {
                self.connection.accept(Text::new(self.room));
                return;
            }
            Event::Begins(start) => format!("begins {}", start.stream.0),
            Event::Section {
                stream,
                kind,
                truncation,
            } => {
                let section = self.connection.take_section().expect("it is whole");
                let cut = truncation.map_or(String::new(), |why| format!(", cut ({why:?})"));
                let lines: Vec<_> = section
                    .lines
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                let kind = format!("{kind:?}").to_lowercase();
                format!("{kind} on {}{cut}: {}", stream.0, lines.join(", "))
            }
            Event::Content { stream, bytes } => {
                let text = String::from_utf8_lossy(&self.input.filled()[..bytes]).into_owned();
                self.input.consume(bytes);
                if self.consumes {
                    self.connection
                        .release_content(stream, u32::try_from(bytes).expect("few"));
                }
                format!("content of {}: {text}", stream.0)
            }
            Event::End { stream } => format!("end of {}", stream.0),
            Event::Reset { stream, code, by } => {
                if self.releases {
                    self.connection.release(stream, ErrorCode::CANCEL);
                }
                format!("reset of {} by {by:?}: {code}", stream.0)
            }
            Event::Window(Some(stream)) => format!("window of {}", stream.0),
            Event::Window(None) => "window".to_owned(),
            Event::Priority(stream) => {
                let value = String::from_utf8_lossy(self.connection.priority_value());
                format!("priority of {}: {value}", stream.0)
            }
            Event::Settings => "settings".to_owned(),
            Event::Pong(_) => "pong".to_owned(),
            Event::Goaway(code) => format!("goaway: {code}"),
        };
        self.log.push(line);
        self.write();
    }

    /// Writes what waits, in slices of any number.
    fn write(&mut self) {
        if !self.reads {
            return;
        }
        let mut written = Vec::new();
        loop {
            let mut slices = [std::io::IoSlice::new(&[]); 3];
            let count = self.connection.slices(&mut slices);
            let bytes: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            if bytes.is_empty() {
                break;
            }
            // Cut anywhere.
            let taken = bytes.len().div_ceil(2);
            written.extend_from_slice(&bytes[..taken]);
            self.connection.written(taken);
        }
        let written = written.strip_prefix(PREFACE).unwrap_or(&written);
        self.written.extend_from_slice(written);
        self.log.extend(frames(written));
    }

    /// The log since the last call.
    pub(super) fn log(&mut self) -> String {
        self.write();
        std::mem::take(&mut self.log).join("\n")
    }
}

/// Frames as text.
fn frames(mut bytes: &[u8]) -> Log {
    let mut log = Log::new();
    while let Some((octets, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let header = FrameHeader::read(*octets);
        let (payload, rest) = rest.split_at(header.length as usize);
        bytes = rest;
        let mut line = format!(
            "> {:?} {} flags {}",
            header.frame_type, header.stream, header.flags
        );
        let number = |from: usize| {
            let octets = payload[from..from + 4].try_into().expect("four");
            u32::from_be_bytes(octets)
        };
        let _ = match header.frame_type {
            FrameType::Data => write!(line, ": {}", String::from_utf8_lossy(payload)),
            FrameType::RstStream => write!(line, ": {}", ErrorCode(number(0))),
            FrameType::WindowUpdate => write!(line, ": {}", number(0)),
            FrameType::Goaway => {
                let code = ErrorCode(number(4));
                match code {
                    ErrorCode::NO_ERROR => write!(line, ": {code}, last {}", number(0)),
                    _ => write!(line, ": {code}"),
                }
            }
            _ => Ok(()),
        };
        log.push(line);
    }
    assert!(bytes.is_empty(), "frames are written whole");
    log
}

/// A field block of a GET request.
pub(super) fn get(path: &str) -> Vec<u8> {
    let mut block = b"\x82\x86\x04".to_vec();
    block.push(u8::try_from(path.len()).expect("it is short"));
    block.extend_from_slice(path.as_bytes());
    block
}

pub(super) fn lines<'a>(lines: &[(&'a str, &'a str)]) -> Vec<FieldLine<'a>> {
    let line = |&(name, value): &(&'a str, &'a str)| FieldLine {
        name: name.as_bytes(),
        value: value.as_bytes(),
        indexing: Indexing::Without,
    };
    lines.iter().map(line).collect()
}
