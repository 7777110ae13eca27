//! Strings of filters.

use regex::bytes::Regex;
use steppe_http::config::{RateKey, RateStore, TextSource, TokenSource};
use steppe_http::field::is_token;

use steppe_config::form::{Read, Refusal};
use steppe_config::mistake::shown;

/// `*`, `scheme://host`, `scheme://host:port` or `scheme://*.host`, in lower case from here on.
pub(in crate::config) fn origin(text: &str) -> Read<String> {
    let refusal = || {
        Refusal::new(format!("`{}` is not an origin", shown(text))).help(
            "write a scheme, a host and no path: \"https://app.example.com\", \
             \"https://*.example.com\", or \"*\" for all",
        )
    };
    if text == "*" {
        return Ok(text.to_owned());
    }
    let (scheme, authority) = text.split_once("://").ok_or_else(refusal)?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let host = authority.strip_prefix("*.").unwrap_or(authority);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let is_good = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_scheme)
        && !host.is_empty()
        && host.bytes().all(is_host);
    is_good
        .then(|| text.to_ascii_lowercase())
        .ok_or_else(refusal)
}

/// `ip`, `route`, `header:NAME`, `jwt:CLAIM`.
pub(in crate::config) fn rate_key(text: &str) -> Read<RateKey> {
    let key = RateKey::parse(text).filter(|key| match key {
        RateKey::Header(name) => is_token(name.as_bytes()),
        RateKey::Claim(name) => !name.is_empty(),
        RateKey::Ip | RateKey::Route => true,
    });
    key.ok_or_else(|| {
        Refusal::new(format!("`{}` is not a key to count by", shown(text)))
            .help("write \"ip\", \"header:NAME\", \"jwt:CLAIM\" or \"route\"")
    })
}

/// A database of Valkey or Redis. It is not shown: a password may stand in it.
pub(in crate::config) fn rate_store(text: &str) -> Read<String> {
    match RateStore::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(Refusal::new("not the URL of a Valkey or Redis database")
            .help("write a URL such as \"redis://127.0.0.1:6379/0\"")),
    }
}

/// A regular expression whose program has a bound.
pub(in crate::config) fn pattern(text: &str) -> Read<Regex> {
    Regex::new(text).map_err(|error| {
        let why = error.to_string();
        // It draws the expression first.
        let why = why
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        Refusal::new(format!(
            "`{}` is not a regular expression: {why}",
            shown(text)
        ))
        .help("a character of \\.+*?()|[]{}^$ that is meant itself has a backslash before it")
    })
}

/// `header:NAME`, `cookie:NAME`, `query:NAME`.
pub(in crate::config) fn token_source(text: &str) -> Read<TokenSource> {
    let source = TokenSource::parse(text).filter(|source| match source {
        TokenSource::Header(name) | TokenSource::Cookie(name) | TokenSource::Query(name) => {
            is_token(name.as_bytes())
        }
    });
    source.ok_or_else(|| {
        Refusal::new(format!("`{}` is not a source of tokens", shown(text)))
            .help("write \"header:NAME\", \"cookie:NAME\" or \"query:NAME\"")
    })
}

/// `path` or `header:NAME`.
pub(in crate::config) fn text_source(text: &str) -> Read<TextSource> {
    let source = TextSource::parse(text).filter(|source| match source {
        TextSource::Path => true,
        TextSource::Header(name) => is_token(name.as_bytes()),
    });
    source.ok_or_else(|| {
        Refusal::new(format!("`{}` is not a source of text", shown(text)))
            .help("write \"path\" or \"header:NAME\"")
    })
}

/// `NAME`, or names with dots between them.
pub(in crate::config) fn member_path(text: &str) -> Read<String> {
    const NAMES_MAX: usize = 8;
    let names = text.split('.');
    if names.clone().any(str::is_empty) || names.count() > NAMES_MAX {
        let message = format!("`{}` is not a member of an object", shown(text));
        let help = "write its name, or up to eight names with dots between them: \"user.token\"";
        return Err(Refusal::new(message).help(help));
    }
    Ok(text.to_owned())
}

/// JSON text, as short as it can be.
pub(in crate::config) fn json(text: &str) -> Read<String> {
    let value: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(text);
    value.map(|value| value.get().to_owned()).map_err(|error| {
        Refusal::new(format!("`{}` is not JSON: {error}", shown(text)))
            .help("a string of JSON has quotation marks of its own: '\"text\"'")
    })
}
