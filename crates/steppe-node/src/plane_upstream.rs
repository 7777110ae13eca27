//! Upstreams of the gateway that are services of the request plane.
//!
//! It joins the two, which know nothing of each other: content goes from one to the other a piece at a
//! time, in the memory that it came in, and whoever can take no more stops the other.
//!
//! Non-goals: who serves, which the plane knows, and retries: nothing is kept to be sent again.

mod answer;
mod asked;
mod conversation;
mod hall;
mod visit;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steppe_http::config::GuestName;
use steppe_http::error::GatewayError;
use steppe_http::exchange::Upstream;
use steppe_http::guest::{Guest, GuestRequest};
use steppe_plane::frame::Head;
use steppe_plane::{Call, Failure, PlaneService, Status};

use asked::Asked;
use visit::Visit;

/// What an upstream names the plane by.
pub const PLANE: GuestName = "plane";

/// Opens calls of services.
pub trait Calling: fmt::Debug + Send + Sync {
    /// Opens a call.
    ///
    /// # Errors
    /// Why nobody takes it.
    fn call<'a>(&'a self, head: Head<'a>) -> Opening<'a>;

    /// How long a call may wait for room at a worker.
    fn queue_wait(&self) -> Duration;

    /// Bytes of a body.
    fn payload_bytes_max(&self) -> u64;
}

/// A call that is being opened.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Call, Failure>> + 'a>>;

/// The request plane as a guest of the gateway.
#[derive(Debug)]
pub struct PlaneUpstream(pub Arc<dyn Calling>);

impl Calling for PlaneService {
    fn call<'a>(&'a self, head: Head<'a>) -> Opening<'a> {
        Box::pin(async move {
            match self.relay() {
                Some(relay) => relay.call(&head).await,
                None => Err(Failure::new(
                    Status::Unavailable,
                    "there is no request plane",
                )),
            }
        })
    }

    fn queue_wait(&self) -> Duration {
        PlaneService::queue_wait(self)
    }

    fn payload_bytes_max(&self) -> u64 {
        PlaneService::payload_bytes_max(self)
    }
}

impl Guest for PlaneUpstream {
    fn receive(&self, request: GuestRequest<'_>) -> Result<Box<dyn Upstream>, GatewayError> {
        let asked = Asked::read(&request, self.0.payload_bytes_max());
        let visit = Visit::new(&self.0, asked, request.lease)?;
        Ok(Box::new(visit))
    }
}
