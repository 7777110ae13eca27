//! Filters: what a route does to an exchange on its way through.
//!
//! A route's filters see the request in the order in which the route names
//! them, and the response in reverse. A filter that fails refuses the exchange
//! with its error.
//!
//! Left out: content, and filters that wait. Both come with the first filter
//! that needs them.

mod transform;

use crate::config::FilterKind;
use crate::error::GatewayError;
use crate::head::{RequestHead, ResponseHead};

pub use transform::TransformFilter;

/// One filter. Shared by all workers, so its state is atomics or nothing.
pub trait Filter: Send + Sync {
    /// Sees a request's head before it is forwarded.
    ///
    /// # Errors
    /// What the client is refused with.
    fn request(&self, head: &mut RequestHead) -> Result<(), GatewayError>;

    /// Sees a response's head before it is sent.
    ///
    /// # Errors
    /// What the client is refused with instead.
    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError>;
}

/// The filter that a configuration asks for.
#[must_use]
pub fn build(kind: &FilterKind) -> Box<dyn Filter> {
    match kind {
        FilterKind::Transform(edits) => Box::new(TransformFilter::new(edits.clone())),
    }
}
