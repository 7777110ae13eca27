//! What filters are told to do.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::{ApiKeys, BasicAuth, Cache, ErrorPages, ForwardAuth, Jwt, RateLimit, Rule, Transform};
use crate::coding::Coding;
use crate::field::is_token;
use crate::path::PathPattern;

/// One `[http.filter.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Its key in the file.
    pub name: String,
    /// What it does.
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
    Authorize(Vec<Rule>),
    /// Asks for a name and a password (`kind = "basic-auth"`).
    BasicAuth(BasicAuth),
    /// Keeps responses (`kind = "cache"`).
    Cache(Cache),
    /// Encodes content (`kind = "compress"`).
    Compress(Compress),
    /// Says which other sites may read responses (`kind = "cors"`).
    Cors(Cors),
    /// Says errors in other words (`kind = "error-pages"`).
    ErrorPages(ErrorPages),
    /// Asks another service about each request (`kind = "forward-auth"`).
    ForwardAuth(ForwardAuth),
    /// Lets networks in or keeps them out (`kind = "ip"`).
    Ip(IpRules),
    /// Refuses requests beyond a rate (`kind = "rate-limit"`).
    RateLimit(RateLimit),
    /// Sends clients elsewhere (`kind = "redirect"`).
    Redirect(Redirect),
    /// Gives each request a name (`kind = "request-id"`).
    RequestId(RequestId),
    /// Tells browsers to be careful (`kind = "security-headers"`): fields that responses have
    /// unless their server said otherwise.
    SecurityHeaders(Vec<(String, String)>),
    /// Rewrites paths and queries, edits fields (`kind = "transform"`).
    Transform(Transform),
    /// One that a program brings along which embeds the gateway; no file has it.
    Custom(CustomFilter),
}

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

/// Which content is encoded, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Compress {
    /// Codings, most preferred first, among those that a client prefers alike.
    pub algorithms: Vec<Coding>,
    /// How hard each tries.
    pub levels: Levels,
    /// Content that is known to be shorter goes as it is.
    pub min_bytes: u64,
    /// What is encoded.
    pub types: Vec<MediaRange>,
    /// What is done against attacks by the length of content.
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
    /// That of `coding`.
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
    /// One that is written so.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, subtype) = text.split_once('/')?;
        let is_token = |text: &str| is_token(text.as_bytes());
        let is_range = is_token(kind) && kind != "*" && is_token(subtype);
        is_range.then(|| Self(text.to_ascii_lowercase()))
    }

    /// Whether `media_type` is one of it. Event streams are, of none but their own: to hold parts of
    /// them back, however shortly, should be meant.
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

/// What is done against attacks by the length of compressed content (BREACH).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// Content is not encoded where it may vary by a secret, or another site has it sent.
    Strict,
    /// What is encoded is padded.
    Pad,
    /// Nothing.
    Off,
}

/// What scripts of other origins may do (Fetch, "CORS protocol").
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
    /// Whether their requests may carry cookies and `Authorization`.
    pub credentials: bool,
    /// How long a preflight's answer holds. `None`: as long as the browser likes.
    pub max_age: Option<Duration>,
}

/// Who may ask, by address: `deny` wins; without `allow`, all that is not denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRules {
    /// Those that may; empty: all.
    pub allow: Vec<IpNet>,
    /// Those that may not.
    pub deny: Vec<IpNet>,
}

/// Where clients are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// A URI reference, in which `{host}`, `{path}` and `{query}` stand for the request's own;
    /// the last has its `?` where there is a query.
    pub to: String,
}

/// A name for each request, told to servers and clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// The field, in lower case.
    pub header: String,
    /// Whether a name that the client gave is kept, where it is a short token.
    pub keep: bool,
}
