//! A server that sends back what it receives, on the state machine.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_h2::hpack::{FieldLine, FieldSink, Indexing};
use steppe_h2::message::SectionKind;
use steppe_h2::{
    Connection, ConnectionMemory, EndStream, ErrorCode, Event, LocalSettings, Memory, Role,
    Section, SendError, StreamId,
};
use steppe_mem::{Budget, Buffer, Chunk};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Split;

/// Field lines one behind the other.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    filled: usize,
    line: usize,
    name: Option<usize>,
    /// Start, end of the name, end.
    lines: Vec<(usize, usize, usize)>,
}

impl Lines {
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        (self.lines.iter())
            .map(|&(start, name, end)| (&self.bytes[start..name], &self.bytes[name..end]))
    }
}

impl FieldSink for Lines {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.bytes.resize(self.filled + bytes, 0);
        Some(&mut self.bytes[self.filled..])
    }

    fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    fn end_name(&mut self) {
        self.name = Some(self.filled);
    }

    fn end_field(&mut self, _: Indexing) {
        let name = self.name.take().expect("its name has ended");
        self.lines.push((self.line, name, self.filled));
        self.line = self.filled;
    }

    fn last(&self) -> (&[u8], &[u8]) {
        self.iter().last().expect("a line has ended")
    }

    fn lost(&mut self, _: usize) {
        unreachable!("there is always room");
    }
}

impl Section for Lines {
    fn has_room(&mut self, _: usize) -> bool {
        true
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

/// One stream.
#[derive(Debug, Default)]
struct Stream {
    head: Option<Lines>,
    queue: VecDeque<Chunk>,
    trailers: Option<Lines>,
    is_ended: bool,
    is_over: bool,
}

/// The server.
pub struct Echo {
    io: Split,
    budget: Budget,
    connection: Connection<Lines, ()>,
    input: Chunk,
    streams: BTreeMap<StreamId, Stream>,
    /// The client takes nothing more.
    is_left: bool,
}

impl Echo {
    pub fn new(budget: &Budget, io: Split) -> Self {
        let lease = budget.root().lease();
        let reserve = lease
            .try_reserve(ConnectionMemory::reserved_bytes())
            .expect("room");
        let local = LocalSettings {
            concurrent_streams_max: 100,
            section_bytes_max: 200_000,
            section_lines_max: 100,
        };
        let memory = Memory {
            lease: lease.clone(),
            reserve,
        };
        let empty = Buffer::take(&lease, 1).expect("room");
        Self {
            io,
            budget: budget.clone(),
            connection: Connection::new(Role::Server, local, memory, Instant::now()),
            input: empty.into(),
            streams: BTreeMap::new(),
            is_left: false,
        }
    }

    /// Serves until the client has left.
    pub async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        let error = self.connection.error();
        assert_eq!(error, None);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.receive();
            self.poll_send(cx);
            if self.is_left {
                return Poll::Ready(());
            }
            if !self.input.is_empty() {
                // Answers wait that are to be written before more is received.
                match self.connection.takes_input() {
                    true => continue,
                    false => return Poll::Pending,
                }
            }
            let mut buffer = Buffer::take(&self.budget.root().lease(), 1000).expect("room");
            let mut room = ReadBuf::new(buffer.spare_mut());
            let polled = Pin::new(&mut self.io).poll_read(cx, &mut room);
            let count = room.filled().len();
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(read) if read.is_err() || count == 0 => return Poll::Ready(()),
                Poll::Ready(_) => {
                    buffer.advance(count);
                    assert!(self.input.is_empty(), "all of it was received");
                    self.input = buffer.into();
                }
            }
        }
    }

    /// Sends and writes, until nothing more is to be sent or the client takes no more.
    fn poll_send(&mut self, cx: &mut Context<'_>) {
        loop {
            self.send();
            // Windows are announced as well.
            let is_idle = self.connection.slices(&mut [IoSlice::new(&[])]) == 0;
            if is_idle || self.poll_write(cx).is_pending() {
                return;
            }
        }
    }

    fn receive(&mut self) {
        let now = Instant::now();
        while let Some(event) = self
            .connection
            .receive(Some(&mut self.input), now)
            .expect("the client is right")
        {
            match event {
                Event::Begins(_) => self.connection.accept(Lines::default()),
                Event::Section {
                    stream,
                    kind,
                    section,
                    truncation,
                } => {
                    assert_eq!(truncation, None);
                    let stream = self.streams.entry(stream).or_default();
                    match kind {
                        SectionKind::Request => stream.head = Some(section),
                        _ => stream.trailers = Some(section),
                    }
                }
                Event::Content { stream, bytes } => {
                    let chunk = self.input.split_to(bytes);
                    let octets = u32::try_from(bytes).expect("at most a frame");
                    // Not when it was sent back: the client reads nothing before it has sent all.
                    self.connection.release_content(stream, octets);
                    let stream = self.streams.get_mut(&stream).expect("it was opened");
                    match stream.queue.pop_back() {
                        // The client ends connections with many small frames.
                        Some(last) if last.len() < 1000 => {
                            let bytes = last.len() + chunk.len();
                            let mut joined = Buffer::take(last.lease(), bytes).expect("room");
                            joined.put(last.filled()).expect("room");
                            joined.put(chunk.filled()).expect("room");
                            stream.queue.push_back(joined.into());
                        }
                        last => stream.queue.extend(last.into_iter().chain([chunk])),
                    }
                }
                Event::End { stream } => {
                    self.streams
                        .get_mut(&stream)
                        .expect("it was opened")
                        .is_ended = true;
                }
                Event::Reset { stream, .. } => {
                    self.streams
                        .get_mut(&stream)
                        .expect("it was opened")
                        .is_over = true;
                }
                _ => {}
            }
        }
    }

    fn send(&mut self) {
        for (&id, stream) in &mut self.streams {
            if !stream.is_over {
                let sent = send(&mut self.connection, id, stream);
                stream.is_over = sent == Ok(());
            }
        }
        for (&id, _) in self.streams.iter().filter(|(_, stream)| stream.is_over) {
            let left = self.streams[&id]
                .queue
                .iter()
                .map(Chunk::len)
                .sum::<usize>();
            self.connection
                .release_content(id, u32::try_from(left).expect("a window at most"));
            self.connection.release(id, ErrorCode::CANCEL);
        }
        self.streams.retain(|_, stream| !stream.is_over);
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = self.connection.slices(&mut slices);
            let Some(first) = slices[..count].first() else {
                return Poll::Ready(());
            };
            match ready!(Pin::new(&mut self.io).poll_write(cx, first)) {
                Ok(count) => self.connection.written(count),
                Err(_) => {
                    self.is_left = true;
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Sends back what came of a stream. `Ok`: all of it, and its end.
fn send(
    connection: &mut Connection<Lines, ()>,
    id: StreamId,
    stream: &mut Stream,
) -> Result<(), SendError> {
    fn line<'a>((name, value): (&'a [u8], &'a [u8])) -> FieldLine<'a> {
        FieldLine {
            name,
            value,
            indexing: Indexing::Without,
        }
    }
    if let Some(head) = &stream.head {
        let status = std::iter::once((&b":status"[..], &b"200"[..]));
        let echoed = head.iter().filter(|(name, _)| name.starts_with(b"x-"));
        connection.send_head(id, status.chain(echoed).map(line), EndStream::No)?;
        stream.head = None;
    }
    while let Some(chunk) = stream.queue.pop_front() {
        if chunk.len() < 1000 && !stream.is_ended && stream.queue.is_empty() {
            stream.queue.push_front(chunk);
            return Err(SendError::Full);
        }
        let mut chunk = Some(chunk);
        let sent = connection.send_content(id, &mut chunk, EndStream::No);
        let rest = chunk.filter(|chunk| !chunk.is_empty());
        let is_stopped = rest.is_some();
        if let Some(rest) = rest {
            stream.queue.push_front(rest);
        }
        sent?;
        if is_stopped {
            return Err(SendError::Full);
        }
    }
    if !stream.is_ended {
        return Err(SendError::Full);
    }
    match &stream.trailers {
        Some(trailers) => connection.send_head(id, trailers.iter().map(line), EndStream::Yes),
        None => connection
            .send_content(id, &mut None, EndStream::Yes)
            .map(drop),
    }
}
