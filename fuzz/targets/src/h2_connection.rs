//! A connection of HTTP/2 under any bytes of its peer and any calls of its holder: no panic, memory within a bound, and
//! the account at zero at the end.
//!
//! The first byte says which side it is, whether a valid preface came before, and how much is read at a time; then come
//! commands up to a zero, one of which follows each read; the rest is the peer's.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use steppe_h2::hpack::{FieldLine, FieldSink, Indexing};
use steppe_h2::{
    Connection, ConnectionMemory, EndStream, ErrorCode, Event, LocalSettings, Memory, Role,
    Section, StreamId,
};
use steppe_mem::{Budget, Buffer, Chunk, Lease};

const STREAMS_MAX: u32 = 4;
const SECTION_BYTES_MAX: u32 = 300;

/// Field lines in a buffer of a size that the budget knows.
#[derive(Debug)]
struct Lines {
    bytes: Buffer,
    line: usize,
    name: Option<usize>,
    last: (usize, usize, usize),
}

impl Lines {
    fn new(lease: &Lease) -> Option<Self> {
        Some(Self {
            bytes: Buffer::take(lease, 512).ok()?,
            line: 0,
            name: None,
            last: (0, 0, 0),
        })
    }
}

impl FieldSink for Lines {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let room = self.bytes.spare_mut();
        let bytes = bytes.min(room.len());
        Some(&mut room[..bytes]).filter(|room| !room.is_empty())
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }

    fn end_name(&mut self) {
        self.name = Some(self.bytes.len());
    }

    fn end_field(&mut self, _: Indexing) {
        let name = self.name.take().expect("its name has ended");
        self.last = (self.line, name, self.bytes.len());
        self.line = self.bytes.len();
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let (start, name, end) = self.last;
        (
            &self.bytes.filled()[start..name],
            &self.bytes.filled()[name..end],
        )
    }

    fn lost(&mut self, _: usize) {}
}

impl Section for Lines {
    fn has_room(&mut self, _: usize) -> bool {
        self.bytes.spare() > 0
    }

    fn unfinished(&self) -> (&[u8], Option<&[u8]>) {
        let line = &self.bytes.filled()[self.line..];
        match self.name {
            Some(name) => {
                let (name, value) = line.split_at(name - self.line);
                (name, Some(value))
            }
            None => (line, None),
        }
    }
}

struct Holder {
    budget: Budget,
    connection: Connection<Lines, ()>,
    input: Chunk,
    /// Streams that are not released, the oldest first, with content that is to be given back.
    streams: VecDeque<(StreamId, u32)>,
    now: Instant,
    decides: bool,
    written: usize,
    read: usize,
}

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (Some(commands), Some(sent)) = (parts.next(), parts.next()) else {
        return;
    };
    let role = match first & 1 {
        0 => Role::Server,
        _ => Role::Client,
    };
    let mut holder = Holder::new(role);
    if first & 2 != 0 {
        let preface = match role {
            Role::Server => &steppe_h2::frame::PREFACE[..],
            Role::Client => &[],
        };
        holder.read(&[preface, b"\0\0\0\x04\0\0\0\0\0"].concat());
    }
    let mut commands = commands.iter();
    for chunk in sent.chunks(1 + usize::from(first >> 2)) {
        holder.read(chunk);
        if let Some(&command) = commands.next() {
            holder.command(command);
        }
    }
    holder.end();
}

impl Holder {
    fn new(role: Role) -> Self {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let reserve = lease
            .try_reserve(ConnectionMemory::reserved_bytes())
            .expect("room");
        let local = LocalSettings {
            concurrent_streams_max: STREAMS_MAX,
            section_bytes_max: SECTION_BYTES_MAX,
            section_lines_max: 20,
        };
        let now = Instant::now();
        let empty = Buffer::take(&lease, 1).expect("room");
        Self {
            connection: Connection::new(role, local, Memory { lease, reserve }, now),
            input: empty.into(),
            budget,
            streams: VecDeque::new(),
            now,
            decides: true,
            written: 0,
            read: 0,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.read += bytes.len();
        let all = [self.input.filled(), bytes].concat();
        let mut buffer =
            Buffer::take(&self.budget.root().lease(), all.len()).expect("an input is short");
        buffer.put(&all).expect("it was taken for them");
        self.input = buffer.into();
        self.receive();
    }

    fn receive(&mut self) {
        while let Ok(Some(event)) = self.connection.receive(Some(&mut self.input), self.now) {
            match event {
                Event::Begins(_) if self.decides => self.decide(),
                Event::Section { stream, .. } if !self.has(stream) => {
                    self.streams.push_back((stream, 0));
                }
                Event::Content { stream, bytes } => {
                    self.input.consume(bytes);
                    let held = self.streams.iter_mut().find(|(id, _)| *id == stream);
                    held.expect("it is a stream").1 +=
                        u32::try_from(bytes).expect("at most a frame");
                }
                _ => {}
            }
        }
        assert!(
            self.connection.streams() <= 2 * STREAMS_MAX as usize,
            "streams are bounded"
        );
        // Beside the input: the connection, a section for each stream at most, and what is to be written.
        assert!(
            self.connection.unwritten_bytes() <= 256 << 10,
            "output is bounded"
        );
    }

    fn has(&self, stream: StreamId) -> bool {
        self.streams.iter().any(|&(id, _)| id == stream)
    }

    fn decide(&mut self) {
        match Lines::new(&self.budget.root().lease()) {
            Some(section) => self.connection.accept(section),
            None => self.connection.refuse(ErrorCode::REFUSED_STREAM),
        }
    }

    fn command(&mut self, command: u8) {
        let stream = self.streams.front().map(|&(id, _)| id);
        match (command % 12, stream) {
            (0, Some(id)) => {
                let head = response(command);
                let _ = self
                    .connection
                    .send_head(id, head.into_iter(), EndStream::No);
            }
            (1, Some(id)) => {
                let mut content = self.content(usize::from(command) * 100);
                let _ = self
                    .connection
                    .send_content(id, &mut content, EndStream::Yes);
            }
            (2, Some(id)) => {
                let mut content = self.content(20_000);
                let _ = self
                    .connection
                    .send_content(id, &mut content, EndStream::No);
            }
            (3, Some(_)) => self.release(),
            (4, Some(id)) => self.connection.reset(id, ErrorCode::CANCEL),
            (5, _) => self.connection.shut_down(),
            (6, _) => self.connection.set_windows(Some(100_000), 300_000),
            // A client bounds its own streams.
            (7, _) if self.streams.len() < STREAMS_MAX as usize => {
                let opened = self
                    .connection
                    .open(request().into_iter(), EndStream::No, ());
                if let Ok(id) = opened {
                    self.streams.push_back((id, 0));
                }
            }
            (8, _) => self.decides = !self.decides,
            (9, _) => {
                if self.connection.is_undecided() {
                    self.connection.refuse(ErrorCode::REFUSED_STREAM);
                }
            }
            (10, _) => self.now += Duration::from_millis(100),
            _ => self.write(usize::from(command) * 10),
        }
        self.receive();
    }

    fn content(&self, bytes: usize) -> Option<Chunk> {
        let mut buffer = Buffer::take(&self.budget.root().lease(), bytes.max(1)).ok()?;
        buffer
            .put(&vec![7; bytes.max(1)])
            .expect("it was taken for them");
        Some(buffer.into())
    }

    fn release(&mut self) {
        if let Some((id, content)) = self.streams.pop_front() {
            self.connection.release_content(id, content);
            self.connection.release(id, ErrorCode::CANCEL);
        }
    }

    fn write(&mut self, bytes: usize) {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = self.connection.slices(&mut slices);
        let waiting: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        let bytes = bytes.min(waiting);
        self.written += bytes;
        self.connection.written(bytes);
    }

    fn end(mut self) {
        while !self.streams.is_empty() {
            self.release();
        }
        let before = self.written;
        while self.connection.unwritten_bytes() > 0 {
            self.write(usize::MAX);
        }
        assert!(self.written >= before);
        let budget = self.budget.clone();
        drop(self);
        assert_eq!(
            budget.root().reserved_bytes(),
            0,
            "everything is given back"
        );
    }
}

fn line<'a>(name: &'a [u8], value: &'a [u8]) -> FieldLine<'a> {
    FieldLine {
        name,
        value,
        indexing: Indexing::Without,
    }
}

fn response(command: u8) -> [FieldLine<'static>; 3] {
    const VALUES: [&[u8]; 4] = [b"", b"a", b"text/plain", &[b'v'; 3000]];
    [
        line(b":status", b"200"),
        line(b"content-type", VALUES[usize::from(command / 12) % 4]),
        line(b"x-again", b"again"),
    ]
}

fn request() -> [FieldLine<'static>; 4] {
    [
        line(b":method", b"GET"),
        line(b":scheme", b"http"),
        line(b":authority", b"a"),
        line(b":path", b"/"),
    ]
}
