//! Upstreams of the gateway that are services of the request plane.
//!
//! This module connects the two, which do not know each other: content goes from one to the other a
//! piece at a time, in the memory that it came in, and a side that can take no more stops the
//! other.
//!
//! Non-goals: the list of workers, which the plane keeps, and retries: no content is kept to be
//! sent again.

mod answer;
mod asked;
mod calling;
mod conversation;
mod hall;
mod visit;

use std::sync::Arc;

use steppe_http::config::GuestName;
use steppe_http::error::GatewayError;
use steppe_http::exchange::Upstream;
use steppe_http::guest::{Guest, GuestRequest};
use steppe_plane::PlaneService;

use asked::Asked;
use calling::Calling;
use visit::Visit;

/// The name by which upstreams refer to the plane.
pub const PLANE: GuestName = "plane";

/// The request plane as a guest of the gateway.
#[derive(Debug)]
pub struct PlaneUpstream(Arc<dyn Calling>);

impl PlaneUpstream {
    /// Services that are reached through `plane`.
    pub fn new(plane: PlaneService) -> Self {
        Self(Arc::new(plane))
    }
}

impl Guest for PlaneUpstream {
    fn receive(&self, request: GuestRequest<'_>) -> Result<Box<dyn Upstream>, GatewayError> {
        let asked = Asked::read(&request, self.0.payload_bytes_max());
        let visit = Visit::new(&self.0, asked, request.lease)?;
        Ok(Box::new(visit))
    }
}
