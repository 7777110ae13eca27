//! What the cache says to a question, and how it is told to serve.

use crate::wire::{Body, Rcode};

use super::entry::Kind;

/// How entries are served. It may differ from lookup to lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServePolicy {
    /// Seconds past its time that an answer may be served; 0 for never. RFC 8767.
    pub stale_positive: u32,
    /// The same for negative responses.
    pub stale_negative: u32,
    /// An answer in use is refreshed in this last part of its time, in percent; 0 for never.
    pub prefetch_percent: u8,
}

/// What the cache has for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing.
    Miss,
    /// A response, which is in the buffer.
    Hit(Hit),
    /// The servers failed a moment ago, and are not asked again yet.
    Failure(Failure),
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Where its parts are in the buffer.
    pub body: Body,
    /// Positive or negative.
    pub kind: Kind,
    /// Whether its time is over.
    pub freshness: Freshness,
    /// Whether the question is to be asked again.
    pub refresh: Refresh,
}

/// Whether a response's time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It is not.
    Fresh,
    /// It is; its TTLs are [`crate::limits::STALE_TTL_SECONDS`].
    Stale,
}

/// Whether a question whose answer is cached is to be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Yes. Of a fresh response: it is about to end; this is said once in some seconds. Of a stale one:
    /// servers are asked first, and the response is for when they don't answer in time.
    Due,
    /// No. Of a stale response: servers failed not long ago, and it is served at once.
    NotDue,
}

/// A failure that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What clients get.
    pub rcode: Rcode,
    /// Why; 0 for nothing that could be said.
    pub extended_error: u16,
    /// Until servers are asked again.
    pub seconds_left: u32,
}
