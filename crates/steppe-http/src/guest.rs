//! Requests that another service of the process answers: the `guest` upstream.
//!
//! A guest takes content as it comes and answers in the same way, through the traits of
//! [`exchange`](crate::exchange) that a server's stream has too; [`Whole`] collects for those that take a
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

pub use whole::{Answering, Whole, WholeGuest, WholeRequest};

/// A service of the process that answers requests. All workers share it.
pub trait Guest: fmt::Debug + Send + Sync {
    /// Its side of an exchange, on the thread of the worker that the request came to. Content follows as
    /// parts. [`Upstream::start`] may be called without having a meaning; no tunnel is begun.
    ///
    /// # Errors
    /// Where it does not take the request.
    fn receive(&self, request: GuestRequest<'_>) -> Result<Box<dyn Upstream>, GatewayError>;
}

/// A request whose content is still to come.
#[derive(Debug)]
pub struct GuestRequest<'a> {
    /// What of the guest's is asked, as the configuration has it.
    pub resource: &'a str,
    /// Its head, as the filters left it.
    pub head: RequestHead,
    /// The client, as far as trusted proxies vouch for it.
    pub client: IpAddr,
    /// What the exchange's memory is charged to.
    pub lease: &'a Lease,
    /// When the exchange must be over. `None`: there is no bound.
    pub ends_at: Option<Instant>,
}

/// The name of a guest.
pub type GuestName = &'static str;

/// What an upstream leads to within the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestAddress {
    /// Who answers.
    pub guest: GuestName,
    /// What of it is asked; empty where a guest has one thing only.
    pub resource: String,
}

impl GuestAddress {
    /// A guest that has one thing only.
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
