//! A toy protocol whose connections are shared by exchanges, on either side.
//!
//! A frame is a line that begins with the number of its stream:
//!
//! ```text
//! 1 @ METHOD host /target name:value … [|]     a request's head
//! 1 @ 200 name:value … [|]                     a response's head
//! 1 =content                                   a chunk
//! 1 . name:value …                             the end, with trailers
//! 1 !                                          the stream is cancelled
//! ```
//!
//! A task of the connection reads and writes for all streams. Streams have no
//! credit: a stream that nobody reads from holds up those beside it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use steppe_http::codec::DownstreamCodec;
use steppe_http::error::{GatewayError, Resend};
use steppe_http::exchange::{Downstream, Outgoing, Part, Refusal, Sink, Source, Upstream};
use steppe_http::field::{FieldBlock, FieldList};
use steppe_http::gateway::{self, Accepted, ClientContext, Request};
use steppe_http::head::{ContentLength, RequestHead, ResponseHead};
use steppe_http::metrics::Traffic;
use steppe_http::upstream::channel::{Channel, Established, UpstreamCodec, UpstreamStream};
use steppe_mem::{Buffer, Lease};
use steppe_net::Transport;

use super::line::{decode, encode, encode_fields, encode_request, field, response_head};

/// The longest frame.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// The most frames of a stream that wait to be read.
const FRAMES_MAX: usize = 4;
/// The most streams of a connection to a server.
pub const STREAMS_MAX: usize = 4;

/// The protocol's name in a configuration.
pub const MULTIPLEXED: &str = "multiplexed";

/// The codec, on either side.
#[derive(Debug)]
pub struct Multiplexed;

/// A connection, shared by its streams and the task that moves its bytes.
#[derive(Debug)]
struct Connection {
    transport: Transport,
    traffic: Traffic,
    lease: Lease,
    pending: Option<Buffer>,
    /// Frames to be written: one a stream at most, and cancellations.
    out: VecDeque<(u64, Buffer)>,
    streams: BTreeMap<u64, Stream>,
    last_id: u64,
    /// Of the task that moves its bytes, and of the pool that keeps it.
    task: Option<Waker>,
    pool: Option<Waker>,
    is_closed: bool,
    /// No further stream will be opened.
    is_abandoned: bool,
}

type Shared = Rc<RefCell<Connection>>;

/// A stream as its connection sees it.
#[derive(Debug)]
struct Stream {
    frames: VecDeque<Frame>,
    waker: Option<Waker>,
    has_out: bool,
    written: u64,
    lease: Lease,
}

#[derive(Debug)]
enum Frame {
    /// Its tokens, and whether content follows.
    Head(Vec<Vec<u8>>, bool),
    Chunk(Buffer),
    End(Option<FieldBlock>),
    Cancelled,
}

/// A stream as its exchange sees it. Dropping it cancels what is not over.
#[derive(Debug)]
struct Handle {
    connection: Shared,
    id: u64,
    lease: Lease,
    has_read_end: bool,
    has_put_end: bool,
}

impl Connection {
    fn new(transport: Transport, traffic: Traffic, lease: Lease) -> Self {
        Self {
            transport,
            traffic,
            lease,
            pending: None,
            out: VecDeque::new(),
            streams: BTreeMap::new(),
            last_id: 0,
            task: None,
            pool: None,
            is_closed: false,
            is_abandoned: false,
        }
    }

    fn add_stream(&mut self, id: u64) {
        let stream = Stream {
            frames: VecDeque::new(),
            waker: None,
            has_out: false,
            written: 0,
            lease: self.lease.clone(),
        };
        self.streams.insert(id, stream);
    }

    /// Moves bytes both ways. Ready with a head of a stream that is not there yet, or
    /// with `None` when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Frame)>> {
        self.task = Some(cx.waker().clone());
        if self.poll_write(cx).is_err() {
            return Poll::Ready(None);
        }
        loop {
            let is_full = |stream: &Stream| stream.frames.len() >= FRAMES_MAX;
            if self.streams.values().any(is_full) {
                return Poll::Pending;
            }
            let Some((id, frame)) = ready!(self.poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            match self.streams.get_mut(&id) {
                Some(stream) => {
                    stream.frames.push_back(frame);
                    wake(&mut stream.waker);
                }
                None if matches!(frame, Frame::Head(..)) => {
                    return Poll::Ready(Some((id, frame)));
                }
                // What is left of a stream that was cancelled.
                None => {}
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> std::io::Result<()> {
        while let Some((id, out)) = self.out.front_mut() {
            let slices = [IoSlice::new(out.filled())];
            let Poll::Ready(written) = self.transport.poll_write(cx, &slices) else {
                return Ok(());
            };
            let count = written?;
            self.traffic.written(count);
            out.consume(count);
            let (id, is_out) = (*id, out.is_empty());
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.written += count as u64;
                stream.has_out &= !is_out;
                wake(&mut stream.waker);
            }
            if is_out {
                self.out.pop_front();
            }
        }
        Ok(())
    }

    /// The next frame; `None` where the stream ended or what came is none.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Frame)>> {
        loop {
            let Some(pending) = &mut self.pending else {
                let read = ready!(self.transport.poll_read(cx, &self.lease, 4096));
                let Some(buffer) = read.ok().filter(|buffer| !buffer.is_empty()) else {
                    return Poll::Ready(None);
                };
                self.traffic.read(buffer.len());
                self.pending = Some(buffer);
                continue;
            };
            let bytes = pending.filled();
            if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
                let line = bytes[..end].to_vec();
                pending.consume(end + 1);
                if pending.is_empty() {
                    self.pending = None;
                }
                return Poll::Ready(self.parse(&line));
            }
            if pending.len() >= FRAME_BYTES_MAX {
                return Poll::Ready(None);
            }
            let read = self.transport.poll_read_more(cx, pending, FRAME_BYTES_MAX);
            match ready!(read) {
                Ok(count @ 1..) => self.traffic.read(count),
                Ok(0) | Err(_) => return Poll::Ready(None),
            }
        }
    }

    fn parse(&self, line: &[u8]) -> Option<(u64, Frame)> {
        let mut tokens = line
            .split(|&byte| byte == b' ')
            .filter(|token| !token.is_empty());
        let id = std::str::from_utf8(tokens.next()?).ok()?.parse().ok()?;
        let lease = self
            .streams
            .get(&id)
            .map_or(&self.lease, |stream| &stream.lease);
        let frame = match tokens.next()? {
            b"@" => {
                let mut head: Vec<_> = tokens.map(<[u8]>::to_vec).collect();
                let has_content = head.last().is_some_and(|last| last == b"|");
                head.truncate(head.len() - usize::from(has_content));
                Frame::Head(head, has_content)
            }
            b"!" => Frame::Cancelled,
            b"." => {
                let mut trailers = None;
                for token in tokens {
                    let (name, value) = field(token).ok()?;
                    let bytes = || Buffer::take(lease, 512).ok();
                    let mut fields = match trailers.take() {
                        Some(fields) => fields,
                        None => FieldBlock::new(bytes()?, FieldList::take()),
                    };
                    fields.append(&name, &value).ok()?;
                    trailers = Some(fields);
                }
                Frame::End(trailers)
            }
            [b'=', content @ ..] => {
                let content = decode(content).ok()?;
                let mut chunk = Buffer::take(lease, content.len()).ok()?;
                chunk.put(&content).expect("it was taken for it");
                Frame::Chunk(chunk)
            }
            _ => return None,
        };
        Some((id, frame))
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.streams
            .values_mut()
            .for_each(|stream| wake(&mut stream.waker));
        wake(&mut self.pool);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Handle {
    fn new(connection: &Shared, id: u64) -> Self {
        let lease = connection.borrow().lease.clone();
        Self {
            connection: Rc::clone(connection),
            id,
            lease,
            has_read_end: false,
            has_put_end: false,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Stream) -> T) -> T {
        let mut connection = self.connection.borrow_mut();
        act(connection.streams.get_mut(&self.id).expect("it is open"))
    }

    fn charge_to(&mut self, lease: &Lease) {
        self.lease = lease.clone();
        self.with(|stream| stream.lease = lease.clone());
    }

    fn put_frame(&mut self, kind: &str, text: &[u8]) -> Result<(), GatewayError> {
        let line = [format!("{} {kind}", self.id).as_bytes(), text, b"\n"].concat();
        let mut out = Buffer::take(&self.lease, line.len())?;
        out.put(&line).expect("it was taken for it");
        self.with(|stream| stream.has_out = true);
        let mut connection = self.connection.borrow_mut();
        connection.out.push_back((self.id, out));
        wake(&mut connection.task);
        Ok(())
    }

    fn put(&mut self, part: &Part) -> Result<(), GatewayError> {
        let mut text = Vec::new();
        match part {
            Part::Chunk(chunk) => {
                encode(chunk.filled(), &mut text);
                self.put_frame("=", &text)
            }
            Part::End(trailers) => {
                if let Some(trailers) = trailers {
                    encode_fields(trailers, ContentLength::Empty, &mut text);
                }
                self.has_put_end = true;
                self.put_frame(". ", &text)
            }
        }
    }

    /// `Err`: the connection or the stream is gone.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if self.connection.borrow().is_closed {
            return Poll::Ready(Err(()));
        }
        self.with(|stream| {
            if stream.has_out {
                stream.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        })
    }

    /// `None`: the connection or the stream is gone.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let frame = self.with(|stream| {
            let frame = stream.frames.pop_front();
            if frame.is_none() {
                stream.waker = Some(cx.waker().clone());
            }
            frame
        });
        let mut connection = self.connection.borrow_mut();
        match frame {
            None if connection.is_closed => Poll::Ready(None),
            None => Poll::Pending,
            Some(Frame::Cancelled) => Poll::Ready(None),
            Some(frame) => {
                // There is room for another.
                wake(&mut connection.task);
                self.has_read_end |= matches!(frame, Frame::End(_));
                Poll::Ready(Some(frame))
            }
        }
    }

    /// `Err`: the stream was cut, or what came is out of order.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, bool>> {
        Poll::Ready(match ready!(self.poll_frame(cx)) {
            Some(Frame::Chunk(chunk)) => Ok(Part::Chunk(chunk.into())),
            Some(Frame::End(trailers)) => Ok(Part::End(trailers)),
            Some(Frame::Head(..) | Frame::Cancelled) => Err(true),
            None => Err(false),
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !(self.has_read_end && self.has_put_end) {
            let _ = self.put_frame("!", b"");
        }
        let mut connection = self.connection.borrow_mut();
        connection.streams.remove(&self.id);
        wake(&mut connection.task);
    }
}

// ---- the side that faces clients

struct ServerStream {
    handle: Handle,
}

impl DownstreamCodec for Multiplexed {
    fn serve(&self, connection: Accepted) {
        tokio::task::spawn_local(serve(connection));
    }

    fn no_room(&self) -> &'static [u8] {
        b"0 !\n"
    }
}

async fn serve(accepted: Accepted) {
    let Accepted {
        transport,
        pending,
        client,
        deadline,
        traffic,
    } = accepted;
    let settings = client.settings();
    let mut connection = Connection::new(transport, traffic, settings.lease.clone());
    connection.pending = pending;
    let connection = Rc::new(RefCell::new(connection));
    loop {
        let next = poll_fn(|cx| {
            let mut connection = connection.borrow_mut();
            if let Poll::Ready(next) = connection.poll(cx) {
                return Poll::Ready(next);
            }
            let is_idle = connection.streams.is_empty() && connection.out.is_empty();
            if is_idle && settings.drain.is_draining() {
                return Poll::Ready(None);
            }
            match (is_idle, deadline.at()) {
                (true, None) => deadline.set(Instant::now(), settings.timeouts.idle),
                (true, Some(_)) => {}
                (false, _) => deadline.clear(),
            }
            deadline.poll_passed(cx).map(|()| None)
        });
        let Some((id, frame)) = next.await else {
            return connection.borrow_mut().close();
        };
        let Frame::Head(tokens, has_content) = frame else {
            unreachable!("a stream begins with a head");
        };
        connection.borrow_mut().add_stream(id);
        let handle = Handle::new(&connection, id);
        let client = Rc::clone(&client);
        let length = match has_content {
            true => ContentLength::Unknown,
            false => ContentLength::Empty,
        };
        let head = request_head(&tokens, length, &handle.lease);
        tokio::task::spawn_local(serve_stream(handle, client, head));
    }
}

/// One exchange: many of them run on a connection at a time, each with a deadline of its own.
async fn serve_stream(
    handle: Handle,
    client: Rc<ClientContext>,
    head: Result<RequestHead, GatewayError>,
) {
    let began_at = Instant::now();
    let mut stream = ServerStream { handle };
    let deadline = client.add_deadline();
    match head {
        Ok(head) => {
            let request = Request { head, began_at };
            gateway::run(&client, &deadline, &mut stream, request).await;
        }
        Err(error) => {
            let rejected = gateway::Rejected {
                error,
                began_at,
                request: None,
            };
            gateway::reject(&client, &deadline, &mut stream, rejected).await;
        }
    }
}

fn request_head(
    tokens: &[Vec<u8>],
    length: ContentLength,
    lease: &Lease,
) -> Result<RequestHead, GatewayError> {
    let [method, host, target, fields @ ..] = tokens else {
        return Err(GatewayError::bad_request());
    };
    let mut head = RequestHead::new(method, host, target, lease)?;
    head.length = length;
    head.takes_trailers = true;
    for token in fields {
        let (name, value) = field(token).map_err(|_| GatewayError::bad_request())?;
        head.fields.append(&name, &value)?;
    }
    Ok(head)
}

fn encode_response(head: &ResponseHead) -> Vec<u8> {
    let mut text = format!("{} ", head.status).into_bytes();
    encode_fields(&head.fields, head.length, &mut text);
    text
}

impl Sink for ServerStream {
    fn can_put(&self) -> bool {
        self.handle.with(|stream| !stream.has_out)
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.handle.put(&part)
    }

    fn written(&self) -> u64 {
        self.handle.with(|stream| stream.written)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        let flushed = self.handle.poll_flush(cx);
        flushed.map_err(|()| GatewayError::client_gone())
    }
}

impl Source for ServerStream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let part = self.handle.poll_part(cx);
        part.map_err(|is_malformed| match is_malformed {
            true => GatewayError::bad_request(),
            false => GatewayError::client_gone(),
        })
    }

    fn is_starved(&self) -> bool {
        false
    }
}

impl Downstream for ServerStream {
    fn charge_to(&mut self, lease: &Lease) {
        self.handle.charge_to(lease);
    }

    fn put_interim(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        self.handle.put_frame("@ ", &encode_response(&head))
    }

    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        self.handle.put_frame("@ ", &encode_response(&head))
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        if !self.can_put() {
            return None;
        }
        self.handle.has_put_end = true;
        // Head and end go out as one: a refusal is put once.
        let text = format!("{} \n{} .", refusal.status, self.handle.id);
        self.handle.put_frame("@ ", text.as_bytes()).ok()?;
        Some(0)
    }

    fn retract(&mut self) -> bool {
        let mut connection = self.handle.connection.borrow_mut();
        let id = self.handle.id;
        let stream = connection.streams.get_mut(&id).expect("it is open");
        if stream.written > 0 {
            return false;
        }
        stream.has_out = false;
        connection.out.retain(|(other, _)| *other != id);
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_closed = self.handle.connection.borrow().is_closed;
        self.handle.with(|stream| {
            let is_cancelled = matches!(stream.frames.back(), Some(Frame::Cancelled));
            stream.waker = Some(cx.waker().clone());
            if is_closed || is_cancelled {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }

    fn start_tunnel(&mut self) {
        unreachable!("no request of this protocol asks to go on as another");
    }
}

// ---- the side that faces servers

/// A connection as a pool keeps it.
#[derive(Debug)]
struct Pooled(Shared);

#[derive(Debug)]
struct ClientStream {
    handle: Handle,
    has_answered: bool,
}

impl UpstreamCodec for Multiplexed {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let Established {
            is_secure: _,
            transport,
            lease,
            charge: _,
            traffic,
        } = connection;
        let connection = Connection::new(transport, traffic, lease);
        let connection = Rc::new(RefCell::new(connection));
        let shared = Rc::clone(&connection);
        tokio::task::spawn_local(async move {
            poll_fn(|cx| {
                let mut connection = shared.borrow_mut();
                // No server opens streams.
                let is_over = connection.poll(cx).is_ready();
                let is_left = connection.is_abandoned
                    && connection.streams.is_empty()
                    && connection.out.is_empty();
                if is_over || is_left {
                    connection.close();
                    return Poll::Ready(());
                }
                Poll::Pending
            })
            .await;
        });
        Box::new(Pooled(connection))
    }
}

impl Channel for Pooled {
    fn capacity(&self) -> usize {
        STREAMS_MAX.saturating_sub(self.0.borrow().streams.len())
    }

    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        let mut connection = self.0.borrow_mut();
        connection.pool = Some(cx.waker().clone());
        !connection.is_closed
    }

    fn open_stream(self: Box<Self>) -> (Box<dyn UpstreamStream>, Option<Box<dyn Channel>>) {
        let id = {
            let mut connection = self.0.borrow_mut();
            connection.last_id += 1;
            let id = connection.last_id;
            connection.add_stream(id);
            id
        };
        let stream = ClientStream {
            handle: Handle::new(&self.0, id),
            has_answered: false,
        };
        (Box::new(stream), Some(self))
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut connection = self.0.borrow_mut();
        connection.is_abandoned = true;
        wake(&mut connection.task);
    }
}

impl UpstreamStream for ClientStream {
    fn finish(self: Box<Self>) -> Option<Box<dyn Channel>> {
        None
    }
}

impl ClientStream {
    fn cut(&self) -> GatewayError {
        GatewayError::cut(if self.handle.id > 1 && !self.has_answered {
            Resend::IfIdempotent
        } else {
            Resend::No
        })
    }
}

impl Sink for ClientStream {
    fn can_put(&self) -> bool {
        self.handle.with(|stream| !stream.has_out)
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.handle.put(&part)
    }

    fn written(&self) -> u64 {
        self.handle.with(|stream| stream.written)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.handle.poll_flush(cx).map_err(|()| self.cut())
    }
}

impl Source for ClientStream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let part = ready!(self.handle.poll_part(cx));
        Poll::Ready(part.map_err(|is_malformed| match is_malformed {
            true => GatewayError::bad_response(),
            false => self.cut(),
        }))
    }

    fn is_starved(&self) -> bool {
        false
    }
}

impl Upstream for ClientStream {
    fn start(&mut self, request: &Outgoing<'_>) -> Result<(), GatewayError> {
        self.handle.charge_to(request.lease);
        self.handle.put_frame("@ ", &encode_request(request))
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        let Some(frame) = ready!(self.handle.poll_frame(cx)) else {
            return Poll::Ready(Err(self.cut()));
        };
        self.has_answered = true;
        let Frame::Head(tokens, has_content) = frame else {
            return Poll::Ready(Err(GatewayError::bad_response()));
        };
        let length = if has_content {
            ContentLength::Unknown
        } else {
            ContentLength::Empty
        };
        Poll::Ready(response_head(&tokens, length, &self.handle.lease))
    }

    fn start_tunnel(&mut self) {
        unreachable!("a response of this protocol is never 101");
    }
}
