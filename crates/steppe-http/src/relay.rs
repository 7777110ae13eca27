//! Moves one exchange between its two sides, both directions at once.
//!
//! Invariant: at most one part a direction is on its way, and none is asked for
//! before the other side can take it. Each poll goes on until both directions
//! wait for a peer or for budget.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use steppe_net::Deadline;

use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Upstream};
use crate::head::ResponseHead;
use crate::metrics::CloseReason;

/// How long each kind of waiting may last.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For more of the request's content.
    pub request_content: Duration,
    /// For the client to take some of the response.
    pub write_stall: Duration,
    /// For the response to begin, once the request is out.
    pub first_byte: Duration,
    /// For the server to take or give some content; in a tunnel for anybody to.
    pub upstream_idle: Duration,
    /// When the exchange must be over.
    pub total_at: Option<Instant>,
}

/// What is left to do about the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relayed {
    /// The request was read to its end, so that another may follow.
    pub is_request_whole: bool,
    /// It went on as a tunnel.
    pub was_tunnel: bool,
}

/// What the response's head changes about the rest of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// Nothing.
    Bounded,
    /// It is an event stream: it may last for as long as something comes.
    Endless,
}

/// One exchange under way.
pub struct Relay<'a, D, U> {
    down: &'a mut D,
    up: &'a mut U,
    deadline: &'a Deadline,
    patience: Patience,
    request: RequestState,
    response: ResponseState,
    is_tunnel: bool,
    /// Nothing was left to say to the server, or it would not listen.
    request_at: Instant,
    response_at: Instant,
    /// Bytes that each side had taken when it was looked at last.
    up_written: u64,
    down_written: u64,
    /// Set along with the deadline: what it means when it passes.
    waits_for: CloseReason,
    is_first_poll: bool,
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
    /// Content is still to come from the server.
    Reading,
    /// All of it was put; some may not be out.
    Flushing,
    /// The client has it all.
    Done,
}

/// Who has to move for a direction to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nothing,
    Reader,
    Writer,
}

type Polled<T> = Result<T, GatewayError>;

impl<'a, D: Downstream, U: Upstream> Relay<'a, D, U> {
    /// An exchange whose request head was put into `up` at `now`.
    pub fn new(
        down: &'a mut D,
        up: &'a mut U,
        deadline: &'a Deadline,
        patience: Patience,
        now: Instant,
    ) -> Self {
        Self {
            down,
            up,
            deadline,
            patience,
            request: RequestState::Reading,
            response: ResponseState::Head,
            is_tunnel: false,
            request_at: now,
            response_at: now,
            up_written: 0,
            down_written: 0,
            waits_for: CloseReason::TotalTimeout,
            is_first_poll: true,
        }
    }

    /// Whether the client was sent some of its response, so that it can be
    /// told of an error by closing only.
    pub fn has_response_begun(&self) -> bool {
        self.response != ResponseState::Head
    }

    /// Ready when the exchange is over. `on_head` sees the final head before the client does.
    ///
    /// # Errors
    /// What cut it short.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        on_head: &mut impl FnMut(&mut D, &mut ResponseHead) -> Polled<Continue>,
    ) -> Poll<Polled<Relayed>> {
        let (mut has_request_moved, mut has_response_moved) = (false, false);
        let request_waits = self.poll_request(cx, &mut has_request_moved)?;
        let response_waits = self.poll_response(cx, &mut has_response_moved, on_head)?;
        // A tunnel has begun: what the client sends is content from now on.
        let request_waits = if self.is_tunnel && request_waits == Waits::Nothing {
            self.poll_request(cx, &mut has_request_moved)?
        } else {
            request_waits
        };
        if self.is_over() {
            return Poll::Ready(Ok(Relayed {
                is_request_whole: self.request == RequestState::Done,
                was_tunnel: self.is_tunnel,
            }));
        }
        let is_listening = self.request == RequestState::Done && !self.is_tunnel;
        if is_listening && self.down.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(GatewayError::client_gone()));
        }
        self.move_deadline(
            has_request_moved,
            has_response_moved,
            request_waits,
            response_waits,
        );
        match self.deadline.poll_passed(cx) {
            Poll::Ready(()) => Poll::Ready(Err(GatewayError::timeout(self.waits_for))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_over(&self) -> bool {
        let is_request_over = matches!(self.request, RequestState::Done | RequestState::Cut);
        // A response may be whole before its request is: it decides, but in a tunnel.
        self.response == ResponseState::Done && (is_request_over || !self.is_tunnel)
    }

    fn poll_request(&mut self, cx: &mut Context<'_>, has_moved: &mut bool) -> Polled<Waits> {
        loop {
            if matches!(self.request, RequestState::Done | RequestState::Cut) {
                return Ok(Waits::Nothing);
            }
            let mut waits = Waits::Writer;
            if self.request == RequestState::Reading && self.up.can_put() {
                waits = Waits::Reader;
                if let Poll::Ready(part) = self.down.poll_part(cx) {
                    *has_moved = true;
                    let part = part?;
                    if matches!(part, Part::End(_)) {
                        self.request = RequestState::Flushing;
                    }
                    self.up.put(part)?;
                    continue;
                }
            }
            match self.up.poll_flush(cx) {
                Poll::Pending => return Ok(Waits::Writer),
                // What the server answered before it closed is worth reading.
                Poll::Ready(Err(_)) => self.request = RequestState::Cut,
                Poll::Ready(Ok(())) if self.request == RequestState::Flushing => {
                    self.request = RequestState::Done;
                    *has_moved = true;
                }
                Poll::Ready(Ok(())) if waits == Waits::Reader => return Ok(waits),
                Poll::Ready(Ok(())) => *has_moved = true,
            }
        }
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        has_moved: &mut bool,
        on_head: &mut impl FnMut(&mut D, &mut ResponseHead) -> Polled<Continue>,
    ) -> Polled<Waits> {
        loop {
            let mut waits = Waits::Writer;
            match self.response {
                ResponseState::Done => return Ok(Waits::Nothing),
                ResponseState::Head if self.down.can_put() => {
                    waits = Waits::Reader;
                    if let Poll::Ready(head) = self.up.poll_head(cx) {
                        *has_moved = true;
                        self.take_head(head?, on_head)?;
                        continue;
                    }
                }
                ResponseState::Reading if self.down.can_put() => {
                    waits = Waits::Reader;
                    if let Poll::Ready(part) = self.up.poll_part(cx) {
                        *has_moved = true;
                        let part = part?;
                        if matches!(part, Part::End(_)) {
                            self.response = ResponseState::Flushing;
                        }
                        self.down.put(part)?;
                        continue;
                    }
                }
                ResponseState::Head | ResponseState::Reading | ResponseState::Flushing => {}
            }
            match self.down.poll_flush(cx)? {
                Poll::Pending => return Ok(Waits::Writer),
                Poll::Ready(()) if self.response == ResponseState::Flushing => {
                    self.response = ResponseState::Done;
                    *has_moved = true;
                }
                Poll::Ready(()) if waits == Waits::Reader => return Ok(waits),
                Poll::Ready(()) => *has_moved = true,
            }
        }
    }

    fn take_head(
        &mut self,
        mut head: ResponseHead,
        on_head: &mut impl FnMut(&mut D, &mut ResponseHead) -> Polled<Continue>,
    ) -> Polled<()> {
        if head.is_interim() {
            self.down.put_interim(&head)?;
            self.up.take_back(head);
            return Ok(());
        }
        if on_head(self.down, &mut head)? == Continue::Endless {
            self.patience.total_at = None;
        }
        self.down.put_head(&head)?;
        self.response = ResponseState::Reading;
        let is_upgrade = head.status == 101;
        self.up.take_back(head);
        if is_upgrade {
            self.is_tunnel = true;
            self.patience.total_at = None;
            self.down.start_tunnel();
            self.up.start_tunnel();
            self.request = RequestState::Reading;
        }
        Ok(())
    }

    /// Sets the deadline to the first of those that apply, and notes which it is.
    fn move_deadline(
        &mut self,
        has_request_moved: bool,
        has_response_moved: bool,
        request_waits: Waits,
        response_waits: Waits,
    ) {
        // A peer that takes a little at a time has not stalled.
        let (up_written, down_written) = (self.up.written(), self.down.written());
        let has_request_moved = has_request_moved || up_written != self.up_written;
        let has_response_moved = has_response_moved || down_written != self.down_written;
        (self.up_written, self.down_written) = (up_written, down_written);
        // The first poll comes right after the request's head: that moment is known.
        if (has_request_moved || has_response_moved) && !self.is_first_poll {
            let now = Instant::now();
            if has_request_moved {
                self.request_at = now;
            }
            if has_response_moved {
                self.response_at = now;
            }
        }
        self.is_first_poll = false;
        let (at, reason) = self.first_deadline(request_waits, response_waits);
        self.waits_for = reason;
        self.deadline.set_at(at);
    }

    fn first_deadline(&self, request: Waits, response: Waits) -> (Option<Instant>, CloseReason) {
        let patience = &self.patience;
        if self.is_tunnel {
            let moved_at = self.request_at.max(self.response_at);
            return (
                Some(moved_at + patience.upstream_idle),
                CloseReason::TunnelIdleTimeout,
            );
        }
        let starved = |is_starved, reason| {
            if is_starved {
                CloseReason::OverBudget
            } else {
                reason
            }
        };
        let of_request = match request {
            Waits::Nothing => None,
            Waits::Reader => {
                let reason = starved(self.down.is_starved(), CloseReason::BodyTimeout);
                Some((self.request_at + patience.request_content, reason))
            }
            Waits::Writer => Some((
                self.request_at + patience.upstream_idle,
                CloseReason::UpstreamIdleTimeout,
            )),
        };
        let of_response = match response {
            Waits::Nothing => None,
            Waits::Writer => Some((
                self.response_at + patience.write_stall,
                CloseReason::WriteStall,
            )),
            Waits::Reader if self.response == ResponseState::Head => {
                let is_request_out = request == Waits::Nothing;
                let began_at = self.request_at.max(self.response_at);
                let reason = starved(self.up.is_starved(), CloseReason::FirstByteTimeout);
                is_request_out.then(|| (began_at + patience.first_byte, reason))
            }
            Waits::Reader => {
                let reason = starved(self.up.is_starved(), CloseReason::UpstreamIdleTimeout);
                Some((self.response_at + patience.upstream_idle, reason))
            }
        };
        let of_total = patience.total_at.map(|at| (at, CloseReason::TotalTimeout));
        let first = [of_request, of_response, of_total]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at);
        first.map_or((None, CloseReason::TotalTimeout), |(at, reason)| {
            (Some(at), reason)
        })
    }
}
