//! A listener of one worker, as its connections see it.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;

use steppe_mem::Lease;
use steppe_net::accept::Admission;
use steppe_net::tls::ListenerTls;
use steppe_net::{Drain, ListenAddress};

use crate::config::{ListenerLimits, ListenerRoutes, ListenerTimeouts, Underscores};

/// The settings of a listener for its connections.
#[derive(Debug)]
pub struct ListenerSettings {
    /// See the configuration.
    pub limits: ListenerLimits,
    /// See the configuration.
    pub timeouts: ListenerTimeouts,
    /// See the configuration.
    pub underscores: Underscores,
    /// See the configuration.
    pub(super) redirect_https: Option<NonZeroU16>,
    /// See the configuration.
    pub(super) routes: ListenerRoutes,
    /// TLS below the protocols; `None`: there is none.
    pub(super) tls: Option<Arc<ListenerTls>>,
    /// The value of `Strict-Transport-Security` (RFC 6797).
    pub(super) strict_transport_security: Option<String>,
    /// Handshakes that one worker may have in progress.
    pub(super) handshakes: usize,
    /// Trusted proxies say first whom they connect for.
    pub(super) proxy_protocol: bool,
    /// The account of connections, and of bytes that are read before a route is known.
    pub lease: Lease,
    /// When the listener closes, its connections end after their response.
    pub drain: Drain,
    /// Heads of this worker that wait for budget while they hold some.
    pub(crate) starved_heads: Rc<Cell<usize>>,
}

/// A listener as its connections see it.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: ListenAddress,
    pub(super) admission: Admission,
    settings: RefCell<Rc<ListenerSettings>>,
}

impl Listener {
    pub(super) fn new(
        address: ListenAddress,
        admission: Admission,
        settings: ListenerSettings,
    ) -> Self {
        Self {
            address,
            admission,
            settings: RefCell::new(Rc::new(settings)),
        }
    }

    /// The present settings for connections.
    pub(super) fn settings(&self) -> Rc<ListenerSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Takes over what a new configuration asks.
    pub(super) fn set_settings(&self, settings: ListenerSettings) {
        *self.settings.borrow_mut() = Rc::new(settings);
    }
}
