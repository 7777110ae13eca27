//! The beginning of a connection before its protocol: PROXY header, TLS handshake.

use std::sync::Arc;
use std::time::Duration;

use steppe_mem::Lease;

use crate::tls::{HandshakeLimits, ListenerTls};

/// The beginning of a listener's connections before their protocol.
#[derive(Debug, Clone)]
pub struct Preamble {
    /// Trusted proxies begin with a PROXY header; `None`: there is none.
    pub header: Option<HeaderLimits>,
    /// `None`: no TLS.
    pub tls: Option<TlsPreamble>,
    /// Charged with what is read.
    pub lease: Lease,
    /// Sent to a client that is refused after a handshake, as far as one write gets.
    pub no_room: &'static [u8],
}

/// Limits of a PROXY header.
#[derive(Debug, Clone, Copy)]
pub struct HeaderLimits {
    /// Time from the begin of the connection.
    pub timeout: Duration,
    /// Memory of the first read.
    pub read_bytes: usize,
}

/// TLS of a listener, and the limits of its handshakes.
#[derive(Debug, Clone)]
pub struct TlsPreamble {
    /// Certificates and policy.
    pub tls: Arc<ListenerTls>,
    /// Limits of handshakes in progress on one worker.
    pub handshakes: HandshakeLimits,
    /// Time of one handshake.
    pub timeout: Duration,
    /// Sent to a client that speaks HTTP without TLS, as far as one write gets.
    pub to_plain_http: &'static [u8],
}
