//! The server's end: requests written, responses read, over connections that are kept.

use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use steppe_mem::{Buffer, Lease};
use steppe_net::Stream;

use super::framing;
use super::parse::{self, HeadLimits, ParseError};
use super::reader::{ReadError, Reader};
use super::wire::{Side, Wire};
use super::writer::Writer;
use crate::error::GatewayError;
use crate::exchange::{Part, Sink, Source, Upstream};
use crate::field::{FieldBlock, FieldId, FieldList, Span};
use crate::head::{BodyLength, ResponseHead};
use crate::limits::{
    CHUNK_BYTES_MIN, INTERIM_RESPONSES_MAX, RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX,
};
use crate::metrics::{CloseReason, WorkerMetrics};

const LIMITS: HeadLimits = HeadLimits {
    bytes: RESPONSE_HEAD_BYTES_MAX,
    fields: RESPONSE_FIELDS_MAX,
};

/// Room for a response's first read while the budget has plenty: small responses come whole.
const READ_BYTES: usize = 16 << 10;

/// A connection to a server.
///
/// A response's head has the memory that the response was read into, content
/// and all, and brings it back: small responses are never copied.
#[derive(Debug)]
pub struct ClientConnection {
    wire: Wire,
    reader: Reader,
    writer: Writer,
    lease: Lease,
    is_to_head: bool,
    asked_to_upgrade: bool,
    /// It had been idle before this request.
    is_reused: bool,
    has_response_begun: bool,
    /// All of it was put; the writer knows what is still to be written.
    is_request_put: bool,
    keep_alive: bool,
    /// A head is under way that has not been taken back.
    is_lending: bool,
    interim_count: usize,
    seen: usize,
}

/// What a request tells the connection that carries it.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// Its content's length.
    pub length: BodyLength,
    /// It is a `HEAD`: the response has no content.
    pub is_head: bool,
    /// It asks to go on as another protocol.
    pub asks_to_upgrade: bool,
    /// It may be sent again on another connection, as long as what is out of it could be kept.
    pub is_replayable: bool,
}

/// What was kept of a request, to be sent again.
#[derive(Debug)]
pub struct Replay {
    /// Its head, and content after it, as they went out.
    pub out: Buffer,
    /// No content is still to come.
    pub is_whole: bool,
}

impl ClientConnection {
    /// A connection that was just made; `lease` until the first request.
    pub fn new(stream: Stream, lease: Lease, metrics: Rc<WorkerMetrics>) -> Self {
        Self {
            wire: Wire::new(stream, Side::Upstream, metrics),
            reader: Reader::new(BodyLength::Empty, 0),
            writer: Writer::default(),
            lease,
            is_to_head: false,
            asked_to_upgrade: false,
            is_reused: false,
            has_response_begun: false,
            is_request_put: false,
            keep_alive: true,
            is_lending: false,
            interim_count: 0,
            seen: 0,
        }
    }

    /// Starts a request with its encoded head.
    pub fn start(&mut self, head: Buffer, outgoing: Outgoing, lease: &Lease) {
        self.lease = lease.clone();
        self.is_to_head = outgoing.is_head;
        self.asked_to_upgrade = outgoing.asks_to_upgrade;
        self.has_response_begun = false;
        self.is_request_put = false;
        self.keep_alive = false;
        (self.interim_count, self.seen) = (0, 0);
        self.writer
            .start(head, outgoing.length, outgoing.is_replayable);
    }

    /// Whether there is a request to be sent again: see [`Outgoing::is_replayable`].
    pub fn is_request_kept(&self) -> bool {
        self.writer.is_kept()
    }

    /// Takes back a request that may be sent again.
    pub fn take_request(&mut self) -> Option<Replay> {
        Some(Replay {
            out: self.writer.take_kept()?,
            is_whole: self.is_request_put,
        })
    }

    /// Whether another request can go out on it.
    pub fn is_reusable(&self) -> bool {
        self.keep_alive
            && !self.is_lending
            && self.is_request_put
            && self.writer.is_flushed()
            && self.reader.is_done()
            && self.wire.pending.is_none()
    }

    /// Whether nothing has come since it became idle: neither the end nor bytes
    /// that nobody asked for. No system call: the runtime has been told already. `waker`
    /// is woken when something comes.
    pub fn is_quiet(&self, waker: &Waker) -> bool {
        let mut cx = Context::from_waker(waker);
        self.wire.stream.poll_read_ready(&mut cx).is_pending()
    }

    /// It was taken out of a pool.
    pub fn reuse(&mut self) {
        self.is_reused = true;
    }

    fn parse_head(&mut self) -> Result<Option<ResponseHead>, GatewayError> {
        let Some(pending) = &self.wire.pending else {
            return Ok(None);
        };
        let is_worth_it = self.seen == 0
            || pending.len() >= LIMITS.bytes
            || parse::may_be_complete(pending.filled(), self.seen);
        self.has_response_begun = true;
        if !is_worth_it {
            self.seen = pending.len();
            return Ok(None);
        }
        let mut fields = FieldList::take();
        let parsed = parse::response(pending.filled(), LIMITS, &mut fields, pending.lease());
        let Some(line) = parsed.map_err(refusal_of)? else {
            self.seen = pending.len();
            return Ok(None);
        };
        self.seen = 0;
        let bytes = self.wire.pending.take().expect("it was there");
        let content = Span::new(line.head_bytes, bytes.len());
        self.is_lending = true;
        let mut fields = FieldBlock::new(bytes, fields);
        let framing = framing::response(line.version, line.status, self.is_to_head, &fields)
            .map_err(|_| GatewayError::bad_response())?;
        let upgrade = fields
            .value_span(FieldId::Upgrade)
            .filter(|_| line.status == 101);
        if line.status == 101 && !(self.asked_to_upgrade && upgrade.is_some()) {
            return Err(GatewayError::bad_response());
        }
        fields.strip_hop_by_hop();
        let (status, version, reason, length) =
            (line.status, line.version, line.reason, framing.length);
        let head = ResponseHead {
            fields,
            version,
            status,
            length,
            reason,
            upgrade,
            content,
            is_request_kept: self.writer.is_kept() && self.interim_count == 0,
        };
        if head.is_interim() {
            self.interim_count += 1;
        } else {
            self.keep_alive = framing.keep_alive;
            self.reader = Reader::new(length, u64::MAX);
        }
        if self.interim_count > INTERIM_RESPONSES_MAX {
            return Err(GatewayError::bad_response());
        }
        Ok(Some(head))
    }

    /// The server closed or failed before its response was whole.
    fn cut(&self) -> GatewayError {
        let error = GatewayError::upstream(CloseReason::UpstreamReset, 502);
        let is_stale_connection = self.is_reused && !self.has_response_begun;
        GatewayError {
            is_stale_connection,
            ..error
        }
    }
}

impl Sink for ClientConnection {
    fn can_put(&self) -> bool {
        self.writer.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.is_request_put |= matches!(part, Part::End(_));
        Ok(self.writer.put(part)?)
    }

    fn written(&self) -> u64 {
        self.writer.written()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        let flushed = ready!(self.writer.poll_flush(cx, &mut self.wire));
        // Whether all of it was put stays true for a replay; what is not out keeps the
        // connection from being used again.
        if flushed.is_err() {
            self.keep_alive = false;
        }
        Poll::Ready(flushed.map_err(|_| self.cut()))
    }
}

impl Source for ClientConnection {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let part = ready!(self.reader.poll_part(cx, &mut self.wire, &self.lease));
        Poll::Ready(part.map_err(|error| match error {
            ReadError::Cut => self.cut(),
            ReadError::Malformed | ReadError::TooLarge | ReadError::TrailersTooLarge => {
                GatewayError::bad_response()
            }
            ReadError::OverBudget => GatewayError::over_budget(),
        }))
    }

    fn is_starved(&self) -> bool {
        self.wire.is_starved
    }
}

impl Upstream for ClientConnection {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        loop {
            if let Some(head) = self.parse_head()? {
                return Poll::Ready(Ok(head));
            }
            let filled = if self.wire.pending.is_some() {
                ready!(self.wire.poll_fill_more(cx, LIMITS.bytes))
            } else {
                let is_roomy = self.lease.account().headroom_bytes() > ROOMY_BYTES;
                let bytes = if is_roomy {
                    READ_BYTES
                } else {
                    CHUNK_BYTES_MIN
                };
                ready!(self.wire.poll_fill(cx, &self.lease, bytes))
            };
            if !matches!(filled, Ok(1..)) {
                return Poll::Ready(Err(self.cut()));
            }
        }
    }

    fn take_back(&mut self, head: ResponseHead) {
        // It was passed on: the request is not sent again.
        self.writer.forget();
        self.wire.pending = head.fields.into_content(head.content);
        self.is_lending = false;
    }

    fn start_tunnel(&mut self) {
        self.keep_alive = false;
        self.reader = Reader::new(BodyLength::UntilEnd, u64::MAX);
        self.writer.start_tunnel();
    }
}

/// Whatever is wrong with a response, it can't be used; but for want of memory it is not wrong.
fn refusal_of(error: ParseError) -> GatewayError {
    match error {
        ParseError::OverBudget => GatewayError::over_budget(),
        _ => GatewayError::bad_response(),
    }
}

/// While more than this is left, responses are read into roomy buffers.
const ROOMY_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::h1::wire::tests::{pair, run};

    #[test]
    fn a_connection_whose_request_is_not_out_is_not_used_again() {
        run(async {
            let budget = Budget::new(1 << 20);
            let lease = budget.root().lease();
            let (mut stream, mut far, metrics) = pair();
            let mut cx = Context::from_waker(Waker::noop());
            std::future::poll_fn(|cx| stream.poll_write_ready(cx).map(drop)).await;
            while stream.poll_write(&mut cx, &[0; 4096]).is_ready() {}
            let mut connection = ClientConnection::new(stream, lease.clone(), metrics);
            let mut head = Buffer::take(&lease, 100).expect("room");
            head.put(b"GET / HTTP/1.1\r\n\r\n").expect("room");
            let outgoing = Outgoing {
                length: BodyLength::Empty,
                is_head: false,
                asks_to_upgrade: false,
                is_replayable: false,
            };
            connection.start(head, outgoing, &lease);
            connection.put(Part::End(None)).expect("nothing to put");
            assert!(connection.poll_flush(&mut cx).is_pending(), "it is full");
            // An answer to a request that the server has not read.
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            far.write_all(answer).await.expect("room");
            let head = std::future::poll_fn(|cx| connection.poll_head(cx)).await;
            connection.take_back(head.expect("valid"));
            assert!(connection.reader.is_done());
            assert!(!connection.is_reusable());
        });
    }
}
