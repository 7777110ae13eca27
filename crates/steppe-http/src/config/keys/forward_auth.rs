//! Keys of the filter that asks another service.

use std::time::Duration;

use steppe_config::form::NAME;
use steppe_config::key::{Key, key, list, text, timeout};
use steppe_config::keys;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::{Fields, valid};

use super::forms::{FIELD_NAME, TARGET, refuse_ours};
use crate::config::ForwardAuth;

/// `[http.filter.NAME]` of the kind `forward-auth`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Asks another service about each request. A 2xx response lets the request pass; any other is \
     sent to the client.",
    keys! { UPSTREAM, PATH, REQUEST_HEADERS, RESPONSE_HEADERS, TIMEOUT },
);

pub(super) static UPSTREAM: Key<String> = key(
    "upstream",
    text(&NAME),
    "Upstream of the service, with `servers`.",
)
.required();

static PATH: Key<String> = key(
    "path",
    text(&TARGET),
    "Path that is requested from the service, by GET.",
)
.or(Absent::Text("/"));

static REQUEST_HEADERS: Key<Vec<String>> = key(
    "request_headers",
    list(&text(&FIELD_NAME), 0),
    "Fields of the request that are sent to the service.",
)
.or(Absent::Texts(&["authorization", "cookie"]));

static RESPONSE_HEADERS: Key<Vec<String>> = key(
    "response_headers",
    list(&text(&FIELD_NAME), 0),
    "Fields of the service's response that are added to the request. A client's own copies are \
     removed.",
)
.or(Absent::Texts(&[]));

static TIMEOUT: Key<Duration> = key(
    "timeout",
    timeout(),
    "For the service's response, with the connection that it needs; then 504.",
)
.or(Absent::Text("5s"));

/// The filter that a table describes; `upstream` gives the index of an upstream by its name. `None`: a value of it is
/// invalid, and its mistake was reported.
pub(super) fn build(
    filter: &Fields,
    upstream: &dyn Fn(&str) -> Option<usize>,
) -> Option<ForwardAuth> {
    Some(ForwardAuth {
        upstream: upstream(&filter.get(&UPSTREAM)?)?,
        path: filter.get(&PATH)?,
        request_headers: filter.get(&REQUEST_HEADERS)?,
        response_headers: filter.get(&RESPONSE_HEADERS)?,
        timeout: filter.get(&TIMEOUT)?,
    })
}

/// Refuses fields that only the gateway writes.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    for (field, at) in valid::<String>(filter.items(&RESPONSE_HEADERS)) {
        refuse_ours(field, at, mistakes);
    }
}
