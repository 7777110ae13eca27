//! One request to one server, from the connection to the verdict on the server.
//!
//! Proxying, retries, hedges, `forward-auth` and probes ask servers; all but probes, which have connections of
//! their own and a verdict of their own, ask by a [`Call`]. Once a connection stands, it alone tells circuit
//! breaker, outlier detection, latencies and pool how a server did: at the head ([`Answering::note_status`]) or at the end
//! ([`Call::finish`]), by one table of blame ([`Fault::blame`]). Connections that fail are reported where they are
//! established (`pool.rs`).
//!
//! Invariants: a server is blamed at most once for a call. A call that is dropped before it is finished is
//! cancelled: its connection closes, and nothing is said of the server.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use steppe_mem::Lease;
use steppe_net::proxy_protocol::Ends;
use tokio::task::spawn_local;

use super::channel::UpstreamStream;
use super::pool::{Checkout, Pool};
use super::selection::Selection;
use super::state::Target;
use super::stream::PooledStream;
use super::target::{Failure, TargetState};

use crate::error::{GatewayError, Origin, Resend};
use crate::exchange::{Outgoing, Part, Upstream};
use crate::head::{RequestHead, ResponseHead};
use crate::metrics::CloseReason;

/// A request to a server.
#[derive(Debug)]
pub struct Call {
    stream: PooledStream,
    record: CallRecord,
}

/// The part of a call that is told of its server's answer.
#[derive(Debug)]
struct CallRecord {
    pool: Rc<Pool>,
    /// When the request was sent to this server.
    sent_at: Instant,
    /// When the client began to wait: for a hedge, when the first server was asked.
    awaited_since: Instant,
    answer: ServerAnswer,
}

/// A server's answer, as far as it says something about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerAnswer {
    /// No final head yet.
    Awaited,
    /// A final head that is no failure.
    Good,
    /// A final head that is one.
    Bad(Failure),
}

/// A call whose server answers.
#[derive(Debug)]
pub struct Answering<'a> {
    /// The server.
    pub server: &'a Arc<TargetState>,
    record: &'a mut CallRecord,
}

/// The end of a call, as far as it concerns the server.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The server answered to the end.
    Complete,
    /// An error cut the exchange short.
    Failed(Fault<'a>),
    /// The answer was refused, for the request to be sent again.
    TurnedDown,
    /// Another server's answer came first.
    Outrun,
}

/// An error, and what excuses the server.
#[derive(Debug, Clone, Copy)]
pub struct Fault<'a> {
    /// The error that ended the exchange.
    pub error: &'a GatewayError,
    /// A connection that closed while it was idle is no fault of its server, once.
    pub is_excused: bool,
    /// The server had time enough of the exchange's, and the client sent no content that took some.
    pub is_timely: bool,
    /// The client owes content: a server need not wait for it.
    pub is_client_late: bool,
}

/// A call that is over. Dropping it closes its connection where that is not shared.
#[derive(Debug)]
pub struct FinishedCall {
    /// The failure that a retry is decided by; `None`: the server did well, or nothing is known. A server whose client
    /// was late is not blamed for it.
    pub failure: Option<Failure>,
    stream: PooledStream,
    pool: Rc<Pool>,
}

impl Call {
    /// A call on a connection that is there; `None`: [`Call::connect`] establishes one.
    ///
    /// # Errors
    /// All servers are out of service: 503.
    pub fn checkout(
        pool: &Rc<Pool>,
        selection: &mut Selection,
        now: Instant,
    ) -> Result<Option<Self>, GatewayError> {
        let Checkout::Stream(stream) = pool.checkout(selection)? else {
            return Ok(None);
        };
        if pool.is_nearly_full(&stream) {
            let (pool, target) = (Rc::clone(pool), stream.target());
            spawn_local(async move { pool.connect_ahead(target).await });
        }
        Ok(Some(Self::new(Rc::clone(pool), stream, now)))
    }

    /// A call on a new connection, as [`Pool::connect_any`] establishes it.
    ///
    /// # Errors
    /// As there.
    #[expect(
        clippy::disallowed_methods,
        reason = "a connection was established meanwhile"
    )]
    pub async fn connect(
        pool: Rc<Pool>,
        selection: &mut Selection,
        ends: Option<Ends>,
    ) -> Result<Self, GatewayError> {
        let stream = pool.connect_any(selection, ends).await?;
        Ok(Self::new(pool, stream, steppe_net::clock::now()))
    }

    fn new(pool: Rc<Pool>, stream: PooledStream, now: Instant) -> Self {
        let record = CallRecord {
            pool,
            sent_at: now,
            awaited_since: now,
            answer: ServerAnswer::Awaited,
        };
        Self { stream, record }
    }

    /// Starts the request. One that names no host is sent with the server's name.
    ///
    /// # Errors
    /// The budget has no room; nothing was sent.
    pub fn start(
        &mut self,
        head: &RequestHead,
        lease: &Lease,
        now: Instant,
    ) -> Result<(), GatewayError> {
        (self.record.sent_at, self.record.awaited_since) = (now, now);
        let authority = match head.authority().is_empty() {
            true => self.stream.authority(),
            false => String::new(),
        };
        self.stream.split().0.start(&Outgoing {
            head,
            authority: &authority,
            lease,
        })
    }

    /// Gives the connection of a call that has sent nothing back to its pool.
    pub fn put_back_unused(self, now: Instant) {
        self.record.pool.put_back(self.stream, now);
    }

    /// The server that is asked.
    #[must_use]
    pub fn server(&self) -> &Arc<TargetState> {
        self.stream.state()
    }

    /// The server's name, as a request without a host gives it.
    #[must_use]
    pub fn authority(&self) -> String {
        self.stream.authority()
    }

    /// The server's side of the exchange.
    pub fn upstream(&mut self) -> &mut dyn UpstreamStream {
        self.stream.split().0
    }

    /// The server's side, and the server that answers there.
    pub fn split(&mut self) -> (&mut dyn Upstream, Answering<'_>) {
        let (stream, server) = self.stream.split();
        let record = &mut self.record;
        (stream, Answering { server, record })
    }

    /// The final head came, with this status.
    pub fn note_status(&mut self, status: u16, selection: &mut Selection, now: Instant) {
        self.split().1.note_status(status, selection, now);
    }

    /// The client has waited for an answer since `first` was sent: hedges go by that.
    pub fn stands_in_for(&mut self, first: &Self) {
        self.record.awaited_since = first.record.awaited_since;
    }

    /// Ends the call, and tells of its server what it showed.
    #[must_use]
    pub fn finish(self, outcome: Outcome<'_>, now: Instant) -> FinishedCall {
        let Self { stream, record } = self;
        let failure = record.close(stream.state(), &outcome, now);
        FinishedCall {
            failure,
            stream,
            pool: record.pool,
        }
    }

    /// The stream of a call that has become a tunnel, which needs no pool: its connection is of no further use.
    #[must_use]
    pub fn into_tunnel(self) -> PooledStream {
        self.stream
    }
}

impl Answering<'_> {
    /// The pool of the server.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        &self.record.pool
    }

    /// The final head came, with this status: tells circuit breaker, outlier detection and latencies.
    pub fn note_status(&mut self, status: u16, selection: &mut Selection, now: Instant) {
        let Self { server, record } = self;
        let (pool, upstream) = (&record.pool, record.pool.upstream());
        let elapsed = now.saturating_duration_since(record.sent_at);
        if let Some(failure) = Failure::status(status) {
            record.answer = ServerAnswer::Bad(failure);
            return upstream.failed(server, failure, elapsed);
        }
        record.answer = ServerAnswer::Good;
        server.note_latency(elapsed, now);
        upstream.answered_in(now.saturating_duration_since(record.awaited_since), now);
        pool.succeeded(selection, now);
    }
}

impl CallRecord {
    /// Tells of the server how the call ended, unless its answer has said so.
    fn close(
        &self,
        server: &Arc<TargetState>,
        outcome: &Outcome<'_>,
        now: Instant,
    ) -> Option<Failure> {
        let elapsed = now.saturating_duration_since(self.sent_at);
        match (outcome, self.answer) {
            (_, ServerAnswer::Bad(failure)) => Some(failure),
            (Outcome::TurnedDown, _) => None,
            (Outcome::Complete, _) => {
                server.succeeded();
                None
            }
            (Outcome::Outrun, _) => {
                // Its answer takes at least so long.
                server.note_latency(elapsed, now);
                None
            }
            (Outcome::Failed(fault), answer) => {
                let failure = fault.blame(answer)?;
                // A server need not wait for content that its client is late with: it may be asked again, not
                // blamed.
                if failure != Failure::Reset || !fault.is_client_late {
                    self.pool.upstream().failed(server, failure, elapsed);
                }
                Some(failure)
            }
        }
    }
}

impl Fault<'_> {
    /// The table of blame. A client that is slow or leaves says nothing of the server.
    fn blame(&self, answer: ServerAnswer) -> Option<Failure> {
        let Self { error, .. } = self;
        match error.reason {
            _ if error.origin == Origin::Internal => None,
            CloseReason::UpstreamReset if self.is_excused && error.resend != Resend::No => None,
            CloseReason::UpstreamReset => Some(Failure::Reset),
            CloseReason::BadResponse => Some(Failure::MalformedResponse),
            CloseReason::FirstByteTimeout | CloseReason::UpstreamIdleTimeout => {
                Some(Failure::Timeout)
            }
            // Once the response has begun, the client may be what took so long.
            CloseReason::TotalTimeout if self.is_timely && answer == ServerAnswer::Awaited => {
                Some(Failure::Timeout)
            }
            _ => None,
        }
    }
}

impl FinishedCall {
    /// The server that was asked.
    #[must_use]
    pub fn server(&self) -> &Arc<TargetState> {
        self.stream.state()
    }

    /// The pool of the server.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// Gives the connection back to its pool, for another exchange where that can follow.
    pub fn put_back(self, now: Instant) {
        self.pool.put_back(self.stream, now);
    }

    /// Closes the connection for another to the same server.
    #[must_use]
    pub fn again(self) -> Reconnect {
        Reconnect {
            target: self.stream.target(),
            pool: self.pool,
        }
    }
}

/// A server that is asked again, on a new connection.
#[derive(Debug)]
pub struct Reconnect {
    target: Target,
    pool: Rc<Pool>,
}

impl Reconnect {
    /// A call on a new connection, as [`Pool::reconnect`] establishes it.
    ///
    /// # Errors
    /// As there.
    #[expect(
        clippy::disallowed_methods,
        reason = "a connection was established meanwhile"
    )]
    pub async fn connect(
        self,
        selection: &mut Selection,
        ends: Option<Ends>,
    ) -> Result<Call, GatewayError> {
        let stream = self.pool.reconnect(self.target, selection, ends).await?;
        Ok(Call::new(self.pool, stream, steppe_net::clock::now()))
    }
}

/// Puts a part of a request, once the stream takes it.
///
/// # Errors
/// The server takes no more.
pub async fn put(stream: &mut dyn UpstreamStream, part: Part) -> Result<(), GatewayError> {
    while !stream.can_put() {
        poll_fn(|cx| stream.poll_flush(cx)).await?;
    }
    stream.put(part)
}

/// The final head of a stream whose request was put whole.
///
/// # Errors
/// The server gives none.
pub async fn final_head(stream: &mut dyn UpstreamStream) -> Result<ResponseHead, GatewayError> {
    let mut is_flushed = false;
    loop {
        let head = poll_fn(|cx| {
            // A server that answered before it stopped reading has answered.
            is_flushed = is_flushed || stream.poll_flush(cx).is_ready();
            stream.poll_head(cx)
        });
        let head = head.await?;
        if !head.is_interim() {
            return Ok(head);
        }
    }
}

/// All content of a response, which must be short.
///
/// # Errors
/// The content has more than `bytes_max`, or comes to no end.
pub async fn content(
    stream: &mut dyn UpstreamStream,
    bytes_max: usize,
) -> Result<Vec<u8>, GatewayError> {
    let mut content = Vec::new();
    loop {
        match poll_fn(|cx| stream.poll_part(cx)).await? {
            Part::End(_) => return Ok(content),
            Part::Chunk(chunk) => content.extend_from_slice(chunk.filled()),
        }
        if content.len() > bytes_max {
            return Err(GatewayError::bad_response());
        }
    }
}
