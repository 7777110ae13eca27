//! What calls of the gateway are opened by.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use steppe_mem::Lease;
use steppe_plane::frame::Head;
use steppe_plane::limits::block_bytes;
use steppe_plane::{Call, Failure, PlaneService, Relay, Status};

/// Opens calls of services.
pub(super) trait Calling: fmt::Debug + Send + Sync {
    /// Opens a call; what that takes is charged to `lease` meanwhile.
    ///
    /// # Errors
    /// Why nobody takes it.
    fn call<'a>(&'a self, head: Head<'a>, lease: &Lease) -> Opening<'a>;

    /// The relay, where there is one.
    fn relay(&self) -> Option<&Relay>;

    /// How long a worker may take to grant the first of a body.
    fn grant_wait(&self) -> Duration;

    /// Counts a call that is over: its status, and how long it took until its answer began.
    fn count(&self, status: Status, answered: Option<Duration>);

    /// Bytes of a body.
    fn payload_bytes_max(&self) -> u64;
}

/// A call that is being opened.
pub(super) type Opening<'a> = Pin<Box<dyn Future<Output = Result<Call, Failure>> + 'a>>;

impl Calling for PlaneService {
    fn call<'a>(&'a self, head: Head<'a>, lease: &Lease) -> Opening<'a> {
        let opening = async move {
            match PlaneService::relay(self) {
                Some(relay) => relay.call(&head).await,
                None => Err(Failure::new(
                    Status::Unavailable,
                    "no request plane is configured",
                )),
            }
        };
        let charge = lease.try_reserve(block_bytes(size_of_val(&opening)));
        Box::pin(async move {
            let _charge =
                charge.map_err(|error| Failure::new(Status::Overloaded, error.to_string()))?;
            opening.await
        })
    }

    fn relay(&self) -> Option<&Relay> {
        PlaneService::relay(self).map(|relay| &**relay)
    }

    fn grant_wait(&self) -> Duration {
        PlaneService::grant_wait(self)
    }

    fn count(&self, status: Status, answered: Option<Duration>) {
        if let Some(relay) = PlaneService::relay(self) {
            relay.count(status, answered);
        }
    }

    fn payload_bytes_max(&self) -> u64 {
        PlaneService::payload_bytes_max(self)
    }
}
