//! An HTTP/2 connection, with a client or with the server, and the exchanges on its streams.
//!
//! Each connection has one task, which owns the reads and the order of writes. Received sections and content are queued on
//! the counterpart stream and its task is woken, so that one write carries all that one read brought. A response of
//! HTTP/1.1 is encoded into the client's connection directly by the task of its [`H1Connection`].

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::iter;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use anyhow::{Context as _, Result};
use steppe_h2::hpack::{FieldLine, Indexing};
use steppe_h2::message::SectionKind;
use steppe_h2::{
    Connection, ConnectionMemory, EndStream, ErrorCode, Event, LocalSettings, Memory, Role,
    SendError, StreamId,
};
use steppe_mem::{Budget, Buffer, Chunk, Lease, pool};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::spawn_local;

use super::super::connect;
use super::section::Lines;

/// Limit of the memory budget, which is never reached.
const BUDGET_BYTES: u64 = 1 << 40;
/// Bytes of idle buffers that the thread's pool keeps.
const POOL_BYTES: usize = 64 << 20;
/// Bytes of one read.
pub(super) const READ_BYTES: usize = 16 << 10;
/// Reads in one poll of a task, so that other connections get their turn.
const READS_MAX: usize = 4;
/// Slices of one write: the codec queues at most 32 chunks of content.
pub(super) const SLICES_MAX: usize = 32;
/// Receive window of a client's stream.
const WINDOW_BYTES: u32 = 1 << 20;
/// Receive window of a connection, for several streams.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Concurrent requests on a client's connection.
const STREAMS_MAX: u32 = 128;

/// Constructor of a connection to the server of HTTP/1.1.
type Open = fn(&Rc<Worker>) -> Rc<dyn H1Connection>;

/// State that all connections share.
pub(super) struct Worker {
    pub(super) lease: Lease,
    pub(super) upstream: SocketAddr,
    /// `None` if the server speaks HTTP/2.
    open: Option<Open>,
    /// Idle connections of HTTP/1.1, reused last in, first out: the memory of the last is the warmest.
    pub(super) idle: RefCell<Vec<Rc<dyn H1Connection>>>,
    /// The shared connection to a server of HTTP/2.
    shared: RefCell<Option<Rc<Link>>>,
    /// Empty field sections, kept for their memory.
    spare: RefCell<Vec<Lines>>,
}

/// A connection to a server of HTTP/1.1, as its client's connection uses it.
pub(super) trait H1Connection {
    /// Starts an exchange: queues the head of `request`, which came on `stream` of `link`.
    fn begin(&self, link: &Rc<Link>, stream: StreamId, request: &Lines);

    /// Queues content of the request.
    fn put(&self, content: Chunk);

    /// Marks the request as complete.
    fn end(&self);

    /// Writes the queued bytes, as far as the socket takes them.
    fn flush(&self);

    /// Wakes the task, to retry a response that was blocked by flow control or a full output.
    fn wake(&self);

    /// Aborts the exchange, and closes the connection.
    fn cancel(&self);
}

/// A byte stream, with TLS or without.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Transport for T {}

pub(super) type Codec = Connection<Lines, Stream>;

/// An HTTP/2 connection.
pub(super) struct Link {
    worker: Rc<Worker>,
    codec: RefCell<Codec>,
    /// `None` before it is connected, and after its end.
    io: RefCell<Option<Box<dyn Transport>>>,
    /// Waker of the connection's task. Writes from other tasks use it too, so that this task resumes them.
    waker: OnceCell<Waker>,
    /// True while the task is polled: waking it is unnecessary then.
    is_running: Cell<bool>,
    /// END_STREAM of the section that is being received.
    end: Cell<EndStream>,
    /// Requests to open as streams, with the server.
    requests: RefCell<VecDeque<Request>>,
    /// Streams with a non-empty queue.
    queues: RefCell<Vec<StreamId>>,
    /// Connections of HTTP/1.1 with a response that waits for a window or for output room.
    pub(super) blocked: RefCell<Vec<Rc<dyn H1Connection>>>,
    /// Connections of HTTP/1.1 with new bytes to write.
    unflushed: RefCell<Vec<Rc<dyn H1Connection>>>,
    /// The client's address.
    pub(super) client: String,
}

/// The proxy's own state of a stream.
#[derive(Default)]
pub(super) struct Stream {
    /// `None` until the request is forwarded.
    counterpart: Option<Counterpart>,
    /// Pieces to send on this stream; without a counterpart, received pieces to move to it.
    queue: VecDeque<Piece>,
}

/// The other half of an exchange: the request's on the server's side, the response's on the client's.
#[derive(Clone)]
enum Counterpart {
    H1(Rc<dyn H1Connection>),
    H2(Rc<Link>, StreamId),
}

enum Piece {
    Section(Lines, EndStream),
    Content(Chunk),
    End,
}

struct Request {
    client: Rc<Link>,
    stream: StreamId,
    section: Lines,
    end: EndStream,
}

impl Worker {
    pub(super) fn new(upstream: SocketAddr, open: Option<Open>) -> Rc<Self> {
        let lease = Budget::new(BUDGET_BYTES).root().lease();
        pool::install(&pool::Stock {
            lease: lease.clone(),
            idle_bytes_max: POOL_BYTES,
        });
        Rc::new(Self {
            lease,
            upstream,
            open,
            idle: RefCell::default(),
            shared: RefCell::default(),
            spare: RefCell::default(),
        })
    }

    /// The connection to the server of HTTP/2, which is opened on first use.
    fn shared(self: &Rc<Self>) -> Rc<Link> {
        let mut shared = self.shared.borrow_mut();
        let link = shared.get_or_insert_with(|| {
            let link = Link::new(Rc::clone(self), Role::Client, String::new());
            let task = Rc::clone(&link);
            spawn_local(async move {
                match connect(task.worker.upstream).await {
                    Ok(stream) => task.run(Box::new(stream)).await,
                    Err(error) => task.end(Err(error.into())),
                }
            });
            link
        });
        Rc::clone(link)
    }

    /// Returns the memory of a section for reuse.
    fn keep(&self, mut section: Lines) {
        section.clear();
        self.spare.borrow_mut().push(section);
    }
}

impl Link {
    pub(super) fn new(worker: Rc<Worker>, role: Role, client: String) -> Rc<Self> {
        let reserve = worker.lease.try_reserve(ConnectionMemory::reserved_bytes());
        let memory = Memory {
            lease: worker.lease.clone(),
            reserve: reserve.expect("the budget is never short"),
        };
        let (streams, window) = match role {
            Role::Server => (STREAMS_MAX, Some(WINDOW_BYTES)),
            // A window above the protocol's default would cost a WINDOW_UPDATE frame for each request.
            Role::Client => (0, None),
        };
        let local = LocalSettings {
            concurrent_streams_max: streams,
            section_bytes_max: 64 << 10,
            section_lines_max: 128,
        };
        let mut codec = Codec::new(role, local, memory, Instant::now());
        codec.set_windows(window, CONNECTION_WINDOW_BYTES);
        Rc::new(Self {
            worker,
            codec: RefCell::new(codec),
            io: RefCell::default(),
            waker: OnceCell::new(),
            is_running: Cell::new(false),
            end: Cell::new(EndStream::No),
            requests: RefCell::default(),
            queues: RefCell::default(),
            blocked: RefCell::default(),
            unflushed: RefCell::default(),
            client,
        })
    }

    /// Runs the connection until the peer closes it.
    pub(super) async fn run(self: Rc<Self>, io: Box<dyn Transport>) -> Result<()> {
        *self.io.borrow_mut() = Some(io);
        let mut input = Buffer::take(&self.worker.lease, 0)?.into();
        let ended = poll_fn(|cx| {
            self.is_running.set(true);
            let polled = self.poll(cx, &mut input);
            self.is_running.set(false);
            polled
        });
        let ended = ended.await;
        self.end(ended)
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.get().filter(|_| !self.is_running.get()) {
            waker.wake_by_ref();
        }
    }

    /// Receives, sends and writes. Ready when the connection is over.
    fn poll(self: &Rc<Self>, cx: &mut Context<'_>, input: &mut Chunk) -> Poll<Result<()>> {
        self.waker.get_or_init(|| cx.waker().clone());
        loop {
            if let Poll::Ready(ended) = self.receive(cx, input) {
                let _ = self.flush();
                return Poll::Ready(ended);
            }
            loop {
                self.send();
                let is_all = self.codec.borrow().unwritten_bytes() == 0;
                // Without content to write, window updates may be due.
                ready!(self.flush())?;
                if is_all {
                    break;
                }
            }
            let blocked = self.blocked.take();
            blocked.iter().for_each(|server| server.wake());
            // Input is left where the codec had no room for answers, which are written now.
            if input.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// Reads and processes events. Ready when the connection is over.
    fn receive(self: &Rc<Self>, cx: &mut Context<'_>, input: &mut Chunk) -> Poll<Result<()>> {
        let now = Instant::now();
        for _ in 0..READS_MAX {
            if input.is_empty() {
                *input = ready!(self.read(cx))?;
                if input.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            loop {
                let event = self.codec.borrow_mut().receive(Some(input), now)?;
                let Some(event) = event else {
                    break;
                };
                self.take(event, input);
            }
            for server in self.unflushed.borrow_mut().drain(..) {
                server.flush();
            }
            if !input.is_empty() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once; the chunk is empty at the end of the connection.
    fn read(&self, cx: &mut Context<'_>) -> Poll<Result<Chunk>> {
        let mut buffer = Buffer::take(&self.worker.lease, READ_BYTES)?;
        let mut room = ReadBuf::new(buffer.spare_mut());
        let mut io = self.io.borrow_mut();
        let io = io.as_mut().context("it was connected")?;
        ready!(Pin::new(io).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        buffer.advance(count);
        Poll::Ready(Ok(buffer.into()))
    }

    fn take(self: &Rc<Self>, event: Event, input: &mut Chunk) {
        match event {
            Event::Begins(start) => {
                self.end.set(match start.ends_stream {
                    true => EndStream::Yes,
                    false => EndStream::No,
                });
                let section = self.worker.spare.borrow_mut().pop();
                self.codec.borrow_mut().accept(section.unwrap_or_default());
            }
            Event::Section {
                stream,
                kind,
                truncation: None,
            } => {
                let section = self.codec.borrow_mut().take_section();
                let section = section.expect("it was reported");
                match kind {
                    SectionKind::Request => self.forward(stream, section),
                    _ => self.pass(stream, Piece::Section(section, self.end.get())),
                }
            }
            Event::Content { stream, bytes } => {
                self.pass(stream, Piece::Content(input.split_to(bytes)));
            }
            Event::End { stream } => {
                self.pass(stream, Piece::End);
                release_if_over(&mut self.codec.borrow_mut(), stream);
            }
            Event::Reset { stream, .. } | Event::Section { stream, .. } => self.cut(stream),
            Event::Goaway(_) => self.retire(),
            // Blocked streams are retried at each poll.
            Event::Window(_) | Event::Settings | Event::Priority(_) | Event::Pong(_) => {}
        }
    }

    /// Starts an exchange with the server.
    fn forward(self: &Rc<Self>, id: StreamId, section: Lines) {
        let Some(open) = self.worker.open else {
            let shared = self.worker.shared();
            shared.requests.borrow_mut().push_back(Request {
                client: Rc::clone(self),
                stream: id,
                section,
                end: self.end.get(),
            });
            return shared.wake();
        };
        let idle = self.worker.idle.borrow_mut().pop();
        let server = idle.unwrap_or_else(|| open(&self.worker));
        server.begin(self, id, &section);
        self.worker.keep(section);
        if let Some(stream) = self.codec.borrow_mut().stream_mut(id) {
            stream.counterpart = Some(Counterpart::H1(Rc::clone(&server)));
        }
        self.unflushed.borrow_mut().push(server);
    }

    /// Passes a received piece to the stream's counterpart.
    fn pass(&self, id: StreamId, piece: Piece) {
        let mut codec = self.codec.borrow_mut();
        let Some(stream) = codec.stream_mut(id) else {
            return;
        };
        match (stream.counterpart.clone(), piece) {
            (None, piece) => stream.queue.push_back(piece),
            (Some(Counterpart::H2(link, id)), piece) => {
                drop(codec);
                link.queue(id, piece);
            }
            (Some(Counterpart::H1(server)), Piece::Content(chunk)) => {
                server.put(chunk);
                self.unflushed.borrow_mut().push(server);
            }
            (Some(Counterpart::H1(server)), Piece::End) => server.end(),
            (Some(Counterpart::H1(_)), Piece::Section(trailers, _)) => self.worker.keep(trailers),
        }
    }

    /// Queues a piece to send on a stream.
    fn queue(&self, id: StreamId, piece: Piece) {
        let mut codec = self.codec.borrow_mut();
        let Some(stream) = codec.stream_mut(id) else {
            return;
        };
        if stream.queue.is_empty() {
            self.queues.borrow_mut().push(id);
        }
        stream.queue.push_back(piece);
        self.wake();
    }

    /// Moves queued pieces and requests into the codec, as far as windows and output have room.
    fn send(self: &Rc<Self>) {
        let codec = &mut *self.codec.borrow_mut();
        let mut queues = self.queues.borrow_mut();
        queues.retain(|&id| self.send_queue(codec, id).is_none());
        self.open_streams(codec, &mut queues);
    }

    /// Moves a stream's queue into the codec; `None` if a part of it is blocked.
    fn send_queue(&self, codec: &mut Codec, id: StreamId) -> Option<()> {
        while let Some(stream) = codec.stream_mut(id)
            && let Some(piece) = stream.queue.pop_front()
        {
            let end = match stream.queue.front() {
                Some(Piece::End) => EndStream::Yes,
                _ => EndStream::No,
            };
            // An error other than `Full` means that the stream has ended.
            let rest = match piece {
                Piece::Section(section, end) => match codec.send_head(id, section.iter(), end) {
                    Err(SendError::Full) => Some(Piece::Section(section, end)),
                    Ok(()) | Err(_) => {
                        self.worker.keep(section);
                        None
                    }
                },
                Piece::Content(chunk) => {
                    let (bytes, mut chunk) = (chunk.len(), Some(chunk));
                    let sent = codec.send_content(id, &mut chunk, end);
                    let rest = chunk.filter(|_| sent != Err(SendError::Closed));
                    give_back(codec, id, bytes - rest.as_ref().map_or(0, Chunk::len));
                    rest.map(Piece::Content)
                }
                Piece::End => {
                    let sent = codec.send_content(id, &mut None, EndStream::Yes);
                    (sent == Err(SendError::Full)).then_some(Piece::End)
                }
            };
            if let Some(rest) = rest {
                codec.stream_mut(id)?.queue.push_front(rest);
                return None;
            }
        }
        release_if_over(codec, id);
        Some(())
    }

    /// Opens streams for waiting requests, up to the server's limit.
    fn open_streams(self: &Rc<Self>, codec: &mut Codec, queues: &mut Vec<StreamId>) {
        let mut requests = self.requests.borrow_mut();
        // The limit is unknown before the server's settings.
        while codec.peer().is_known
            && let Some(request) = requests.pop_front()
        {
            let mut client = request.client.codec.borrow_mut();
            let Some(asked) = client.stream_mut(request.stream) else {
                continue;
            };
            let forwarded = line(b"x-forwarded-for", request.client.client.as_bytes());
            let lines = request.section.iter().chain(iter::once(forwarded));
            let stream = Stream::default();
            let opened = codec.open(lines, request.end, stream);
            if let Ok(id) = opened
                && let Some(stream) = codec.stream_mut(id)
            {
                asked.counterpart = Some(Counterpart::H2(Rc::clone(self), id));
                stream.queue = std::mem::take(&mut asked.queue);
                drop(client);
                stream.counterpart = Some(Counterpart::H2(request.client, request.stream));
                queues.push(id);
                self.worker.keep(request.section);
            } else if opened == Err(SendError::Closed) {
                drop(client);
                request.client.cancel(request.stream);
            } else {
                drop(client);
                return requests.push_front(request);
            }
        }
    }

    /// Returns the receive window of content that was forwarded.
    pub(super) fn release(&self, id: StreamId, bytes: usize) {
        let octets = u32::try_from(bytes).expect("at most a buffer");
        if octets > 0 {
            self.codec.borrow_mut().release_content(id, octets);
            self.wake();
        }
    }

    /// Calls `send` on the codec; if its output is full, writes the output and calls again. Pending: it is still full.
    pub(super) fn send_now<T>(
        &self,
        mut send: impl FnMut(&mut Codec) -> Result<T, SendError>,
    ) -> Poll<Result<T, SendError>> {
        let sent = send(&mut self.codec.borrow_mut());
        if !matches!(sent, Err(SendError::Full)) {
            self.wake();
            return Poll::Ready(sent);
        }
        let _ = self.flush();
        match send(&mut self.codec.borrow_mut()) {
            Err(SendError::Full) => Poll::Pending,
            sent => {
                self.wake();
                Poll::Ready(sent)
            }
        }
    }

    /// Releases a stream whose response is complete.
    pub(super) fn finish(&self, id: StreamId) {
        self.codec.borrow_mut().release(id, ErrorCode::NO_ERROR);
    }

    /// Writes the codec's output.
    fn flush(&self) -> Poll<io::Result<()>> {
        let mut io = self.io.borrow_mut();
        let (Some(io), Some(waker)) = (io.as_mut(), self.waker.get()) else {
            return Poll::Pending;
        };
        let cx = &mut Context::from_waker(waker);
        let mut codec = self.codec.borrow_mut();
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = codec.slices(&mut slices);
            if count == 0 {
                return Pin::new(io).poll_flush(cx);
            }
            let written = ready!(Pin::new(&mut *io).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            codec.written(written);
        }
    }

    /// Aborts an exchange: resets the stream, and its counterpart.
    fn cut(&self, id: StreamId) {
        let mut codec = self.codec.borrow_mut();
        let counterpart = codec
            .stream_mut(id)
            .and_then(|stream| stream.counterpart.take());
        codec.release(id, ErrorCode::CANCEL);
        drop(codec);
        match counterpart {
            Some(Counterpart::H1(server)) => server.cancel(),
            Some(Counterpart::H2(link, id)) => link.cancel(id),
            None => {}
        }
    }

    /// Resets a stream whose counterpart was aborted.
    pub(super) fn cancel(&self, id: StreamId) {
        self.codec.borrow_mut().release(id, ErrorCode::CANCEL);
        self.wake();
    }

    /// Stops using this connection for new requests to the server.
    fn retire(&self) {
        let is_this = |link: &mut Rc<Self>| std::ptr::eq(Rc::as_ptr(link), self);
        self.worker.shared.borrow_mut().take_if(is_this);
    }

    /// Releases everything that the ended connection holds, and aborts its exchanges.
    fn end(&self, ended: Result<()>) -> Result<()> {
        self.retire();
        *self.io.borrow_mut() = None;
        let mut codec = self.codec.borrow_mut();
        let streams: Vec<StreamId> = codec.streams_mut().map(|(id, _)| id).collect();
        drop(codec);
        streams.into_iter().for_each(|id| self.cut(id));
        let requests = self.requests.take().into_iter();
        requests.for_each(|request| request.client.cancel(request.stream));
        ended
    }
}

/// Releases a stream that has ended in both directions.
fn release_if_over(codec: &mut Codec, id: StreamId) {
    if !codec.can_send(id) && !codec.can_receive(id) {
        codec.release(id, ErrorCode::NO_ERROR);
    }
}

/// Returns the receive window of forwarded content to the counterpart, where it was received.
fn give_back(codec: &mut Codec, id: StreamId, bytes: usize) {
    if let Some(stream) = codec.stream_mut(id)
        && let Some(Counterpart::H2(link, other)) = &stream.counterpart
    {
        link.release(*other, bytes);
    }
}

/// END_STREAM for a piece with so many bytes of content after it.
pub(super) fn end_before(left_bytes: usize) -> EndStream {
    match left_bytes {
        0 => EndStream::Yes,
        _ => EndStream::No,
    }
}

/// A field line; its representation is the encoder's choice.
pub(super) fn line<'a>(name: &'a [u8], value: &'a [u8]) -> FieldLine<'a> {
    FieldLine {
        name,
        value,
        indexing: Indexing::Without,
    }
}
