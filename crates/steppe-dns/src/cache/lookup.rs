//! Results of a lookup, and the policy for stale and expiring entries.

use crate::wire::{Body, Rcode};

use super::entry::Kind;

/// The policy for serving stale entries and refreshing expiring ones. Each lookup may have another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServePolicy {
    /// Seconds past its lifetime that a positive answer may be served; 0 for never. RFC 8767.
    pub stale_positive: u32,
    /// The same for negative responses.
    pub stale_negative: u32,
    /// Last part of its lifetime in which an answer in use is refreshed, in percent; 0 for never.
    pub prefetch_percent: u8,
}

/// The result of looking a question up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// No entry that may be served.
    Miss,
    /// A response, copied to the buffer.
    Hit(Hit),
    /// A failure of the servers a moment ago; they are not asked again yet.
    Failure(Failure),
}

/// A response from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Length and sections of the response in the buffer.
    pub body: Body,
    /// Positive or negative.
    pub kind: Kind,
    /// Within its lifetime, or stale.
    pub freshness: Freshness,
    /// The need to ask servers again.
    pub refresh: Refresh,
}

/// The age of a response relative to its lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Within its lifetime.
    Fresh,
    /// Past its lifetime; its TTLs are [`crate::limits::STALE_TTL_SECONDS`].
    Stale,
}

/// The need to ask servers a question again whose answer is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Servers are to be asked. A fresh response expires soon; lookups return this once in
    /// [`crate::limits::PREFETCH_QUIET_SECONDS`]. For a stale one, servers are asked first, and it is served
    /// if they don't answer in time.
    Due,
    /// Servers need not be asked. A stale response is served at once, since servers failed not long ago.
    NotDue,
}

/// A cached failure of servers. RFC 9520.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The response code for clients.
    pub rcode: Rcode,
    /// Code of the extended error; 0 for none.
    pub extended_error: u16,
    /// Seconds until servers are asked again.
    pub seconds_left: u32,
}
