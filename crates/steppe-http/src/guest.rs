//! Requests that another service of the process answers: the `guest` upstream.
//!
//! A guest takes content as it comes and answers in the same way, through the traits of
//! [`exchange`](crate::exchange) that a server's stream has too; [`CollectingGuest`] collects for those that take a
//! request as a whole.
//!
//! Non-goals: what the answer is.

mod whole;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use steppe_mem::Lease;

use crate::error::GatewayError;
use crate::exchange::Upstream;
use crate::head::RequestHead;

pub use whole::{Answering, CollectingGuest, WholeGuest, WholeRequest};

/// A service of the process that answers requests. All workers share it.
pub trait Guest: fmt::Debug + Send + Sync {
    /// Starts an exchange on the thread of the worker that received the request. Content follows as
    /// parts. [`Upstream::start`] may be called and does nothing; no tunnel is begun.
    ///
    /// # Errors
    /// Where the guest refuses the request.
    fn receive(&self, request: GuestRequest<'_>) -> Result<Box<dyn Upstream>, GatewayError>;
}

/// A request whose content is still to come.
#[derive(Debug)]
pub struct GuestRequest<'a> {
    /// The requested resource, as the configuration names it.
    pub resource: &'a str,
    /// The head after all filters.
    pub head: RequestHead,
    /// The client, as far as trusted proxies vouch for it.
    pub client: IpAddr,
    /// The lease that the exchange's memory is charged to.
    pub lease: &'a Lease,
    /// The deadline of the exchange. `None`: there is no bound.
    pub ends_at: Option<Instant>,
}

/// The name of a guest.
pub type GuestName = &'static str;

/// The guest and resource that an upstream leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestAddress {
    /// The guest's name.
    pub guest: GuestName,
    /// The requested resource; empty where a guest has only one.
    pub resource: String,
}

impl GuestAddress {
    /// A guest with a single resource.
    #[must_use]
    pub fn whole(guest: GuestName) -> Self {
        Self {
            guest,
            resource: String::new(),
        }
    }
}

/// The guests that there are, by name.
#[derive(Debug, Clone, Default)]
pub struct Guests(Vec<(GuestName, Arc<dyn Guest>)>);

impl Guests {
    /// Adds a guest.
    #[must_use]
    pub fn with(mut self, name: GuestName, guest: Arc<dyn Guest>) -> Self {
        self.0.push((name, guest));
        self
    }

    /// The guest of this name.
    ///
    /// # Panics
    /// Where there is none: a configuration names only guests that there are.
    pub(crate) fn of(&self, name: GuestName) -> Arc<dyn Guest> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        let (_, guest) = found.expect("a route names a guest that there is");
        Arc::clone(guest)
    }
}
