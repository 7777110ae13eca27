//! A stream of a client's connection, as its exchange sees it.

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::RecvStream;
use h2::server::SendResponse;
use http::Response;
use steppe_mem::Lease;

use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source};
use crate::gateway::ListenerSettings;
use crate::h2::backlog::Backlog;
use crate::h2::content::{Follows, Incoming, IncomingError, Outgoing, Piece};
use crate::h2::head;
use crate::h2::priority::Priority;
use crate::h2::turns::Turns;
use crate::h2::websocket::Tunnel;
use crate::h2::windows::Window;
use crate::head::{Announced, ResponseHead};
use crate::limits::LINGER_BYTES_MAX;
use crate::metrics::CloseReason;

pub(super) struct ServerStream {
    incoming: Incoming,
    respond: SendResponse<Piece>,
    response: State,
    turns: Turns,
    priority: Priority,
    is_to_head: bool,
    tunnel: Tunnel,
    /// The stream was reset, by the client or for what it did: it has been told why.
    is_reset: bool,
    settings: Rc<ListenerSettings>,
    /// What the exchange's content is charged to.
    lease: Lease,
}

/// How far the response is.
enum State {
    Nothing,
    /// Its head was put, and nobody has seen it yet.
    Head(Head),
    /// Its head is out.
    Content(Outgoing),
}

struct Head {
    response: Response<()>,
    follows: Follows,
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

    /// Hands the head over, where one was put.
    fn send_head(&mut self) -> Result<(), GatewayError> {
        if let State::Head(Head { response, follows }) =
            std::mem::replace(&mut self.response, State::Nothing)
        {
            let sent = self.respond.send_response(response, follows.is_nothing());
            let stream = sent.map_err(|_| GatewayError::client_gone())?;
            let turn = (&self.turns, self.priority);
            self.response = State::Content(Outgoing::new(stream, turn, follows));
        }
        Ok(())
    }

    /// The head goes out with what follows it.
    fn content(&mut self) -> Result<Option<&mut Outgoing>, GatewayError> {
        if matches!(self.response, State::Head(_)) {
            self.send_head()?;
        }
        Ok(match &mut self.response {
            State::Content(outgoing) => Some(outgoing),
            State::Nothing | State::Head(_) => None,
        })
    }
}

impl Sink for ServerStream {
    fn can_put(&self) -> bool {
        match &self.response {
            State::Nothing | State::Head(_) => true,
            State::Content(outgoing) => outgoing.can_put(),
        }
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        match (&mut self.response, part) {
            // RFC 9110 §9.3.2: a response to HEAD has no content, whatever made it.
            (_, Part::Chunk(_)) if self.is_to_head => {}
            (State::Head(head), Part::End(None)) => head.follows = Follows::Nothing,
            (_, part) => {
                if let Some(outgoing) = self.content()? {
                    outgoing.put(part);
                }
            }
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        match &self.response {
            State::Nothing | State::Head(_) => 0,
            State::Content(outgoing) => outgoing.written(),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        match self.content()? {
            Some(outgoing) => {
                let flushed = ready!(outgoing.poll_flush(cx));
                self.is_reset |= flushed.is_err();
                Poll::Ready(flushed.map_err(|_| GatewayError::client_gone()))
            }
            None => Poll::Ready(Ok(())),
        }
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

    fn put_interim(&mut self, interim: &ResponseHead) -> Result<(), GatewayError> {
        let response = head::response(interim, Announced::Content);
        // One that can't be sent any more is of no use.
        let _ = self.respond.send_informational(response);
        Ok(())
    }

    fn put_head(&mut self, head: &ResponseHead) -> Result<(), GatewayError> {
        if let Tunnel::Asked(key) = &self.tunnel {
            let is_accepted = match key {
                Some(key) if head.is_tunnel() => head::is_accepted(head, key),
                _ => !head.is_false_yes(),
            };
            if !is_accepted {
                return Err(GatewayError::bad_response());
            }
        }
        self.priority = (self.priority).with(head.fields.values_named(b"priority"));
        let announced = Announced::of(head, self.is_to_head);
        let has_none = self.is_to_head || matches!(head.status, 204 | 304);
        self.response = State::Head(Head {
            response: head::response(head, announced),
            follows: match head.length {
                _ if head.is_tunnel() => Follows::Content,
                _ if has_none => Follows::Nothing,
                length => length.into(),
            },
        });
        Ok(())
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        if matches!(self.response, State::Content(_)) {
            return None;
        }
        let (response, content) = head::refusal(refusal, &self.settings.lease).ok()?;
        let Some(content) = content.filter(|_| !self.is_to_head) else {
            let follows = Follows::Nothing;
            self.response = State::Head(Head { response, follows });
            return Some(0);
        };
        let follows = Follows::Content;
        self.response = State::Head(Head { response, follows });
        let outgoing = self.content().ok()??;
        outgoing.put(Part::Chunk(content));
        outgoing.put(Part::End(None));
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
