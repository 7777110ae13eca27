//! The client side of DNS over HTTPS without sockets: queries are streams of one HTTP/2 connection. Spec: RFC 8484,
//! RFC 9113.
//!
//! Each query is a POST. The holder of a client reads bytes and gives them to [`HttpsClient::receive`], which returns
//! one [`Outcome`] at a time, and writes what [`HttpsClient::slices`] has.
//!
//! Invariant: each query that was sent has one outcome, unless its connection ends first. A server can make nothing
//! here grow past a bound: as many streams are open as queries were sent, a message ends at 65,535 bytes and its fields
//! at [`HTTPS_FIELDS_BYTES_MAX`]; all of that is charged.
//!
//! Non-goals: redirections, since the configuration names the server; server push, which is refused; GET.

mod error;
mod outcome;
mod query;
mod receive;
mod section;
mod target;

#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::time::Instant;

use steppe_h2::{
    Connection, ConnectionMemory, EndStream, ErrorCode, LocalSettings, Memory, Role, SendError,
    StreamId,
};
use steppe_mem::{Buffer, Chunk, Lease, OverBudget, Reservation};

pub use self::error::{NotSent, QueryError};
pub use self::outcome::Outcome;
use self::query::Query;
use self::section::ResponseSection;
pub use self::target::{InvalidTarget, Target};
use crate::limits::{
    ATTEMPTS_PER_SOCKET_MAX, HTTPS_CLIENT_BYTES, HTTPS_FIELDS_BYTES_MAX, HTTPS_STREAM_BYTES,
    HTTPS_STREAMS_FIRST, HTTPS_WINDOW_BYTES,
};

/// Places of a table when it first grows, as the standard library chooses them.
const PLACES_FIRST: usize = 4;

/// The client of one connection.
#[derive(Debug)]
pub struct HttpsClient {
    /// The state of a stream is `None` only for requests of the peer, and a client gets none.
    h2: Connection<ResponseSection, Option<Query>>,
    target: Target,
    lease: Lease,
    /// Charge for the connection, and for the most streams that it had at once: its tables don't shrink.
    charge: Reservation,
    /// Streams that the charge is enough for.
    places: usize,
    /// Streams whose content was not sent to the end.
    unsent: Vec<StreamId>,
    /// The server's GOAWAY, or the end of stream identifiers: no further query is sent.
    leaving: Option<ErrorCode>,
}

impl HttpsClient {
    /// A client whose connection begins.
    ///
    /// # Errors
    /// The budget has no room.
    pub fn new(target: Target, lease: &Lease, now: Instant) -> Result<Self, OverBudget> {
        let mut charge = lease.try_reserve(HTTPS_CLIENT_BYTES)?;
        let memory = Memory {
            lease: lease.clone(),
            reserve: charge.split(ConnectionMemory::reserved_bytes()),
        };
        let local = LocalSettings {
            concurrent_streams_max: 0,
            section_bytes_max: small(HTTPS_FIELDS_BYTES_MAX),
            // RFC 9113 §6.5.2 counts 32 octets a line, so this is no further bound.
            section_lines_max: small(HTTPS_FIELDS_BYTES_MAX / 32),
        };
        let mut h2 = Connection::new(Role::Client, local, memory, now);
        h2.set_windows(None, small(HTTPS_WINDOW_BYTES));
        Ok(Self {
            h2,
            target,
            lease: lease.clone(),
            charge,
            places: 0,
            unsent: Vec::new(),
            leaving: None,
        })
    }

    /// Sends a query. The id goes out as zero, so that caches have one response for all clients (RFC 8484 §4.1), and is
    /// set again in the outcome.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn send(&mut self, message: &[u8], now: Instant) -> Result<(), NotSent> {
        let (&id, rest) = message.split_first_chunk().ok_or(NotSent::NoMessage)?;
        if self.leaving.is_some() {
            return Err(NotSent::Over);
        }
        if self.h2.streams() >= self.streams_max() {
            return Err(NotSent::Later);
        }
        let mut content = Buffer::take(&self.lease, message.len())?;
        let put = content.put(&[0, 0]).and_then(|()| content.put(rest));
        put.map_err(|_| NotSent::NoMessage)?;
        self.charge_stream()?;
        let query = Query {
            id: u16::from_be_bytes(id),
            sent_at: now,
            is_early: !self.h2.peer().is_known,
            unsent: Some(content.into()),
            message: None,
        };
        let length = message.len().to_string();
        let lines = self.target.lines(&length);
        let opened = self
            .h2
            .open(lines.iter().copied(), EndStream::No, Some(query));
        match opened {
            Ok(stream) => {
                if self.send_content(stream) {
                    self.unsent.push(stream);
                }
                Ok(())
            }
            Err(SendError::Full | SendError::StreamLimit) => Err(NotSent::Later),
            Err(SendError::OverBudget(_)) => Err(NotSent::OverBudget),
            Err(SendError::Closed) => {
                self.leaving.get_or_insert(ErrorCode::NO_ERROR);
                Err(NotSent::Over)
            }
        }
    }

    fn streams_max(&self) -> usize {
        match self.h2.peer().is_known {
            true => ATTEMPTS_PER_SOCKET_MAX.into(),
            false => HTTPS_STREAMS_FIRST,
        }
    }

    /// Charges the place of one more stream, if the tables have to grow for it. They double when they grow.
    fn charge_stream(&mut self) -> Result<(), OverBudget> {
        if self.h2.streams() >= self.places {
            let places = (2 * self.places).max(PLACES_FIRST);
            self.charge
                .try_grow((places - self.places) * HTTPS_STREAM_BYTES)?;
            self.places = places;
        }
        Ok(())
    }

    /// Sends content of a query, as far as windows and output have room. True if some is left.
    fn send_content(&mut self, stream: StreamId) -> bool {
        let query = self.query_mut(stream);
        let mut content: Option<Chunk> = query.and_then(|query| query.unsent.take());
        if content.is_none() {
            return false;
        }
        let sent = self.h2.send_content(stream, &mut content, EndStream::Yes);
        if content.is_none() || sent == Err(SendError::Closed) {
            return false;
        }
        if let Some(query) = self.query_mut(stream) {
            query.unsent = content;
        }
        true
    }

    fn send_unsent(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.retain(|&stream| self.send_content(stream));
        self.unsent = unsent;
    }

    /// The error code of the server's GOAWAY, after which no further query is sent; queries that are out go on.
    #[must_use]
    pub fn leaving(&self) -> Option<ErrorCode> {
        self.leaving
    }

    /// Queries that are out.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.h2.streams()
    }

    /// The next query that had no response in time.
    pub fn expire(&mut self, now: Instant) -> Option<Outcome> {
        let mut queries = self.h2.streams_mut();
        let due = queries.find_map(|(stream, query)| {
            let is_due = query.as_ref().is_some_and(|query| query.due() <= now);
            is_due.then_some(stream)
        });
        drop(queries);
        let stream = due?;
        self.fail(stream, QueryError::Silent)
    }

    /// The time at which the next query expires.
    pub fn expires_at(&mut self) -> Option<Instant> {
        let streams = self.h2.streams_mut();
        let queries = streams.filter_map(|(_, query)| query.as_ref());
        queries.map(Query::due).min()
    }

    /// Fills `slices` with the bytes to be written next, and returns the number of those that were filled.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.h2.slices(slices)
    }

    /// Notes that the first `bytes` of [`Self::slices`] were written.
    pub fn written(&mut self, bytes: usize) {
        self.h2.written(bytes);
        if !self.unsent.is_empty() {
            self.send_unsent();
        }
    }

    /// Ends the connection by GOAWAY, unless a violation has ended it.
    pub fn end(&mut self) {
        self.h2
            .fail(ErrorCode::NO_ERROR, "the connection is no longer needed");
    }

    fn query_mut(&mut self, stream: StreamId) -> Option<&mut Query> {
        self.h2.stream_mut(stream)?.as_mut()
    }

    /// Releases a stream, and resets it if it is open.
    fn release(&mut self, stream: StreamId) {
        self.unsent.retain(|&unsent| unsent != stream);
        self.h2.release(stream, ErrorCode::CANCEL);
    }

    /// Ends a query that has failed.
    fn fail(&mut self, stream: StreamId, error: QueryError) -> Option<Outcome> {
        let id = self.query_mut(stream)?.id;
        self.release(stream);
        Some(Outcome::Failed { id, error })
    }
}

fn small(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

// The state of a client, and the memory that `steppe-h2` counts, are within the charge.
const _: () = assert!(
    size_of::<HttpsClient>()
        + ConnectionMemory::reserved_bytes()
        + ConnectionMemory::serving_bytes()
        <= HTTPS_CLIENT_BYTES
);
