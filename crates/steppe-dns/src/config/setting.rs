//! Settings of rules beside their action: caching, logging and rate; and the serving of stale responses,
//! which the cache's own settings have too.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The caching of responses to a rule's queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePolicy {
    /// Responses are not cached. Failures of servers still are: RFC 9520 §3.2.
    Off,
    /// Responses are cached within these bounds.
    Kept(CacheBounds),
}

/// The bounds that a rule sets for cached responses, in place of those of the upstream and the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheBounds {
    /// Responses are kept for at least this long.
    pub min_ttl: Option<Duration>,
    /// Responses are kept for at most this long.
    pub max_ttl: Option<Duration>,
    /// Negative responses are kept for at most this long.
    pub negative_ttl_max: Option<Duration>,
    /// Serving of stale responses.
    pub serve_stale: Option<StalePolicy>,
}

/// The serving of stale responses. RFC 8767.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeStale {
    /// Longest time after the expiry.
    pub up_to: Duration,
    /// Time to wait for servers first.
    pub after: Duration,
    /// Kinds of responses that are served.
    pub only: Stale,
}

/// The kinds of responses that are served after their expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// Positive responses.
    Positive,
    /// Positive and negative responses.
    All,
}

/// The treatment of a rule's responses that have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalePolicy {
    /// Expired responses are not served.
    Off,
    /// Expired responses are served within these bounds. RFC 8767.
    Served(ServeStale),
}

/// The logging of a rule's queries, which overrides the setting of the query log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleLog {
    /// Queries have no line.
    Off,
    /// Each query has a line.
    On,
    /// Each query has a line with this tag, which has no spaces.
    Tagged(Arc<str>),
}

/// The limit on the rate of a rule's queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleRate {
    /// Queries a second, and as many at once.
    pub queries_per_second: NonZeroU32,
    /// Queries that are counted together.
    pub of: RateOf,
}

/// The queries that a limit counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateOf {
    /// The queries of a client's network (/24, /56).
    Client,
    /// All queries that match the rule.
    All,
}

impl CachePolicy {
    /// The policy of queries for which no rule sets one.
    pub(crate) const USUAL: Self = Self::Kept(CacheBounds {
        min_ttl: None,
        max_ttl: None,
        negative_ttl_max: None,
        serve_stale: None,
    });

    /// The bounds for cached responses; none if nothing is cached.
    pub(crate) fn bounds(self) -> CacheBounds {
        match self {
            Self::Off => CacheBounds::default(),
            Self::Kept(bounds) => bounds,
        }
    }

    /// The part of the policy that affects what is stored. Left out is the serving of stale responses.
    pub(crate) fn of_what_is_kept(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Kept(bounds) => Self::Kept(CacheBounds {
                serve_stale: None,
                ..bounds
            }),
        }
    }
}
