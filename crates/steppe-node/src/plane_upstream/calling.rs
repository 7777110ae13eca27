//! The interface by which the gateway opens calls.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use steppe_mem::Lease;
use steppe_plane::frame::Head;
use steppe_plane::limits::block_bytes;
use steppe_plane::{Call, Failure, PlaneService, Receiver, Relay, Status, Tries};

/// Opens calls of services.
pub(super) trait Calling: fmt::Debug + Send + Sync {
    /// Opens a call of a worker that has not refused it in `tries`; memory is charged to `lease` meanwhile.
    ///
    /// # Errors
    /// The reason why no worker takes it.
    fn call<'a>(
        &'a self,
        head: Head<'a>,
        tries: &'a mut Option<Tries>,
        lease: &Lease,
    ) -> Opening<'a>;

    /// Notes that the worker of a call has done nothing for it, and has received nothing of its body.
    ///
    /// # Errors
    /// `failure`, if no other worker is to be asked.
    fn refused(
        &self,
        tries: &mut Option<Tries>,
        response: &Receiver,
        failure: Failure,
    ) -> Result<(), Failure>;

    /// The relay, if there is one.
    fn relay(&self) -> Option<&Relay>;

    /// Time for a worker to grant the first part of a body.
    fn grant_wait(&self) -> Duration;

    /// Counts a call that is over: its status, and the time until its answer began.
    fn count(&self, status: Status, answered: Option<Duration>);

    /// Bytes of a body, at most.
    fn payload_bytes_max(&self) -> u64;
}

/// A call that is being opened.
pub(super) type Opening<'a> = Pin<Box<dyn Future<Output = Result<Call, Failure>> + 'a>>;

impl Calling for PlaneService {
    fn call<'a>(
        &'a self,
        head: Head<'a>,
        tries: &'a mut Option<Tries>,
        lease: &Lease,
    ) -> Opening<'a> {
        let opening = async move {
            match PlaneService::relay(self) {
                Some(relay) => {
                    let tries = tries.get_or_insert_with(|| relay.tries());
                    relay.call_again(&head, tries).await
                }
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

    fn refused(
        &self,
        tries: &mut Option<Tries>,
        response: &Receiver,
        failure: Failure,
    ) -> Result<(), Failure> {
        match (PlaneService::relay(self), tries) {
            (Some(relay), Some(tries)) => relay.refused(tries, response, failure),
            _ => Err(failure),
        }
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
