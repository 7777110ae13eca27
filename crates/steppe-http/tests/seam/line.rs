//! A toy protocol, one exchange a line, on either side.
//!
//! ```text
//! request:  METHOD host /target name:value … [| =content =content … name:value …] \n
//! response: [103 name:value … >] 200 name:value … [| =content … name:value …] \n
//! ```
//!
//! Tokens are followed by a space or by the line's end. What is not plain in a
//! value or in content is percent-encoded. Content streams: each of its tokens is
//! a chunk, and what follows as `name:value` is a trailer.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_http::codec::DownstreamCodec;
use steppe_http::error::{GatewayError, Resend};
use steppe_http::exchange::{Downstream, Outgoing, Part, Refusal, Sink, Source, Upstream};
use steppe_http::field::{FieldBlock, FieldId, FieldList};
use steppe_http::gateway::{self, Accepted, ClientContext, End, Rejected, Request};
use steppe_http::head::{ContentLength, RequestHead, ResponseHead};
use steppe_http::metrics::Traffic;
use steppe_http::upstream::channel::{Channel, Established, UpstreamCodec, UpstreamStream};
use steppe_mem::{Buffer, Lease};
use steppe_net::{Deadline, Transport};

/// The longest token.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// The most tokens of a head.
const HEAD_TOKENS_MAX: usize = 100;

/// The protocol's name in a configuration.
pub const LINE: &str = "line";

/// The end of a path to which no request can be started: there is no room for it.
pub const NO_ROOM_PATH: &[u8] = b"/no-room";

/// The codec, on either side.
#[derive(Debug)]
pub struct Line;

/// Some of a line.
#[derive(Debug)]
pub struct Token {
    pub text: Vec<u8>,
    pub ends_line: bool,
}

/// Why a line can't be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineError {
    /// The stream ended or failed before the line did.
    Cut,
    Malformed,
    OverBudget,
}

/// A connection: what was read and not used, and what is to be written.
#[derive(Debug)]
struct Wire {
    transport: Transport,
    traffic: Traffic,
    pending: Option<Buffer>,
    out: Option<Buffer>,
    /// Bytes written of the present message.
    written: u64,
}

/// The content of a line, once its head was read.
#[derive(Debug, Default)]
struct Content {
    is_read: bool,
    trailers: Option<FieldBlock>,
}

/// A head's tokens, and whether content follows them.
#[derive(Debug, Default)]
struct HeadTokens(Vec<Vec<u8>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadEnd {
    Line,
    Content,
    Interim,
}

impl Wire {
    fn new(transport: Transport, traffic: Traffic, pending: Option<Buffer>) -> Self {
        Self {
            transport,
            traffic,
            pending,
            out: None,
            written: 0,
        }
    }

    /// The next token; `None` where the stream ends before one begins.
    fn poll_token(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Option<Token>, LineError>> {
        loop {
            let Some(pending) = &mut self.pending else {
                let read = ready!(self.transport.poll_read(cx, lease, 4096));
                let buffer = read.map_err(|_| LineError::Cut)?;
                if buffer.is_empty() {
                    return Poll::Ready(Ok(None));
                }
                self.traffic.read(buffer.len());
                self.pending = Some(buffer);
                continue;
            };
            let bytes = pending.filled();
            if let Some(end) = bytes.iter().position(|byte| matches!(byte, b' ' | b'\n')) {
                let token = Token {
                    text: bytes[..end].to_vec(),
                    ends_line: bytes[end] == b'\n',
                };
                pending.consume(end + 1);
                if pending.is_empty() {
                    self.pending = None;
                }
                return Poll::Ready(Ok(Some(token)));
            }
            if pending.len() >= TOKEN_BYTES_MAX {
                return Poll::Ready(Err(LineError::Malformed));
            }
            let read = self.transport.poll_read_more(cx, pending, TOKEN_BYTES_MAX);
            match ready!(read) {
                Ok(count @ 1..) => self.traffic.read(count),
                Ok(0) | Err(_) => return Poll::Ready(Err(LineError::Cut)),
            }
        }
    }

    fn can_put(&self) -> bool {
        self.out.is_none()
    }

    fn put(&mut self, text: &[u8], lease: &Lease) -> Result<(), GatewayError> {
        assert!(self.can_put(), "put before it was flushed");
        if !text.is_empty() {
            let mut out = Buffer::take(lease, text.len())?;
            out.put(text).expect("it was taken for it");
            self.out = Some(out);
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LineError>> {
        while let Some(out) = &mut self.out {
            let slices = [IoSlice::new(out.filled())];
            let written = ready!(self.transport.poll_write(cx, &slices));
            let count = written.map_err(|_| LineError::Cut)?;
            self.traffic.written(count);
            self.written += count as u64;
            out.consume(count);
            if out.is_empty() {
                self.out = None;
            }
        }
        self.transport.poll_flush(cx).map_err(|_| LineError::Cut)
    }
}

impl HeadTokens {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
        lease: &Lease,
    ) -> Poll<Result<HeadEnd, LineError>> {
        loop {
            let token = ready!(wire.poll_token(cx, lease))?;
            let Token { text, ends_line } = token.ok_or(LineError::Cut)?;
            let end = match text.as_slice() {
                b"|" => Some(HeadEnd::Content),
                b">" => Some(HeadEnd::Interim),
                b"" => None,
                _ if self.0.len() == HEAD_TOKENS_MAX => {
                    return Poll::Ready(Err(LineError::Malformed));
                }
                _ => {
                    self.0.push(text);
                    None
                }
            };
            match end {
                Some(_) if ends_line => return Poll::Ready(Err(LineError::Malformed)),
                Some(end) => return Poll::Ready(Ok(end)),
                None if ends_line => return Poll::Ready(Ok(HeadEnd::Line)),
                None => {}
            }
        }
    }
}

impl Content {
    fn after(end: HeadEnd) -> Self {
        Self {
            is_read: end == HeadEnd::Line,
            trailers: None,
        }
    }

    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
        lease: &Lease,
    ) -> Poll<Result<Part, LineError>> {
        while !self.is_read {
            let token = ready!(wire.poll_token(cx, lease))?;
            let Token { text, ends_line } = token.ok_or(LineError::Cut)?;
            self.is_read = ends_line;
            match text.as_slice() {
                [] | [b'='] => {}
                [b'=', content @ ..] => {
                    let content = decode(content)?;
                    let chunk = Buffer::take(lease, content.len());
                    let mut chunk = chunk.map_err(|_| LineError::OverBudget)?;
                    chunk.put(&content).expect("it was taken for it");
                    return Poll::Ready(Ok(Part::Chunk(chunk.into())));
                }
                field => {
                    let trailers = self.trailers.take().map_or_else(|| empty(lease), Ok)?;
                    self.trailers = Some(with_field(trailers, field)?);
                }
            }
        }
        Poll::Ready(Ok(Part::End(self.trailers.take())))
    }
}

fn empty(lease: &Lease) -> Result<FieldBlock, LineError> {
    let bytes = Buffer::take(lease, 512).map_err(|_| LineError::OverBudget)?;
    Ok(FieldBlock::new(bytes, FieldList::take()))
}

fn with_field(mut fields: FieldBlock, token: &[u8]) -> Result<FieldBlock, LineError> {
    let (name, value) = field(token)?;
    let appended = fields.append(&name, &value);
    appended.map_err(|_| LineError::OverBudget)?;
    Ok(fields)
}

/// Name and value of a field's token.
pub fn field(token: &[u8]) -> Result<(Vec<u8>, Vec<u8>), LineError> {
    let colon = token.iter().position(|&byte| byte == b':');
    let colon = colon.filter(|&at| at > 0).ok_or(LineError::Malformed)?;
    Ok((token[..colon].to_vec(), decode(&token[colon + 1..])?))
}

/// Percent-encodes what is not plain.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(byte);
        } else {
            out.extend(format!("%{byte:02x}").bytes());
        }
    }
}

pub fn decode(text: &[u8]) -> Result<Vec<u8>, LineError> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or(LineError::Malformed)?);
        rest = &rest[2..];
    }
    Ok(bytes)
}

/// Writes fields as tokens. What the protocol says in another way is left out.
pub fn encode_fields(fields: &FieldBlock, length: ContentLength, out: &mut Vec<u8>) {
    for (id, name, value) in fields.iter() {
        let is_said =
            id == FieldId::Host || id == FieldId::ContentLength && length != ContentLength::Empty;
        if !is_said {
            out.extend_from_slice(name);
            out.push(b':');
            encode(value, out);
            out.push(b' ');
        }
    }
    if length != ContentLength::Empty {
        out.extend_from_slice(b"| ");
    }
}

/// A part of a message as the line has it.
fn encode_part(part: &Part) -> Vec<u8> {
    let mut out = Vec::new();
    match part {
        Part::Chunk(chunk) => {
            out.push(b'=');
            encode(chunk.filled(), &mut out);
            out.push(b' ');
        }
        Part::End(trailers) => {
            if let Some(trailers) = trailers {
                encode_fields(trailers, ContentLength::Empty, &mut out);
            }
            out.push(b'\n');
        }
    }
    out
}

/// Method, target and authority of a request.
pub fn encode_request(request: &Outgoing<'_>) -> Vec<u8> {
    let head = request.head;
    let authority = match head.authority() {
        b"" => request.authority.as_bytes(),
        authority => authority,
    };
    let mut out = [head.method(), b" ", authority, b" ", head.path()].concat();
    if let Some(query) = head.query() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.push(b' ');
    encode_fields(&head.fields, head.length, &mut out);
    out
}

/// The head of a response, from its tokens.
pub fn response_head(
    tokens: &[Vec<u8>],
    length: ContentLength,
    lease: &Lease,
) -> Result<ResponseHead, GatewayError> {
    let (status, fields) = tokens
        .split_first()
        .ok_or_else(GatewayError::bad_response)?;
    let status = std::str::from_utf8(status)
        .ok()
        .and_then(|text| text.parse().ok());
    // No protocol follows on a line: 101 is not for us.
    let status = status.filter(|status| (102..600).contains(status));
    let status = status.ok_or_else(GatewayError::bad_response)?;
    let mut head = ResponseHead::new(status, length, lease)?;
    for token in fields {
        let (name, value) = field(token).map_err(|_| GatewayError::bad_response())?;
        head.fields.append(&name, &value)?;
    }
    Ok(head)
}

// ---- the side that faces a client

struct ServerSide {
    wire: Wire,
    content: Content,
    /// Of the listener, between two requests.
    own_lease: Lease,
    lease: Lease,
}

enum Next {
    Request(Request),
    Rejected(GatewayError),
    Closed,
}

impl DownstreamCodec for Line {
    fn serve(&self, connection: Accepted) {
        let Accepted {
            transport,
            pending,
            client,
            deadline,
            traffic,
        } = connection;
        let lease = client.settings().lease.clone();
        let side = ServerSide {
            wire: Wire::new(transport, traffic, pending),
            content: Content::default(),
            own_lease: lease.clone(),
            lease,
        };
        tokio::task::spawn_local(serve(side, client, deadline));
    }

    fn no_room(&self) -> &'static [u8] {
        b"503 \n"
    }
}

async fn serve(mut side: ServerSide, client: Rc<ClientContext>, deadline: Deadline) {
    loop {
        let completed = match side.next_request(&client, &deadline).await {
            Next::Closed => return,
            Next::Request(request) => gateway::run(&client, &deadline, &mut side, request).await,
            Next::Rejected(error) => {
                let rejected = Rejected {
                    error,
                    began_at: Instant::now(),
                    request: None,
                };
                gateway::reject(&client, &deadline, &mut side, rejected).await;
                return;
            }
        };
        if completed.end != End::Response || !side.content.is_read {
            return;
        }
    }
}

impl ServerSide {
    async fn next_request(&mut self, client: &ClientContext, deadline: &Deadline) -> Next {
        let settings = client.settings();
        self.lease = self.own_lease.clone();
        self.wire.written = 0;
        deadline.set(Instant::now(), settings.timeouts.idle);
        let mut tokens = HeadTokens::default();
        let read = poll_fn(|cx| {
            if let Poll::Ready(read) = tokens.poll(cx, &mut self.wire, &self.own_lease) {
                return Poll::Ready(Some(read));
            }
            let is_idle = tokens.0.is_empty() && self.wire.pending.is_none();
            if is_idle && settings.drain.is_draining() {
                return Poll::Ready(None);
            }
            deadline.poll_passed(cx).map(|()| None)
        });
        let read = read.await;
        deadline.clear();
        match read {
            None | Some(Err(LineError::Cut)) => Next::Closed,
            Some(Err(LineError::Malformed)) => Next::Rejected(GatewayError::bad_request()),
            Some(Err(LineError::OverBudget)) => Next::Rejected(GatewayError::over_budget()),
            Some(Ok(end)) => {
                self.content = Content::after(end);
                match request_head(&tokens.0, end, &self.own_lease) {
                    Ok(head) => Next::Request(Request {
                        head,
                        began_at: Instant::now(),
                    }),
                    Err(error) => Next::Rejected(error),
                }
            }
        }
    }
}

fn request_head(
    tokens: &[Vec<u8>],
    end: HeadEnd,
    lease: &Lease,
) -> Result<RequestHead, GatewayError> {
    let length = match end {
        HeadEnd::Line => ContentLength::Empty,
        HeadEnd::Content => ContentLength::Unknown,
        HeadEnd::Interim => return Err(GatewayError::bad_request()),
    };
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

fn client_error(error: LineError) -> GatewayError {
    match error {
        LineError::Cut => GatewayError::client_gone(),
        LineError::Malformed => GatewayError::bad_request(),
        LineError::OverBudget => GatewayError::over_budget(),
    }
}

impl Sink for ServerSide {
    fn can_put(&self) -> bool {
        self.wire.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.wire.put(&encode_part(&part), &self.lease)
    }

    fn written(&self) -> u64 {
        self.wire.written
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.wire.poll_flush(cx).map_err(client_error)
    }
}

impl Source for ServerSide {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let part = self.content.poll_part(cx, &mut self.wire, &self.lease);
        part.map_err(client_error)
    }

    fn is_starved(&self) -> bool {
        self.wire.transport.is_starved()
    }
}

impl Downstream for ServerSide {
    fn charge_to(&mut self, lease: &Lease) {
        self.lease = lease.clone();
    }

    fn put_interim(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        let mut out = format!("{} ", head.status).into_bytes();
        encode_fields(&head.fields, ContentLength::Empty, &mut out);
        out.extend_from_slice(b"> ");
        self.wire.put(&out, &self.lease)
    }

    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        let mut out = format!("{} ", head.status).into_bytes();
        encode_fields(&head.fields, head.length, &mut out);
        self.wire.put(&out, &self.lease)
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        if !self.wire.can_put() {
            return None;
        }
        let mut out = format!("{} ", refusal.status);
        for (name, value) in refusal.fields {
            out += &format!("{name}:{value} ");
        }
        out += "\n";
        self.wire.put(out.as_bytes(), &self.own_lease).ok()?;
        Some(0)
    }

    fn retract(&mut self) -> bool {
        if self.wire.written > 0 {
            return false;
        }
        self.wire.out = None;
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.content.is_read {
            return self.wire.transport.poll_closed(cx);
        }
        if self.wire.pending.is_some() {
            return Poll::Pending;
        }
        let read = self.wire.transport.poll_read(cx, &self.own_lease, 4096);
        match ready!(read) {
            Ok(buffer) if !buffer.is_empty() => {
                self.wire.pending = Some(buffer);
                Poll::Pending
            }
            Ok(_) | Err(_) => Poll::Ready(()),
        }
    }

    fn start_tunnel(&mut self) {
        unreachable!("no request of this protocol asks to go on as another");
    }
}

// ---- the side that faces a server

/// A connection to a server, which carries one exchange at a time: channel and stream.
#[derive(Debug)]
struct ClientConnection {
    wire: Wire,
    content: Content,
    tokens: HeadTokens,
    lease: Lease,
    is_request_put: bool,
    is_reused: bool,
    has_answered: bool,
}

impl UpstreamCodec for Line {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        Box::new(ClientConnection {
            wire: Wire::new(connection.transport, connection.traffic, None),
            content: Content::default(),
            tokens: HeadTokens::default(),
            lease: connection.lease,
            is_request_put: false,
            is_reused: false,
            has_answered: false,
        })
    }
}

impl Channel for ClientConnection {
    fn capacity(&self) -> usize {
        1
    }

    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        self.wire.transport.is_quiet(cx)
    }

    fn open_stream(self: Box<Self>) -> (Box<dyn UpstreamStream>, Option<Box<dyn Channel>>) {
        (self, None)
    }
}

impl UpstreamStream for ClientConnection {
    fn finish(mut self: Box<Self>) -> Option<Box<dyn Channel>> {
        let is_reusable = self.is_request_put
            && self.content.is_read
            && self.wire.can_put()
            && self.wire.pending.is_none();
        self.is_reused = true;
        is_reusable.then_some(self as Box<dyn Channel>)
    }
}

impl ClientConnection {
    fn error(&self, error: LineError) -> GatewayError {
        match error {
            LineError::Malformed => GatewayError::bad_response(),
            LineError::OverBudget => GatewayError::over_budget(),
            LineError::Cut => GatewayError::cut(if self.is_reused && !self.has_answered {
                Resend::IfIdempotent
            } else {
                Resend::No
            }),
        }
    }
}

impl Sink for ClientConnection {
    fn can_put(&self) -> bool {
        self.wire.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.is_request_put = matches!(part, Part::End(_));
        self.wire.put(&encode_part(&part), &self.lease)
    }

    fn written(&self) -> u64 {
        self.wire.written
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        let flushed = ready!(self.wire.poll_flush(cx));
        Poll::Ready(flushed.map_err(|error| self.error(error)))
    }
}

impl Source for ClientConnection {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let part = ready!(self.content.poll_part(cx, &mut self.wire, &self.lease));
        Poll::Ready(part.map_err(|error| self.error(error)))
    }

    fn is_starved(&self) -> bool {
        self.wire.transport.is_starved()
    }
}

impl Upstream for ClientConnection {
    fn start(&mut self, request: &Outgoing<'_>) -> Result<(), GatewayError> {
        if request.head.path().ends_with(NO_ROOM_PATH) {
            return Err(GatewayError::over_budget());
        }
        self.lease = request.lease.clone();
        self.wire.written = 0;
        self.tokens = HeadTokens::default();
        self.content = Content::default();
        self.is_request_put = false;
        self.has_answered = false;
        self.wire.put(&encode_request(request), &self.lease)
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        let polled = self.tokens.poll(cx, &mut self.wire, &self.lease);
        self.has_answered |= !self.tokens.0.is_empty() || self.wire.pending.is_some();
        let end = ready!(polled).map_err(|error| self.error(error))?;
        let tokens = std::mem::take(&mut self.tokens).0;
        let length = match end {
            HeadEnd::Content => ContentLength::Unknown,
            HeadEnd::Line | HeadEnd::Interim => ContentLength::Empty,
        };
        let head = response_head(&tokens, length, &self.lease)?;
        if head.is_interim() != (end == HeadEnd::Interim) {
            return Poll::Ready(Err(GatewayError::bad_response()));
        }
        self.content = Content::after(end);
        Poll::Ready(Ok(head))
    }

    fn start_tunnel(&mut self) {
        unreachable!("a response of this protocol is never 101");
    }
}
