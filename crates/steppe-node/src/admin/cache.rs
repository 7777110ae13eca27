//! `/cache`: what caches hold and did. `/cache/purge`: has them forget responses.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use steppe_http::cache::{CacheReport, Purge};
use tokio::task::spawn_blocking;

use super::Content;
use super::endpoints::json as json_response;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    let caches: Vec<_> = content.caches.report().iter().map(cache).collect();
    json_response(&json!({ "caches": caches }))
}

fn cache(report: &CacheReport) -> Value {
    let requests = report.requests.iter();
    let requests: Map<_, _> = requests
        .map(|(kind, count)| ((*kind).to_owned(), json!(count)))
        .collect();
    json!({
        "name": report.name,
        "bytes": report.bytes,
        "bytes_max": report.bytes_max,
        "responses": report.responses,
        "requests": requests,
        "stored": report.stored,
        "evicted": report.evicted,
    })
}

/// One of `uri=`, `prefix=`, `tag=` or `all` is the query.
pub(super) async fn purge(
    State(content): State<Arc<Content>>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(purge) = query.as_deref().and_then(purge_of) else {
        return refused();
    };
    // It may look at everything that is stored.
    let caches = Arc::clone(&content.caches);
    let meant = purge.clone();
    match spawn_blocking(move || caches.purge(&meant)).await {
        Ok(Some(purged)) => {
            tracing::info!(?purge, purged, "stored responses forgotten: asked by admin");
            json_response(&json!({ "purged": purged }))
        }
        Ok(None) => refused(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn purge_of(query: &str) -> Option<Purge> {
    if query.contains('&') {
        return None;
    }
    let (what, value) = query.split_once('=').unwrap_or((query, ""));
    let value = percent_decode_str(value).decode_utf8().ok()?.into_owned();
    match (what, value.is_empty()) {
        ("all", true) => Some(Purge::All),
        ("uri", false) => Some(Purge::Uri(value)),
        ("prefix", false) => Some(Purge::Prefix(value)),
        ("tag", false) => Some(Purge::Tag(value)),
        _ => None,
    }
}

fn refused() -> Response {
    let text = "say what is to be forgotten: ?uri=https://HOST/PATH, ?prefix=https://HOST/PATH, \
                ?tag=TAG or ?all\n";
    (StatusCode::BAD_REQUEST, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_one_thing() {
        let uri = |text: &str| Some(Purge::Uri(text.to_owned()));
        assert_eq!(purge_of("uri=http://a.test/x"), uri("http://a.test/x"));
        assert_eq!(
            purge_of("uri=http://a.test/x%3Fy%26z=1"),
            uri("http://a.test/x?y&z=1")
        );
        assert_eq!(
            purge_of("prefix=http://a.test/"),
            Some(Purge::Prefix("http://a.test/".into()))
        );
        assert_eq!(purge_of("tag=a%20b"), Some(Purge::Tag("a b".into())));
        assert_eq!(purge_of("all"), Some(Purge::All));
        for wrong in [
            "",
            "uri",
            "uri=",
            "all=1",
            "other=1",
            "tag=a&all",
            "tag=%ff",
        ] {
            assert_eq!(purge_of(wrong), None, "{wrong}");
        }
    }
}
