//! A stream of a client's connection, as its exchange sees it.

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_h2::{EndStream, ErrorCode, StreamId};
use steppe_mem::{Lease, Waiter};

use super::head::{self, RefusalHead, ResponseLines};
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source};
use crate::gateway::ListenerSettings;
use crate::h2::incoming::{Incoming, IncomingError};
use crate::h2::link::{Link, OpenStream};
use crate::h2::outgoing::Outgoing;
use crate::h2::priority::Priority;
use crate::h2::send_head::{SendHead, StreamClosed};
use crate::h2::turns::Turn;
use crate::h2::websocket::{self, Tunnel};
use crate::head::{Announced, ContentLength, MethodKind, ResponseHead};
use crate::limits::LINGER_BYTES_MAX;
use crate::metrics::CloseReason;

pub(super) struct ServerStream {
    open: OpenStream,
    id: StreamId,
    incoming: Incoming,
    /// Until the client's connection has taken it.
    interim: Option<Box<Interim>>,
    response: ResponseProgress,
    priority: Priority,
    /// The server has named a priority, which takes precedence (RFC 9218 §8).
    has_priority_of_server: bool,
    /// The kind of the request's method.
    method: MethodKind,
    tunnel: Tunnel,
    settings: Rc<ListenerSettings>,
    /// The lease that the exchange's content is charged to.
    lease: Lease,
}

/// The progress of the response.
enum ResponseProgress {
    Nothing,
    /// The head was put, and not sent.
    Head(Head),
    /// The head was sent.
    Content(Outgoing),
}

/// A head that waits for its turn and for memory.
struct Head {
    head: QueuedHead,
    end: EndStream,
    turn: Turn,
    waiter: Waiter,
    /// Put behind it.
    first: Option<Part>,
    second: Option<Part>,
}

enum QueuedHead {
    Response(ResponseHead),
    /// One of the gateway's own, and small.
    Refusal(RefusalHead),
}

/// An interim head.
struct Interim {
    /// `None`: it was handed over.
    head: Option<ResponseHead>,
    /// See [`Turn::poll_written`].
    handed_at: u64,
    turn: Turn,
    waiter: Waiter,
}

impl ServerStream {
    pub(super) fn new(
        (open, id): (OpenStream, StreamId),
        priority: Priority,
        settings: Rc<ListenerSettings>,
    ) -> Self {
        Self {
            incoming: Incoming::new(&open.link, id, settings.limits.body_bytes),
            open,
            id,
            interim: None,
            response: ResponseProgress::Nothing,
            priority,
            has_priority_of_server: false,
            method: MethodKind::Other,
            tunnel: Tunnel::No,
            lease: settings.lease.clone(),
            settings,
        }
    }

    /// The request is HEAD: its response has no content.
    pub(super) fn answer_to_head(&mut self) {
        self.method = MethodKind::Head;
    }

    /// The request is CONNECT, or an extended one, whose handshake in HTTP/1.1 has `key`.
    pub(super) fn ask_for_tunnel(&mut self, key: Option<Vec<u8>>) {
        self.tunnel = Tunnel::Asked(key);
    }

    /// Throws away what the client sends yet, up to a bound. Ready when that is over.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.incoming.poll_discard(cx, LINGER_BYTES_MAX)
    }

    /// The response was cut: that is told.
    pub(super) fn abort(&mut self) {
        let mut connection = self.open.link.connection.borrow_mut();
        connection.reset(self.id, head::CUT);
    }

    fn link(&self) -> &Rc<Link> {
        &self.open.link
    }

    fn turn(&self) -> Turn {
        self.link().turns.of(self.id.number(), self.priority)
    }

    /// Follows a PRIORITY_UPDATE of the client (RFC 9218 §7.1).
    fn follow_priority(&mut self) {
        let mut connection = self.link().connection.borrow_mut();
        let inbox = connection.stream_mut(self.id);
        let changed = inbox.and_then(|inbox| inbox.priority.take());
        drop(connection);
        let Some(changed) = changed.filter(|_| !self.has_priority_of_server) else {
            return;
        };
        self.priority = changed;
        match &mut self.response {
            ResponseProgress::Nothing => {}
            ResponseProgress::Head(head) => head.turn.set_priority(changed),
            ResponseProgress::Content(outgoing) => outgoing.turn.set_priority(changed),
        }
    }

    fn put_response(&mut self, head: QueuedHead, end: EndStream) {
        self.response = ResponseProgress::Head(Head {
            head,
            end,
            turn: self.turn(),
            waiter: Waiter::default(),
            first: None,
            second: None,
        });
    }

    /// Hands the interim head over, and waits until it is written: the server's next one is not read before.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(interim) = &mut self.interim else {
            return Poll::Ready(());
        };
        if let Some(head) = &interim.head {
            let lines = ResponseLines::new(head, Announced::Content);
            let send = SendHead {
                link: &self.open.link,
                id: self.id,
                turn: &mut interim.turn,
                waiter: &mut interim.waiter,
            };
            // One that can't be sent any more is of no use.
            let _ = ready!(send.poll(cx, lines.iter(), EndStream::No));
            interim.handed_at = self.open.link.turns.writings();
            interim.head = None;
        }
        ready!(interim.turn.poll_written(cx, interim.handed_at));
        self.interim = None;
        Poll::Ready(())
    }

    /// Hands the head over, where one was put and there is room, with what follows it.
    fn poll_send_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        ready!(self.poll_interim(cx));
        let ResponseProgress::Head(head) = &mut self.response else {
            return Poll::Ready(Ok(()));
        };
        let send = SendHead {
            link: &self.open.link,
            id: self.id,
            turn: &mut head.turn,
            waiter: &mut head.waiter,
        };
        let sent = match &head.head {
            QueuedHead::Response(response) => {
                let announced = Announced::of(response, self.method);
                let lines = ResponseLines::new(response, announced);
                send.poll(cx, lines.iter(), head.end)
            }
            QueuedHead::Refusal(refusal) => send.poll(cx, refusal.iter(), head.end),
        };
        ready!(sent).map_err(gone)?;
        let ResponseProgress::Head(head) =
            std::mem::replace(&mut self.response, ResponseProgress::Nothing)
        else {
            return Poll::Ready(Ok(()));
        };
        let mut outgoing = Outgoing::new(self.link(), self.id, head.turn);
        if head.end == EndStream::Yes {
            outgoing = outgoing.ended();
        }
        let parts = head.first.into_iter().chain(head.second);
        parts.for_each(|part| outgoing.put(part));
        self.response = ResponseProgress::Content(outgoing);
        Poll::Ready(Ok(()))
    }
}

impl Sink for ServerStream {
    fn can_put(&self) -> bool {
        match &self.response {
            _ if self.interim.is_some() => false,
            ResponseProgress::Nothing => true,
            ResponseProgress::Head(head) => head.second.is_none(),
            ResponseProgress::Content(outgoing) => outgoing.can_put(),
        }
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        match (&mut self.response, part) {
            // RFC 9110 §9.3.2: a response to HEAD has no content, whatever made it.
            (_, Part::Chunk(_)) if self.method.is_head() => {}
            (ResponseProgress::Nothing, _) => {}
            (ResponseProgress::Head(head), Part::End(None)) if head.first.is_none() => {
                head.end = EndStream::Yes;
            }
            // They go out with their head.
            (ResponseProgress::Head(head), part) if head.first.is_none() => head.first = Some(part),
            (ResponseProgress::Head(head), part) => head.second = Some(part),
            (ResponseProgress::Content(outgoing), part) => outgoing.put(part),
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        match &self.response {
            ResponseProgress::Nothing => self
                .interim
                .as_ref()
                .map_or(0, |interim| interim.turn.passed()),
            ResponseProgress::Head(head) => head.turn.passed(),
            ResponseProgress::Content(outgoing) => outgoing.written(),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.follow_priority();
        ready!(self.poll_send_head(cx))?;
        match &mut self.response {
            ResponseProgress::Content(outgoing) => outgoing.poll_flush(cx).map_err(gone),
            ResponseProgress::Nothing | ResponseProgress::Head(_) => Poll::Ready(Ok(())),
        }
    }
}

impl Source for ServerStream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        // What comes is for after the handshake.
        if let Tunnel::Asked(_) = self.tunnel {
            return Poll::Ready(Ok(Part::End(None)));
        }
        let mut part = (self.incoming.poll_part(cx, &self.lease)).map_err(incoming_error);
        if let Poll::Ready(Ok(Part::End(Some(trailers)))) = &mut part {
            trailers.apply_underscores(self.settings.underscores)?;
        }
        part
    }

    fn is_starved(&self) -> bool {
        self.incoming.is_starved()
    }
}

impl Downstream for ServerStream {
    fn charge_to(&mut self, lease: &Lease) {
        self.lease = lease.clone();
    }

    fn put_interim(&mut self, interim: ResponseHead) -> Result<(), GatewayError> {
        self.interim = Some(Box::new(Interim {
            head: Some(interim),
            handed_at: 0,
            turn: self.turn(),
            waiter: Waiter::default(),
        }));
        Ok(())
    }

    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        if let Tunnel::Asked(key) = &self.tunnel {
            let is_accepted = match key {
                Some(key) if head.is_tunnel() => websocket::is_accepted(&head, key),
                _ => !head.is_false_yes(),
            };
            if !is_accepted {
                return Err(GatewayError::bad_response());
            }
        }
        let mut priority = head.fields.values_named(b"priority").peekable();
        self.has_priority_of_server = priority.peek().is_some();
        self.priority = self.priority.with(priority);
        let has_none = self.method.is_head() || matches!(head.status, 204 | 304);
        let is_empty = head.length == ContentLength::Empty;
        let end = match !head.is_tunnel() && (has_none || is_empty) {
            true => EndStream::Yes,
            false => EndStream::No,
        };
        self.put_response(QueuedHead::Response(head), end);
        Ok(())
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        if matches!(self.response, ResponseProgress::Content(_)) {
            return None;
        }
        let (response, content) = RefusalHead::new(refusal, &self.settings.lease).ok()?;
        // Nobody waits for one that was not handed over.
        self.interim = None;
        let Some(content) = content.filter(|_| !self.method.is_head()) else {
            self.put_response(QueuedHead::Refusal(response), EndStream::Yes);
            return Some(0);
        };
        self.put_response(QueuedHead::Refusal(response), EndStream::No);
        if let ResponseProgress::Head(head) = &mut self.response {
            head.first = Some(Part::Chunk(content));
            head.second = Some(Part::End(None));
        }
        Some(refusal.bytes())
    }

    fn retract(&mut self) -> bool {
        match &self.response {
            ResponseProgress::Nothing => true,
            ResponseProgress::Head(_) => {
                self.response = ResponseProgress::Nothing;
                true
            }
            ResponseProgress::Content(_) => false,
        }
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut connection = self.open.link.connection.borrow_mut();
        let Some(inbox) = connection.stream_mut(self.id) else {
            return Poll::Ready(());
        };
        if inbox.cut.is_some() {
            return Poll::Ready(());
        }
        inbox.register(cx.waker());
        Poll::Pending
    }

    fn start_tunnel(&mut self) {
        self.tunnel = Tunnel::Begun;
        self.incoming.allow_any();
    }
}

fn gone(_: StreamClosed) -> GatewayError {
    GatewayError::client_gone()
}

fn incoming_error(error: IncomingError) -> GatewayError {
    match error {
        IncomingError::Cut => GatewayError::client_gone(),
        IncomingError::TooLarge => GatewayError::downstream(CloseReason::BodyTooLarge, 413),
        IncomingError::Trailers(error) => head::trailers_error(error),
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        let unreleased = self.incoming.unreleased_bytes();
        let is_sent =
            matches!(&self.response, ResponseProgress::Content(outgoing) if outgoing.is_sent());
        // RFC 9113 §8.1: a whole response may come before the request was read to its end.
        let code = if is_sent {
            ErrorCode::NO_ERROR
        } else {
            ErrorCode::CANCEL
        };
        let mut connection = self.open.link.connection.borrow_mut();
        let unreleased = u32::try_from(unreleased).unwrap_or(u32::MAX);
        connection.release_content(self.id, unreleased);
        connection.release(self.id, code);
    }
}

impl fmt::Debug for ServerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of a client", self.id)
    }
}
