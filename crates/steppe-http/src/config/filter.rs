//! What filters are told to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use regex::bytes::Regex;

use super::ErrorPages;
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

impl FilterKind {
    /// Index of the upstream that it asks.
    #[must_use]
    pub fn upstream(&self) -> Option<usize> {
        match self {
            Self::ForwardAuth(asks) => Some(asks.upstream),
            _ => None,
        }
    }
}

/// A filter of a program that embeds the gateway. Equal to its clones alone.
#[derive(Debug, Clone)]
pub struct CustomFilter(pub Arc<dyn crate::filter::Filter>);

impl PartialEq for CustomFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a store of responses keeps, and how it is used (RFC 9111).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Memory that it takes at most, of the node's budget.
    pub bytes: usize,
    /// Content of a response that is stored.
    pub max_object_bytes: usize,
    /// How long a response may be used once it is stale while another is fetched, unless it says so itself.
    pub stale_while_revalidate: Duration,
    /// How long it may be used where no other can be had, unless it says so itself.
    pub stale_if_error: Duration,
    /// Whether requests may ask for what is newer (RFC 9111 §5.2.1).
    pub request_directives: bool,
    /// Whether responses that set cookies are stored where they are `public`.
    pub store_set_cookie: bool,
    /// Whether clients are told where a response is from (RFC 9211).
    pub cache_status: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            max_object_bytes: 8 << 20,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            request_directives: true,
            store_set_cookie: false,
            cache_status: true,
        }
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

/// What a JSON Web Token must be (RFC 7519).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    /// Its `iss`. `None`: any.
    pub issuer: Option<String>,
    /// One of these is in its `aud`; empty: any.
    pub audience: Vec<String>,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// Keys that may have signed it.
    pub keys: Vec<JwtKey>,
    /// Files with sets of such keys (RFC 7517 §5).
    pub sets: Vec<PathBuf>,
    /// A URL with one.
    pub remote: Option<JwksUrl>,
    /// Where it is looked for, in this order.
    pub from: Vec<TokenSource>,
    /// Claims that servers are told, and the fields that tell them, in lower case.
    pub forward_claims: Vec<(String, String)>,
    /// Verified tokens that are remembered.
    pub cache_entries: usize,
}

/// A URL with a set of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwksUrl {
    /// Of http or https.
    pub url: String,
    /// After so long, it is fetched again.
    pub refresh: Duration,
    /// For a key that it lacks, it is fetched again no sooner than so long after the last time.
    pub cooldown: Duration,
    /// Authorities of its server, PEM. `None`: those of the system.
    pub ca: Option<PathBuf>,
}

/// Who may come in by a password (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// The file with their names and the hashes of their passwords.
    pub users: PathBuf,
    /// What browsers say that the password is for. No quotes or backslashes.
    pub realm: String,
    /// The field that servers are told the name by, in lower case. `None`: none.
    pub forward_user: Option<String>,
    /// Verified passwords that are remembered, as digests.
    pub cache_entries: usize,
}

/// Which service is asked about requests, and what is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuth {
    /// Index of its upstream, which has servers.
    pub upstream: usize,
    /// What it is asked for: a path, with a query or without one.
    pub path: String,
    /// Fields of the request that it is shown, in lower case.
    pub request_headers: Vec<String>,
    /// Fields of its answer that the request is given in place of its own, in lower case.
    pub response_headers: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// A key that may have signed tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtKey {
    /// The `kid` of tokens that it signed. `None`: those without one, too.
    pub id: Option<String>,
    /// What it signs with, and nothing else.
    pub algorithm: &'static str,
    /// The file that holds it: bytes of a secret, or a public key as PEM.
    pub file: PathBuf,
}

/// Where a token is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// In a field, its name in lower case; in `authorization` after `Bearer`.
    Header(String),
    /// In a cookie.
    Cookie(String),
    /// In a parameter of the query.
    Query(String),
}

impl TokenSource {
    /// `header:NAME`, `cookie:NAME`, `query:NAME`; names are not looked at.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, name) = text.split_once(':')?;
        match place {
            "header" => Some(Self::Header(name.to_ascii_lowercase())),
            "cookie" => Some(Self::Cookie(name.to_owned())),
            "query" => Some(Self::Query(name.to_owned())),
            _ => None,
        }
    }
}

/// One rule of `authorize`: the first that matches the request decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Methods that it is for; empty: all.
    pub methods: Vec<String>,
    /// Paths that it is for. `None`: all.
    pub path: Option<PathPattern>,
    /// The token has one of these scopes; empty: whatever it has.
    pub any_scope: Vec<String>,
    /// The token has all of these scopes.
    pub all_scopes: Vec<String>,
    /// Each claim has one of its values; a name with dots is looked for in members of members.
    pub claims: Vec<(String, Vec<String>)>,
    /// It refuses what it matches.
    pub denies: bool,
}

/// How many requests of each key there may be: in a time, at once, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// What `RateLimit` fields call it: the filter's name.
    pub name: String,
    /// How fast they may come; `None`: at any rate.
    pub rate: Option<Rate>,
    /// How many may be in flight; `None`: any number.
    pub concurrent: Option<u32>,
    /// Whose requests are counted together.
    pub key: RateKey,
    /// Leading bits of an address that count, of IPv4 and of IPv6.
    pub prefix: (u8, u8),
    /// Keys that are remembered.
    pub entries: usize,
    /// What shares the rate among nodes; `None`: it is this node's.
    pub store: Option<RateStore>,
}

/// A token bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Requests in [`Rate::per`]. 1 to 1,000,000.
    pub requests: u32,
    /// What they are counted in.
    pub per: Duration,
    /// Requests that may come at once.
    pub burst: u32,
}

/// A database of Valkey or Redis.
#[derive(Clone)]
pub struct RateStore {
    url: String,
    client: redis::Client,
}

impl RateStore {
    /// `redis://HOST:PORT/DATABASE`, with a user and a password or without; `None`: it is none.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let client = redis::Client::open(url).ok();
        let client = client.filter(|_| url.starts_with("redis://"))?;
        Some(Self {
            url: url.to_owned(),
            client,
        })
    }

    pub(crate) fn client(&self) -> &redis::Client {
        &self.client
    }
}

impl PartialEq for RateStore {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for RateStore {}

/// A password may stand in it.
impl std::fmt::Debug for RateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RateStore")
    }
}

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// Those of a client's network.
    Ip,
    /// Those with one value of a field, its name in lower case.
    Header(String),
    /// Those with one value of a claim of their token.
    Claim(String),
    /// All of the route.
    Route,
}

impl RateKey {
    /// `ip`, `route`, `header:NAME` or `jwt:CLAIM`; names are not looked at.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ip" => Some(Self::Ip),
            "route" => Some(Self::Route),
            _ => match text.split_once(':')? {
                ("header", name) => Some(Self::Header(name.to_ascii_lowercase())),
                ("jwt", claim) => Some(Self::Claim(claim.to_owned())),
                _ => None,
            },
        }
    }
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

/// Another path for those that match.
#[derive(Debug, Clone)]
pub struct PathEdit {
    /// What of the path is replaced.
    pub pattern: Regex,
    /// By what: `${name}` stands for what a group of the pattern matched.
    pub to: String,
}

impl PartialEq for PathEdit {
    fn eq(&self, other: &Self) -> bool {
        self.pattern.as_str() == other.pattern.as_str() && self.to == other.to
    }
}

/// Edits of a query, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryEdits {
    /// Parameters that are taken out.
    pub remove: Vec<String>,
    /// Parameters that replace whatever had their name.
    pub set: Vec<(String, String)>,
}

/// What becomes of a field.
#[derive(Debug, Clone)]
pub struct FieldRewrite {
    /// The field, in lower case.
    pub header: String,
    /// Where the text is from. `None`: from the field itself, of which what matches is replaced.
    pub from: Option<TextSource>,
    /// What is looked for in the text.
    pub pattern: Regex,
    /// What the field, or what matched of it, becomes: `${name}` stands for what a group matched.
    pub to: String,
}

impl PartialEq for FieldRewrite {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
            && self.from == other.from
            && self.pattern.as_str() == other.pattern.as_str()
            && self.to == other.to
    }
}

/// Where a text is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSource {
    /// The path in normal form.
    Path,
    /// A field, in lower case.
    Header(String),
}

impl TextSource {
    /// `path` or `header:NAME`; the name is not looked at.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "path" => Some(Self::Path),
            _ => {
                let name = text.strip_prefix("header:")?;
                Some(Self::Header(name.to_ascii_lowercase()))
            }
        }
    }
}

/// Edits of JSON content. Names with dots are those of members of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonEdits {
    /// Members that are taken out.
    pub remove: Vec<String>,
    /// Members, and the names that they have in their object from then on.
    pub rename: Vec<(String, String)>,
    /// Members, and what they are, as JSON.
    pub set: Vec<(String, String)>,
    /// Content that is longer is refused.
    pub max_bytes: u64,
    /// What becomes of content that is not JSON though it says so.
    pub unreadable: Unreadable,
}

impl JsonEdits {
    /// Two edits of which one would not be made: of one member, or of one within the other.
    #[must_use]
    pub fn conflict(&self) -> Option<(String, String)> {
        let renamed = self.rename.iter().flat_map(|(path, to)| {
            let parent = path.rfind('.').map_or("", |at| &path[..=at]);
            [path.clone(), format!("{parent}{to}")]
        });
        let set = self.set.iter().map(|(path, _)| path.clone());
        let paths: Vec<String> = self
            .remove
            .iter()
            .cloned()
            .chain(renamed)
            .chain(set)
            .collect();
        let is_within = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for (at, path) in paths.iter().enumerate() {
            let other = paths[..at]
                .iter()
                .find(|other| is_within(path, other) || is_within(other, path));
            if let Some(other) = other {
                return Some((other.clone(), path.clone()));
            }
        }
        None
    }
}

/// What becomes of content that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// 400 to who sent it, 502 of a server's.
    Refuse,
    /// It goes on as it is.
    Pass,
}

/// Edits on the way in and out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transform {
    /// Of these, the first that matches the path in normal form.
    pub path: Vec<PathEdit>,
    /// On the query.
    pub query: QueryEdits,
    /// On the request, before it is forwarded.
    pub request: FieldEdits,
    /// On the response, before it is sent.
    pub response: FieldEdits,
    /// On the request's content, where that is JSON.
    pub request_json: Option<JsonEdits>,
    /// On the response's.
    pub response_json: Option<JsonEdits>,
}

/// Edits applied in this order: rewrite, remove, set, append. Names are valid lower-case tokens, values
/// valid field values (RFC 9110 §5.5), and none is a framing or hop-by-hop field.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldEdits {
    /// Fields that are made of what a pattern finds.
    pub rewrite: Vec<FieldRewrite>,
    /// Fields that are taken out.
    pub remove: Vec<String>,
    /// Fields that replace whatever had their name.
    pub set: Vec<(String, String)>,
    /// Field lines that are added.
    pub append: Vec<(String, String)>,
}
