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
use crate::h2::inbox::{Cut, Inbox, ReceivedSection};
use crate::h2::incoming::{Incoming, IncomingError};
use crate::h2::link::{Link, OpenStream};
use crate::h2::outgoing::Outgoing;
use crate::h2::priority::Priority;
use crate::h2::send_head::StreamClosed;
use crate::h2::turns::Turn;
use crate::h2::websocket::{self, Tunnel};
use crate::head::{Announced, ContentLength, ResponseHead};
use crate::limits::{H2_UPSTREAM_STREAM_BYTES, INTERIM_RESPONSES_MAX};
use crate::metrics::CloseReason;

pub(super) struct ClientStream {
    shared: Rc<Shared>,
    open: OpenStream,
    /// The connection had carried others.
    is_reused: bool,
    request: RequestState,
    /// `None`: no content is read.
    incoming: Option<Incoming>,
    is_to_head: bool,
    tunnel: Tunnel,
    interim_count: usize,
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
            request: RequestState::Nothing,
            incoming: None,
            is_to_head: false,
            tunnel: Tunnel::No,
            interim_count: 0,
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
        &mut self,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        turn: Turn,
        end: EndStream,
    ) -> Result<(), (SendError, Turn)> {
        let link = Rc::clone(self.link());
        let mut connection = link.connection.borrow_mut();
        let id = match connection.open(lines, end, Inbox::default()) {
            Ok(id) => id,
            Err(error) => return Err((error, turn)),
        };
        drop(connection);
        let mut outgoing = Outgoing::new(&link, id, turn);
        if end == EndStream::Yes {
            outgoing = outgoing.ended();
        }
        self.request = RequestState::Sent(id, outgoing);
        link.wake();
        Ok(())
    }

    /// Sends a request that waits.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        loop {
            let unsent = match std::mem::replace(&mut self.request, RequestState::Refused) {
                RequestState::Unsent(unsent) => unsent,
                // It ended meanwhile: that is told as if the server had not answered.
                RequestState::Refused => return Poll::Ready(Err(GatewayError::cut(Resend::Any))),
                other => {
                    self.request = other;
                    return Poll::Ready(Ok(()));
                }
            };
            if self.shared.is_closed() {
                continue;
            }
            if self.is_extended() {
                let peer = *self.link().connection.borrow().peer();
                if !peer.is_known {
                    self.request = RequestState::Unsent(unsent);
                    self.shared.wait(cx.waker());
                    return Poll::Pending;
                }
                if !peer.takes_extended_connect {
                    // RFC 8441 §3: it has not said that it takes them.
                    return Poll::Ready(Err(GatewayError::upstream(CloseReason::Unsupported, 501)));
                }
            }
            ready!(self.poll_send_unsent(cx, *unsent));
        }
    }

    /// Ready when the request was sent, or can't be any more.
    fn poll_send_unsent(&mut self, cx: &mut Context<'_>, mut unsent: Unsent) -> Poll<()> {
        let polled = unsent.turn.poll(cx);
        if polled.is_pending() {
            self.request = RequestState::Unsent(Box::new(unsent));
            return Poll::Pending;
        }
        let Unsent {
            lines,
            turn,
            mut waiter,
            end,
        } = unsent;
        let (error, mut turn) = match self.send(lines.iter(), turn, end) {
            Ok(()) => return Poll::Ready(()),
            Err(failed) => failed,
        };
        let has_room = match error {
            SendError::Closed => return Poll::Ready(()),
            SendError::OverBudget(bytes) => {
                turn.pass();
                let link = Rc::clone(self.link());
                link.poll_room(cx, bytes, &mut waiter).is_ready()
            }
            SendError::Full => {
                turn.wait(cx);
                false
            }
            SendError::StreamLimit => {
                turn.pass();
                self.shared.wait(cx.waker());
                false
            }
        };
        self.request = RequestState::Unsent(Box::new(Unsent {
            lines,
            turn,
            waiter,
            end,
        }));
        match has_room {
            true => Poll::Ready(()),
            false => Poll::Pending,
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

    /// The stream or its connection ended before the response was whole.
    fn cut(&self) -> GatewayError {
        let mut connection = self.link().connection.borrow_mut();
        let inbox = self.id().and_then(|id| connection.stream_mut(id));
        let cut = inbox.and_then(|inbox| inbox.cut);
        GatewayError::cut(match cut {
            _ if self.has_response_begun => Resend::No,
            // RFC 9113 §8.7: the server has processed none of it.
            Some(Cut::Reset(ErrorCode::REFUSED_STREAM, ResetBy::Peer)) => Resend::Any,
            Some(Cut::Gone) if self.is_reused => Resend::IfIdempotent,
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

    /// True when the response has come to its end.
    fn has_whole_response(&self, id: StreamId) -> bool {
        let mut connection = self.link().connection.borrow_mut();
        let inbox = connection.stream_mut(id);
        inbox.is_some_and(|inbox| inbox.is_ended)
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
        self.shared.stream_ended();
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
        let RequestState::Sent(id, outgoing) = &mut self.request else {
            return Poll::Ready(Ok(()));
        };
        let id = *id;
        match ready!(outgoing.poll_flush(cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            // RFC 9113 §8.1: a server that has responded may not need the rest of the request.
            Err(StreamClosed) if self.has_whole_response(id) => {
                if let RequestState::Sent(_, outgoing) = &mut self.request {
                    outgoing.give_up();
                }
                Poll::Ready(Ok(()))
            }
            Err(StreamClosed) => Poll::Ready(Err(self.cut())),
        }
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
        self.link().is_starved.get() || self.incoming.as_ref().is_some_and(Incoming::is_starved)
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
        let mut turn = turns.of(self.shared.next_place(), Priority::SHARED);
        if !is_extended && turns.is_free() {
            match self.send(lines.iter(), turn, end) {
                Ok(()) => return Ok(()),
                Err((SendError::Closed, _)) => {
                    self.request = RequestState::Refused;
                    return Ok(());
                }
                Err((_, returned)) => turn = returned,
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
        if head.is_interim() {
            self.interim_count += 1;
            if self.interim_count > INTERIM_RESPONSES_MAX {
                return Poll::Ready(Err(GatewayError::bad_response()));
            }
            return Poll::Ready(Ok(head));
        }
        if let Tunnel::Asked(key) = &self.tunnel {
            match key {
                Some(key) if head.status == 200 => head = head::tunnel_head(head, key)?,
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
