//! Keys of the filter that lets scripts of other origins read responses.

use std::path::Path;
use std::time::Duration;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::key::{Key, OptionalKey, boolean, duration, key, list, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::{Fields, valid};

use super::DAY;
use super::forms::{FIELD_NAME, METHOD};
use crate::config::Cors;

/// `[http.filter.NAME]` of the kind `cors`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Lets scripts of other origins read responses, and answers their preflights.",
    keys! { ORIGINS, METHODS, HEADERS, EXPOSE, CREDENTIALS, MAX_AGE },
);

static ORIGINS: Key<Vec<String>> = key(
    "origins",
    list(&text(&ORIGIN), 1),
    "Allowed origins: \"https://app.example.com\", \"https://*.example.com\" for every subdomain \
     (of the same scheme and port), or \"*\" for all.",
)
.required();

static METHODS: Key<Vec<String>> = key(
    "methods",
    list(&text(&METHOD), 1),
    "Methods that scripts of those origins may use.",
)
.or(Absent::Texts(&["GET", "HEAD", "POST"]));

static HEADERS: Key<Vec<String>> = key(
    "headers",
    list(&text(&FIELD_NAME), 0),
    "Request fields that they may set.",
)
.or(Absent::Texts(&[]));

static EXPOSE: Key<Vec<String>> = key(
    "expose",
    list(&text(&FIELD_NAME), 0),
    "Response fields that they may read.",
)
.or(Absent::Texts(&[]));

static CREDENTIALS: Key<bool> = key(
    "credentials",
    boolean(),
    "Allows cookies and `Authorization` in their requests; not with \"*\".",
)
.or(Absent::No);

static MAX_AGE: OptionalKey<Duration> = key(
    "max_age",
    duration(Duration::ZERO, DAY),
    "Time that browsers may keep the response to a preflight. Without it, the browser's own.",
);

/// Serialized origin (RFC 6454 §6), or a pattern of one.
static ORIGIN: Form<String> = Form::new("an origin such as \"https://app.example.com\"", origin)
    .pattern("^(\\*|[a-z][a-z0-9+.-]*://[^/?#@]+)$");

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<Cors> {
    Some(Cors {
        origins: filter.get(&ORIGINS)?,
        methods: filter.get(&METHODS)?,
        headers: filter.get(&HEADERS)?,
        expose: filter.get(&EXPOSE)?,
        credentials: filter.get(&CREDENTIALS)?,
        max_age: filter.get(&MAX_AGE)?,
    })
}

/// Fetch, "CORS protocol and credentials": no browser takes `*` with credentials, and to echo
/// whatever asks would give every site what the user may see.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    let has_credentials = filter.get(&CREDENTIALS) == Some(true);
    let mut origins = valid::<String>(filter.items(&ORIGINS));
    if let Some((_, at)) = origins.find(|(origin, _)| has_credentials && *origin == "*") {
        mistakes.push(
            Mistake::new(at, "every origin could read users' private responses")
                .label("with `credentials = true`")
                .help("name the origins, or take `credentials` out"),
        );
    }
}

/// `*`, `scheme://host`, `scheme://host:port` or `scheme://*.host`, in lower case from here on.
fn origin(text: &str, _: &Path) -> Read<String> {
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
