//! Filters out of a configuration.

use std::sync::Arc;

use steppe_mem::Account;

use super::Filter;
use super::api_keys::{ApiKeyFiles, ApiKeysFilter};
use super::authorize::AuthorizeFilter;
use super::basic_auth::{BasicAuthFilter, Users};
use super::cache::CacheFilter;
use super::compress::CompressFilter;
use super::cors::CorsFilter;
use super::error_pages::{ErrorPagesFilter, PageFiles};
use super::forward_auth::ForwardAuthFilter;
use super::ip::IpFilter;
use super::jwt::{JwtFilter, JwtKeys, RemoteKeys};
use super::rate_limit::RateLimitFilter;
use super::redirect::RedirectFilter;
use super::request_id::RequestIdFilter;
use super::security_headers::SecurityHeadersFilter;
use super::transform::TransformFilter;
use crate::cache::Caches;
use crate::config::{self, FilterKind};

/// What filters have beside their configuration.
pub struct Loaded<'a> {
    /// Keys out of files.
    pub keys: &'a JwtKeys,
    /// Users out of files.
    pub users: &'a Users,
    /// Keys of clients out of files.
    pub api_keys: &'a ApiKeyFiles,
    /// Pages out of files.
    pub pages: &'a PageFiles,
    /// Keys behind URLs.
    pub remote: &'a [Arc<RemoteKeys>],
    /// The caches that there are.
    pub caches: &'a Caches,
    /// What they keep for all exchanges is charged to it.
    pub account: &'a Account,
}

/// The filter that a configuration asks for.
#[must_use]
pub fn build(filter: &config::Filter, loaded: &Loaded<'_>) -> Arc<dyn Filter> {
    let account = loaded.account;
    match &filter.kind {
        FilterKind::ApiKeys(keys) => {
            let file = loaded.api_keys.of(&filter.name);
            Arc::new(ApiKeysFilter::new(keys.clone(), file))
        }
        FilterKind::Authorize(rules) => Arc::new(AuthorizeFilter::new(rules.clone())),
        FilterKind::BasicAuth(basic) => {
            let users = loaded.users.of(&filter.name);
            Arc::new(BasicAuthFilter::new(basic.clone(), users, account))
        }
        FilterKind::Cache(settings) => {
            let store = loaded.caches.add(&filter.name, settings, account);
            Arc::new(CacheFilter::new(store))
        }
        FilterKind::Compress(compress) => {
            let compress = CompressFilter::new(&filter.name, compress.clone(), account);
            Arc::new(compress)
        }
        FilterKind::Cors(cors) => Arc::new(CorsFilter::new(cors.clone())),
        FilterKind::ErrorPages(pages) => Arc::new(ErrorPagesFilter::new(
            &filter.name,
            pages,
            loaded.pages,
            account,
        )),
        FilterKind::ForwardAuth(asks) => Arc::new(ForwardAuthFilter::new(asks.clone())),
        FilterKind::Ip(rules) => Arc::new(IpFilter::new(rules.clone())),
        FilterKind::Jwt(jwt) => {
            let keys = loaded.keys.of(&filter.name);
            let is_its = |set: &&Arc<RemoteKeys>| {
                let source = jwt.remote.as_ref();
                source.is_some_and(|source| set.is(&filter.name, source))
            };
            let remote = loaded.remote.iter().find(is_its).map(Arc::clone);
            let account = account.child_named(&format!("tokens {}", filter.name), None);
            Arc::new(JwtFilter::new(jwt.clone(), keys, remote, &account))
        }
        FilterKind::RateLimit(limit) => Arc::new(RateLimitFilter::new(limit.clone(), account)),
        FilterKind::Redirect(redirect) => Arc::new(RedirectFilter::new(redirect.clone())),
        FilterKind::RequestId(config) => Arc::new(RequestIdFilter::new(config.clone())),
        FilterKind::SecurityHeaders(fields) => Arc::new(SecurityHeadersFilter::new(fields.clone())),
        FilterKind::Transform(edits) => Arc::new(TransformFilter::new(edits.clone())),
        FilterKind::Custom(filter) => Arc::clone(&filter.0),
    }
}
