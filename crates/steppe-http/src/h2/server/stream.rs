//! A stream of a client's connection, as its exchange sees it.

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::RecvStream;
use h2::server::SendResponse;
use http::Response;
use steppe_mem::{Lease, Waiter};

use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source};
use crate::gateway::ListenerSettings;
use crate::h2::backlog::Backlog;
use crate::h2::content::{Follows, Incoming, IncomingError, Outgoing, Piece};
use crate::h2::head;
use crate::h2::priority::Priority;
use crate::h2::turns::{HandedList, Turn, Turns};
use crate::h2::websocket::Tunnel;
use crate::h2::windows::Window;
use crate::head::{Announced, ResponseHead};
use crate::limits::LINGER_BYTES_MAX;
use crate::metrics::CloseReason;

pub(super) struct ServerStream {
    incoming: Incoming,
    respond: SendResponse<Piece>,
    /// Until the client's connection has taken it.
    interim: Option<Box<Interim>>,
    response: State,
    turns: Turns,
    priority: Priority,
    is_to_head: bool,
    tunnel: Tunnel,
    /// The stream was reset, by the client or for what it did: it has been told why.
    is_reset: bool,
    settings: Rc<ListenerSettings>,
    /// The lease that the exchange's content is charged to.
    lease: Lease,
}

/// The progress of the response.
#[expect(
    clippy::large_enum_variant,
    reason = "a stream has one, and is charged for the largest"
)]
enum State {
    Nothing,
    /// The head was put, and not sent.
    Head(Box<Head>),
    /// The head was sent.
    Content(Outgoing),
}

/// A head that waits for its turn and for memory.
struct Head {
    head: Put,
    follows: Follows,
    turn: Turn,
    waiter: Waiter,
    /// Put behind it.
    first: Option<Part>,
    second: Option<Part>,
}

enum Put {
    Response(ResponseHead),
    /// One of the gateway's own, and small.
    Refusal(Response<()>),
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
        content: (RecvStream, Option<Window>, Backlog),
        respond: SendResponse<Piece>,
        (turns, priority): (Turns, Priority),
        settings: Rc<ListenerSettings>,
    ) -> Self {
        let (content, window, backlog) = content;
        Self {
            incoming: Incoming::new((content, window), settings.limits.body_bytes, backlog),
            respond,
            interim: None,
            response: State::Nothing,
            turns,
            priority,
            is_to_head: false,
            tunnel: Tunnel::No,
            is_reset: false,
            lease: settings.lease.clone(),
            settings,
        }
    }

    /// The request is HEAD: its response has no content.
    pub(super) fn answer_to_head(&mut self) {
        self.is_to_head = true;
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
        if !self.is_reset {
            self.respond.send_reset(head::CUT);
        }
    }

    fn turn(&self) -> Turn {
        self.turns
            .of(self.respond.stream_id().as_u32(), self.priority)
    }

    fn put_response(&mut self, head: Put, follows: Follows) {
        self.response = State::Head(Box::new(Head {
            head,
            follows,
            turn: self.turn(),
            waiter: Waiter::default(),
            first: None,
            second: None,
        }));
    }

    /// Hands the interim head over, and waits until it is written: the server's next one is not read before.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(interim) = &mut self.interim else {
            return Poll::Ready(());
        };
        if let Some(head) = &interim.head {
            let list = HandedList {
                lease: &self.lease,
                bytes: head::handed_bytes(&head.fields),
                waiter: &mut interim.waiter,
            };
            interim.handed_at = ready!(interim.turn.poll_list(cx, list));
            // One that can't be sent any more is of no use.
            let response = head::response(head, Announced::Content);
            let _ = self.respond.send_informational(response);
            interim.head = None;
        }
        ready!(interim.turn.poll_written(cx, interim.handed_at));
        self.interim = None;
        Poll::Ready(())
    }

    /// Hands the head over, where one was put and there is room, with what follows it.
    fn poll_send_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        ready!(self.poll_interim(cx));
        let State::Head(head) = &mut self.response else {
            return Poll::Ready(Ok(()));
        };
        match &head.head {
            Put::Response(response) => {
                let list = HandedList {
                    lease: &self.lease,
                    bytes: head::handed_bytes(&response.fields),
                    waiter: &mut head.waiter,
                };
                ready!(head.turn.poll_list(cx, list));
            }
            // It is small, and ends what takes more.
            Put::Refusal(_) => ready!(head.turn.poll(cx)),
        }
        let State::Head(head) = std::mem::replace(&mut self.response, State::Nothing) else {
            return Poll::Ready(Ok(()));
        };
        let response = match head.head {
            Put::Response(put) => head::response(&put, Announced::of(&put, self.is_to_head)),
            Put::Refusal(response) => response,
        };
        let sent = (self.respond).send_response(response, head.follows.is_nothing());
        let stream = sent.map_err(|_| GatewayError::client_gone())?;
        let mut outgoing = Outgoing::new(stream, head.turn, (head.follows, self.lease.clone()));
        let parts = head.first.into_iter().chain(head.second);
        parts.for_each(|part| outgoing.put(part));
        self.response = State::Content(outgoing);
        Poll::Ready(Ok(()))
    }
}

impl Sink for ServerStream {
    fn can_put(&self) -> bool {
        match &self.response {
            _ if self.interim.is_some() => false,
            State::Nothing => true,
            State::Head(head) => head.second.is_none(),
            State::Content(outgoing) => outgoing.can_put(),
        }
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        match (&mut self.response, part) {
            // RFC 9110 §9.3.2: a response to HEAD has no content, whatever made it.
            (_, Part::Chunk(_)) if self.is_to_head => {}
            (State::Nothing, _) => {}
            (State::Head(head), Part::End(None)) if head.first.is_none() => {
                head.follows = Follows::Nothing;
            }
            // They go out with their head.
            (State::Head(head), part) if head.first.is_none() => head.first = Some(part),
            (State::Head(head), part) => head.second = Some(part),
            (State::Content(outgoing), part) => outgoing.put(part),
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        match &self.response {
            State::Nothing => self
                .interim
                .as_ref()
                .map_or(0, |interim| interim.turn.passed()),
            State::Head(head) => head.turn.passed(),
            State::Content(outgoing) => outgoing.written(),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        ready!(self.poll_send_head(cx))?;
        let State::Content(outgoing) = &mut self.response else {
            return Poll::Ready(Ok(()));
        };
        let flushed = ready!(outgoing.poll_flush(cx));
        self.is_reset |= flushed.is_err();
        Poll::Ready(flushed.map_err(|_| GatewayError::client_gone()))
    }
}

impl Source for ServerStream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        // What comes is for after the handshake.
        if let Tunnel::Asked(_) = self.tunnel {
            return Poll::Ready(Ok(Part::End(None)));
        }
        let mut part = self.incoming.poll_part(cx, &self.lease);
        if let Poll::Ready(Ok(Part::End(Some(trailers)))) = &mut part {
            trailers.apply_underscores(self.settings.underscores)?;
        }
        self.is_reset |= matches!(part, Poll::Ready(Err(IncomingError::Cut(_))));
        // What waits for budget still sees its client leave.
        if self.incoming.is_starved() && self.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(GatewayError::client_gone()));
        }
        part.map_err(|error| match error {
            IncomingError::Cut(_) => GatewayError::client_gone(),
            IncomingError::TooLarge => GatewayError::downstream(CloseReason::BodyTooLarge, 413),
            IncomingError::Malformed => GatewayError::bad_request(),
            IncomingError::TrailersTooLarge => {
                GatewayError::downstream(CloseReason::HeaderTooLarge, 431)
            }
            IncomingError::OverBudget => GatewayError::over_budget(),
        })
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
                Some(key) if head.is_tunnel() => head::is_accepted(&head, key),
                _ => !head.is_false_yes(),
            };
            if !is_accepted {
                return Err(GatewayError::bad_response());
            }
        }
        self.priority = (self.priority).with(head.fields.values_named(b"priority"));
        let has_none = self.is_to_head || matches!(head.status, 204 | 304);
        let follows = match head.length {
            _ if head.is_tunnel() => Follows::Content,
            _ if has_none => Follows::Nothing,
            length => length.into(),
        };
        self.put_response(Put::Response(head), follows);
        Ok(())
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        if matches!(self.response, State::Content(_)) {
            return None;
        }
        let (response, content) = head::refusal(refusal, &self.settings.lease).ok()?;
        // Nobody waits for one that was not handed over.
        self.interim = None;
        let Some(content) = content.filter(|_| !self.is_to_head) else {
            self.put_response(Put::Refusal(response), Follows::Nothing);
            return Some(0);
        };
        self.put_response(Put::Refusal(response), Follows::Content);
        if let State::Head(head) = &mut self.response {
            head.first = Some(Part::Chunk(content));
            head.second = Some(Part::End(None));
        }
        Some(refusal.bytes())
    }

    fn retract(&mut self) -> bool {
        match &self.response {
            State::Nothing => true,
            State::Head(_) => {
                self.response = State::Nothing;
                true
            }
            State::Content(_) => false,
        }
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.response {
            State::Content(outgoing) => ready!(outgoing.poll_reset(cx)),
            State::Nothing | State::Head(_) => _ = ready!(self.respond.poll_reset(cx)),
        }
        self.is_reset = true;
        Poll::Ready(())
    }

    fn start_tunnel(&mut self) {
        self.tunnel = Tunnel::Begun;
        self.incoming.allow_any();
    }
}

impl fmt::Debug for ServerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream of a client, {:?}", self.incoming)
    }
}
