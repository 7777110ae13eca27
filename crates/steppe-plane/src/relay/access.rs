//! The rights of a relay's peers: the services that each may offer and call.
//!
//! Invariant: the first rule that matches a peer decides, and a peer that none matches may do nothing. Without
//! rules, every peer may do everything.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use steppe_mem::{OverBudget, Reservation};
use steppe_net::tls::x509::Summary;

use super::registry::lock;
use crate::config::{Rule, Services};
use crate::connection::{Processing, Side};
use crate::io::{Failure, Memory};
use crate::limits::{ACCESS_BYTES, block_bytes};
use crate::status::Status;

/// The rules of a relay.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Arc<[Rule]>>);

/// The rights of one peer, which a reload may change.
#[derive(Debug)]
pub(super) struct Access {
    /// Side of the relay. A worker that the relay dialed may offer the services in the configuration.
    side: Side,
    address: IpAddr,
    cert: Option<Box<Summary>>,
    /// True while there are no rules: nothing else is checked.
    is_open: AtomicBool,
    rights: Mutex<Rights>,
    /// Number of updates.
    version: AtomicU32,
    _charge: Reservation,
}

/// An action on a service that needs a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Offer,
    Call,
}

/// The rules at the last update, and the index of the one that matches the peer.
#[derive(Debug, Default)]
struct Rights {
    rules: Arc<[Rule]>,
    at: Option<usize>,
}

impl Rules {
    pub(super) fn set(&self, rules: Vec<Rule>) {
        *lock(&self.0) = rules.into();
    }

    pub(super) fn current(&self) -> Arc<[Rule]> {
        Arc::clone(&lock(&self.0))
    }
}

impl Access {
    /// The rights of a peer at `address`, which may do nothing before [`Access::update`].
    ///
    /// # Errors
    /// If the budget has no room for the names of its certificate.
    pub(super) fn new(
        side: Side,
        (address, cert): (IpAddr, Option<Summary>),
        memory: &Memory,
    ) -> Result<Arc<Self>, OverBudget> {
        let cert_bytes = cert.as_ref().map_or(0, held_bytes);
        let charge = memory.reserve_entry(ACCESS_BYTES + cert_bytes)?;
        Ok(Arc::new(Self {
            side,
            // A dual-stack listener maps IPv4 addresses to IPv6.
            address: address.to_canonical(),
            cert: cert.map(Box::new),
            is_open: AtomicBool::new(false),
            rights: Mutex::default(),
            version: AtomicU32::new(0),
            _charge: charge,
        }))
    }

    /// Updates the rights by the rules in force. Open calls check them when they are polled.
    pub(super) fn update(&self, rules: &Rules) {
        // Locked before the rules are read, so that older rules never replace newer ones.
        let mut rights = lock(&self.rights);
        let rules = rules.current();
        let cert = self.cert.as_deref();
        let at = rules
            .iter()
            .position(|rule| rule.is_about(self.address, cert));
        let is_open = rules.is_empty();
        *rights = Rights { rules, at };
        self.is_open.store(is_open, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// True if the peer may offer, or call, a service.
    pub(super) fn may(&self, deed: Deed, service: &str) -> bool {
        let is_listed = deed == Deed::Offer && self.side == Side::Dialer;
        if is_listed || self.is_open.load(Ordering::Acquire) {
            return true;
        }
        let rights = lock(&self.rights);
        let Some(rule) = rights.at.and_then(|at| rights.rules.get(at)) else {
            return false;
        };
        let services = match deed {
            Deed::Offer => &rule.offer,
            Deed::Call => &rule.call,
        };
        services
            .iter()
            .any(|services| Services::has(services, service))
    }

    /// Logs that no rule allows the peer to offer `service`.
    pub(super) fn tell_denied(&self, service: &str) {
        let address = self.address;
        tracing::warn!(%address, service, "a worker offers a service that no rule allows");
    }

    /// Ready once a call of `service` is no longer allowed. The future registers no waker:
    /// [`Link::wake_calls`](crate::io::Link::wake_calls) wakes the task.
    pub(super) async fn revoked(&self, service: &str) -> Failure {
        let mut known = None;
        poll_fn(|_| {
            let version = self.version.load(Ordering::Acquire);
            let is_known = known.replace(version) == Some(version);
            match is_known || self.may(Deed::Call, service) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
        Failure {
            processing: Processing::Begun,
            ..denied(service)
        }
    }
}

/// The refusal of a call that no rule allows.
pub(super) fn denied(service: &str) -> Failure {
    Failure::unprocessed(
        Status::Denied,
        format!("no rule allows this peer to call {service}"),
    )
}

/// Memory of the names of a certificate.
fn held_bytes(cert: &Summary) -> usize {
    let texts = [&cert.subject, &cert.issuer, &cert.serial];
    let texts = texts.into_iter().chain(&cert.names);
    let texts = texts.map(|text| block_bytes(text.capacity()) + size_of::<String>());
    // Identifiers of keys and algorithms are short.
    block_bytes(size_of::<Summary>()) + texts.sum::<usize>() + 256
}
