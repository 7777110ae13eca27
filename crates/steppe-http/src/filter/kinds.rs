//! The kinds of filters, each with its factory.

use std::sync::Arc;

use super::factory::FilterFactory;
use crate::config::{CustomFilter, FilterKind};

/// The factory of a filter.
///
/// # Panics
/// A [`CustomFilter`] has something else than [`custom`] puts there.
#[must_use]
pub fn factory(kind: &FilterKind) -> &dyn FilterFactory {
    match kind {
        FilterKind::ApiKeys(config) => config,
        FilterKind::Authorize(config) => config,
        FilterKind::BasicAuth(config) => config,
        FilterKind::Cache(config) => config,
        FilterKind::Compress(config) => config,
        FilterKind::Cors(config) => config,
        FilterKind::ErrorPages(config) => config,
        FilterKind::ForwardAuth(config) => config,
        FilterKind::Ip(config) => config,
        FilterKind::Jwt(config) => config,
        FilterKind::RateLimit(config) => config,
        FilterKind::Redirect(config) => config,
        FilterKind::RequestId(config) => config,
        FilterKind::SecurityHeaders(config) => config,
        FilterKind::Transform(config) => config,
        FilterKind::Custom(brought) => {
            let factory = brought.get::<Arc<dyn FilterFactory>>();
            &**factory.expect("`custom` makes all of them")
        }
    }
}

/// The filter of a program that embeds the gateway.
#[must_use]
pub fn custom(factory: Arc<dyn FilterFactory>) -> FilterKind {
    FilterKind::Custom(CustomFilter::new(factory))
}
