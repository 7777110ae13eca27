//! A stream of a server's connection, as its exchange sees it.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::client::{ResponseFuture, SendRequest};
use http::Response;
use steppe_mem::{Lease, Reservation, Waiter};

use super::shared::Shared;
use crate::error::{GatewayError, Resend};
use crate::exchange::{Outgoing as Request, Part, Sink, Source, Upstream};
use crate::h2::backlog::Backlog;
use crate::h2::content::{Follows, Incoming, IncomingError, Outgoing, Piece};
use crate::h2::head;
use crate::h2::priority::Priority;
use crate::h2::websocket::{self, Tunnel};
use crate::h2::windows::Window;
use crate::head::{ContentLength, ResponseHead};
use crate::limits::{
    H2_UPSTREAM_STREAM_BYTES, INTERIM_RESPONSES_MAX, LISTS_LEAVE, RESPONSE_HEAD_BYTES_MAX,
};
use crate::metrics::{CloseReason, CountedStream};
use crate::upstream::channel::{Channel, UpstreamStream};

pub(super) struct ClientStream {
    /// Until the request is sent.
    requests: Option<SendRequest<Piece>>,
    shared: Rc<Shared>,
    /// The connection had carried others.
    is_reused: bool,
    outgoing: Option<Outgoing>,
    response: Option<ResponseFuture>,
    incoming: Option<Incoming>,
    is_to_head: bool,
    tunnel: Tunnel,
    /// Waits for the server's settings.
    unsent: Option<http::Request<()>>,
    /// The request could not be sent.
    failed: Option<GatewayError>,
    interim_count: usize,
    has_response_begun: bool,
    /// A head without content waits for the end of its stream: DATA makes it malformed.
    ending: Option<Box<ResponseHead>>,
    /// The receive window.
    window: Option<Window>,
    lease: Option<Lease>,
    charge: Option<Reservation>,
    /// The charge for the request's head as the crate has it, until it is handed over.
    head_charge: Option<Reservation>,
    /// The stream's number, once it was begun.
    number: u32,
    backlog: Option<Backlog>,
    /// A head that has come waits for memory.
    waiter: Waiter,
    _counted: CountedStream,
}

impl ClientStream {
    pub(super) fn new(requests: Option<SendRequest<Piece>>, shared: Rc<Shared>) -> Self {
        shared.open.set(shared.open.get() + 1);
        Self {
            requests,
            is_reused: shared.is_used.replace(true),
            _counted: shared.traffic.stream(),
            shared,
            outgoing: None,
            response: None,
            incoming: None,
            is_to_head: false,
            tunnel: Tunnel::No,
            unsent: None,
            failed: None,
            interim_count: 0,
            has_response_begun: false,
            ending: None,
            window: None,
            lease: None,
            charge: None,
            head_charge: None,
            number: 0,
            backlog: None,
            waiter: Waiter::default(),
        }
    }

    fn send(&mut self, request: http::Request<()>, follows: Follows) -> Result<(), GatewayError> {
        let Some(mut requests) = self.requests.take() else {
            return Err(GatewayError::over_budget());
        };
        let is_extended = matches!(self.tunnel, Tunnel::Asked(Some(_)));
        if is_extended && !requests.is_extended_connect_protocol_enabled() {
            // RFC 8441 §3: it has not said that it takes them.
            return Err(GatewayError::upstream(CloseReason::Unsupported, 501));
        }
        let sent = requests.send_request(request, follows.is_nothing());
        let (response, stream) = match sent {
            Ok(sent) => sent,
            Err(_) => {
                // It ended meanwhile: that is told as if the server had not answered.
                self.failed = Some(GatewayError::cut(Resend::Any));
                return Ok(());
            }
        };
        self.response = Some(response);
        let number = stream.stream_id().as_u32();
        self.backlog = self.shared.backlog.borrow().clone();
        if let Some(backlog) = &self.backlog {
            backlog.open(number);
        }
        self.number = number;
        let (turns, lease) = (&self.shared.turns, self.lease.clone());
        let lease = lease.expect("the request was started");
        let turn = turns.of(number, Priority::SHARED);
        self.outgoing = Some(Outgoing::new(stream, turn, (follows, lease)));
        if let Some(head) = self.head_charge.take() {
            turns.keep(head);
        }
        Ok(())
    }

    /// Sends a request that waits for what the server says it takes.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        if self.unsent.is_none() {
            return Poll::Ready(Ok(()));
        }
        if self.shared.is_closed.get() {
            return Poll::Ready(Err(GatewayError::cut(Resend::Any)));
        }
        if !self.shared.has_settings.get() {
            let mut waiting = self.shared.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let request = self.unsent.take().expect("it is there");
        self.send(request, Follows::Content)?;
        Poll::Ready(self.failed.map_or(Ok(()), Err))
    }

    /// Ready when a head that has come may be taken: others need the last of the budget.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let has_come = (self.backlog.as_ref()).is_some_and(|backlog| backlog.has_list(self.number));
        if let Some(lease) = self.lease.as_ref().filter(|_| has_come) {
            let leaving = lease.account().limit_bytes() / LISTS_LEAVE;
            let wanted = (RESPONSE_HEAD_BYTES_MAX, leaving);
            drop(ready!(lease.poll_reserve_leaving(
                cx,
                wanted,
                &mut self.waiter
            )));
        }
        Poll::Ready(())
    }

    /// A head was taken from the crate.
    fn take_list(&self) {
        if let Some(backlog) = &self.backlog {
            backlog.take_list(self.number);
        }
    }

    /// The stream or its connection ended before the response was whole.
    fn cut(&self, error: &h2::Error) -> GatewayError {
        // RFC 9113 §8.7: the server has processed none of it.
        let is_unprocessed = error.reason() == Some(h2::Reason::REFUSED_STREAM)
            || (error.is_go_away() && error.is_remote());
        let is_dead = error.is_io() || error.get_io().is_some();
        GatewayError::cut(match self.has_response_begun {
            false if is_unprocessed => Resend::Any,
            false if is_dead && self.is_reused => Resend::IfIdempotent,
            _ => Resend::No,
        })
    }

    /// Gives the head that waits for the end of its stream.
    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if let Some(incoming) = &mut self.incoming {
            let ended = ready!(incoming.poll_empty(cx));
            ended.map_err(|error| self.failed_content(error))?;
        }
        // Nothing follows.
        self.incoming = None;
        let head = self.ending.take().expect("a head waits");
        Poll::Ready(Ok(*head))
    }

    fn failed_content(&self, error: IncomingError) -> GatewayError {
        match error {
            IncomingError::Cut(error) => self.cut(&error),
            IncomingError::OverBudget => GatewayError::over_budget(),
            IncomingError::Malformed
            | IncomingError::TooLarge
            | IncomingError::TrailersTooLarge => GatewayError::bad_response(),
        }
    }

    fn read_head<T>(
        &self,
        response: &Response<T>,
        follows: Follows,
    ) -> Result<ResponseHead, GatewayError> {
        let lease = self.lease.as_ref().expect("the request was started");
        let head = head::response_head(response, lease)?;
        let has_none = follows.is_nothing()
            || self.is_to_head
            || head.status < 200
            || matches!(head.status, 204 | 304);
        let length = match head::content_length(response.headers()) {
            Err(_) => return Err(GatewayError::bad_response()),
            Ok(_) if has_none => ContentLength::Empty,
            Ok(Some(bytes)) => ContentLength::Known(bytes),
            Ok(None) => ContentLength::Unknown,
        };
        Ok(ResponseHead { length, ..head })
    }
}

impl UpstreamStream for ClientStream {
    fn finish(self: Box<Self>) -> Option<Box<dyn Channel>> {
        None
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        let open = &self.shared.open;
        open.set(open.get() - 1);
        if let Some(backlog) = &self.backlog {
            backlog.close(self.number);
        }
    }
}

impl Sink for ClientStream {
    fn can_put(&self) -> bool {
        self.outgoing.as_ref().is_some_and(Outgoing::can_put)
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let is_asked = matches!(self.tunnel, Tunnel::Asked(_));
        match (&mut self.outgoing, part) {
            // The end of a request that is to become a tunnel ends no stream.
            (_, Part::End(_)) if is_asked => {}
            (Some(outgoing), part) => outgoing.put(part),
            (None, _) => {}
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        self.outgoing.as_ref().map_or(0, Outgoing::written)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        ready!(self.poll_unsent(cx))?;
        let Some(outgoing) = &mut self.outgoing else {
            return Poll::Ready(Ok(()));
        };
        let flushed = ready!(outgoing.poll_flush(cx));
        Poll::Ready(flushed.map_err(|error| self.cut(&error)))
    }
}

impl Source for ClientStream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let (Some(incoming), Some(lease)) = (&mut self.incoming, &self.lease) else {
            return Poll::Ready(Ok(Part::End(None)));
        };
        let part = ready!(incoming.poll_part(cx, lease));
        Poll::Ready(part.map_err(|error| self.failed_content(error)))
    }

    fn is_starved(&self) -> bool {
        self.waiter.is_waiting() || self.incoming.as_ref().is_some_and(Incoming::is_starved)
    }
}

impl Upstream for ClientStream {
    fn start(&mut self, request: &Request<'_>) -> Result<(), GatewayError> {
        let Request {
            head,
            authority,
            lease,
        } = *request;
        self.charge = Some(lease.try_reserve(H2_UPSTREAM_STREAM_BYTES)?);
        self.head_charge = Some(lease.try_reserve(head::handed_bytes(&head.fields))?);
        self.lease = Some(lease.clone());
        self.is_to_head = head.method() == b"HEAD";
        let is_tunnel = head.asks_for_tunnel();
        let is_extended = is_tunnel && !head.is_connect();
        if is_tunnel {
            let key = || websocket::key_of(head).unwrap_or_default().to_vec();
            self.tunnel = Tunnel::Asked(is_extended.then(key));
        }
        let follows = if is_tunnel {
            Follows::Content
        } else {
            head.length.into()
        };
        let request = head::outgoing_request(head, authority, &self.shared.scheme)?;
        if is_extended && !self.shared.has_settings.get() {
            self.unsent = Some(request);
            return Ok(());
        }
        self.send(request, follows)
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if self.ending.is_some() {
            return self.poll_ending(cx);
        }
        ready!(self.poll_unsent(cx))?;
        ready!(self.poll_room(cx));
        let future = self.response.as_mut().expect("the request was started");
        if let Poll::Ready(Some(interim)) = future.poll_informational(cx) {
            let interim = match interim {
                Ok(interim) => interim,
                Err(error) => return Poll::Ready(Err(self.cut(&error))),
            };
            self.take_list();
            self.interim_count += 1;
            self.has_response_begun = true;
            if self.interim_count > INTERIM_RESPONSES_MAX {
                return Poll::Ready(Err(GatewayError::bad_response()));
            }
            return Poll::Ready(self.read_head(&interim, Follows::Nothing));
        }
        let response = match ready!(Pin::new(future).poll(cx)) {
            Ok(response) => response,
            Err(error) => return Poll::Ready(Err(self.cut(&error))),
        };
        self.take_list();
        self.has_response_begun = true;
        let follows = if response.body().is_end_stream() {
            Follows::Nothing
        } else {
            Follows::Content
        };
        let mut head = self.read_head(&response, follows)?;
        if let Tunnel::Asked(key) = &self.tunnel {
            match key {
                Some(key) if head.status == 200 => {
                    head = head::tunnel_head(head, key)?;
                    head.length = ContentLength::Empty;
                }
                Some(_) => {}
                None => head.answer_connect(),
            }
            if head.is_tunnel() {
                self.window = Some(self.shared.open_window(ContentLength::Unknown)?);
            } else {
                self.tunnel = Tunnel::No;
            }
        }
        if self.window.is_none() && head.length != ContentLength::Empty {
            self.window = Some(self.shared.open_window(head.length)?);
        }
        let backlog = self.backlog.clone();
        let backlog = backlog.expect("a response came by a connection");
        let content = (response.into_body(), self.window.take());
        self.incoming = Some(Incoming::new(content, u64::MAX, backlog));
        let is_ending = head.length == ContentLength::Empty && !head.is_tunnel();
        if is_ending && follows == Follows::Content {
            self.ending = Some(Box::new(head));
            return self.poll_ending(cx);
        }
        Poll::Ready(Ok(head))
    }

    fn start_tunnel(&mut self) {
        self.tunnel = Tunnel::Begun;
    }
}

impl fmt::Debug for ClientStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream of a server, {:?}", self.incoming)
    }
}
