//! A client of gRPC-Web, as one of gRPC: the translation stands before the client's side of an
//! exchange, so that routes, filters, retries and counts see gRPC alone.
//!
//! Invariant: at most one part a direction waits here, and what it becomes is charged.
//!
//! Non-goals: CORS, which browsers ask for beside it.

use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Chunk, Lease, OverBudget, Reservation, Waiter};

use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source, content_room};
use crate::field::FieldId;
use crate::grpc::Dialect;
use crate::grpc::web::{self, MessageCoding, TextDecoder, TextEncoder};
use crate::head::{ContentLength, ResponseHead};

/// The translation of one call.
#[derive(Debug)]
pub(super) struct WebCall {
    request: Request,
    response: Response,
    lease: Lease,
    _charge: Reservation,
}

#[derive(Debug)]
struct Request {
    coding: MessageCoding,
    decoder: TextDecoder,
    /// Came, and is not decoded yet.
    text: Option<Chunk>,
    waiter: Waiter,
    is_starved: bool,
}

#[derive(Debug)]
struct Response {
    coding: MessageCoding,
    /// True for a response of gRPC: a server may answer with something else.
    is_translated: bool,
    encoder: TextEncoder,
    /// Put, and not handed on yet.
    content: Option<Chunk>,
    /// The end follows it.
    has_ended: bool,
    waiter: Waiter,
}

/// The client's side of a call, seen through its translation.
pub(super) struct Translated<'a, D: ?Sized> {
    call: &'a mut WebCall,
    down: &'a mut D,
}

type Polled<T> = Poll<Result<T, GatewayError>>;

impl WebCall {
    /// A call of a client that speaks `request` and reads `response`.
    pub(super) fn new(
        request: MessageCoding,
        response: MessageCoding,
        lease: &Lease,
    ) -> Result<Box<Self>, OverBudget> {
        Ok(Box::new(Self {
            _charge: lease.try_reserve(size_of::<Self>())?,
            lease: lease.clone(),
            request: Request {
                coding: request,
                decoder: TextDecoder::default(),
                text: None,
                waiter: Waiter::default(),
                is_starved: false,
            },
            response: Response::new(response),
        }))
    }

    /// The client's side of it.
    pub(super) fn over<'a, D: ?Sized>(&'a mut self, down: &'a mut D) -> Translated<'a, D> {
        Translated { call: self, down }
    }
}

impl Response {
    fn new(coding: MessageCoding) -> Self {
        Self {
            coding,
            is_translated: false,
            encoder: TextEncoder::default(),
            content: None,
            has_ended: false,
            waiter: Waiter::default(),
        }
    }

    fn is_pending(&self) -> bool {
        self.content.is_some() || self.has_ended
    }

    /// The next part of what was put.
    fn poll_next(&mut self, cx: &mut Context<'_>, lease: &Lease) -> Poll<Part> {
        if self.coding == MessageCoding::Binary {
            let next = self.content.take().map(Part::Chunk);
            return Poll::Ready(next.unwrap_or_else(|| self.end()));
        }
        if self.content.is_none() && !self.encoder.is_carrying() {
            return Poll::Ready(self.end());
        }
        let room = match &self.content {
            // Three bytes become four letters; what messages are padded with comes later.
            Some(chunk) => (chunk.len() / 3 * 4 + TextEncoder::ROOM_MIN).min(content_room(lease)),
            None => TextEncoder::ROOM_MIN,
        };
        let mut text = ready!(Buffer::poll_take(cx, lease, room, &mut self.waiter));
        let written = match &mut self.content {
            Some(chunk) => {
                let encoded = self.encoder.encode(chunk.filled(), text.spare_mut());
                chunk.consume(encoded.read);
                encoded.written
            }
            None => self.encoder.finish(text.spare_mut()),
        };
        text.advance(written);
        if self.content.as_ref().is_some_and(Chunk::is_empty) {
            self.content = None;
        }
        Poll::Ready(Part::Chunk(text.into()))
    }

    fn end(&mut self) -> Part {
        self.has_ended = false;
        Part::End(None)
    }
}

impl<D: Downstream + ?Sized> Translated<'_, D> {
    /// Hands on what was put.
    fn poll_put(&mut self, cx: &mut Context<'_>) -> Polled<()> {
        let WebCall {
            response, lease, ..
        } = &mut *self.call;
        while response.is_pending() {
            if !self.down.can_put() {
                ready!(self.down.poll_flush(cx))?;
                continue;
            }
            match ready!(response.poll_next(cx, lease)) {
                Part::Chunk(chunk) if chunk.is_empty() => {}
                part => self.down.put(part)?,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<D: Downstream + ?Sized> Sink for Translated<'_, D> {
    fn can_put(&self) -> bool {
        !self.call.response.is_pending() && self.down.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let WebCall {
            response, lease, ..
        } = &mut *self.call;
        match part {
            part if !response.is_translated => return self.down.put(part),
            Part::Chunk(chunk) if response.coding == MessageCoding::Binary => {
                return self.down.put(Part::Chunk(chunk));
            }
            Part::Chunk(chunk) => response.content = Some(chunk),
            Part::End(trailers) => {
                if let Some(trailers) = trailers {
                    response.content = Some(web::trailers(&trailers, lease)?.into());
                }
                response.has_ended = true;
            }
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        self.down.written()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Polled<()> {
        ready!(self.poll_put(cx))?;
        self.down.poll_flush(cx)
    }
}

impl<D: Downstream + ?Sized> Source for Translated<'_, D> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Polled<Part> {
        let WebCall { request, lease, .. } = &mut *self.call;
        if request.coding == MessageCoding::Binary {
            return self.down.poll_part(cx);
        }
        let bad = |_| GatewayError::bad_request();
        loop {
            let Some(text) = &request.text else {
                match ready!(self.down.poll_part(cx))? {
                    Part::Chunk(text) => request.text = Some(text),
                    end @ Part::End(_) => {
                        let finished = request.decoder.finish();
                        return Poll::Ready(finished.map(|()| end).map_err(bad));
                    }
                }
                continue;
            };
            let room = TextDecoder::decoded_bytes_max(text.len());
            let content = Buffer::poll_take(cx, lease, room, &mut request.waiter);
            request.is_starved = content.is_pending();
            let Poll::Ready(mut content) = content else {
                // What waits for budget still sees its client leave.
                ready!(self.down.poll_gone(cx));
                return Poll::Ready(Err(GatewayError::client_gone()));
            };
            let decoded = (request.decoder).decode(text.filled(), content.spare_mut());
            content.advance(decoded.map_err(bad)?);
            request.text = None;
            if !content.is_empty() {
                return Poll::Ready(Ok(Part::Chunk(content.into())));
            }
        }
    }

    fn is_starved(&self) -> bool {
        self.call.request.is_starved || self.down.is_starved()
    }
}

impl<D: Downstream + ?Sized> Downstream for Translated<'_, D> {
    fn charge_to(&mut self, lease: &Lease) {
        self.down.charge_to(lease);
    }

    fn put_interim(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        self.down.put_interim(head)
    }

    fn put_head(&mut self, mut head: ResponseHead) -> Result<(), GatewayError> {
        let media_type = head.fields.values(FieldId::ContentType).next();
        let dialect = media_type.and_then(Dialect::of_media_type);
        let response = &mut self.call.response;
        response.is_translated = dialect == Some(Dialect::Grpc);
        if response.is_translated {
            web::from_grpc(&mut head.fields, response.coding)?;
            // What follows the head is longer than what the server announced. Without anything
            // the status is in the head already.
            if head.length != ContentLength::Empty {
                head.length = ContentLength::Unknown;
            }
        }
        self.down.put_head(head)
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        self.down.put_refusal(refusal)
    }

    fn retract(&mut self) -> bool {
        let is_unseen = self.down.retract();
        if is_unseen {
            self.call.response = Response::new(self.call.response.coding);
        }
        is_unseen
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.down.poll_gone(cx)
    }

    fn start_tunnel(&mut self) {
        self.down.start_tunnel();
    }
}
