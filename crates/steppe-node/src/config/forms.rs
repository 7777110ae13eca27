//! Forms of strings: what each is parsed into, how it is shown, described, and matched in the schema.
//!
//! Invariant: a pattern accepts whatever its form parses. Non-goals: the grammars, which `grammar` has.

use std::path::Path;

use regex::bytes::Regex;
pub(super) use steppe_config::form::{ANY, FILE, NAME};
use steppe_config::form::{Form, MASK, Read};
use steppe_config::table::Kind;
use steppe_http::config::keys::forms::method;
pub(super) use steppe_http::config::keys::forms::{
    FIELD_NAME, FIELD_VALUE, METHOD, PATH, STATUSES, TARGET,
};
use steppe_http::config::{RateKey, TextSource, TokenSource};
pub(super) use steppe_net::config::forms::{LISTEN, NETWORK, SERVER, URL};

use super::grammar;
use super::limits::{TIMEOUT_MAX, TIMEOUT_MIN};

/// A timeout that can't be off.
pub(super) const TIMEOUT: Kind = Kind::Duration(TIMEOUT_MIN, TIMEOUT_MAX);

/// Method, or `*`.
pub(super) static RULE_METHOD: Form<String> =
    Form::new("a method such as \"GET\", or \"*\"", rule_method).pattern("^[^ ]+$");

/// Serialized origin (RFC 6454 §6), or a pattern of one.
pub(super) static ORIGIN: Form<String> = Form::new(
    "an origin such as \"https://app.example.com\"",
    |text, _| grammar::origin(text),
)
.pattern("^(\\*|[a-z][a-z0-9+.-]*://[^/?#@]+)$");

/// Key by which a rate limit tells requests apart.
pub(super) static RATE_KEY: Form<RateKey> = Form::new(
    "\"ip\", \"header:NAME\", \"jwt:CLAIM\" or \"route\"",
    |text, _| grammar::rate_key(text),
)
.pattern("^(ip|route|(header|jwt):.+)$");

/// Database of Valkey or Redis.
pub(super) static RATE_STORE: Form<String> =
    Form::new("a URL such as \"redis://127.0.0.1:6379/0\"", |text, _| {
        grammar::rate_store(text)
    })
    .masked_by(store_without_password);

/// Source of a token.
pub(super) static TOKEN_SOURCE: Form<TokenSource> = Form::new(
    "\"header:NAME\", \"cookie:NAME\" or \"query:NAME\"",
    |text, _| grammar::token_source(text),
)
.pattern("^(header|cookie|query):.+$");

/// Regular expression.
pub(super) static PATTERN: Form<Regex> =
    Form::new("a regular expression", |text, _| grammar::pattern(text));

/// Source of a text.
pub(super) static TEXT_SOURCE: Form<TextSource> =
    Form::new("\"path\" or \"header:NAME\"", |text, _| {
        grammar::text_source(text)
    })
    .pattern("^(path|header:.+)$");

/// Name of a member of a JSON object, or of one within.
pub(super) static MEMBER_PATH: Form<String> =
    Form::new("a member such as \"token\" or \"user.token\"", |text, _| {
        grammar::member_path(text)
    })
    .pattern("^[^.]+(\\.[^.]+)*$");

/// JSON text.
pub(super) static JSON: Form<String> = Form::new(
    "JSON in a string, such as \"true\" or '\"text\"'",
    |text, _| grammar::json(text),
)
.masked_by(|_| format!("\"{MASK}\""));

/// URL of a collector of traces.
pub(super) static COLLECTOR: Form<String> =
    Form::new("a URL such as \"http://127.0.0.1:4318\"", |text, _| {
        grammar::collector(text)
    })
    .pattern("^https?://[^ #?@]+$");

fn rule_method(text: &str, _: &Path) -> Read<String> {
    match text {
        "*" => Ok(text.to_owned()),
        _ => method(text),
    }
}

/// The URL of a database: the password alone is a secret, and the rest tells where it leads.
fn store_without_password(url: &str) -> String {
    let Some(rest) = url.strip_prefix("redis://") else {
        return MASK.to_owned();
    };
    let Some((user, host)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    let name = user.split(':').next().unwrap_or_default();
    format!("redis://{name}:{MASK}@{host}")
}
