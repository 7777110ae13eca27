//! Authentication and authorization of requests: tokens, passwords, API keys, an external service,
//! rules.

use std::path::PathBuf;
use std::time::Duration;

use crate::field::is_token;
use crate::path::PathPattern;

/// Requirements on a JSON Web Token (RFC 7519), and the keys that verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    /// The required `iss`. `None`: any.
    pub issuer: Option<String>,
    /// Audiences, of which the token's `aud` has one; empty: any.
    pub audience: Vec<String>,
    /// Clock skew that `exp` and `nbf` tolerate.
    pub leeway: Duration,
    /// Keys that may have signed it.
    pub keys: Vec<JwtKey>,
    /// Files with sets of such keys (RFC 7517 §5).
    pub sets: Vec<PathBuf>,
    /// A URL of such a set.
    pub remote: Option<JwksUrl>,
    /// Places where the token is looked for, in this order.
    pub from: Vec<TokenSource>,
    /// Claims that servers are told, and the fields that tell them, in lower case.
    pub forward_claims: Vec<(String, String)>,
    /// Verified tokens that are remembered.
    pub cache_entries: usize,
}

/// A URL with a set of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwksUrl {
    /// The URL, of http or https.
    pub url: String,
    /// The period after which the set is fetched again.
    pub refresh: Duration,
    /// The least time between two fetches caused by tokens whose key the set lacks.
    pub cooldown: Duration,
    /// Authorities of its server, PEM. `None`: those of the system.
    pub ca: Option<PathBuf>,
}

/// Authentication by user name and password (Basic, RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// The file with user names and password hashes.
    pub users: PathBuf,
    /// The realm that browsers show. No quotes or backslashes.
    pub realm: String,
    /// The field that servers are told the name by, in lower case. `None`: none.
    pub forward_user: Option<String>,
    /// Verified passwords that are remembered, as digests.
    pub cache_entries: usize,
}

/// Keys that let requests in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeys {
    /// The file with names and hashes of keys.
    pub keys: PathBuf,
    /// Where a key is looked for, in this order; never in a query.
    pub from: Vec<TokenSource>,
    /// The field that servers are told the name by, in lower case.
    pub forward_name: String,
    /// Servers receive the key as well.
    pub forward_key: bool,
}

/// Authorization by another service: its upstream, and the fields that pass between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuth {
    /// Index of its upstream, which has servers.
    pub upstream: usize,
    /// The target of the subrequest: a path, with a query or without one.
    pub path: String,
    /// Fields of the request that the service receives, in lower case.
    pub request_headers: Vec<String>,
    /// Fields of its answer that the request is given in place of its own, in lower case.
    pub response_headers: Vec<String>,
    /// The time limit for an answer.
    pub timeout: Duration,
}

/// A key that may have signed tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtKey {
    /// The `kid` of tokens that it signed. `None`: those without one, too.
    pub id: Option<String>,
    /// The only algorithm that the key verifies.
    pub algorithm: &'static str,
    /// The file of the key: bytes of a secret, or a public key as PEM.
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
    /// `header:NAME`, `cookie:NAME`, `query:NAME`; names are tokens.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, name) = text.split_once(':')?;
        if !is_token(name.as_bytes()) {
            return None;
        }
        match place {
            "header" => Some(Self::Header(name.to_ascii_lowercase())),
            "cookie" => Some(Self::Cookie(name.to_owned())),
            "query" => Some(Self::Query(name.to_owned())),
            _ => None,
        }
    }
}

/// `authorize`: its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorize(pub Vec<Rule>);

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
    /// The API key has one of these names; empty: any, or none.
    pub api_keys: Vec<String>,
    /// Requests that match are refused.
    pub denies: bool,
}
