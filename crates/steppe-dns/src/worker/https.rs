//! DNS over HTTPS to a server: the connection below an [`HttpsClient`].
//!
//! Invariant: an idle connection holds no memory beyond its charge, and reads even if the budget has no room: the
//! frames that it reads may free memory.
//!
//! A server that ends a connection in order (GOAWAY) gets no further query on it: queries that it does not process go
//! on the next connection at once, unless it never answered on this one. Then they wait for its end, since the next one
//! may be tried after a pause only (`streams_upstream.rs`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_h2::ErrorCode;
use steppe_mem::{Buffer, Chunk, Reservation};
use steppe_net::Transport;
use tokio::time::{Sleep, sleep_until};

use super::connecting::Connecting;
use super::silence::Silence;
use crate::config;
use crate::https_client::{HttpsClient, NotSent, Outcome, Target};
use crate::limits::{
    HTTPS_BYTES, HTTPS_READ_BYTES, READS_PER_TURN_MAX, UPSTREAM_SECURE_IDLE_TIME,
    UPSTREAM_STALL_TIME,
};
use crate::wire::first_message;

/// Slices of one write: content of queries is copied, so there are few.
const SLICES_MAX: usize = 4;

/// An established connection.
pub(super) struct Https<'a> {
    connection: &'a Connecting,
    transport: Transport,
    client: HttpsClient,
    /// Bytes that were read, and not given to `client` yet.
    input: Option<Chunk>,
    /// Reservation for the bytes that are read.
    reserve: Reservation,
    /// Queries that wait for a stream, from `taken` on.
    out: Vec<u8>,
    taken: usize,
    silence: Silence,
    /// Timer for the next look at queries that expire.
    expiry: Pin<Box<Sleep>>,
}

impl<'a> Https<'a> {
    /// The state of a connection that is established.
    ///
    /// # Errors
    /// The budget has no room, or the server's URL is invalid.
    pub(super) fn new(
        connection: &'a Connecting,
        transport: Transport,
        now: Instant,
    ) -> io::Result<Self> {
        let config = &connection.server.config;
        let target = Target::new(config.authority(), config.path.clone());
        let target = target.map_err(io::Error::other)?;
        let client = HttpsClient::new(target, &connection.lease, now);
        let reserve = connection.lease.try_reserve(HTTPS_BYTES);
        Ok(Self {
            connection,
            transport,
            client: client.map_err(io::Error::other)?,
            input: None,
            reserve: reserve.map_err(io::Error::other)?,
            out: Vec::new(),
            taken: 0,
            silence: Silence::new(UPSTREAM_SECURE_IDLE_TIME, now),
            expiry: Box::pin(sleep_until((now + UPSTREAM_STALL_TIME).into())),
        })
    }

    /// Ready when the connection has ended, or idled for long enough.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        let ended = ready!(self.poll_open(cx, now));
        // GOAWAY, as far as one write gets.
        self.client.end();
        let _ = self.poll_write(cx);
        let _ = self.transport.poll_shutdown(cx);
        Poll::Ready(ended)
    }

    fn poll_open(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        self.connection.queue.watch(cx.waker());
        if let Poll::Ready(ended) = self.poll_read(cx, now) {
            return Poll::Ready(ended);
        }
        // A write may make room for more queries.
        loop {
            let has_sent = self.send(now);
            let is_written = self.poll_write(cx)?.is_ready();
            if !has_sent || !is_written {
                break;
            }
        }
        if let Some(code) = self.client.leaving()
            && self.client.queries() == 0
        {
            return Poll::Ready(match code {
                ErrorCode::NO_ERROR => Ok(()),
                code => Err(io::Error::other(format!("the server sent GOAWAY ({code})"))),
            });
        }
        if self.silence.poll_over(cx, now).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.poll_expired(cx, now);
        Poll::Pending
    }

    /// Reads and receives frames. Ready when the connection has ended.
    fn poll_read(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        for _ in 0..READS_PER_TURN_MAX {
            self.receive(now)?;
            if self.input.is_some() {
                // The client takes no more input until its output is written: the server does not read it.
                ready!(self.poll_write(cx))?;
                continue;
            }
            let buffer = Buffer::take_of(&mut self.reserve, HTTPS_READ_BYTES);
            let mut buffer = buffer.map_err(io::Error::other)?;
            match self.transport.poll_read_into(cx, buffer.spare_mut()) {
                Poll::Ready(Ok(count @ 1..)) => {
                    buffer.advance(count);
                    self.input = Some(buffer.into());
                }
                read => {
                    self.reserve.join(buffer.into_charge());
                    return read.map_ok(|_| ());
                }
            }
        }
        // Other tasks get their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes the outcomes out of the input.
    fn receive(&mut self, now: Instant) -> io::Result<()> {
        let Some(mut input) = self.input.take() else {
            return Ok(());
        };
        loop {
            let received = self.client.receive(&mut input, now);
            match received.map_err(io::Error::other)? {
                Some(outcome) => self.take_outcome(outcome, now),
                None => break,
            }
        }
        if !input.is_empty() {
            self.input = Some(input);
        } else if let Ok(buffer) = input.into_buffer() {
            self.reserve.join(buffer.into_charge());
        }
        Ok(())
    }

    fn take_outcome(&mut self, outcome: Outcome, now: Instant) {
        let connection = self.connection;
        match outcome {
            Outcome::Response(message) => {
                self.silence.heard(now);
                connection.answered(|state, now| {
                    let carrier = (connection.number, config::Transport::Https);
                    state.message(carrier, message.filled(), now);
                });
            }
            Outcome::Failed { id, error } => {
                tracing::debug!(server = %connection.server.config, %error, "no usable response from a DNS server");
                connection.failed(id);
            }
            Outcome::Refused { id } => self.refused(id),
            Outcome::Leaving => connection.leaves(),
        }
    }

    /// Handles a query that was not processed: it is sent again now, or after the connection has ended.
    fn refused(&self, id: u16) {
        let waits_for_end =
            self.client.leaving().is_some() && !self.connection.queue.has_answered();
        if !waits_for_end {
            self.connection.refused(id);
        }
    }

    /// Sends the queries that wait, as far as the server takes them. True if it took some.
    fn send(&mut self, now: Instant) -> bool {
        let mut has_sent = false;
        loop {
            if self.taken == self.out.len() {
                self.taken = 0;
                self.connection.queue.take(&mut self.out);
            }
            let Some(message) = first_message(&self.out[self.taken..]) else {
                return has_sent;
            };
            let sent = self.client.send(message, now);
            if sent == Err(NotSent::Later) {
                return has_sent;
            }
            let id = message
                .first_chunk()
                .map_or(0, |id| u16::from_be_bytes(*id));
            self.taken += 2 + message.len();
            match sent {
                Ok(()) => {
                    has_sent = true;
                    self.silence.asked(now);
                }
                Err(NotSent::Over) => {
                    self.connection.leaves();
                    self.refused(id);
                }
                Err(NotSent::Later | NotSent::OverBudget | NotSent::NoMessage) => {
                    self.connection.failed(id);
                }
            }
        }
    }

    /// Writes the output of the client. Ready when the kernel has all of it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.client.slices(&mut slices);
            if count == 0 {
                return self.transport.poll_flush(cx);
            }
            match ready!(self.transport.poll_write(cx, &slices[..count]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.client.written(written),
            }
        }
    }

    /// Gives up queries without a response in time.
    fn poll_expired(&mut self, cx: &mut Context<'_>, now: Instant) {
        while self.expiry.as_mut().poll(cx).is_ready() {
            while let Some(outcome) = self.client.expire(now) {
                self.take_outcome(outcome, now);
            }
            // A query that is sent meanwhile expires later.
            let look_at = now + UPSTREAM_STALL_TIME;
            let look_at = self
                .client
                .expires_at()
                .map_or(look_at, |at| at.min(look_at));
            self.expiry.as_mut().reset(look_at.into());
        }
    }
}
