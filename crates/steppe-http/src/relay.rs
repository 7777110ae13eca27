//! Moves one exchange between its two sides, both directions at once.
//!
//! Sans-IO: it knows neither clock nor timer. [`Relay::poll`] is told the time and
//! says when it wants to be polled again; its tests drive it with two fakes.
//!
//! Invariants: at most one part a direction is in flight, and none is asked for
//! before the other side can take it. Each poll goes on until both directions
//! wait for a peer or for budget.

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Upstream};
use crate::head::ResponseHead;
use crate::limits::LATE_CONTENT;
use crate::metrics::CloseReason;

/// The longest time of each kind of waiting.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timeouts {
    /// For more of the request's content.
    pub request_content: Duration,
    /// For the client to take some of the response.
    pub response_content: Duration,
    /// For the response to begin, once the request is out, and after each interim response: a server says by those that
    /// it is at work.
    pub first_byte: Duration,
    /// For the server to take or give some content; in a tunnel for anybody to.
    pub upstream_idle: Duration,
    /// When the exchange must be over.
    pub total_at: Option<Instant>,
}

/// The end of an exchange that was not cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relayed {
    /// The client has its response, whole.
    Response,
    /// It went on as a tunnel, which is closed.
    Tunnel,
}

/// The change that the response's head makes to the rest of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// Nothing.
    Bounded,
    /// It is an event stream: it may last for as long as something comes.
    Endless,
    /// The head waits until there is some content, which filters have to know first.
    Held,
}

/// An exchange, as far as its relay shows it what passes.
pub trait Tap {
    /// Parts of the request that are put before those that come from the client: what
    /// an earlier attempt had read of it. `None`: there is no more.
    ///
    /// # Errors
    /// What the exchange fails with.
    fn replay(&mut self) -> Option<Result<Part, GatewayError>> {
        None
    }

    /// Sees each part that came from the client before the server gets it.
    ///
    /// # Errors
    /// What the exchange fails with.
    fn request_part(&mut self, _part: &mut Part) -> Result<(), GatewayError> {
        Ok(())
    }

    /// Sees an interim head before the client does: another attempt's response would not follow from it.
    fn interim_head(&mut self, _head: &mut ResponseHead) {}

    /// Sees the final head before the client does.
    ///
    /// # Errors
    /// What the exchange fails with; the client was sent nothing of the head.
    fn response_head(
        &mut self,
        head: &mut ResponseHead,
        now: Instant,
    ) -> Result<Continue, GatewayError>;

    /// The head that was held goes on: the first of its content is there.
    fn release_head(&mut self, _head: &mut ResponseHead) {}

    /// Sees each part of the response before the client gets it.
    ///
    /// # Errors
    /// What the exchange fails with.
    fn response_part(&mut self, _part: &mut Part) -> Result<(), GatewayError> {
        Ok(())
    }
}

/// Everything that one poll of a relay has at hand.
pub struct RelayEnv<'a, 'cx, D: ?Sized, U: ?Sized, T> {
    /// The task that is woken.
    pub cx: &'a mut Context<'cx>,
    /// The time of the poll.
    pub now: Instant,
    /// The client's side.
    pub down: &'a mut D,
    /// The server's side.
    pub up: &'a mut U,
    /// The exchange, which sees what passes.
    pub tap: &'a mut T,
}

/// One exchange in flight.
#[derive(Debug)]
pub struct Relay {
    timeouts: Timeouts,
    request: RequestState,
    response: ResponseState,
    is_tunnel: bool,
    /// When each direction last moved.
    request_at: Instant,
    response_at: Instant,
    /// Bytes that each side had taken when it was polled last.
    up_written: u64,
    down_written: u64,
    due: Option<Due>,
    /// The client was to send more when the request's direction was polled last.
    is_client_awaited: bool,
    /// A final head that the present upstream has given already.
    head: Option<Box<ResponseHead>>,
    held: Option<Box<HeldHead>>,
}

/// A head that waits for the first part of its content, or that part until the client takes it behind the head.
#[derive(Debug)]
struct HeldHead {
    head: Option<ResponseHead>,
    first: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    /// Content is still to come from the client.
    Reading,
    /// All of it was put; some may not be out.
    Flushing,
    /// The server has it all.
    Done,
    /// The server stopped listening; it may have answered all the same.
    Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseState {
    /// No final head yet.
    Head,
    /// The final head is held until the first of its content is there.
    Held,
    /// Content is still to come from the server.
    Reading,
    /// All of it was put; some may not be out.
    Flushing,
    /// The client has it all.
    Done,
}

/// The peer that has to move for a direction to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    Nothing,
    Reader,
    Writer,
}

/// The outcome of one poll of a direction.
#[derive(Debug, Clone, Copy)]
struct DirectionPoll {
    has_moved: bool,
    waits: WaitsFor,
}

/// The sides that wait for budget rather than for their peers.
#[derive(Debug, Clone, Copy)]
struct Starved {
    down: bool,
    up: bool,
}

impl Starved {
    fn of<D, U, T>(env: &RelayEnv<'_, '_, D, U, T>) -> Self
    where
        D: Downstream + ?Sized,
        U: Upstream + ?Sized,
    {
        Self {
            down: env.down.is_starved(),
            up: env.up.is_starved(),
        }
    }
}

type Polled<T> = Result<T, GatewayError>;

impl Relay {
    /// An exchange whose request was started at `now`.
    #[must_use]
    pub fn new(timeouts: Timeouts, now: Instant) -> Self {
        Self {
            timeouts,
            request: RequestState::Reading,
            response: ResponseState::Head,
            is_tunnel: false,
            request_at: now,
            response_at: now,
            up_written: 0,
            down_written: 0,
            due: None,
            is_client_awaited: false,
            held: None,
            head: None,
        }
    }

    /// The upstream is another one from now on, which was sent the whole request and has answered with `head`.
    pub fn put_back(&mut self, head: ResponseHead) {
        self.head = Some(Box::new(head));
    }

    /// True when the server was given the whole request.
    #[must_use]
    pub fn is_request_out(&self) -> bool {
        self.request == RequestState::Done
    }

    /// True when the server has had all that the client sent for so long that the client is late with the rest.
    #[must_use]
    pub fn is_client_late(&self, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.request_at);
        self.is_client_awaited && waited >= LATE_CONTENT
    }

    /// True when the client was sent some of its response, so that it can be told of
    /// an error by closing only.
    #[must_use]
    pub fn has_response_begun(&self) -> bool {
        !matches!(self.response, ResponseState::Head | ResponseState::Held)
    }

    /// True while the client was sent a head whose content has not come to its end.
    #[must_use]
    pub fn is_response_open(&self) -> bool {
        self.response == ResponseState::Reading
    }

    /// The moment at which it must be polled again at the latest, as of the last poll.
    #[must_use]
    pub fn due(&self) -> Option<Due> {
        self.due
    }

    /// Ready when the exchange is over.
    ///
    /// # Errors
    /// What cut it short: a side, `tap`, or a timeout that `now` is past.
    pub fn poll<D, U, T: Tap>(
        &mut self,
        env: &mut RelayEnv<'_, '_, D, U, T>,
    ) -> Poll<Polled<Relayed>>
    where
        D: Downstream + ?Sized,
        U: Upstream + ?Sized,
    {
        let now = env.now;
        let mut request = self.poll_request(env)?;
        self.is_client_awaited = request.waits == WaitsFor::Reader;
        let response = self.poll_response(env)?;
        // A tunnel has begun: what the client sends is content from now on.
        if self.is_tunnel && request.waits == WaitsFor::Nothing {
            let more = self.poll_request(env)?;
            request = DirectionPoll {
                has_moved: request.has_moved || more.has_moved,
                ..more
            };
        }
        if self.is_over() {
            return Poll::Ready(Ok(if self.is_tunnel {
                Relayed::Tunnel
            } else {
                Relayed::Response
            }));
        }
        // To read the client shows its end. Nothing is read once the request is whole, nor while its content waits
        // for the server.
        let is_unread = matches!(self.request, RequestState::Done | RequestState::Cut)
            || request.waits == WaitsFor::Writer;
        if is_unread && !self.is_tunnel && env.down.poll_gone(env.cx).is_ready() {
            return Poll::Ready(Err(GatewayError::client_gone()));
        }
        // A peer that takes a little at a time has not stalled.
        let (up_written, down_written) = (env.up.written(), env.down.written());
        if request.has_moved || up_written != self.up_written {
            self.request_at = now;
        }
        if response.has_moved || down_written != self.down_written {
            self.response_at = now;
        }
        (self.up_written, self.down_written) = (up_written, down_written);
        self.due = self.first_due(request.waits, response.waits, Starved::of(env));
        match self.due {
            Some(due) if due.has_passed(now) => Poll::Ready(Err(GatewayError::timeout(due.reason))),
            _ => Poll::Pending,
        }
    }

    fn is_over(&self) -> bool {
        let is_request_over = matches!(self.request, RequestState::Done | RequestState::Cut);
        // A response may be whole before its request is: it decides, but in a tunnel.
        self.response == ResponseState::Done && (is_request_over || !self.is_tunnel)
    }

    fn poll_request<D, U, T: Tap>(
        &mut self,
        env: &mut RelayEnv<'_, '_, D, U, T>,
    ) -> Polled<DirectionPoll>
    where
        D: Downstream + ?Sized,
        U: Upstream + ?Sized,
    {
        let mut has_moved = false;
        loop {
            if matches!(self.request, RequestState::Done | RequestState::Cut) {
                let waits = WaitsFor::Nothing;
                return Ok(DirectionPoll { has_moved, waits });
            }
            let mut waits = WaitsFor::Writer;
            if self.request == RequestState::Reading && env.up.can_put() {
                waits = WaitsFor::Reader;
                if let Poll::Ready(part) = poll_request_part(env) {
                    has_moved = true;
                    let part = part?;
                    if matches!(part, Part::End(_)) {
                        self.request = RequestState::Flushing;
                    }
                    env.up.put(part)?;
                    continue;
                }
            }
            match env.up.poll_flush(env.cx) {
                Poll::Pending => {
                    let waits = WaitsFor::Writer;
                    return Ok(DirectionPoll { has_moved, waits });
                }
                // What the server answered before it closed is worth reading.
                Poll::Ready(Err(error)) if error.reason == CloseReason::UpstreamReset => {
                    self.request = RequestState::Cut;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) if self.request == RequestState::Flushing => {
                    self.request = RequestState::Done;
                    has_moved = true;
                }
                Poll::Ready(Ok(())) if waits == WaitsFor::Reader => {
                    return Ok(DirectionPoll { has_moved, waits });
                }
                Poll::Ready(Ok(())) => has_moved = true,
            }
        }
    }

    fn poll_response<D, U, T: Tap>(
        &mut self,
        env: &mut RelayEnv<'_, '_, D, U, T>,
    ) -> Polled<DirectionPoll>
    where
        D: Downstream + ?Sized,
        U: Upstream + ?Sized,
    {
        let mut has_moved = false;
        loop {
            let mut waits = WaitsFor::Writer;
            match self.response {
                ResponseState::Done => {
                    let waits = WaitsFor::Nothing;
                    return Ok(DirectionPoll { has_moved, waits });
                }
                ResponseState::Head if env.down.can_put() => {
                    waits = WaitsFor::Reader;
                    let head = match self.head.take() {
                        Some(head) => Poll::Ready(Ok(*head)),
                        None => env.up.poll_head(env.cx),
                    };
                    if let Poll::Ready(head) = head {
                        has_moved = true;
                        self.pass_head(head?, env)?;
                        continue;
                    }
                }
                ResponseState::Held if env.down.can_put() => {
                    waits = WaitsFor::Reader;
                    if let Poll::Ready(first) = env.up.poll_part(env.cx) {
                        has_moved = true;
                        self.release(first?, env)?;
                        continue;
                    }
                }
                ResponseState::Reading if env.down.can_put() => {
                    waits = WaitsFor::Reader;
                    if let Poll::Ready(part) = self.poll_response_part(env.cx, env.up) {
                        has_moved = true;
                        let mut part = part?;
                        env.tap.response_part(&mut part)?;
                        if matches!(part, Part::End(_)) {
                            self.response = ResponseState::Flushing;
                        }
                        env.down.put(part)?;
                        continue;
                    }
                }
                ResponseState::Head
                | ResponseState::Held
                | ResponseState::Reading
                | ResponseState::Flushing => {}
            }
            match env.down.poll_flush(env.cx)? {
                Poll::Pending => {
                    let waits = WaitsFor::Writer;
                    return Ok(DirectionPoll { has_moved, waits });
                }
                Poll::Ready(()) if self.response == ResponseState::Flushing => {
                    self.response = ResponseState::Done;
                    has_moved = true;
                }
                Poll::Ready(()) if waits == WaitsFor::Reader => {
                    return Ok(DirectionPoll { has_moved, waits });
                }
                Poll::Ready(()) => has_moved = true,
            }
        }
    }

    fn pass_head<D, U, T: Tap>(
        &mut self,
        mut head: ResponseHead,
        env: &mut RelayEnv<'_, '_, D, U, T>,
    ) -> Polled<()>
    where
        D: Downstream + ?Sized,
        U: Upstream + ?Sized,
    {
        if head.is_interim() {
            env.tap.interim_head(&mut head);
            return env.down.put_interim(head);
        }
        match env.tap.response_head(&mut head, env.now)? {
            Continue::Bounded => {}
            Continue::Endless => self.timeouts.total_at = None,
            Continue::Held => {
                self.held = Some(Box::new(HeldHead {
                    head: Some(head),
                    first: None,
                }));
                self.response = ResponseState::Held;
                return Ok(());
            }
        }
        let is_tunnel = head.is_tunnel();
        env.down.put_head(head)?;
        self.response = ResponseState::Reading;
        if is_tunnel {
            self.is_tunnel = true;
            self.timeouts.total_at = None;
            env.down.start_tunnel();
            env.up.start_tunnel();
            self.request = RequestState::Reading;
        }
        Ok(())
    }

    /// Sends the head that was held, before the first of its content.
    fn release<D, U, T: Tap>(
        &mut self,
        first: Part,
        env: &mut RelayEnv<'_, '_, D, U, T>,
    ) -> Polled<()>
    where
        D: Downstream + ?Sized,
        U: ?Sized,
    {
        let held = self.held.as_mut().expect("a head is held");
        let mut head = held.head.take().expect("it is released once");
        env.tap.release_head(&mut head);
        env.down.put_head(head)?;
        held.first = Some(first);
        self.response = ResponseState::Reading;
        Ok(())
    }

    fn poll_response_part<U: Upstream + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        up: &mut U,
    ) -> Poll<Polled<Part>> {
        match self.held.take().and_then(|held| held.first) {
            Some(first) => Poll::Ready(Ok(first)),
            None => up.poll_part(cx),
        }
    }

    /// The first deadline that applies, and what it means when it passes.
    fn first_due(&self, request: WaitsFor, response: WaitsFor, starved: Starved) -> Option<Due> {
        let timeouts = &self.timeouts;
        if self.is_tunnel {
            let moved_at = self.request_at.max(self.response_at);
            return Due::after(
                moved_at,
                timeouts.upstream_idle,
                CloseReason::TunnelIdleTimeout,
            );
        }
        let of_down = |reason| match starved.down {
            true => CloseReason::OverBudget,
            false => reason,
        };
        let of_up = |reason| match starved.up {
            true => CloseReason::OverBudget,
            false => reason,
        };
        let of_request = match request {
            WaitsFor::Nothing => None,
            WaitsFor::Reader => {
                let reason = of_down(CloseReason::BodyTimeout);
                Due::after(self.request_at, timeouts.request_content, reason)
            }
            WaitsFor::Writer => {
                let reason = of_up(CloseReason::UpstreamIdleTimeout);
                Due::after(self.request_at, timeouts.upstream_idle, reason)
            }
        };
        let of_response = match response {
            WaitsFor::Nothing => None,
            WaitsFor::Writer => Due::after(
                self.response_at,
                timeouts.response_content,
                CloseReason::WriteStall,
            ),
            WaitsFor::Reader if self.response == ResponseState::Head => {
                let is_request_out = request == WaitsFor::Nothing;
                let began_at = self.request_at.max(self.response_at);
                let reason = of_up(CloseReason::FirstByteTimeout);
                let deadline = Due::after(began_at, timeouts.first_byte, reason);
                deadline.filter(|_| is_request_out)
            }
            WaitsFor::Reader => {
                let reason = of_up(CloseReason::UpstreamIdleTimeout);
                Due::after(self.response_at, timeouts.upstream_idle, reason)
            }
        };
        Due::earliest([of_request, of_response, Due::total(timeouts.total_at)])
    }
}

fn poll_request_part<D, U, T: Tap>(env: &mut RelayEnv<'_, '_, D, U, T>) -> Poll<Polled<Part>>
where
    D: Downstream + ?Sized,
    U: ?Sized,
{
    if let Some(part) = env.tap.replay() {
        return Poll::Ready(part);
    }
    env.down.poll_part(env.cx).map(|part| {
        let mut part = part?;
        env.tap.request_part(&mut part)?;
        Ok(part)
    })
}
