//! Faces a server: requests written, responses read, over connections that are kept.

use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease, OverBudget};
use steppe_net::limits::ROOMY_BYTES;

use super::Http1;
use super::encode;
use super::framing::{self, BodyLength};
use super::parse::{self, HeadLimits, ParseError};
use super::reader::{ContentReader, ReadError};
use super::wire::Wire;
use super::writer::Writer;
use crate::error::{GatewayError, Resend};
use crate::exchange::{Outgoing, Part, Sink, Source, Upstream};
use crate::field::{FieldBlock, FieldId, FieldList};
use crate::head::{MethodKind, ResponseHead};
use crate::limits::{
    CHUNK_BYTES_MIN, INTERIM_RESPONSES_MAX, RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX,
};
use crate::upstream::channel::{Channel, Established, UpstreamCodec, UpstreamStream};

const LIMITS: HeadLimits = HeadLimits {
    bytes: RESPONSE_HEAD_BYTES_MAX,
    fields: RESPONSE_FIELDS_MAX,
};

/// Room for a response's first read while the budget has plenty: small responses come whole.
const READ_BYTES: usize = 16 << 10;

/// A connection to a server, which carries one exchange at a time: channel and stream in one.
#[derive(Debug)]
struct ClientConnection {
    wire: Wire,
    reader: ContentReader,
    writer: Writer,
    lease: Lease,
    /// The kind of the request's method.
    method: MethodKind,
    /// The protocols that the request asks to go on as.
    asked_to_upgrade: Option<Buffer>,
    /// The connection was idle before this request.
    is_reused: bool,
    has_response_begun: bool,
    /// All of it was put; the writer knows what is still to be written.
    is_request_put: bool,
    keep_alive: bool,
    interim_count: usize,
    seen: usize,
}

impl UpstreamCodec for Http1 {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let Established {
            transport,
            lease,
            traffic,
            ..
        } = connection;
        Box::new(ClientConnection::new(
            Wire::new(transport, None, traffic),
            lease,
        ))
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
        let is_reusable = self.is_reusable();
        self.is_reused = true;
        self.asked_to_upgrade = None;
        is_reusable.then_some(self as Box<dyn Channel>)
    }
}

impl ClientConnection {
    fn new(wire: Wire, lease: Lease) -> Self {
        Self {
            wire,
            reader: ContentReader::new(BodyLength::Empty, 0),
            writer: Writer::default(),
            lease,
            method: MethodKind::Other,
            asked_to_upgrade: None,
            is_reused: false,
            has_response_begun: false,
            is_request_put: false,
            keep_alive: true,
            interim_count: 0,
            seen: 0,
        }
    }

    /// True when the connection can carry another request.
    fn is_reusable(&self) -> bool {
        self.keep_alive
            && self.is_request_put
            && self.writer.is_flushed()
            && self.reader.is_done()
            && self.wire.pending.is_none()
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
        let bytes = self.split_head(line.head_bytes)?;
        let mut fields = FieldBlock::new(bytes, fields);
        let framing = framing::response(line.version, line.status, self.method, &fields)
            .map_err(|_| GatewayError::bad_response())?;
        let upgrade = fields
            .value_span(FieldId::Upgrade)
            .filter(|_| line.status == 101);
        if line.status == 101 {
            let answered = upgrade.map(|upgrade| upgrade.of(fields.bytes()));
            self.check_upgrade(answered)?;
        }
        fields.strip_hop_by_hop();
        let mut head = ResponseHead {
            fields,
            version: line.version,
            status: line.status,
            length: framing.length.into(),
            reason: line.reason,
            upgrade,
            is_connected: false,
        };
        if self.method.is_connect() {
            head.answer_connect();
        }
        if head.is_interim() {
            self.interim_count += 1;
        } else {
            self.keep_alive = framing.keep_alive;
            self.reader = ContentReader::new(framing.length, u64::MAX);
        }
        if self.interim_count > INTERIM_RESPONSES_MAX {
            return Err(GatewayError::bad_response());
        }
        Ok(Some(head))
    }

    /// The head in memory of its own; content that came with it is what is pending.
    fn split_head(&mut self, head_bytes: usize) -> Result<Buffer, OverBudget> {
        let pending = self.wire.pending.take().expect("it was there");
        if pending.len() == head_bytes {
            return Ok(pending);
        }
        // Of the two, the head is nearly always shorter.
        let mut head = Buffer::take(pending.lease(), head_bytes)?;
        head.put(&pending.filled()[..head_bytes])
            .expect("it was taken for it");
        let mut content = pending;
        content.consume(head_bytes);
        self.wire.pending = Some(content);
        Ok(head)
    }

    /// RFC 9110 §7.8: a server upgrades to nothing that it was not asked for.
    fn check_upgrade(&self, answered: Option<&[u8]>) -> Result<(), GatewayError> {
        let asked = self.asked_to_upgrade.as_ref().map(|asked| asked.filled());
        match (asked, answered) {
            (Some(asked), Some(answered)) if framing::upgrade_matches(asked, answered) => Ok(()),
            _ => Err(GatewayError::bad_response()),
        }
    }

    /// The server closed or failed before its response was whole.
    fn cut(&self) -> GatewayError {
        let is_stale = self.is_reused && !self.has_response_begun;
        GatewayError::cut(if is_stale {
            Resend::IfIdempotent
        } else {
            Resend::No
        })
    }
}

impl Sink for ClientConnection {
    fn can_put(&self) -> bool {
        self.writer.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.is_request_put |= matches!(part, Part::End(_));
        let put = self.writer.put(part);
        if put.is_err() {
            self.keep_alive = false;
            self.is_request_put = false;
        }
        Ok(put?)
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
        self.wire.is_starved()
    }
}

impl Upstream for ClientConnection {
    fn start(&mut self, request: &Outgoing<'_>) -> Result<(), GatewayError> {
        let Outgoing {
            head,
            authority,
            lease,
        } = *request;
        let out = encode::request(head, authority, lease)?;
        self.asked_to_upgrade = match head.upgrade() {
            None => None,
            Some(asked) => {
                let mut kept = Buffer::take(lease, asked.len())?;
                kept.put(asked).expect("it was taken for it");
                Some(kept)
            }
        };
        self.lease = lease.clone();
        self.method = MethodKind::of(head.method());
        self.has_response_begun = false;
        self.is_request_put = false;
        self.keep_alive = false;
        (self.interim_count, self.seen) = (0, 0);
        self.writer.start(out, encode::request_length(head));
        Ok(())
    }

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

    fn start_tunnel(&mut self) {
        self.keep_alive = false;
        self.reader = ContentReader::new(BodyLength::UntilEnd, u64::MAX);
        self.writer.start_tunnel();
    }
}

/// The error for a response that can't be parsed: 502, unless memory is short.
fn refusal_of(error: ParseError) -> GatewayError {
    match error {
        ParseError::OverBudget => GatewayError::over_budget(),
        _ => GatewayError::bad_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use steppe_mem::Budget;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::h1::wire::tests::{pair, run};
    use crate::head::RequestHead;

    #[test]
    fn a_connection_whose_request_is_not_out_is_not_used_again() {
        run(async {
            let budget = Budget::new(1 << 20);
            let lease = budget.root().lease();
            let (mut wire, mut far) = pair();
            let mut cx = Context::from_waker(Waker::noop());
            let zeros = [std::io::IoSlice::new(&[0; 4096])];
            std::future::poll_fn(|cx| wire.poll_write(cx, &zeros))
                .await
                .expect("room");
            while wire.poll_write(&mut cx, &zeros).is_ready() {}
            let mut connection = ClientConnection::new(wire, lease.clone());
            let head = RequestHead::new(b"GET", b"a.example", b"/", &lease).expect("valid");
            let outgoing = Outgoing {
                head: &head,
                authority: "",
                lease: &lease,
            };
            connection.start(&outgoing).expect("room");
            connection.put(Part::End(None)).expect("nothing to put");
            assert!(connection.poll_flush(&mut cx).is_pending(), "it is full");
            // An answer to a request that the server has not read.
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            far.write_all(answer).await.expect("room");
            let head = std::future::poll_fn(|cx| connection.poll_head(cx)).await;
            head.expect("valid");
            assert!(connection.reader.is_done());
            assert!(!connection.is_reusable());
        });
    }
}
