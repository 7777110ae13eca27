//! A stream of a server's connection, as its exchange sees it.

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_h2::hpack::FieldLine;
use steppe_h2::message::SectionKind;
use steppe_h2::{EndStream, ErrorCode, ResetBy, SendError, StreamId};
use steppe_mem::{Lease, Waiter};

use super::head::{self, RequestLines};
use super::shared::Shared;
use super::unsent::UnsentLines;
use crate::error::{GatewayError, Resend};
use crate::exchange::{Outgoing as Request, Part, Sink, Source, Upstream};
use crate::h2::head::TrailersError;
use crate::h2::inbox::{Inbox, ReceivedSection, StreamCut};
use crate::h2::incoming::{Incoming, IncomingError};
use crate::h2::link::{Link, OpenStream};
use crate::h2::outgoing::Outgoing;
use crate::h2::priority::Priority;
use crate::h2::send_head::StreamClosed;
use crate::h2::turns::Turn;
use crate::h2::websocket::{self, Tunnel};
use crate::head::{Announced, ContentLength, ResponseHead};
use crate::limits::H2_UPSTREAM_STREAM_BYTES;
use crate::metrics::CloseReason;

pub(super) struct ClientStream {
    shared: Rc<Shared>,
    open: OpenStream,
    /// The connection had carried others.
    is_reused: bool,
    /// The place of its request among those of the connection.
    place: u32,
    request: RequestState,
    /// `None`: no content is read.
    incoming: Option<Incoming>,
    is_to_head: bool,
    tunnel: Tunnel,
    has_response_begun: bool,
    /// A head without content waits for the end of its stream: DATA makes it malformed.
    ending: Option<Box<ResponseHead>>,
    lease: Option<Lease>,
}

/// The progress of the request.
#[expect(
    clippy::large_enum_variant,
    reason = "a request that is sent allocates nothing"
)]
enum RequestState {
    Nothing,
    /// It waits until its connection takes it.
    Unsent(Box<Unsent>),
    Sent(StreamId, Outgoing),
    /// Its connection takes no request any more.
    Refused,
}

/// A request that waits until its connection takes it.
struct Unsent {
    lines: UnsentLines,
    turn: Turn,
    waiter: Waiter,
    end: EndStream,
}

impl ClientStream {
    pub(super) fn new(shared: &Rc<Shared>) -> Self {
        Self {
            is_reused: shared.is_used.replace(true),
            open: OpenStream::new(&shared.link),
            shared: Rc::clone(shared),
            place: shared.next_place(),
            request: RequestState::Nothing,
            incoming: None,
            is_to_head: false,
            tunnel: Tunnel::No,
            has_response_begun: false,
            ending: None,
            lease: None,
        }
    }

    fn link(&self) -> &Rc<Link> {
        &self.open.link
    }

    fn id(&self) -> Option<StreamId> {
        match self.request {
            RequestState::Sent(id, _) => Some(id),
            _ => None,
        }
    }

    fn is_extended(&self) -> bool {
        matches!(self.tunnel, Tunnel::Asked(Some(_)))
    }

    /// Opens the stream.
    ///
    /// # Errors
    /// The connection does not take it now, or not any more.
    fn send<'a>(
        &self,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        end: EndStream,
    ) -> Result<StreamId, SendError> {
        let mut inbox = Inbox::default();
        inbox.is_to_head = self.is_to_head;
        let mut connection = self.link().connection.borrow_mut();
        connection.open(lines, end, inbox)
    }

    /// The request's head is sent.
    fn begin(&mut self, id: StreamId, turn: Turn, end: EndStream) {
        let mut outgoing = Outgoing::new(self.link(), id, turn);
        if end == EndStream::Yes {
            outgoing = outgoing.ended();
        }
        self.request = RequestState::Sent(id, outgoing);
        self.link().wake();
    }

    /// Sends a request that waits.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        // Most requests are sent: they are not moved for this.
        while !matches!(self.request, RequestState::Nothing | RequestState::Sent(..)) {
            let unsent = match std::mem::replace(&mut self.request, RequestState::Refused) {
                RequestState::Unsent(unsent) => unsent,
                // It ended meanwhile: that is told as if the server had not answered.
                _ => return Poll::Ready(Err(GatewayError::cut(Resend::Any))),
            };
            if self.shared.is_closed() {
                continue;
            }
            if self.is_extended() {
                let peer = *self.link().connection.borrow().peer();
                if !peer.is_known {
                    self.request = RequestState::Unsent(unsent);
                    self.shared.wait(self.place, cx.waker());
                    return Poll::Pending;
                }
                if !peer.takes_extended_connect {
                    // RFC 8441 §3: it has not said that it takes them.
                    return Poll::Ready(Err(GatewayError::upstream(CloseReason::Unsupported, 501)));
                }
            }
            ready!(self.poll_send_unsent(cx, unsent));
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the request was sent, or can't be any more.
    fn poll_send_unsent(&mut self, cx: &mut Context<'_>, mut unsent: Box<Unsent>) -> Poll<()> {
        loop {
            // The end of the connection wakes it, whatever it waits for.
            self.shared.wait(self.place, cx.waker());
            let polled = match unsent.turn.poll(cx) {
                Poll::Ready(()) => self.send(unsent.lines.iter(), unsent.end),
                Poll::Pending => Err(SendError::Full),
            };
            match polled {
                Ok(id) => {
                    self.shared.leave(self.place);
                    self.begin(id, unsent.turn, unsent.end);
                    return Poll::Ready(());
                }
                Err(SendError::Closed) => {
                    self.shared.close();
                    return Poll::Ready(());
                }
                Err(SendError::OverBudget(bytes)) => {
                    unsent.turn.pass();
                    let link = Rc::clone(self.link());
                    if link.poll_room(cx, bytes, &mut unsent.waiter).is_ready() {
                        continue;
                    }
                }
                Err(SendError::Full) => unsent.turn.wait(cx),
                Err(SendError::StreamLimit) => unsent.turn.pass(),
            }
            self.request = RequestState::Unsent(unsent);
            return Poll::Pending;
        }
    }

    /// The next head that has come, interim or final.
    fn poll_section(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReceivedSection, GatewayError>> {
        let Some(id) = self.id() else {
            return Poll::Ready(Err(self.cut()));
        };
        let mut connection = self.link().connection.borrow_mut();
        let Some(inbox) = connection.stream_mut(id) else {
            drop(connection);
            return Poll::Ready(Err(self.cut()));
        };
        if inbox.is_over_budget {
            return Poll::Ready(Err(GatewayError::over_budget()));
        }
        if let Some(section) = inbox.take_section(SectionKind::Response) {
            return Poll::Ready(Ok(section));
        }
        if inbox.cut.is_some() || inbox.is_ended {
            drop(connection);
            return Poll::Ready(Err(self.cut()));
        }
        inbox.register(cx.waker());
        Poll::Pending
    }

    /// The reason why the stream is closed before its end.
    fn reason(&self) -> Option<StreamCut> {
        let mut connection = self.link().connection.borrow_mut();
        let inbox = self.id().and_then(|id| connection.stream_mut(id));
        inbox.and_then(|inbox| inbox.cut)
    }

    fn is_over_budget(&self) -> bool {
        let mut connection = self.link().connection.borrow_mut();
        let inbox = self.id().and_then(|id| connection.stream_mut(id));
        inbox.is_some_and(|inbox| inbox.is_over_budget)
    }

    /// The stream or its connection ended before the response was whole.
    fn cut(&self) -> GatewayError {
        if self.is_over_budget() {
            return GatewayError::over_budget();
        }
        match self.reason() {
            Some(StreamCut::Reset(_, ResetBy::Us) | StreamCut::Failed) => {
                GatewayError::bad_response()
            }
            _ => self.request_cut(),
        }
    }

    /// The stream takes no more of the request. The server may have responded all the same.
    fn request_cut(&self) -> GatewayError {
        GatewayError::cut(match self.reason() {
            _ if self.has_response_begun => Resend::No,
            // RFC 9113 §8.7: the server has processed none of it.
            Some(StreamCut::Reset(ErrorCode::REFUSED_STREAM, ResetBy::Peer)) => Resend::Any,
            Some(StreamCut::Gone) if self.is_reused => Resend::IfIdempotent,
            _ => Resend::No,
        })
    }

    /// Gives the head that waits for the end of its stream.
    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if let Some(id) = self.id() {
            let mut connection = self.link().connection.borrow_mut();
            let Some(inbox) = connection.stream_mut(id) else {
                drop(connection);
                return Poll::Ready(Err(self.cut()));
            };
            if inbox.bytes() > 0 {
                return Poll::Ready(Err(GatewayError::bad_response()));
            }
            if !inbox.is_ended {
                if inbox.cut.is_some() {
                    drop(connection);
                    return Poll::Ready(Err(self.cut()));
                }
                inbox.register(cx.waker());
                return Poll::Pending;
            }
        }
        // Nothing follows.
        let head = self.ending.take().ok_or_else(GatewayError::bad_response);
        Poll::Ready(head.map(|head| *head))
    }

    fn incoming_error(&self, error: IncomingError) -> GatewayError {
        match error {
            IncomingError::Cut => self.cut(),
            IncomingError::Trailers(TrailersError::OverBudget) => GatewayError::over_budget(),
            IncomingError::TooLarge | IncomingError::Trailers(_) => GatewayError::bad_response(),
        }
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if let Some(id) = self.id() {
            let unreleased = (self.incoming.as_ref()).map(Incoming::unreleased_bytes);
            let mut connection = self.open.link.connection.borrow_mut();
            let waiting = || connection.stream_mut(id).map_or(0, |inbox| inbox.bytes());
            let unreleased = unreleased.unwrap_or_else(waiting);
            let unreleased = u32::try_from(unreleased).unwrap_or(u32::MAX);
            connection.release_content(id, unreleased);
            connection.release(id, ErrorCode::CANCEL);
        }
        self.shared.leave(self.place);
        self.shared.wake_first();
    }
}

impl Sink for ClientStream {
    fn can_put(&self) -> bool {
        match &self.request {
            RequestState::Sent(_, outgoing) => outgoing.can_put(),
            _ => false,
        }
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let is_asked = matches!(self.tunnel, Tunnel::Asked(_));
        match (&mut self.request, part) {
            // The end of a request that is to become a tunnel ends no stream.
            (_, Part::End(_)) if is_asked => {}
            (RequestState::Sent(_, outgoing), part) => outgoing.put(part),
            _ => {}
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        match &self.request {
            RequestState::Sent(_, outgoing) => outgoing.written(),
            RequestState::Unsent(unsent) => unsent.turn.passed(),
            _ => 0,
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        ready!(self.poll_unsent(cx))?;
        let RequestState::Sent(_, outgoing) = &mut self.request else {
            return Poll::Ready(Ok(()));
        };
        let flushed = ready!(outgoing.poll_flush(cx));
        Poll::Ready(flushed.map_err(|StreamClosed| self.request_cut()))
    }
}

impl Source for ClientStream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        let (Some(incoming), Some(lease)) = (&mut self.incoming, &self.lease) else {
            return Poll::Ready(Ok(Part::End(None)));
        };
        let part = ready!(incoming.poll_part(cx, lease));
        Poll::Ready(part.map_err(|error| self.incoming_error(error)))
    }

    fn is_starved(&self) -> bool {
        let is_request_starved = match &self.request {
            RequestState::Unsent(unsent) => unsent.waiter.is_waiting(),
            RequestState::Sent(_, outgoing) => outgoing.is_starved(),
            RequestState::Nothing | RequestState::Refused => false,
        };
        is_request_starved
            || self.link().is_starved.get()
            || self.incoming.as_ref().is_some_and(Incoming::is_starved)
    }
}

impl Upstream for ClientStream {
    fn start(&mut self, request: &Request<'_>) -> Result<(), GatewayError> {
        let Request { head, lease, .. } = *request;
        self.link().reserve_places(H2_UPSTREAM_STREAM_BYTES)?;
        self.lease = Some(lease.clone());
        self.is_to_head = head.method() == b"HEAD";
        let is_tunnel = head.asks_for_tunnel();
        let is_extended = is_tunnel && !head.is_connect();
        if is_tunnel {
            let key = || websocket::key_of(head).unwrap_or_default().to_vec();
            self.tunnel = Tunnel::Asked(is_extended.then(key));
        }
        let end = match head.length == ContentLength::Empty && !is_tunnel {
            true => EndStream::Yes,
            false => EndStream::No,
        };
        let lines = RequestLines::new(request, self.shared.scheme)?;
        let turns = &self.link().turns;
        let turn = turns.of(self.place, Priority::SHARED);
        if !is_extended && turns.is_free() {
            match self.send(lines.iter(), end) {
                Ok(id) => {
                    self.begin(id, turn, end);
                    return Ok(());
                }
                Err(SendError::Closed) => {
                    self.shared.close();
                    self.request = RequestState::Refused;
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        self.request = RequestState::Unsent(Box::new(Unsent {
            lines: UnsentLines::copy(lines.iter(), lease)?,
            turn,
            waiter: Waiter::default(),
            end,
        }));
        Ok(())
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if self.ending.is_some() {
            return self.poll_ending(cx);
        }
        ready!(self.poll_unsent(cx))?;
        let section = ready!(self.poll_section(cx))?;
        self.has_response_begun = true;
        let is_last = section.is_last;
        let lease = self.lease.clone().ok_or_else(GatewayError::bad_response)?;
        let announced = match self.is_to_head {
            true => Announced::Representation,
            false => Announced::Content,
        };
        let mut head = head::response_head(section, announced, &lease)?;
        // The codec counts them.
        if head.is_interim() {
            return Poll::Ready(Ok(head));
        }
        if let Tunnel::Asked(key) = &self.tunnel {
            match key {
                // RFC 8441 §5, as any CONNECT (RFC 9113 §8.5): the codec takes each 2xx for the begin of a tunnel.
                Some(key) if head.is_success() => head = head::tunnel_head(head, key)?,
                Some(_) => {}
                None => head.answer_connect(),
            }
            if !head.is_tunnel() {
                self.tunnel = Tunnel::No;
            }
        }
        let is_empty = head.length == ContentLength::Empty && !head.is_tunnel();
        if is_empty && !is_last {
            self.ending = Some(Box::new(head));
            return self.poll_ending(cx);
        }
        if let Some(id) = self.id().filter(|_| !is_empty) {
            self.incoming = Some(Incoming::new(self.link(), id, u64::MAX).of_response());
        }
        Poll::Ready(Ok(head))
    }

    fn start_tunnel(&mut self) {
        self.tunnel = Tunnel::Begun;
    }
}

impl fmt::Debug for ClientStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream of a server, {:?}", self.id())
    }
}
