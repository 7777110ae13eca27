//! Calls to a worker, or to a relay.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::connection::Side;
use crate::dial::Target;
use crate::frame::{Head, Payment, Queueing, TraceParent};
use crate::io::payment_of;
use crate::io::{Accepted, Driver, Endpoint, Failure, Link, Memory, Receiver, Sender, Way};
use crate::status::Status;

/// A connection for calls. Clones share it; it closes once the last clone and its calls are dropped.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Arc<Link>,
}

/// The settings of a call, without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The service.
    pub service: &'a str,
    /// Time limit of the call over all hops; [`DEADLINE_MAX`](crate::limits::DEADLINE_MAX) at most.
    pub deadline: Option<Duration>,
    /// Permission to wait for room.
    pub queueing: Queueing,
    /// The media type of the request's messages.
    pub content_type: Option<&'a str>,
    /// Key that permits running the request more than once.
    pub idempotency_key: Option<&'a [u8]>,
    /// Trace context that is sent to the worker.
    pub trace_parent: Option<TraceParent>,
}

/// A call that is open.
#[derive(Debug)]
pub struct Call {
    /// The request's body.
    pub request: Sender,
    /// The response's body.
    pub response: Receiver,
}

/// The endpoint of a caller: it offers no service and refuses every request.
struct Nothing;

impl Endpoint for Nothing {
    const CALL_BYTES: usize = 0;

    fn accept(&self, accepted: Accepted) {
        let failure = Failure::unprocessed(Status::UnknownService, accepted.service);
        accepted.handle.reset(&failure);
    }
}

impl<'a> Ask<'a> {
    /// A request to `service` without any other setting.
    #[must_use]
    pub fn new(service: &'a str) -> Self {
        Self {
            service,
            deadline: None,
            queueing: Queueing::Allowed,
            content_type: None,
            idempotency_key: None,
            trace_parent: None,
        }
    }

    fn head(&self, length: Option<u64>, payment: Payment) -> Head<'a> {
        Head {
            length,
            payment,
            deadline: self.deadline,
            queueing: self.queueing,
            content_type: self.content_type,
            idempotency_key: self.idempotency_key,
            trace_parent: self.trace_parent,
            ..Head::request(self.service)
        }
    }
}

impl Caller {
    /// Calls over the established connection of `link`.
    pub(crate) fn of(link: Arc<Link>) -> Self {
        Self(Arc::new(Inner { link }))
    }

    /// Dials `target`, once. The connection is driven by a task of the current runtime.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::OutOfMemory`] if the budget has no room.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    pub async fn connect(target: impl Into<Target>, memory: &Arc<Memory>) -> io::Result<Self> {
        let socket = target.into().dial(memory).await?;
        let now = Instant::now();
        let link = Link::new(Side::Dialer, memory, now)
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        tokio::spawn(Driver::new(Arc::clone(&link), socket, Nothing, now));
        Ok(Self::of(link))
    }

    /// Waits for the peer's HELLO.
    pub(crate) async fn connected(&self) -> Result<(), Failure> {
        self.0.link.connected().await
    }

    /// Waits until the peer takes no further calls, or the connection is gone.
    pub(crate) async fn lost(&self) {
        self.0.link.lost().await;
    }

    /// True if the peer offers `service`; `None` if it has sent no SERVICES, as relays do.
    #[must_use]
    pub fn serves(&self, service: &str) -> Option<bool> {
        self.0.link.serves(service)
    }

    /// Sends a request of one message and receives one message.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// A future that is dropped cancels the call on both sides.
    pub async fn unary(&self, ask: &Ask<'_>, body: Bytes) -> Result<Bytes, Failure> {
        let head = ask.head(Some(body.len() as u64), payment_of(body.len()));
        let Call {
            request,
            mut response,
        } = self.open(&head).await?;
        let sent = request.send_whole(body).await;
        // A worker may respond before it has read the whole request. Otherwise no response follows.
        if let Err(failure) = sent
            && !response.has_ended()
        {
            return Err(failure);
        }
        response.whole().await
    }

    /// Sends a request of one message and receives the response message by message. A task of the current
    /// runtime sends the request meanwhile; if sending fails, the response has the error.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// A future that is dropped has opened nothing. A [`Receiver`] that is dropped cancels the call.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn stream(&self, ask: &Ask<'_>, body: Bytes) -> Result<Receiver, Failure> {
        let head = ask.head(Some(body.len() as u64), payment_of(body.len()));
        let Call { request, response } = self.open(&head).await?;
        tokio::spawn(request.send_whole(body));
        Ok(response)
    }

    /// Begins a call whose messages are sent and received one by one. `payment`: [`Payment::Granted`] if
    /// a message may be larger than [`EAGER_BYTES_MAX`](crate::limits::EAGER_BYTES_MAX), or if the body
    /// may be larger than the worker's memory.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// A future that is dropped has opened nothing. A [`Call`] that is dropped is cancelled.
    pub async fn call(&self, ask: &Ask<'_>, payment: Payment) -> Result<Call, Failure> {
        self.open(&ask.head(None, payment)).await
    }

    #[expect(clippy::disallowed_methods, reason = "the deadline of a call begins")]
    async fn open(&self, head: &Head<'_>) -> Result<Call, Failure> {
        let link = &self.0.link;
        let handle = poll_fn(|cx| match link.open(head, cx.waker(), Instant::now()) {
            Ok(Some(handle)) => Poll::Ready(Ok(handle)),
            Ok(None) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        })
        .await?;
        Ok(Call {
            request: Sender::new(Arc::clone(&handle)),
            response: Receiver::new(handle, Way::Response),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.link.close_when_idle();
    }
}
