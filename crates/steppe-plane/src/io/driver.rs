//! The task of a connection: reads, writes, timers.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::time::{Sleep, sleep_until};

use super::failure::Failure;
use super::link::{Accepted, Handle, Link, State, wake_stopped};
use super::reading::Reading;
use super::stream::{BodyHead, Opener, Stream, wake};
use super::transport::Transport;
use crate::connection::{DataPart, Event, Processing, StreamId};
use crate::frame::{Head, Payment};
use crate::limits::{OUTPUT_BYTES, READS_PER_TURN, SLICES_MAX, STREAM_BYTES};
use crate::status::Status;

/// The handler of a connection's requests and notices.
pub(crate) trait Endpoint: Send + Sync + 'static {
    /// Charge in bytes of an accepted call, beside its stream and the texts of its HEADERS.
    const CALL_BYTES: usize;

    /// Accepts a stream that the peer opened. The link is not locked meanwhile.
    fn accept(&self, accepted: Accepted);

    /// Receives the services that the peer offers from now on; they replace the previous ones.
    fn named(&self, _link: &Arc<Link>, _services: &[NamedService]) {}

    /// Called when the peer accepts no further streams, and when the connection is closed.
    fn lost(&self, _link: &Arc<Link>) {}
}

/// Name of a service that a peer offers, and its maximum of concurrent calls; `None` if unlimited.
pub(crate) type NamedService = (Box<str>, Option<u32>);

/// The task of a connection, which completes when the connection is closed.
pub(crate) struct Driver<E: Endpoint> {
    link: Arc<Link>,
    transport: Transport,
    endpoint: E,
    timer: Pin<Box<Sleep>>,
    accepted: Vec<Accepted>,
    /// Services that the peer has named, for the endpoint when the lock is free.
    named: Option<Vec<NamedService>>,
    is_lost: bool,
}

impl<E: Endpoint> Driver<E> {
    pub(crate) fn new(link: Arc<Link>, transport: Transport, endpoint: E, now: Instant) -> Self {
        Self {
            link,
            transport,
            endpoint,
            timer: Box::pin(sleep_until(now.into())),
            accepted: Vec::new(),
            named: None,
            is_lost: false,
        }
    }

    /// Runs one turn. Ready once the connection is over.
    fn turn(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Failure> {
        let link = Arc::clone(&self.link);
        let mut guard = link.lock();
        let state = &mut *guard;
        link.returns.take(&mut state.connection, cx.waker());
        let mut is_open = true;
        for read in 0.. {
            if let Err(failure) = self.events(state, now) {
                // Writes GOAWAY, if the socket has room for it.
                let _ = self.write(state, cx);
                return Poll::Ready(failure);
            }
            // Pending output is written before the next read, so it grows by one read at most.
            let is_full = read > 0 && state.connection.output_bytes() > OUTPUT_BYTES;
            if read == READS_PER_TURN || is_full {
                cx.waker().wake_by_ref();
                break;
            }
            match self.read(state, cx, now) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => {
                    is_open = false;
                    break;
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(lost(&error)),
            }
        }
        if let Some(named) = self.named.take() {
            // Before the ACK of a PING that followed SERVICES is written (protocol.md §9).
            drop(guard);
            self.endpoint.named(&link, &named);
            guard = link.lock();
        }
        let state = &mut *guard;
        if !is_open {
            return Poll::Ready(Failure::new(
                Status::Unavailable,
                "the peer closed the connection",
            ));
        }
        if let Err(error) = self.write(state, cx) {
            return Poll::Ready(lost(&error));
        }
        if state.settle().is_err() {
            let detail = "no memory for frames that the peer does not read";
            return Poll::Ready(Failure::new(Status::Overloaded, detail));
        }
        if state.connection.has_writable() {
            // The write made room for a stream; no later input may cause the turn that reports it.
            cx.waker().wake_by_ref();
        }
        state.wake_waiting();
        if state.connection.is_drained() && !std::mem::replace(&mut state.has_drained, true) {
            link.changed.notify_waiters();
        }
        let is_idle = state.streams.is_empty() && state.connection.streams() == 0;
        if state.is_closing && is_idle {
            return Poll::Ready(Failure::unprocessed(
                Status::Unavailable,
                "connection closed by this side",
            ));
        }
        self.keep_time(state, cx, now);
        Poll::Pending
    }

    /// Sets the timer to the connection's next timeout.
    fn keep_time(&mut self, state: &mut State, cx: &mut Context<'_>, now: Instant) {
        let Some(mut timeout) = state.connection.next_timeout() else {
            return;
        };
        if let Some(tended) = self.link.memory.tend(now) {
            timeout = timeout.min(tended);
        }
        // A timer that fires too early is set again then: timeouts move with every read.
        if self.timer.is_elapsed() || timeout < self.timer.deadline().into_std() {
            self.timer.as_mut().reset(timeout.into());
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    fn read(
        &mut self,
        state: &mut State,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<io::Result<usize>> {
        let State {
            connection,
            reading,
            ..
        } = state;
        let body = reading.as_mut().map_or(&mut [][..], Reading::room);
        let mut slices = connection.room(body);
        let count = ready!(self.transport.poll_read(cx, &mut slices))?;
        if count > 0 {
            let body = connection.filled(count, now);
            if let Some(reading) = reading {
                reading.filled(body);
            }
            self.finish_part(state);
        }
        Poll::Ready(Ok(count))
    }

    fn write(&mut self, state: &mut State, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = state.connection.slices(&mut slices);
            if count == 0 {
                return match self.transport.poll_flush(cx) {
                    Poll::Ready(flushed) => flushed,
                    Poll::Pending => Ok(()),
                };
            }
            match self.transport.poll_write(cx, &slices[..count]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => state.connection.sent(count),
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }

    fn events(&mut self, state: &mut State, now: Instant) -> Result<(), Failure> {
        loop {
            self.finish_part(state);
            let State {
                connection,
                streams,
                services,
                ..
            } = state;
            let event = connection.next_event(now);
            let event = event
                .map_err(|violation| Failure::new(Status::Unavailable, violation.to_string()))?;
            let Some(event) = event else { return Ok(()) };
            match event {
                Event::Request { stream: id, head } => {
                    let call_bytes = E::CALL_BYTES + head.text_bytes();
                    let bytes = STREAM_BYTES + call_bytes;
                    if let Ok(table) = self.link.memory.admit_entry(bytes) {
                        let mut stream = Stream::new(Opener::Peer, Some(table));
                        stream.call_bytes = call_bytes;
                        stream.head = Some(body_head(&head));
                        streams.add(id, stream);
                        self.accepted.push(accepted_of(&self.link, id, &head, now));
                    } else {
                        connection.reset(id, &Status::Overloaded.into(), Processing::None);
                    }
                }
                Event::Response { stream, head } => {
                    let body = body_head(&head);
                    if let Some(stream) = streams.get_mut(stream) {
                        stream.head = Some(body);
                        stream.content_type = head.content_type.map(Box::from);
                        wake(&mut stream.wakers.receive);
                    }
                }
                Event::Data(part) => self.begin_part(state, &part),
                Event::Ended { stream, reason, .. } => {
                    let result = match reason.status {
                        Status::Ok => Ok(()),
                        _ => Err(Failure::of(&reason, Processing::Begun)),
                    };
                    if let Some(stream) = streams.get_mut(stream) {
                        stream.is_overloaded = reason.status == Status::Overloaded;
                        stream.end(result);
                        if stream.opener == Opener::Us {
                            // The call is over: its sending task stops.
                            wake(&mut stream.wakers.send);
                        }
                    }
                }
                Event::Stopped { stream, .. } => {
                    if let Some(stream) = streams.get_mut(stream) {
                        wake_stopped(stream);
                    }
                }
                Event::Reset {
                    stream,
                    reason,
                    is_unprocessed,
                    ..
                } => {
                    let processing = if is_unprocessed {
                        Processing::None
                    } else {
                        Processing::Begun
                    };
                    let failure = Failure::of(&reason, processing);
                    if let Some(stream) = streams.get_mut(stream) {
                        stream.is_overloaded = reason.status == Status::Overloaded;
                    }
                    self.kill(state, stream, failure);
                }
                Event::Expired { stream, .. } => {
                    let failure = Failure::new(Status::DeadlineExceeded, "");
                    self.kill(state, stream, failure);
                }
                Event::Writable(stream) => {
                    if let Some(stream) = streams.get_mut(stream) {
                        wake(&mut stream.wakers.send);
                    }
                }
                Event::Connected(_) | Event::Registered => self.link.changed.notify_waiters(),
                Event::GoingAway { code, .. } => {
                    self.is_lost = true;
                    state.dismissed_by = Some(code).filter(|&code| code != 0);
                    self.link.changed.notify_waiters();
                }
                Event::Services(named) => {
                    let names = named.iter().map(|service| service.name.into());
                    *services = Some(names.collect());
                    let named = named.iter();
                    let named = named.map(|service| (service.name.into(), service.calls_max));
                    self.named = Some(named.collect());
                    self.link.changed.notify_waiters();
                }
                Event::Granted { stream, .. } => {
                    if let Some(stream) = streams.get_mut(stream) {
                        wake(&mut stream.wakers.send);
                    }
                }
            }
        }
    }

    fn kill(&mut self, state: &mut State, id: StreamId, failure: Failure) {
        if let Some(stream) = state.streams.get_mut(id) {
            stream.kill(failure);
        }
        state.abandon(id);
    }

    /// Finds a buffer for a part of a message, and copies the bytes that were read already.
    fn begin_part(&mut self, state: &mut State, part: &DataPart) {
        let State {
            connection,
            streams,
            reading,
            ..
        } = state;
        let placed = match streams.get_mut(part.stream) {
            Some(stream) => Reading::begin(
                (&self.link.returns, &self.link.memory),
                connection,
                stream,
                part,
            ),
            None => Err(None),
        };
        match placed {
            Ok(mut placed) => {
                let count = connection.take_body(placed.room());
                placed.filled(count);
                *reading = Some(placed);
            }
            Err(failure) => {
                connection.skip_body();
                if part.payment == Payment::Standing {
                    connection.release(part.stream, part.cost);
                }
                if let Some(failure) = failure {
                    state.reset(part.stream, &failure);
                }
            }
        }
    }

    /// Delivers the part that is being read, once it is complete.
    fn finish_part(&mut self, state: &mut State) {
        let Some(reading) = &state.reading else {
            return;
        };
        if reading.left > 0 {
            let left = state.connection.body_left();
            if left.is_none_or(|(id, _)| id != reading.id) {
                // Its stream was closed meanwhile.
                state.abandon(reading.id);
            }
            return;
        }
        let Some(reading) = state.reading.take() else {
            return;
        };
        let stream = state.streams.get_mut(reading.id);
        reading.deliver(stream, &mut state.connection);
    }
}

fn accepted_of(link: &Arc<Link>, id: StreamId, head: &Head<'_>, now: Instant) -> Accepted {
    Accepted {
        handle: Arc::new(Handle {
            link: Arc::clone(link),
            id,
            queueing: head.queueing,
            kept: std::sync::OnceLock::new(),
        }),
        service: head.service.to_owned(),
        content_type: head.content_type.map(str::to_owned),
        idempotency_key: head.idempotency_key.map(<[u8]>::to_vec),
        trace_parent: head.trace_parent,
        deadline: head.deadline.map(|left| now + left),
    }
}

fn body_head(head: &Head<'_>) -> BodyHead {
    BodyHead {
        length: head.length,
        payment: head.payment,
    }
}

fn lost(error: &io::Error) -> Failure {
    Failure::new(Status::Unavailable, error.to_string())
}

impl<E: Endpoint + Unpin> Future for Driver<E> {
    type Output = Failure;

    #[expect(
        clippy::disallowed_methods,
        reason = "once a poll of a connection; everything below it is told"
    )]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Failure> {
        let turn = self.turn(cx, Instant::now());
        for accepted in std::mem::take(&mut self.accepted) {
            self.endpoint.accept(accepted);
        }
        if std::mem::take(&mut self.is_lost) {
            self.endpoint.lost(&self.link);
        }
        turn
    }
}

impl<E: Endpoint> Drop for Driver<E> {
    fn drop(&mut self) {
        // Other connections of this thread tend its pool again.
        steppe_mem::pool::untend();
        self.endpoint.lost(&self.link);
        self.link.close(&Failure::new(
            Status::Unavailable,
            "the connection is closed",
        ));
    }
}
