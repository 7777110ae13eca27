//! The client's end: requests read, responses written, one after the other.

mod proxied;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Lease, Reservation};
use steppe_net::{Deadline, Drain, Stream};

use super::encode::{self, Persistence};
use super::framing::{self, RequestFraming};
use super::parse::{self, HeadLimits, RequestLine};
use super::reader::{ReadError, Reader, split};
use super::target;
use super::wire::{Side, Wire};
use super::writer::Writer;
use crate::access::{Capture, Record};
use crate::config::{ListenerLimits, ListenerTimeouts, Underscores};
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Sink, Source};
use crate::field::{FieldBlock, FieldId, FieldList, elements};
use crate::head::{BodyLength, RequestHead, ResponseHead, Version};
use crate::limits::{FIRST_REQUEST_GRACE, LINGER, LINGER_BYTES_MAX, REQUEST_READ_BYTES};
use crate::metrics::{CloseReason, WorkerMetrics};

/// What a listener asks of its connections.
#[derive(Debug)]
pub struct ServerSettings {
    /// See the configuration.
    pub limits: ListenerLimits,
    /// See the configuration.
    pub timeouts: ListenerTimeouts,
    /// See the configuration.
    pub underscores: Underscores,
    /// See the configuration.
    pub proxy_protocol: bool,
    /// Copies what the access log needs, where there is one.
    pub capture: Option<Capture>,
    /// What request heads are charged to.
    pub lease: Lease,
    /// When the node goes down, connections are closed after their response.
    pub drain: Drain,
}

/// A connection from a client.
#[derive(Debug)]
pub struct ServerConnection {
    wire: Wire,
    reader: Reader,
    writer: Writer,
    deadline: Deadline,
    settings: Rc<ServerSettings>,
    /// What the exchange under way is charged to.
    lease: Lease,
    request: Request,
    /// What the access log needs of it.
    record: Option<Record>,
    age: Age,
    /// Connection, task, deadline: as long as it is open.
    _charge: Reservation,
}

/// What a drain must know of a connection that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// Accepted, and its first request may be on its way.
    New,
    /// The same, after the drain began.
    Hurried,
    /// It had a request.
    Served,
}

/// What the response must know of its request.
#[derive(Debug, Clone, Copy)]
struct Request {
    version: Version,
    is_head: bool,
    keep_alive: bool,
    /// When its first bytes were seen.
    began_at: Instant,
    /// Content each way.
    moved: Moved,
}

/// Bytes of content of an exchange.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// What came of waiting for a request.
#[derive(Debug)]
pub enum NextRequest {
    /// One was read.
    Request(RequestHead),
    /// None will come: the client closed, or stayed away for too long.
    Closed(Option<CloseReason>),
    /// What came is refused.
    Refused(GatewayError),
}

impl ServerConnection {
    /// A connection that was just accepted.
    pub fn new(
        stream: Stream,
        settings: Rc<ServerSettings>,
        deadline: Deadline,
        charge: Reservation,
        metrics: Rc<WorkerMetrics>,
    ) -> Self {
        Self {
            wire: Wire::new(stream, Side::Downstream, metrics),
            reader: Reader::new(BodyLength::Empty, 0),
            writer: Writer::default(),
            deadline,
            lease: settings.lease.clone(),
            settings,
            request: Request {
                version: Version::Http11,
                is_head: false,
                keep_alive: true,
                began_at: Instant::now(),
                moved: Moved::default(),
            },
            record: None,
            age: Age::New,
            _charge: charge,
        }
    }

    /// Its deadline, to be moved by whoever waits for something.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// When the present request's first bytes were seen.
    pub fn began_at(&self) -> Instant {
        self.request.began_at
    }

    /// Content of the present exchange, so far.
    pub(crate) fn moved(&self) -> Moved {
        self.request.moved
    }

    /// What the access log needs of the present request.
    pub(crate) fn take_record(&mut self) -> Option<Record> {
        self.record.take()
    }

    /// The address that the client connected to; `None` for a Unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.wire.stream.local_address()
    }

    /// What the listener asks of it.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Takes over what the listener asks now.
    pub fn set_settings(&mut self, settings: Rc<ServerSettings>) {
        self.settings = settings;
    }

    /// Charges the exchange under way to `lease`.
    pub fn charge_to(&mut self, lease: &Lease) {
        self.lease = lease.clone();
    }

    /// Both halves for the relay: the connection, and its deadline apart from it.
    pub fn split_deadline(&mut self) -> (ServerSide<'_>, &Deadline) {
        let side = ServerSide {
            wire: &mut self.wire,
            reader: &mut self.reader,
            writer: &mut self.writer,
            settings: &self.settings,
            lease: &self.lease,
            request: &mut self.request,
        };
        (side, &self.deadline)
    }

    /// Waits for the next request. `now` is when the last one ended.
    pub async fn next_request(&mut self, now: Instant) -> NextRequest {
        self.lease = self.settings.lease.clone();
        if self.wire.pending.is_none() {
            self.deadline.set(now, self.settings.timeouts.idle);
            if let Some(closed) = poll_fn(|cx| self.poll_first_bytes(cx)).await {
                return closed;
            }
        }
        self.age = Age::Served;
        self.request.began_at = Instant::now();
        self.deadline.clear();
        // Until its version is known, a refusal goes out as HTTP/1.1 has it.
        self.request = Request {
            version: Version::Http11,
            is_head: false,
            keep_alive: false,
            moved: Moved::default(),
            ..self.request
        };
        let mut seen = 0;
        poll_fn(|cx| self.poll_head(cx, &mut seen)).await
    }

    /// Ready with `None` when bytes have come.
    fn poll_first_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<NextRequest>> {
        match self
            .wire
            .poll_fill(cx, &self.settings.lease, REQUEST_READ_BYTES)
        {
            Poll::Ready(Ok(1..)) => return Poll::Ready(None),
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Some(NextRequest::Closed(None))),
            Poll::Pending => {}
        }
        if self.settings.drain.is_draining() && !self.wire.is_starved {
            match self.age {
                Age::Served => return Poll::Ready(Some(NextRequest::Closed(None))),
                // Its client connected before the drain, and may not know of it.
                Age::New => {
                    self.age = Age::Hurried;
                    self.deadline.set(Instant::now(), FIRST_REQUEST_GRACE);
                }
                Age::Hurried => {}
            }
        }
        ready!(self.deadline.poll_passed(cx));
        // A request is there, and there was no room to read it: that is told, not hidden.
        let is_starved = self.wire.is_starved;
        Poll::Ready(Some(if is_starved {
            NextRequest::Refused(GatewayError::over_budget())
        } else {
            NextRequest::Closed(Some(CloseReason::IdleTimeout))
        }))
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, seen: &mut usize) -> Poll<NextRequest> {
        loop {
            match self.parse_head(*seen) {
                Ok(Some(head)) => return Poll::Ready(NextRequest::Request(head)),
                Ok(None) => {}
                Err(error) => return Poll::Ready(NextRequest::Refused(error)),
            }
            *seen = self
                .wire
                .pending
                .as_ref()
                .map_or(0, |pending| pending.len());
            if self.deadline.at().is_none() {
                self.deadline
                    .set(self.request.began_at, self.settings.timeouts.header);
            }
            match self
                .wire
                .poll_fill_more(cx, self.settings.limits.header_bytes)
            {
                Poll::Ready(Ok(1..)) => continue,
                // Part of a request and no more: nobody waits for an answer.
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(NextRequest::Closed(None)),
                Poll::Pending => {}
            }
            ready!(self.deadline.poll_passed(cx));
            let error = if self.wire.is_starved {
                GatewayError::over_budget()
            } else {
                GatewayError::timeout(CloseReason::HeaderTimeout)
            };
            return Poll::Ready(NextRequest::Refused(error));
        }
    }

    /// The head that what is pending begins with, if it is whole. `seen` bytes were not.
    fn parse_head(&mut self, seen: usize) -> Result<Option<RequestHead>, GatewayError> {
        let Some(pending) = &self.wire.pending else {
            return Ok(None);
        };
        let limits = &self.settings.limits;
        let is_worth_it = seen == 0
            || pending.len() >= limits.header_bytes
            || parse::may_be_complete(pending.filled(), seen);
        if !is_worth_it {
            return Ok(None);
        }
        let head_limits = HeadLimits {
            bytes: limits.header_bytes,
            fields: limits.header_count,
        };
        let mut fields = FieldList::take();
        let (head, lease) = (pending.filled(), pending.lease());
        let Some(line) = parse::request(head, head_limits, &mut fields, lease)? else {
            return Ok(None);
        };
        let mut bytes = self.wire.pending.take().expect("it was there");
        self.wire.pending = split(&mut bytes, line.head_bytes, line.head_bytes)?;
        self.take_head(line, FieldBlock::new(bytes, fields))
            .map(Some)
    }

    fn take_head(
        &mut self,
        line: RequestLine,
        mut fields: FieldBlock,
    ) -> Result<RequestHead, GatewayError> {
        // Before anything of it is changed.
        if let Some(capture) = &self.settings.capture {
            self.record = capture.take(&line, &fields);
        }
        self.request.version = line.version;
        self.request.is_head = line.method.of(fields.bytes()) == b"HEAD";
        let framing = framing::request(line.version, &fields)?;
        let upgrade = framing
            .upgrade
            .then(|| fields.value_span(FieldId::Upgrade))
            .flatten();
        let takes_trailers = takes_trailers(&fields);
        fields.strip_hop_by_hop();
        if line.version == Version::Http10 {
            // RFC 9110 §10.1.1: it is ignored, so no server is to act on it either.
            fields.remove_where(|id| id == FieldId::Expect);
        }
        fields.apply_underscores(self.settings.underscores)?;
        let parts = target::resolve(&line, upgrade, &mut fields)?;
        self.begin_content(&framing)?;
        self.request.keep_alive = framing.keep_alive;
        let (version, length) = (line.version, framing.length);
        Ok(RequestHead {
            fields,
            version,
            length,
            takes_trailers,
            parts,
        })
    }

    fn begin_content(&mut self, framing: &RequestFraming) -> Result<(), GatewayError> {
        let allowed = self.settings.limits.body_bytes;
        self.reader = Reader::new(framing.length, allowed);
        match framing.length {
            BodyLength::Known(length) if length > allowed => Err(too_large()),
            _ => Ok(()),
        }
    }

    /// Answers with a status and a word about it; `further` fields go with it.
    ///
    /// # Errors
    /// Where the client does not take it.
    pub async fn refuse(&mut self, status: u16, further: &[(&str, &str)]) -> io::Result<()> {
        // An interim response that the client does not take is in the way.
        if !self.writer.can_put() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (mut side, deadline) = self.split_deadline();
        side.put_refusal(status, further);
        deadline.set(Instant::now(), side.settings.timeouts.write_stall);
        poll_fn(|cx| {
            if let Poll::Ready(flushed) = side.writer.poll_flush(cx, side.wire) {
                return Poll::Ready(flushed);
            }
            deadline
                .poll_passed(cx)
                .map(|()| Err(io::ErrorKind::TimedOut.into()))
        })
        .await
    }

    /// Takes a response back whose client has not seen any of it, so that it can
    /// be told of an error instead.
    pub fn retract(&mut self) -> bool {
        self.writer.retract()
    }

    /// Closes it after the next response.
    pub fn end_after_response(&mut self) {
        self.request.keep_alive = false;
    }

    /// Whether another request may follow on it, now that a response is out.
    pub fn is_reusable(&self) -> bool {
        self.request.keep_alive && self.reader.is_done()
    }

    /// Ends the sending side, and reads on for a moment so that the client gets
    /// to see its response before the reset that unread bytes would cause.
    pub async fn linger(&mut self) {
        self.deadline.set(Instant::now(), LINGER);
        let mut left = LINGER_BYTES_MAX;
        self.wire.pending = None;
        let _ = poll_fn(|cx| self.wire.stream.poll_shutdown(cx)).await;
        poll_fn(|cx| {
            let mut thrown_away = [0; 4096];
            while let Poll::Ready(read) = self.wire.stream.poll_read(cx, &mut thrown_away) {
                left = left.saturating_sub(read.as_ref().copied().unwrap_or(0));
                if left == 0 || matches!(read, Ok(0) | Err(_)) {
                    return Poll::Ready(());
                }
            }
            self.deadline.poll_passed(cx)
        })
        .await;
    }
}

/// A connection during one exchange.
#[derive(Debug)]
pub struct ServerSide<'a> {
    wire: &'a mut Wire,
    reader: &'a mut Reader,
    writer: &'a mut Writer,
    settings: &'a ServerSettings,
    lease: &'a Lease,
    request: &'a mut Request,
}

impl ServerSide<'_> {
    /// The connection stays open after this response, if its request gets read to the end.
    fn persistence(&self) -> Persistence {
        let stays = self.request.keep_alive && !self.settings.drain.is_draining();
        match (stays, self.request.version) {
            (false, _) => Persistence::Close,
            (true, Version::Http10) => Persistence::KeepAlive,
            (true, Version::Http11) => Persistence::Default,
        }
    }

    /// How `length` goes out to this client.
    fn delimited(&self, length: BodyLength) -> BodyLength {
        let is_open = matches!(length, BodyLength::Chunked | BodyLength::UntilEnd);
        match (is_open, self.request.version) {
            (false, _) => length,
            (true, Version::Http11) => BodyLength::Chunked,
            (true, Version::Http10) => BodyLength::UntilEnd,
        }
    }

    fn put_refusal(&mut self, status: u16, further: &[(&str, &str)]) {
        // Content that was not read would be taken for the next request.
        self.request.keep_alive &= self.reader.is_done();
        let persistence = self.persistence();
        self.request.keep_alive = persistence != Persistence::Close;
        let has_content = !self.request.is_head;
        self.request.moved.sent = 0;
        let refusal = encode::refusal(
            status,
            further,
            has_content,
            persistence,
            &self.settings.lease,
        );
        match refusal {
            Ok(out) => {
                if has_content {
                    self.request.moved.sent = encode::refusal_bytes(status);
                }
                self.writer.start(out, BodyLength::Empty, false);
            }
            Err(_) => {
                self.request.keep_alive = false;
                self.writer.start_static(OVER_BUDGET);
            }
        }
    }
}

/// What is said when there is no memory to say anything with.
const OVER_BUDGET: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

impl Sink for ServerSide<'_> {
    fn can_put(&self) -> bool {
        self.writer.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        if let Part::Chunk(chunk) = &part {
            self.request.moved.sent += chunk.len() as u64;
        }
        Ok(self.writer.put(part)?)
    }

    fn written(&self) -> u64 {
        self.writer.written()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.writer
            .poll_flush(cx, self.wire)
            .map_err(|_| GatewayError::client_gone())
    }
}

impl Source for ServerSide<'_> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let mut part = self.reader.poll_part(cx, self.wire, self.lease);
        match &mut part {
            Poll::Ready(Ok(Part::Chunk(chunk))) => {
                self.request.moved.received += chunk.len() as u64;
            }
            Poll::Ready(Ok(Part::End(Some(trailers)))) => {
                trailers.apply_underscores(self.settings.underscores)?;
            }
            _ => {}
        }
        part.map_err(|error| match error {
            ReadError::Cut => GatewayError::client_gone(),
            ReadError::Malformed => GatewayError::downstream(CloseReason::BadRequest, 400),
            ReadError::TooLarge => too_large(),
            ReadError::TrailersTooLarge => {
                GatewayError::downstream(CloseReason::HeaderTooLarge, 431)
            }
            ReadError::OverBudget => GatewayError::over_budget(),
        })
    }

    fn is_starved(&self) -> bool {
        self.wire.is_starved
    }
}

impl Downstream for ServerSide<'_> {
    fn put_interim(&mut self, head: &ResponseHead) -> Result<(), GatewayError> {
        // RFC 9110 §15.2: a client of HTTP/1.0 is sent none.
        if self.request.version == Version::Http11 {
            let out = encode::response(head, BodyLength::Empty, Persistence::Default, self.lease)?;
            self.writer.put_out(out);
        }
        Ok(())
    }

    fn put_head(&mut self, head: &ResponseHead) -> Result<(), GatewayError> {
        let length = self.delimited(head.length);
        let persistence = match length {
            BodyLength::UntilEnd if head.status != 101 => Persistence::Close,
            _ => self.persistence(),
        };
        self.request.keep_alive = persistence != Persistence::Close;
        let out = encode::response(head, length, persistence, self.lease)?;
        self.writer.start(out, length, false);
        Ok(())
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The next request is there already: whether its sender still is shows in writing.
        if self.wire.pending.is_some() {
            return Poll::Pending;
        }
        match ready!(
            self.wire
                .poll_fill(cx, &self.settings.lease, REQUEST_READ_BYTES)
        ) {
            Ok(0) | Err(_) => Poll::Ready(()),
            Ok(_) => Poll::Pending,
        }
    }

    fn start_tunnel(&mut self) {
        self.request.keep_alive = false;
        *self.reader = Reader::new(BodyLength::UntilEnd, u64::MAX);
        self.writer.start_tunnel();
    }
}

fn too_large() -> GatewayError {
    GatewayError::downstream(CloseReason::BodyTooLarge, 413)
}

fn takes_trailers(fields: &FieldBlock) -> bool {
    let mut codings = fields.values(FieldId::Te).flat_map(elements);
    codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}
