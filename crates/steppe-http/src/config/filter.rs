//! The configuration of filters.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::{
    ApiKeys, Authorize, BasicAuth, Cache, ErrorPages, ForwardAuth, Jwt, RateLimit, Transform,
};
use crate::coding::Coding;
use crate::field::is_token;
use crate::path::PathPattern;

/// One `[http.filter.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The table's key in the file.
    pub name: String,
    /// The filter's kind and settings.
    pub kind: FilterKind,
}

/// The filters that exist.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterKind {
    /// Asks for a valid token (`kind = "jwt"`).
    Jwt(Jwt),
    /// Asks for a key of a list (`kind = "api-keys"`).
    ApiKeys(ApiKeys),
    /// Decides by method, path and claims (`kind = "authorize"`).
    Authorize(Authorize),
    /// Asks for a name and a password (`kind = "basic-auth"`).
    BasicAuth(BasicAuth),
    /// Keeps responses (`kind = "cache"`).
    Cache(Cache),
    /// Encodes content (`kind = "compress"`).
    Compress(Compress),
    /// Says which other sites may read responses (`kind = "cors"`).
    Cors(Cors),
    /// Replaces the content of errors by pages (`kind = "error-pages"`).
    ErrorPages(ErrorPages),
    /// Asks another service about each request (`kind = "forward-auth"`).
    ForwardAuth(ForwardAuth),
    /// Lets networks in or keeps them out (`kind = "ip"`).
    Ip(IpRules),
    /// Refuses requests beyond a rate (`kind = "rate-limit"`).
    RateLimit(RateLimit),
    /// Answers with a redirect (`kind = "redirect"`).
    Redirect(Redirect),
    /// Gives each request an id (`kind = "request-id"`).
    RequestId(RequestId),
    /// Adds fields that restrict browsers (`kind = "security-headers"`).
    SecurityHeaders(SecurityHeaders),
    /// Rewrites paths and queries, edits fields (`kind = "transform"`).
    Transform(Transform),
    /// A filter of a program that embeds the gateway; no file has it.
    Custom(CustomFilter),
}

/// `security-headers`: fields that responses have unless their server said otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityHeaders(pub Vec<(String, String)>);

/// The factory of a filter of a program that embeds the gateway, which `filter::custom` puts here: configurations know no
/// filters. Equal to its clones alone.
#[derive(Clone)]
pub struct CustomFilter(Arc<dyn Any + Send + Sync>);

impl CustomFilter {
    pub(crate) fn new(factory: impl Any + Send + Sync) -> Self {
        Self(Arc::new(factory))
    }

    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for CustomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomFilter")
    }
}

impl PartialEq for CustomFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Compression of content: codings, levels, media types, defense against BREACH.
#[derive(Debug, Clone, PartialEq)]
pub struct Compress {
    /// Codings, most preferred first, among those that a client prefers alike.
    pub algorithms: Vec<Coding>,
    /// The level of each coding.
    pub levels: Levels,
    /// Content that is known to be shorter goes as it is.
    pub min_bytes: u64,
    /// The media types that are encoded.
    pub types: Vec<MediaRange>,
    /// The defense against attacks by the length of content.
    pub breach: Breach,
    /// Under [`Breach::Strict`], paths whose content is not encoded.
    pub secret_paths: Vec<PathPattern>,
}

/// A level of each coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// 1 to 9.
    pub zstd: u8,
    /// 1 to 6.
    pub br: u8,
    /// 1 to 9.
    pub gzip: u8,
}

impl Levels {
    /// The level of `coding`.
    #[must_use]
    pub fn of(self, coding: Coding) -> u8 {
        match coding {
            Coding::Br => self.br,
            Coding::Zstd => self.zstd,
            Coding::Gzip => self.gzip,
        }
    }
}

/// `TYPE/SUBTYPE`, or `TYPE/*`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRange(String);

impl MediaRange {
    /// Parses a range; `None`: it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, subtype) = text.split_once('/')?;
        let is_token = |text: &str| is_token(text.as_bytes());
        let is_range = is_token(kind) && kind != "*" && is_token(subtype);
        is_range.then(|| Self(text.to_ascii_lowercase()))
    }

    /// True when the range includes `media_type`. Event streams need a range of their own: encoding
    /// them
    /// holds parts back for a moment, which should be chosen.
    #[must_use]
    pub fn matches(&self, media_type: &[u8]) -> bool {
        match self.0.strip_suffix('*') {
            None => media_type.eq_ignore_ascii_case(self.0.as_bytes()),
            Some(kind) => {
                let start = media_type.get(..kind.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
                    && !media_type.eq_ignore_ascii_case(b"text/event-stream")
            }
        }
    }
}

/// The defense against attacks by the length of compressed content (BREACH).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// Content is not encoded where it may vary by a secret, or another site has it sent.
    Strict,
    /// Encoded content is padded.
    Pad,
    /// No defense.
    Off,
}

/// Permissions for scripts of other origins (Fetch, "CORS protocol").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Serialized origins; `"*"` is all, and `"https://*.example.com"` every subdomain.
    pub origins: Vec<String>,
    /// Methods that they may use.
    pub methods: Vec<String>,
    /// Request fields that they may set, in lower case.
    pub headers: Vec<String>,
    /// Response fields that they may read.
    pub expose: Vec<String>,
    /// Allows requests with cookies and `Authorization`.
    pub credentials: bool,
    /// The lifetime of a preflight's answer. `None`: the browser's default.
    pub max_age: Option<Duration>,
}

/// Allowed and denied client addresses: `deny` wins; without `allow`, every address that is not
/// denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRules {
    /// Allowed networks; empty: all.
    pub allow: Vec<IpNet>,
    /// Denied networks.
    pub deny: Vec<IpNet>,
}

/// A redirect: status and target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// A URI reference, in which `{host}`, `{path}` and `{query}` stand for the request's own;
    /// the last has its `?` where there is a query.
    pub to: String,
}

/// An id for each request, sent to servers and clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// The field, in lower case.
    pub header: String,
    /// Keeps an id that the client sent, where it is a short token.
    pub keep: bool,
}
