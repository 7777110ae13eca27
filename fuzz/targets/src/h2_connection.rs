//! A connection of HTTP/2 under any bytes of its peer and any calls of its holder: no panic, events in their order,
//! memory within a bound, and the account at zero at the end.
//!
//! The first byte says which side it is, whether a valid preface came before, and how much is read at a time; then come
//! commands up to a zero, one of which follows each read; the rest is the peer's.

mod lines;
mod order;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use steppe_h2::hpack::{FieldLine, Indexing};
use steppe_h2::{
    Connection, ConnectionMemory, EndStream, ErrorCode, Event, LocalSettings, Memory, Role,
    StreamId,
};
use steppe_mem::{Budget, Buffer, Chunk};

use lines::Lines;
use order::Order;

const STREAMS_MAX: u32 = 4;
const SECTION_BYTES_MAX: u32 = 300;

struct Holder {
    budget: Budget,
    connection: Connection<Lines, ()>,
    order: Order,
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
            order: Order::default(),
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
            self.order.check(&event);
            // What is not taken is dropped when more is received.
            if self.decides
                && let Event::Section { .. } = event
            {
                let section = self.connection.take_section();
                assert!(section.is_some(), "a section that is reported is there");
            }
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
            (4, Some(id)) => {
                self.connection.reset(id, ErrorCode::CANCEL);
                self.order.reset(id);
            }
            (5, _) => self.connection.shut_down(),
            (6, _) => self.connection.set_windows(Some(100_000), 300_000),
            // A client bounds its own streams.
            (7, _) if self.streams.len() < STREAMS_MAX as usize => self.open(command),
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

    fn open(&mut self, command: u8) {
        const METHODS: [(&[u8], EndStream); 4] = [
            (b"GET", EndStream::Yes),
            (b"POST", EndStream::No),
            (b"HEAD", EndStream::Yes),
            (b"CONNECT", EndStream::No),
        ];
        let (method, end) = METHODS[usize::from(command / 12) % 4];
        let can_open = self.connection.can_open();
        let lines = request(method);
        let is_connect = method == b"CONNECT";
        let lines = lines.into_iter().take(if is_connect { 2 } else { 4 });
        match self.connection.open(lines, end, ()) {
            Ok(id) => {
                assert_eq!(can_open, Ok(()), "open() is stricter than can_open()");
                self.streams.push_back((id, 0));
                self.order.opened(id, method);
            }
            Err(error) => assert!(
                can_open.is_ok() || can_open == Err(error),
                "{can_open:?}, and {error:?}"
            ),
        }
        let most = self.connection.peer().concurrent_streams_max;
        assert!(
            can_open.is_err() || most.is_none_or(|most| self.order.active() <= most as usize),
            "the peer's limit is kept"
        );
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
            self.order.reset(id);
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

fn request(method: &'static [u8]) -> [FieldLine<'static>; 4] {
    [
        line(b":method", method),
        line(b":authority", b"a"),
        line(b":scheme", b"http"),
        line(b":path", b"/"),
    ]
}
