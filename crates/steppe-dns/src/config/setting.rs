//! What rules say of a query beside what becomes of it, and the answers past their time that the cache may
//! serve without a rule too.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// How responses to a rule's queries are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePolicy {
    /// They are not. That servers have failed is remembered all the same: RFC 9520 §3.2.
    Off,
    /// They are, and these say how.
    Kept(CacheBounds),
}

/// What a rule says of responses that are kept, in place of what the upstream and the cache say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheBounds {
    /// They are kept for at least this long.
    pub min_ttl: Option<Duration>,
    /// They are kept for at most this long.
    pub max_ttl: Option<Duration>,
    /// Negative ones are kept for at most this long.
    pub negative_ttl_max: Option<Duration>,
    /// What becomes of those whose time is over.
    pub serve_stale: Option<StalePolicy>,
}

/// Answers past their time. RFC 8767.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeStale {
    /// How long past it.
    pub up_to: Duration,
    /// How long servers are waited for before.
    pub after: Duration,
    /// Which.
    pub only: Stale,
}

/// Which responses are served past their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// Those with records.
    Positive,
    /// Negative ones too.
    All,
}

/// What becomes of a rule's responses whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalePolicy {
    /// They are not served.
    Off,
    /// They are. RFC 8767.
    Served(ServeStale),
}

/// Whether a rule's queries have a line in the query log, whatever the log says of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleLog {
    /// They have none.
    Off,
    /// They have one.
    On,
    /// They have one, with this tag in it: words without spaces.
    Tagged(Arc<str>),
}

/// How many queries a rule lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleRate {
    /// So many a second, and as many at once.
    pub queries_per_second: NonZeroU32,
    /// Whose are counted together.
    pub of: RateOf,
}

/// Whose queries are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateOf {
    /// Those of a client's network (/24, /56).
    Client,
    /// All that match the rule.
    All,
}

impl CachePolicy {
    /// What is said where no rule says anything.
    pub(crate) const USUAL: Self = Self::Kept(CacheBounds {
        min_ttl: None,
        max_ttl: None,
        negative_ttl_max: None,
        serve_stale: None,
    });

    /// What it says of responses that are kept.
    pub(crate) fn bounds(self) -> CacheBounds {
        match self {
            Self::Off => CacheBounds::default(),
            Self::Kept(bounds) => bounds,
        }
    }

    /// What of it changes what is kept; the rest says how that is served.
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
