//! A connection to a server of HTTP/1.1, with one exchange at a time, and the pool of idle ones.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::iter;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use anyhow::{Context as _, Result, ensure};
use steppe_h2::StreamId;
use steppe_mem::{Buffer, Chunk, Lease};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use super::super::connect;
use super::link::{H1Connection, Link, READ_BYTES, SLICES_MAX, Worker, end_before, line};
use super::section::Lines;

/// Bytes of one read amid long content.
const LARGE_READ_BYTES: usize = 64 << 10;
/// Idle connections kept: as many as by the other proxies with HTTP/2 clients.
const IDLE_MAX: usize = 4_096;

struct Upstream {
    worker: Rc<Worker>,
    /// `None` before it is connected, and after its end.
    io: RefCell<Option<TcpStream>>,
    /// Waker of the connection's task. Writes from other tasks use it too, so that this task resumes them.
    waker: OnceCell<Waker>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The stream in progress, with its client's connection.
    exchange: Option<(Rc<Link>, StreamId)>,
    /// Queued bytes of the request.
    output: VecDeque<Chunk>,
    /// The part of `output` that is its head, and counts for no window.
    head_bytes: usize,
    /// The request is complete.
    is_sent: bool,
    is_canceled: bool,
    /// Received bytes of the response that are not forwarded yet.
    input: Option<Chunk>,
    /// Content still to forward; `None` until the response's head is forwarded.
    content_left: Option<usize>,
}

/// Opens a connection in a task of its own.
pub(super) fn open(worker: &Rc<Worker>) -> Rc<dyn H1Connection> {
    let upstream = Rc::new(Upstream {
        worker: Rc::clone(worker),
        io: RefCell::default(),
        waker: OnceCell::new(),
        state: RefCell::default(),
    });
    spawn_local(Rc::clone(&upstream).run());
    upstream
}

impl H1Connection for Upstream {
    fn begin(&self, link: &Rc<Link>, stream: StreamId, request: &Lines) {
        let head = encoded(request, &link.client, &self.worker.lease);
        let mut state = self.state.borrow_mut();
        state.exchange = Some((Rc::clone(link), stream));
        state.is_sent = false;
        state.head_bytes = head.len();
        state.output.push_back(head.into());
    }

    fn put(&self, content: Chunk) {
        self.state.borrow_mut().output.push_back(content);
    }

    fn end(&self) {
        self.state.borrow_mut().is_sent = true;
    }

    /// Errors are left to the task's next read.
    fn flush(&self) {
        let mut io = self.io.borrow_mut();
        let (Some(io), Some(waker)) = (io.as_mut(), self.waker.get()) else {
            return;
        };
        let cx = &mut Context::from_waker(waker);
        let mut state = self.state.borrow_mut();
        while !state.output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = state.output.len().min(SLICES_MAX);
            for (slice, chunk) in slices.iter_mut().zip(&state.output) {
                *slice = IoSlice::new(chunk.filled());
            }
            let written = Pin::new(&mut *io).poll_write_vectored(cx, &slices[..count]);
            let Poll::Ready(Ok(written)) = written else {
                return;
            };
            let content = state.written(written);
            if let Some((link, stream)) = &state.exchange {
                link.release(*stream, content);
            }
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    fn cancel(&self) {
        let mut state = self.state.borrow_mut();
        state.exchange = None;
        state.is_canceled = true;
        self.wake();
    }
}

impl Upstream {
    async fn run(self: Rc<Self>) -> Result<()> {
        let ended = match connect(self.worker.upstream).await {
            Ok(stream) => {
                *self.io.borrow_mut() = Some(stream);
                poll_fn(|cx| self.poll(cx)).await
            }
            Err(error) => Err(error.into()),
        };
        *self.io.borrow_mut() = None;
        let is_this =
            |server: &Rc<dyn H1Connection>| std::ptr::addr_eq(Rc::as_ptr(server), &raw const *self);
        let mut idle = self.worker.idle.borrow_mut();
        idle.retain(|server| !is_this(server));
        let exchange = self.state.borrow_mut().exchange.take();
        if let Some((link, stream)) = exchange {
            link.cancel(stream);
        }
        ended
    }

    fn poll(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.waker.get_or_init(|| cx.waker().clone());
        loop {
            self.flush();
            ready!(self.deliver()?);
            ready!(self.read(cx)?);
        }
    }

    /// Reads once.
    fn read(&self, cx: &mut Context<'_>) -> Result<Poll<()>> {
        let mut io = self.io.borrow_mut();
        let io = io.as_mut().context("it was connected")?;
        if io.poll_read_ready(cx)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let mut state = self.state.borrow_mut();
        let bytes = match state.content_left {
            Some(left) if left > READ_BYTES => LARGE_READ_BYTES,
            _ => READ_BYTES,
        };
        let mut buffer = match state.input.take().map(Chunk::into_buffer) {
            Some(Ok(begun)) => begun,
            Some(Err(_)) | None => Buffer::take(&self.worker.lease, bytes)?,
        };
        let mut room = ReadBuf::new(buffer.spare_mut());
        let read = Pin::new(io).poll_read(cx, &mut room)?;
        let count = room.filled().len();
        ensure!(count > 0 || read.is_pending(), "the server has left");
        buffer.advance(count);
        state.input = Some(buffer.into()).filter(|input: &Chunk| !input.is_empty());
        Ok(read)
    }

    /// Forwards received bytes. Ready when more are needed.
    fn deliver(self: &Rc<Self>) -> Result<Poll<()>> {
        let state = &mut *self.state.borrow_mut();
        ensure!(!state.is_canceled, "the client has left");
        if state.input.is_none() {
            return Ok(Poll::Ready(()));
        }
        let (link, stream) = state
            .exchange
            .clone()
            .context("a response without a request")?;
        if state.pass(&link, stream)?.is_pending() {
            link.blocked
                .borrow_mut()
                .push(Rc::clone(self) as Rc<dyn H1Connection>);
            return Ok(Poll::Pending);
        }
        if state.content_left == Some(0) {
            ensure!(
                state.is_sent,
                "the response came before the request was over"
            );
            link.finish(stream);
            (state.exchange, state.content_left) = (None, None);
            let mut idle = self.worker.idle.borrow_mut();
            ensure!(idle.len() < IDLE_MAX, "enough are idle");
            idle.push(Rc::clone(self) as Rc<dyn H1Connection>);
        }
        Ok(Poll::Ready(()))
    }
}

impl State {
    /// Encodes received bytes into the client's connection. Pending: a window or its output is full.
    fn pass(&mut self, link: &Link, stream: StreamId) -> Result<Poll<()>> {
        if let Some(input) = &mut self.input
            && self.content_left.is_none()
        {
            let Poll::Ready(head) = send_head(link, stream, input.filled())? else {
                return Ok(Poll::Pending);
            };
            let Some(head) = head else {
                return Ok(Poll::Ready(()));
            };
            input.consume(head.bytes);
            self.content_left = Some(head.content_bytes);
        }
        while let Some(input) = self.input.take().filter(|input| !input.is_empty())
            && let Some(left) = &mut self.content_left
        {
            let bytes = input.len();
            ensure!(bytes <= *left, "more than was announced");
            self.input = Some(input);
            let end = end_before(*left - bytes);
            let sent = link.send_now(|codec| codec.send_content(stream, &mut self.input, end));
            match sent {
                Poll::Ready(Ok(sent)) if sent > 0 => *left -= sent,
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Ready(Ok(_)) | Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Removes written bytes from the output. Returns the bytes of content among them.
    fn written(&mut self, bytes: usize) -> usize {
        let mut left = bytes;
        while left > 0
            && let Some(first) = self.output.front_mut()
        {
            let taken = left.min(first.len());
            first.consume(taken);
            left -= taken;
            if first.is_empty() {
                self.output.pop_front();
            }
        }
        let of_head = bytes.min(self.head_bytes);
        self.head_bytes -= of_head;
        bytes - of_head
    }
}

/// The head of a request, in HTTP/1.1.
fn encoded(request: &Lines, client: &str, lease: &Lease) -> Buffer {
    let of_request = |name| {
        let mut lines = request.iter();
        lines.find_map(|line| (line.name == name).then_some(line.value))
    };
    let [method, path, host] =
        [&b":method"[..], b":path", b":authority"].map(|name| of_request(name).unwrap_or_default());
    let others = request.iter().filter(|line| !line.name.starts_with(b":"));
    // The constant covers the version and the names of two more fields.
    let bytes = request.text_bytes() + client.len() + 64;
    let mut head = Buffer::take(lease, bytes).expect("the budget is never short");
    let mut put = |parts: &[&[u8]]| {
        let put = parts.iter().try_for_each(|part| head.put(part));
        put.expect("it was taken for them");
    };
    put(&[method, b" ", path, b" HTTP/1.1\r\nhost: ", host]);
    others.for_each(|line| put(&[b"\r\n", line.name, b": ", line.value]));
    put(&[b"\r\nx-forwarded-for: ", client.as_bytes(), b"\r\n\r\n"]);
    head
}

/// Lengths of a response whose head was forwarded.
struct SentHead {
    bytes: usize,
    content_bytes: usize,
}

/// Forwards the response head at the start of `input`; `None` if it is incomplete.
fn send_head(link: &Link, stream: StreamId, input: &[u8]) -> Result<Poll<Option<SentHead>>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(bytes) = parsed.parse(input)? else {
        return Ok(Poll::Ready(None));
    };
    let is = |field: &httparse::Header<'_>, name| field.name.eq_ignore_ascii_case(name);
    let mut lengths = parsed
        .headers
        .iter()
        .filter(|field| is(field, "content-length"));
    let content_bytes = match lengths.next() {
        Some(length) => str::from_utf8(length.value)?.parse()?,
        None => 0,
    };
    let status = input.get(9..12).context("a response without a status")?;
    let others = parsed
        .headers
        .iter()
        .filter(|field| !is(field, "connection"));
    let others = others.map(|field| line(field.name.as_bytes(), field.value));
    let lines = iter::once(line(b":status", status)).chain(others);
    let end = end_before(content_bytes);
    let sent = link.send_now(|codec| codec.send_head(stream, lines.clone(), end));
    let head = SentHead {
        bytes,
        content_bytes,
    };
    Ok(sent.map(|sent| sent.map(|()| Some(head)))?)
}
