//! Filters out of a configuration.

use std::sync::Arc;

use super::Filter;
use super::transform::TransformFilter;
use crate::config::FilterKind;

/// The filter that a configuration asks for.
#[must_use]
pub fn build(kind: &FilterKind) -> Arc<dyn Filter> {
    match kind {
        FilterKind::Transform(edits) => Arc::new(TransformFilter::new(edits.clone())),
        FilterKind::Custom(filter) => Arc::clone(&filter.0),
    }
}
