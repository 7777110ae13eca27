//! `/memory/profile`: a heap profile, sampled allocations by call path.
//!
//! Leaves out symbol names: readers take them from the binary, which has line tables.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::endpoints::json as json_response;
use crate::allocator;

/// The text of the profile, while one is active.
pub(super) async fn text() -> Response {
    match allocator::heap_profile() {
        Some(text) => ([(CONTENT_TYPE, "text/plain")], text).into_response(),
        None => (
            StatusCode::NOT_FOUND,
            "no heap profile is active; POST /memory/profile starts one\n",
        )
            .into_response(),
    }
}

/// Starts a profile, of the blocks that are allocated from now on.
pub(super) async fn start() -> Response {
    if !allocator::start_heap_profile() {
        let text = format!("the allocator {} has no heap profile\n", allocator::NAME);
        return (StatusCode::NOT_IMPLEMENTED, text).into_response();
    }
    tracing::info!("heap profile started over admin");
    json_response(&json!({ "profile": true }))
}

pub(super) async fn stop() -> Response {
    allocator::stop_heap_profile();
    tracing::info!("heap profile stopped over admin");
    json_response(&json!({ "profile": false }))
}
