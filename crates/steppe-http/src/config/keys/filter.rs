//! Filters of each kind: the one list of kinds, and what those of a route say together.
//!
//! Invariant: the name of a kind stands in [`FILTER`] alone; everything else matches `FilterVariant`, without a default
//! arm.

use std::collections::HashMap;

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Tagged, Variant};
use steppe_config::typed::{Named, Node, Typed};

use super::{
    api_keys, authorize, basic_auth, cache, compress, cors, error_pages, forward_auth, ip, jwt,
    rate_limit, redirect, request_id, security_headers, transform,
};
use crate::config::{Authorize, Filter, FilterKind, SecurityHeaders};

/// `[http.filter.NAME]`.
pub static FILTER: Tagged = Tagged {
    name: "http.filter",
    doc: "Filters that routes apply to requests and responses, by name.",
    tag: "kind",
    tag_doc: "Kind of the filter.",
    variants: &[
        Variant::new("transform", &transform::TABLE, &FilterVariant::Transform),
        Variant::new("cors", &cors::TABLE, &FilterVariant::Cors),
        Variant::new("ip", &ip::TABLE, &FilterVariant::Ip),
        Variant::new("redirect", &redirect::TABLE, &FilterVariant::Redirect),
        Variant::new("request-id", &request_id::TABLE, &FilterVariant::RequestId),
        Variant::new(
            "security-headers",
            &security_headers::TABLE,
            &FilterVariant::SecurityHeaders,
        ),
        Variant::new("jwt", &jwt::TABLE, &FilterVariant::Jwt),
        Variant::new("api-keys", &api_keys::TABLE, &FilterVariant::ApiKeys),
        Variant::new("basic-auth", &basic_auth::TABLE, &FilterVariant::BasicAuth),
        Variant::new(
            "forward-auth",
            &forward_auth::TABLE,
            &FilterVariant::ForwardAuth,
        ),
        Variant::new("rate-limit", &rate_limit::TABLE, &FilterVariant::RateLimit),
        Variant::new("authorize", &authorize::TABLE, &FilterVariant::Authorize),
        Variant::new("cache", &cache::TABLE, &FilterVariant::Cache),
        Variant::new("compress", &compress::TABLE, &FilterVariant::Compress),
        Variant::new(
            "error-pages",
            &error_pages::TABLE,
            &FilterVariant::ErrorPages,
        ),
    ],
};

/// Kinds of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterVariant {
    ApiKeys,
    Authorize,
    BasicAuth,
    Cache,
    Compress,
    Cors,
    ErrorPages,
    ForwardAuth,
    Ip,
    Jwt,
    RateLimit,
    Redirect,
    RequestId,
    SecurityHeaders,
    Transform,
}

/// The filter that an entry describes; `upstream` gives the index of an upstream by its name. `None`: a value of it is
/// invalid, and its mistake was reported.
#[must_use]
pub fn build(entry: &Named, upstream: &dyn Fn(&str) -> Option<usize>) -> Option<Filter> {
    let (kind, fields) = entry.value.variant()?;
    let name = entry.name.clone();
    let kind = match kind {
        FilterVariant::ApiKeys => FilterKind::ApiKeys(api_keys::build(fields)?),
        FilterVariant::Authorize => {
            FilterKind::Authorize(Authorize(fields.get(&authorize::RULES)?))
        }
        FilterVariant::BasicAuth => FilterKind::BasicAuth(basic_auth::build(fields)?),
        FilterVariant::Cache => FilterKind::Cache(cache::build(fields)?),
        FilterVariant::Compress => FilterKind::Compress(compress::build(fields)?),
        FilterVariant::Cors => FilterKind::Cors(cors::build(fields)?),
        FilterVariant::ErrorPages => FilterKind::ErrorPages(error_pages::build(fields)?),
        FilterVariant::ForwardAuth => {
            FilterKind::ForwardAuth(forward_auth::build(fields, upstream)?)
        }
        FilterVariant::Ip => FilterKind::Ip(ip::build(fields)?),
        FilterVariant::Jwt => FilterKind::Jwt(jwt::build(fields)?),
        FilterVariant::RateLimit => FilterKind::RateLimit(rate_limit::build(&name, fields)?),
        FilterVariant::Redirect => FilterKind::Redirect(redirect::build(fields)?),
        FilterVariant::RequestId => FilterKind::RequestId(request_id::build(fields)?),
        FilterVariant::SecurityHeaders => {
            FilterKind::SecurityHeaders(SecurityHeaders(security_headers::build(fields)?))
        }
        FilterVariant::Transform => FilterKind::Transform(transform::build(fields)?),
    };
    Some(Filter { name, kind })
}

/// Finds the mistakes of what the keys of each filter say together.
pub fn check(filters: &[Named], mistakes: &mut Mistakes) {
    for (kind, fields) in filters.iter().filter_map(|entry| entry.value.variant()) {
        match kind {
            FilterVariant::ApiKeys => api_keys::check(fields, mistakes),
            FilterVariant::BasicAuth => basic_auth::check(fields, mistakes),
            FilterVariant::Cache => cache::check(fields, mistakes),
            FilterVariant::Compress => compress::check(fields, mistakes),
            FilterVariant::Cors => cors::check(fields, mistakes),
            FilterVariant::ErrorPages => error_pages::check(fields, mistakes),
            FilterVariant::ForwardAuth => forward_auth::check(fields, mistakes),
            FilterVariant::Jwt => jwt::check(fields, mistakes),
            FilterVariant::RateLimit => rate_limit::check(fields, mistakes),
            FilterVariant::Redirect => redirect::check(fields, mistakes),
            FilterVariant::RequestId => request_id::check(fields, mistakes),
            FilterVariant::Transform => transform::check(fields, mistakes),
            FilterVariant::Authorize | FilterVariant::Ip | FilterVariant::SecurityHeaders => {}
        }
    }
}

/// The upstream that a filter asks.
#[must_use]
pub fn asked(filter: &Named) -> Option<&Node> {
    let (kind, fields) = filter.value.variant::<FilterVariant>()?;
    let asks = kind == FilterVariant::ForwardAuth;
    asks.then(|| fields.value(&forward_auth::UPSTREAM.spec))?
}

/// Finds filters of a route that stand in a wrong place. What looks at a token stands behind what verifies it, and
/// `cors` before that: preflights have none. What refuses stands before a `cache`, which answers without asking those
/// behind it.
pub fn check_order(filters: &HashMap<&str, &Node>, route: &[Node], mistakes: &mut Mistakes) {
    let (mut verified, mut asks, mut cached) = (None, None, None);
    let mut has_key = false;
    for node in route {
        let filter = node.typed.value::<String>();
        let Some(filter) = filter.and_then(|name| filters.get(&**name)) else {
            continue;
        };
        let Some((kind, fields)) = filter.variant() else {
            continue;
        };
        let at = node.span;
        let (mut refuses, mut reads_token, mut reads_key) = (false, false, false);
        match kind {
            FilterVariant::Cache => cached = Some(at),
            FilterVariant::Jwt => {
                verified = Some(at);
                asks = asks.or(verified);
                refuses = true;
            }
            FilterVariant::ApiKeys => {
                has_key = true;
                asks = asks.or(Some(at));
                refuses = true;
            }
            FilterVariant::BasicAuth | FilterVariant::ForwardAuth => {
                asks = asks.or(Some(at));
                refuses = true;
            }
            FilterVariant::Authorize => {
                reads_token = authorize::reads_token(fields);
                reads_key = authorize::reads_api_key(fields);
                refuses = true;
            }
            FilterVariant::Ip => refuses = true,
            FilterVariant::RateLimit => {
                reads_token = rate_limit::reads_token(fields);
                reads_key = rate_limit::reads_api_key(fields);
            }
            FilterVariant::Cors => asks
                .into_iter()
                .for_each(|asks| mistakes.push(cors_behind(at, asks))),
            FilterVariant::Compress
            | FilterVariant::ErrorPages
            | FilterVariant::Redirect
            | FilterVariant::RequestId
            | FilterVariant::SecurityHeaders
            | FilterVariant::Transform => {}
        }
        if let (true, Some(cached), Typed::Variant { name, .. }) = (refuses, cached, &filter.typed)
        {
            mistakes.push(
                Mistake::new(at, "cached responses would bypass this filter")
                    .label(format!("a `{name}` filter"))
                    .also(cached, "answers before it")
                    .help("put it before the `cache` filter"),
            );
        }
        if reads_key && !has_key {
            mistakes.push(key_unread(at));
        }
        if reads_token && verified.is_none() {
            mistakes.push(
                Mistake::new(at, "this filter reads a token that no filter has verified")
                    .label("no `jwt` filter before it")
                    .help("put one before it in `filters`"),
            );
        }
    }
}

/// A filter that reads API keys without one before it that finds them.
fn key_unread(reader: Span) -> Mistake {
    let message = "this filter reads an API key that no filter has verified";
    Mistake::new(reader, message)
        .label("no `api-keys` filter before it")
        .help("put one before it in `filters`")
}

/// A `cors` filter that stands behind one that asks for credentials.
fn cors_behind(cors: Span, asks: Span) -> Mistake {
    let message = "preflights carry no credentials and never reach this filter";
    Mistake::new(cors, message)
        .label("a `cors` filter")
        .also(asks, "requires credentials")
        .help("put it before this filter")
}
