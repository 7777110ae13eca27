//! The admin page: three files that live in the program; the script is one of several parts.
//!
//! The files hold no data, so they are served without the token; the page asks for it, and sends it
//! to `/events`. Clients that accept no HTML, such as curl, get the list of endpoints from `/`.
//!
//! Invariant: the page runs its own script and style and nothing else, loads nothing from
//! elsewhere, and no other page frames it ([Content Security Policy][csp]).
//!
//! [csp]: https://www.w3.org/TR/CSP3/

use axum::Router;
use axum::http::HeaderMap;
use axum::http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const HTML: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
const JS: &str = concat!(
    include_str!("page/script/base.js"),
    include_str!("page/script/chart.js"),
    include_str!("page/script/node.js"),
    include_str!("page/script/table.js"),
    include_str!("page/script/responses.js"),
    include_str!("page/script/upstreams.js"),
    include_str!("page/script/caches.js"),
    include_str!("page/script/memory.js"),
    include_str!("page/script/dns.js"),
    include_str!("page/script/plane.js"),
    include_str!("page/script/certificates.js"),
    // Runs requests when it is loaded, so it follows the functions that show the responses.
    include_str!("page/script/connection.js"),
);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; \
    form-action 'none'";

/// The page and its parts; `index` is the response to clients other than browsers.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(index: String) -> Router<S> {
    let page = async move |fields: HeaderMap| match wants_html(&fields) {
        true => file("text/html; charset=utf-8", HTML),
        false => ([(VARY, "accept")], index).into_response(),
    };
    Router::new()
        .route("/", get(page))
        .route("/page.css", get(async || file("text/css", CSS)))
        .route("/page.js", get(async || file("text/javascript", JS)))
}

/// True for browsers, which name the type when they navigate; programs send `*/*` or nothing.
fn wants_html(fields: &HeaderMap) -> bool {
    let mut values = fields.get_all(ACCEPT).iter();
    values.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("text/html"))
    })
}

fn file(content_type: &'static str, content: &'static str) -> Response {
    let fields = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (VARY, "accept"),
    ];
    (fields, content).into_response()
}
