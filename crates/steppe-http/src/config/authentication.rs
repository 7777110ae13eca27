//! How it is found out who sends a request, and decided what they may.

use std::path::PathBuf;
use std::time::Duration;

use crate::field::is_token;
use crate::path::PathPattern;

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
    /// It refuses what it matches.
    pub denies: bool,
}
