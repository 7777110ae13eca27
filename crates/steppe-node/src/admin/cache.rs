//! `/cache`: contents and counts of each cache. `/cache/purge`: removes stored responses.

pub(super) mod row;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde_json::json;
use steppe_http::cache::Purge;
use tokio::task::spawn_blocking;

use super::Content;
use super::endpoints::json as json_response;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    let caches: Vec<_> = content.caches.report().iter().map(row::to_json).collect();
    json_response(&json!({ "caches": caches }))
}

/// Purges stored responses; the query is `uri=`, `prefix=`, `tag=` or `all`.
pub(super) async fn purge(
    State(content): State<Arc<Content>>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(purge) = query.as_deref().and_then(purge_of) else {
        return refused();
    };
    // A purge may visit every stored response.
    let caches = Arc::clone(&content.caches);
    let meant = purge.clone();
    match spawn_blocking(move || caches.purge(&meant)).await {
        Ok(Some(purged)) => {
            tracing::info!(?purge, purged, "stored responses purged over admin");
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
    let text = "name the responses to purge: ?uri=https://HOST/PATH, ?prefix=https://HOST/PATH, \
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
