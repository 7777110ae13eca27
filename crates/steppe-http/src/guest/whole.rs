//! Guests that are given requests whole.
//!
//! Invariant: what a client sends is collected up to a bound of the guest's, and charged; 413 beyond it.
//!
//! Non-goals: content of either side that is not there at once.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease};

use super::{Guest, GuestRequest};
use crate::error::GatewayError;
use crate::exchange::{Outgoing, Part, Sink, Source, Upstream};
use crate::field::FieldId;
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::local::Responder;
use crate::metrics::CloseReason;
use crate::respond::{Respond, Responding};

/// A service of the process that answers requests which it is given whole. All workers share it.
pub trait WholeGuest: fmt::Debug + Send + Sync {
    /// Bytes of content that a request may have.
    fn content_bytes_max(&self) -> usize;

    /// Begins to answer a request, on the thread of the worker that it came to.
    ///
    /// # Cancel safety
    /// A client may leave: then the answer is dropped.
    fn answer(&self, request: &WholeRequest<'_>) -> Answering;
}

/// An answer that is on its way.
pub type Answering = Pin<Box<dyn Future<Output = Respond>>>;

/// A request, all of which is there.
#[derive(Debug)]
pub struct WholeRequest<'a> {
    /// The head after all filters.
    pub head: &'a RequestHead,
    /// The client, as far as trusted proxies vouch for it.
    pub client: IpAddr,
    /// The whole content.
    pub content: &'a [u8],
}

/// Collects requests for a guest that takes them whole.
#[derive(Debug)]
pub struct CollectingGuest(Arc<dyn WholeGuest>);

impl CollectingGuest {
    /// For this guest.
    pub fn new(guest: impl WholeGuest + 'static) -> Self {
        Self(Arc::new(guest))
    }
}

impl Guest for CollectingGuest {
    fn receive(&self, request: GuestRequest<'_>) -> Result<Box<dyn Upstream>, GatewayError> {
        Ok(Box::new(Visit::new(&self.0, request)?))
    }
}

/// A guest's side of one exchange.
struct Visit {
    guest: Arc<dyn WholeGuest>,
    head: RequestHead,
    client: IpAddr,
    lease: Lease,
    /// The client waits to be told that its content is wanted (RFC 9110 §10.1.1).
    expects_continue: bool,
    state: VisitState,
}

enum VisitState {
    /// The request is on its way; none of its content may have come.
    Collecting(Option<Buffer>),
    Answering(Answering),
    Answered(Responding),
}

impl Visit {
    /// # Errors
    /// Where its content is larger than the guest takes.
    fn new(guest: &Arc<dyn WholeGuest>, request: GuestRequest<'_>) -> Result<Self, GatewayError> {
        let GuestRequest {
            head,
            client,
            lease,
            ..
        } = request;
        let most = guest.content_bytes_max() as u64;
        if matches!(head.length, ContentLength::Known(length) if length > most) {
            return Err(too_large());
        }
        Ok(Self {
            guest: Arc::clone(guest),
            expects_continue: head.fields.has(FieldId::Expect),
            head,
            client,
            lease: lease.clone(),
            state: VisitState::Collecting(None),
        })
    }

    fn answer(&mut self, content: Option<&Buffer>) {
        let request = WholeRequest {
            head: &self.head,
            client: self.client,
            content: content.map_or(&[], |content| content.filled()),
        };
        self.state = VisitState::Answering(self.guest.answer(&request));
    }
}

fn too_large() -> GatewayError {
    GatewayError::downstream(CloseReason::BodyTooLarge, 413)
}

impl Sink for Visit {
    fn can_put(&self) -> bool {
        true
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let VisitState::Collecting(content) = &mut self.state else {
            return Ok(());
        };
        match part {
            Part::Chunk(chunk) => {
                let most = self.guest.content_bytes_max();
                let content = match content {
                    Some(content) => content,
                    None => content.insert(Buffer::take(&self.lease, most)?),
                };
                // A buffer may have more room than was asked for.
                if content.len() + chunk.len() > most {
                    return Err(too_large());
                }
                content.put(chunk.filled()).map_err(|_| too_large())
            }
            Part::End(_) => {
                let content = content.take();
                self.answer(content.as_ref());
                Ok(())
            }
        }
    }

    fn written(&self) -> u64 {
        0
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        Poll::Ready(Ok(()))
    }
}

impl Source for Visit {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        match &mut self.state {
            VisitState::Answered(responding) => responding.poll_part(cx),
            VisitState::Collecting(_) | VisitState::Answering(_) => Poll::Pending,
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
        match &mut self.state {
            VisitState::Collecting(_) if std::mem::take(&mut self.expects_continue) => {
                Poll::Ready(ResponseHead::go_on(&self.lease).map_err(GatewayError::from))
            }
            // The end of the request is put before this is asked again.
            VisitState::Collecting(_) => Poll::Pending,
            VisitState::Answering(answering) => {
                let respond = ready!(answering.as_mut().poll(cx));
                let mut responding = Responding::new(&respond, self.head.method(), &self.lease)?;
                let head = responding.poll_head(cx);
                self.state = VisitState::Answered(responding);
                head
            }
            VisitState::Answered(responding) => responding.poll_head(cx),
        }
    }

    fn start_tunnel(&mut self) {
        unreachable!("a guest's response is never 101");
    }
}
