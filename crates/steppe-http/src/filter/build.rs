//! Filters out of a configuration.

use std::sync::Arc;

use steppe_mem::Account;

use super::Filter;
use super::authorize::AuthorizeFilter;
use super::cors::CorsFilter;
use super::ip::IpFilter;
use super::jwt::{JwtFilter, JwtKeys};
use super::rate_limit::RateLimitFilter;
use super::redirect::RedirectFilter;
use super::request_id::RequestIdFilter;
use super::security_headers::SecurityHeadersFilter;
use super::transform::TransformFilter;
use crate::config::{self, FilterKind};

/// The filter that a configuration asks for; what it keeps for all exchanges is charged to `account`.
#[must_use]
pub fn build(filter: &config::Filter, keys: &JwtKeys, account: &Account) -> Arc<dyn Filter> {
    match &filter.kind {
        FilterKind::Authorize(rules) => Arc::new(AuthorizeFilter::new(rules.clone())),
        FilterKind::Cors(cors) => Arc::new(CorsFilter::new(cors.clone())),
        FilterKind::Ip(rules) => Arc::new(IpFilter::new(rules.clone())),
        FilterKind::Jwt(jwt) => {
            let keys = keys.of(&filter.name);
            Arc::new(JwtFilter::new(jwt.clone(), keys, account))
        }
        FilterKind::RateLimit(limit) => Arc::new(RateLimitFilter::new(limit.clone(), account)),
        FilterKind::Redirect(redirect) => Arc::new(RedirectFilter::new(redirect.clone())),
        FilterKind::RequestId(config) => Arc::new(RequestIdFilter::new(config.clone())),
        FilterKind::SecurityHeaders(fields) => Arc::new(SecurityHeadersFilter::new(fields.clone())),
        FilterKind::Transform(edits) => Arc::new(TransformFilter::new(edits.clone())),
        FilterKind::Custom(filter) => Arc::clone(&filter.0),
    }
}
