//! Keys of `[http]`, and the gateway that they describe.

use std::collections::HashMap;

use ipnet::IpNet;
use steppe_config::form::NAME;
use steppe_config::key::{Key, PlaceKey, key, list, place, table, text};
use steppe_config::keys;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Named};
use steppe_net::config::forms::NETWORK;

use super::{filter, listener, route, upstream};
use crate::config::{Gateway, GuestName, Listener};

/// `[http]`.
pub static TABLE: Table = Table::new(
    "http",
    "The HTTP gateway.",
    keys! { TRUSTED_PROXIES, LISTENER, UPSTREAM, FILTER, ROUTE },
);

/// Networks of proxies that are trusted.
pub static TRUSTED_PROXIES: Key<Vec<IpNet>> = key(
    "trusted_proxies",
    list(&text(&NETWORK), 0),
    "Networks whose `Forwarded` and `X-Forwarded-*` fields are believed and extended. From other \
     peers, `Forwarded`, `X-Forwarded-For`, `-Proto` and `-Host` are replaced by the node's own; \
     every other `X-Forwarded-*`, `X-Real-IP`, `X-Client-IP` and `True-Client-IP` is removed (a \
     `transform` filter removes further ones). A peer on a Unix socket is trusted if loopback is.",
)
.or(Absent::Texts(&[]));

/// `[[http.listener]]`.
pub static LISTENER: Key<Vec<Listener>> = key(
    "listener",
    list(&table(&listener::TABLE, listener::build), 0),
    listener::TABLE.doc,
)
.or(Absent::Texts(&[]));

/// `[http.upstream.NAME]`.
pub static UPSTREAM: PlaceKey = place(
    "upstream",
    Kind::Map(&NAME, &Kind::Table(&upstream::TABLE)),
    upstream::TABLE.doc,
)
.or(Absent::Table);

/// `[http.filter.NAME]`.
pub static FILTER: PlaceKey = place(
    "filter",
    Kind::Map(&NAME, &Kind::Tagged(&filter::FILTER)),
    filter::FILTER.doc,
)
.or(Absent::Table);

/// `[[http.route]]`.
pub static ROUTE: PlaceKey = place(
    "route",
    Kind::List(&Kind::Table(&route::TABLE), 0),
    route::TABLE.doc,
)
.or(Absent::Texts(&[]));

/// The gateway that `[http]` describes, whose routes may lead to `guest` as they lead to an upstream; `None`: a value
/// of it is invalid, and its mistake was reported.
#[must_use]
pub fn build(http: &Fields, guest: GuestName) -> Option<Gateway> {
    let (upstreams, filters) = (http.entries(&UPSTREAM), http.entries(&FILTER));
    let mut names = route::RouteNames {
        upstreams: numbers(upstreams),
        filters: numbers(filters),
    };
    // Behind all that are defined, one of which may be called the same.
    names.upstreams.entry(guest).or_insert(upstreams.len());
    let number = |name: &str| names.upstreams.get(name).copied();
    let routes = http.items(&ROUTE).iter();
    Some(Gateway {
        trusted_proxies: http.get(&TRUSTED_PROXIES)?,
        listeners: http.get(&LISTENER)?,
        upstreams: upstreams
            .iter()
            .map(upstream::build)
            .collect::<Option<_>>()?,
        filters: filters
            .iter()
            .map(|entry| filter::build(entry, &number))
            .collect::<Option<_>>()?,
        routes: routes
            .map(|route| route::build(route.fields()?, &names))
            .collect::<Option<_>>()?,
    })
}

/// The number of each entry, from 0, by its name.
fn numbers(entries: &[Named]) -> HashMap<&str, usize> {
    let numbered = entries.iter().enumerate();
    numbered
        .map(|(number, entry)| (entry.name.as_str(), number))
        .collect()
}
