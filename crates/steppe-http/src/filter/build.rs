//! Filters out of a configuration.

use std::sync::Arc;

use steppe_mem::Account;

use super::Filter;
use super::cors::CorsFilter;
use super::ip::IpFilter;
use super::rate_limit::RateLimitFilter;
use super::redirect::RedirectFilter;
use super::request_id::RequestIdFilter;
use super::security_headers::SecurityHeadersFilter;
use super::transform::TransformFilter;
use crate::config::FilterKind;

/// The filter that a configuration asks for; what it keeps for all exchanges is charged to `account`.
#[must_use]
pub fn build(kind: &FilterKind, account: &Account) -> Arc<dyn Filter> {
    match kind {
        FilterKind::Cors(cors) => Arc::new(CorsFilter::new(cors.clone())),
        FilterKind::Ip(rules) => Arc::new(IpFilter::new(rules.clone())),
        FilterKind::RateLimit(limit) => Arc::new(RateLimitFilter::new(limit.clone(), account)),
        FilterKind::Redirect(redirect) => Arc::new(RedirectFilter::new(redirect.clone())),
        FilterKind::RequestId(config) => Arc::new(RequestIdFilter::new(config.clone())),
        FilterKind::SecurityHeaders(fields) => Arc::new(SecurityHeadersFilter::new(fields.clone())),
        FilterKind::Transform(edits) => Arc::new(TransformFilter::new(edits.clone())),
        FilterKind::Custom(filter) => Arc::clone(&filter.0),
    }
}
