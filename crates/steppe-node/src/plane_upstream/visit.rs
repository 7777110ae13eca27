//! The server's side of an exchange whose server is a service of the plane.
//!
//! Invariant: the head of the answer is sent with the service's own, or with its end: a failure before that has a
//! status of its own. A later failure breaks the answer off.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use steppe_http::config::Respond;
use steppe_http::error::{GatewayError, Resend};
use steppe_http::exchange::{Outgoing, Part, Sink, Source, Upstream};
use steppe_http::head::{ContentLength, ResponseHead};
use steppe_http::local::Responder;
use steppe_http::respond::Responding;
use steppe_mem::{Buffer, Chunk, Lease, Reservation, SizeClass};
use steppe_plane::limits::block_bytes;

use super::asked::Asked;
use super::calling::Calling;
use super::conversation::converse;
use super::hall::Hall;

/// The server's side of an exchange; see the module.
pub(super) struct Visit {
    hall: Rc<Hall>,
    /// The call; dropping it cancels the call. `None`: the call is over.
    running: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// The response of the gateway itself, for a refusal.
    refused: Option<Responding>,
    /// True if the client waits for `100 (Continue)` before it sends content.
    expects_continue: bool,
    lease: Lease,
    written: u64,
    /// Reservation for this value and for the call.
    _charge: Reservation,
}

/// Memory that a chunk may pin, as a multiple of its own size class: beyond, it is copied.
const PINNED_FACTOR_MAX: usize = 4;

/// Media type of a response to which the service gives none.
const MEDIA_TYPE: &[u8] = b"application/octet-stream";

impl Visit {
    /// # Errors
    /// [`GatewayError`]: the budget has no room for the call, or for a refusal.
    pub(super) fn new(
        calls: &Arc<dyn Calling>,
        asked: Result<Asked, Respond>,
        lease: &Lease,
    ) -> Result<Self, GatewayError> {
        let hall = Rc::new(Hall::default());
        let own = block_bytes(size_of::<Self>()) + block_bytes(size_of::<Hall>());
        let mut charge = lease.try_reserve(own)?;
        let mut expects_continue = false;
        let (running, refused) = match asked {
            Ok(asked) => {
                expects_continue = asked.expects_continue;
                let texts = asked.bytes();
                let (calls, hall) = (Arc::clone(calls), Rc::clone(&hall));
                let running = converse(calls, asked, hall, lease.clone());
                charge.try_grow(texts + block_bytes(size_of_val(&running)))?;
                let running: Pin<Box<dyn Future<Output = ()>>> = Box::pin(running);
                (Some(running), None)
            }
            Err(respond) => (None, Some(Responding::new(&respond, b"POST", lease)?)),
        };
        Ok(Self {
            hall,
            running,
            refused,
            expects_continue,
            lease: lease.clone(),
            written: 0,
            _charge: charge,
        })
    }

    /// Polls the call.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(running) = &mut self.running
            && running.as_mut().poll(cx).is_ready()
        {
            self.running = None;
        }
    }

    /// The head of `100 (Continue)`, once the call wants content: for a large body, once a worker has room for it.
    fn go_on(&mut self) -> Option<Result<ResponseHead, GatewayError>> {
        if !self.expects_continue || !self.hall.rooms().wants_request {
            return None;
        }
        self.expects_continue = false;
        Some(ResponseHead::go_on(&self.lease).map_err(GatewayError::from))
    }

    /// The same as [`Self::drive`], if the other direction was polled already: it is polled again if it may go on.
    fn drive_for_response(&mut self, cx: &mut Context<'_>) {
        let could_put = self.can_put();
        self.drive(cx);
        if !could_put && self.can_put() {
            cx.waker().wake_by_ref();
        }
    }
}

impl Sink for Visit {
    fn can_put(&self) -> bool {
        // Content after a refusal or an answer is ignored.
        let rooms = self.hall.rooms();
        self.running.is_none() || (rooms.wants_request && rooms.request.is_none())
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let mut rooms = self.hall.rooms();
        match part {
            Part::Chunk(_) if self.running.is_none() => {}
            Part::Chunk(chunk) => {
                self.written += chunk.len() as u64;
                rooms.request = Some(unpinned(chunk, &self.lease));
            }
            Part::End(_) => rooms.is_request_whole = true,
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        let could_put = self.can_put();
        self.drive(cx);
        if self.expects_continue && !could_put && self.can_put() {
            // The other direction sends `100 (Continue)` to the client.
            cx.waker().wake_by_ref();
        }
        let rooms = self.hall.rooms();
        let is_taken = rooms.request.is_none() && (rooms.wants_request || rooms.is_request_whole);
        match self.running.is_none() || is_taken {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

impl Source for Visit {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        if let Some(refused) = &mut self.refused {
            return refused.poll_part(cx);
        }
        self.drive_for_response(cx);
        let mut rooms = self.hall.rooms();
        if let Some(piece) = rooms.response.take() {
            // The plane has charged it to the same budget already.
            let charge = self.lease.try_reserve(0)?;
            return Poll::Ready(Ok(Part::Chunk(Chunk::charged(piece, charge))));
        }
        match &rooms.outcome {
            None => Poll::Pending,
            Some(Ok(())) => Poll::Ready(Ok(Part::End(None))),
            Some(Err(_)) => Poll::Ready(Err(GatewayError::cut(Resend::No))),
        }
    }

    fn is_starved(&self) -> bool {
        false
    }
}

impl Upstream for Visit {
    fn start(&mut self, _: &Outgoing<'_>) -> Result<(), GatewayError> {
        Ok(())
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if let Some(refused) = &mut self.refused {
            return refused.poll_head(cx);
        }
        self.drive_for_response(cx);
        if let Some(go_on) = self.go_on() {
            return Poll::Ready(go_on);
        }
        let rooms = self.hall.rooms();
        let refusal = match (&rooms.response, &rooms.outcome) {
            (None, None) if !rooms.has_begun => return Poll::Pending,
            (None, Some(Err(refusal))) => refusal.clone(),
            (_, outcome) => {
                let length = match (&rooms.response, outcome) {
                    (None, Some(_)) => ContentLength::Known(0),
                    _ => ContentLength::Unknown,
                };
                let mut head = ResponseHead::new(200, length, &self.lease)?;
                let said = rooms.content_type.as_deref().map(str::as_bytes);
                let media_type = said.unwrap_or(MEDIA_TYPE);
                head.fields.append(b"content-type", media_type)?;
                return Poll::Ready(Ok(head));
            }
        };
        drop(rooms);
        let refused = Responding::new(&refusal, b"POST", &self.lease)?;
        self.refused.insert(refused).poll_head(cx)
    }

    fn start_tunnel(&mut self) {
        unreachable!("its answer is never 101");
    }
}

/// The bytes of a chunk, copied if its memory is far larger: they may wait for a worker for long.
fn unpinned(chunk: Chunk, lease: &Lease) -> Bytes {
    let own_bytes = SizeClass::holding(chunk.len()).bytes();
    if PINNED_FACTOR_MAX * own_bytes <= chunk.charged_bytes()
        && let Ok(mut own) = Buffer::take(lease, chunk.len())
        && own.put(chunk.filled()).is_ok()
    {
        return own.freeze();
    }
    chunk.into_bytes()
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    #[test]
    fn a_small_slice_is_copied_out_of_a_large_buffer() {
        let budget = Budget::new(8 << 20);
        let lease = budget.root().lease();
        for (len, is_copied) in [
            (1, true),
            (4 << 10, true),
            (17 << 10, false),
            (64 << 10, false),
        ] {
            let mut buffer = Buffer::take(&lease, 64 << 10).expect("room");
            buffer.put(&vec![7; 64 << 10]).expect("room");
            let mut chunk = Chunk::from(buffer);
            let slice = chunk.split_to(len);
            drop(chunk);
            let address = slice.filled().as_ptr();
            let bytes = unpinned(slice, &lease);
            assert_eq!((bytes.len(), bytes.as_ptr() != address), (len, is_copied));
            let held = budget.root().reserved_bytes();
            assert_eq!(held < 64 << 10, is_copied, "{len} bytes hold {held}");
        }
        assert_eq!(budget.root().reserved_bytes(), 0);
    }
}
