//! A connection from a client as an exchange sees it: content read, responses written.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Lease;

use super::encode::{self, Persistence, ResponsePlan};
use super::framing::{self, BodyLength};
use super::parse::{self, HeadLimits, RequestLine};
use super::reader::{ContentReader, ReadError, split};
use super::wire::Wire;
use super::writer::Writer;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, RefusalContent, Sink, Source};
use crate::field::{FieldBlock, FieldId, FieldList, elements};
use crate::gateway::ListenerSettings;
use crate::head::{Announced, MethodKind, RequestHead, ResponseHead, Version};
use crate::limits::REQUEST_READ_BYTES;
use crate::metrics::CloseReason;
use crate::target::{self, Asked};

/// A connection as an exchange sees it.
#[derive(Debug)]
pub(super) struct ServerSide {
    pub(super) wire: Wire,
    reader: ContentReader,
    writer: Writer,
    pub(super) settings: Rc<ListenerSettings>,
    /// The lease that the exchange's content is charged to.
    lease: Lease,
    request: RequestProperties,
}

/// The properties of a request that its response depends on.
#[derive(Debug, Clone, Copy)]
struct RequestProperties {
    version: Version,
    method: MethodKind,
    keep_alive: bool,
    /// When its first bytes were seen.
    began_at: Instant,
}

/// A head that can't be served, and as much of it as could be read.
pub(super) struct HeadError {
    pub(super) error: GatewayError,
    pub(super) request: Option<(RequestLine, FieldBlock)>,
}

impl<E: Into<GatewayError>> From<E> for HeadError {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            request: None,
        }
    }
}

/// The response when there is no memory to build one.
pub(super) const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

impl ServerSide {
    pub(super) fn new(wire: Wire, settings: Rc<ListenerSettings>, now: Instant) -> Self {
        Self {
            wire,
            reader: ContentReader::new(BodyLength::Empty, 0),
            writer: Writer::default(),
            lease: settings.lease.clone(),
            settings,
            request: RequestProperties {
                version: Version::Http11,
                method: MethodKind::Other,
                keep_alive: true,
                began_at: now,
            },
        }
    }

    /// When the present request's first bytes were seen.
    pub(super) fn began_at(&self) -> Instant {
        self.request.began_at
    }

    /// Charges to the listener again: bytes read from now on belong to no route yet.
    pub(super) fn release_lease(&mut self) {
        self.lease = self.settings.lease.clone();
    }

    /// A request has begun. Until its version is known, a refusal goes out as HTTP/1.1 has it.
    pub(super) fn begin_request(&mut self, now: Instant) {
        self.request = RequestProperties {
            version: Version::Http11,
            method: MethodKind::Other,
            keep_alive: false,
            began_at: now,
        };
    }

    /// Drops a line end that is all there is; says whether it did. Half of one stays.
    pub(super) fn skip_empty_line(&mut self) -> bool {
        match self.wire.pending.as_ref().map(|pending| pending.filled()) {
            Some(b"\r\n") => {
                self.wire.pending = None;
                true
            }
            Some(b"\r") => true,
            _ => false,
        }
    }

    /// The head that what is pending begins with, if it is whole. `seen` bytes were not.
    pub(super) fn parse_head(&mut self, seen: usize) -> Result<Option<RequestHead>, HeadError> {
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
        fields: FieldBlock,
    ) -> Result<RequestHead, HeadError> {
        self.request.version = line.version;
        self.request.method = MethodKind::of(line.method.of(fields.bytes()));
        let mut fields = fields;
        match self.read_head(&line, &mut fields) {
            Ok(read) => Ok(RequestHead {
                fields,
                version: line.version,
                length: read.length.into(),
                takes_trailers: read.takes_trailers,
                parts: read.parts,
            }),
            Err(error) => Err(HeadError {
                error,
                request: Some((line, fields)),
            }),
        }
    }

    fn read_head(
        &mut self,
        line: &RequestLine,
        fields: &mut FieldBlock,
    ) -> Result<ReadHead, GatewayError> {
        let framing = framing::request(line.version, fields)?;
        let upgrade = framing
            .upgrade
            .then(|| fields.value_span(FieldId::Upgrade))
            .flatten();
        let takes_trailers = takes_trailers(fields);
        fields.strip_hop_by_hop();
        if line.version == Version::Http10 {
            // RFC 9110 §10.1.1: it is ignored, so no server is to act on it either.
            fields.remove_where(|id| id == FieldId::Expect);
        }
        fields.apply_underscores(self.settings.underscores)?;
        let asked = Asked {
            method: line.method,
            target: line.target,
            version: line.version,
        };
        let parts = target::resolve(asked, upgrade, fields)?;
        self.begin_content(framing.length)?;
        // What comes behind CONNECT is no request, whatever the answer.
        self.request.keep_alive = framing.keep_alive && !self.request.method.is_connect();
        if self.request.method.is_connect() && framing.length != BodyLength::Empty {
            return Err(GatewayError::bad_request());
        }
        Ok(ReadHead {
            length: framing.length,
            takes_trailers,
            parts,
        })
    }

    fn begin_content(&mut self, length: BodyLength) -> Result<(), GatewayError> {
        let allowed = self.settings.limits.body_bytes;
        self.reader = ContentReader::new(length, allowed);
        match length {
            BodyLength::Known(length) if length > allowed => Err(too_large()),
            _ => Ok(()),
        }
    }

    /// No request follows the present one.
    pub(super) fn end_requests(&mut self) {
        self.request.keep_alive = false;
    }

    /// True when the connection can carry another request, now that a response is out.
    pub(super) fn is_reusable(&self) -> bool {
        self.request.keep_alive && self.reader.is_done()
    }

    /// The connection stays open after this response, if its request gets read to the end.
    fn persistence(&self) -> Persistence {
        let stays = self.request.keep_alive && !self.settings.drain.is_draining();
        match (stays, self.request.version) {
            (false, _) => Persistence::Close,
            (true, Version::Http10) => Persistence::KeepAlive,
            (true, _) => Persistence::Default,
        }
    }

    /// The framing of a response's content for this client.
    fn delimited(&self, head: &ResponseHead) -> BodyLength {
        use crate::head::ContentLength;
        let has_none = self.request.method.is_head() || matches!(head.status, 204 | 304);
        match (head.length, self.request.version) {
            _ if has_none => BodyLength::Empty,
            (ContentLength::Empty, _) => BodyLength::Empty,
            (ContentLength::Known(bytes), _) => BodyLength::Known(bytes),
            (ContentLength::Unknown, Version::Http10) => BodyLength::UntilEnd,
            (ContentLength::Unknown, _) => BodyLength::Chunked,
        }
    }
}

/// The parsed parts of a head beside its fields.
struct ReadHead {
    length: BodyLength,
    takes_trailers: bool,
    parts: crate::head::RequestParts,
}

impl Sink for ServerSide {
    fn can_put(&self) -> bool {
        self.writer.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        // RFC 9110 §9.3.2: a response to HEAD has no content, whatever made it.
        if self.request.method.is_head() && matches!(part, Part::Chunk(_)) {
            return Ok(());
        }
        Ok(self.writer.put(part)?)
    }

    fn written(&self) -> u64 {
        self.writer.written()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.writer
            .poll_flush(cx, &mut self.wire)
            .map_err(|_| GatewayError::client_gone())
    }
}

impl Source for ServerSide {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let mut part = self.reader.poll_part(cx, &mut self.wire, &self.lease);
        if let Poll::Ready(Ok(Part::End(Some(trailers)))) = &mut part {
            trailers.apply_underscores(self.settings.underscores)?;
        }
        part.map_err(|error| match error {
            ReadError::Cut => GatewayError::client_gone(),
            ReadError::Malformed => GatewayError::bad_request(),
            ReadError::TooLarge => too_large(),
            ReadError::TrailersTooLarge => {
                GatewayError::downstream(CloseReason::HeaderTooLarge, 431)
            }
            ReadError::OverBudget => GatewayError::over_budget(),
        })
    }

    fn is_starved(&self) -> bool {
        self.wire.is_starved()
    }
}

impl Downstream for ServerSide {
    fn charge_to(&mut self, lease: &Lease) {
        self.lease = lease.clone();
    }

    fn put_interim(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        // RFC 9110 §15.2: a client of HTTP/1.0 is sent none.
        if self.request.version == Version::Http11 {
            let plan = ResponsePlan {
                length: BodyLength::Empty,
                announced: Announced::Content,
                persistence: Persistence::Default,
            };
            let out = encode::response(&head, plan, &self.lease)?;
            self.writer.put_out(out);
        }
        Ok(())
    }

    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        if self.request.method.is_connect() && head.is_false_yes() {
            return Err(GatewayError::bad_response());
        }
        let length = self.delimited(&head);
        let persistence = match length {
            BodyLength::UntilEnd if !head.is_tunnel() => Persistence::Close,
            _ => self.persistence(),
        };
        self.request.keep_alive = persistence != Persistence::Close;
        let plan = ResponsePlan {
            length,
            announced: Announced::of(&head, self.request.method),
            persistence,
        };
        let out = encode::response(&head, plan, &self.lease)?;
        self.writer.start(out, length);
        Ok(())
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        // No more of the request is read.
        self.wire.transport.stop_waiting();
        // An interim response that the client does not take is in the way.
        if !self.writer.can_put() {
            return None;
        }
        // Content that was not read would be taken for the next request.
        self.request.keep_alive &= self.reader.is_done();
        let persistence = self.persistence();
        self.request.keep_alive = persistence != Persistence::Close;
        // What is not out yet may leave no room for a page behind it.
        let content = match refusal.content {
            RefusalContent::Page(_) if !self.writer.is_flushed() => RefusalContent::Word,
            content => content,
        };
        let refusal = Refusal {
            content,
            ..*refusal
        };
        let method = self.request.method;
        let has_content = !method.is_head();
        let out = encode::refusal(&refusal, method, persistence, &self.settings.lease);
        let Ok(out) = out else {
            self.request.keep_alive = false;
            self.writer.start_static(NO_ROOM);
            return Some(0);
        };
        match content {
            RefusalContent::Page(page) if has_content => {
                self.writer.start(out, BodyLength::Known(page.bytes()));
                let put = self.writer.put(Part::Chunk(page.content()));
                put.expect("it is as long as was said");
            }
            _ => self.writer.start(out, BodyLength::Empty),
        }
        Some(if has_content { refusal.bytes() } else { 0 })
    }

    fn retract(&mut self) -> bool {
        self.writer.retract()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.reader.is_done() {
            // Content is unread, and not asked for now: only the client's end is of interest.
            self.wire.transport.stop_waiting();
            return self.wire.transport.poll_closed(cx);
        }
        // Some of the next request is there already, which is not read on before this one
        // is answered: only the client's end is of interest, and that makes readable too.
        if self.wire.pending.is_some() {
            let transport = &mut self.wire.transport;
            if transport.is_quiet(cx) {
                return Poll::Pending;
            }
            return transport.poll_closed(cx);
        }
        let lease = &self.settings.lease;
        match ready!(self.wire.poll_fill(cx, lease, REQUEST_READ_BYTES)) {
            Ok(0) | Err(_) => Poll::Ready(()),
            // Once more, so that what comes next wakes the task.
            Ok(_) => self.poll_gone(cx),
        }
    }

    fn start_tunnel(&mut self) {
        self.request.keep_alive = false;
        self.reader = ContentReader::new(BodyLength::UntilEnd, u64::MAX);
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
