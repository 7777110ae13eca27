//! `/memory/profile`: who allocates, by call path, from a sample.
//!
//! Leaves out names: readers take them from the binary, which has line tables.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::endpoints::json as json_response;
use crate::allocator;

/// The profile while there is one.
pub(super) async fn text() -> Response {
    match allocator::heap_profile() {
        Some(text) => ([(CONTENT_TYPE, "text/plain")], text).into_response(),
        None => (StatusCode::NOT_FOUND, "POST /memory/profile starts one\n").into_response(),
    }
}

/// Blocks that are allocated from now on are in it.
pub(super) async fn start() -> Response {
    if !allocator::start_heap_profile() {
        let text = format!("the allocator {} takes no samples here\n", allocator::NAME);
        return (StatusCode::NOT_IMPLEMENTED, text).into_response();
    }
    tracing::info!(profile = true, "asked by admin");
    json_response(&json!({ "profile": true }))
}

pub(super) async fn stop() -> Response {
    allocator::stop_heap_profile();
    tracing::info!(profile = false, "asked by admin");
    json_response(&json!({ "profile": false }))
}
