//! TLS of a listener, and what a route asks of a client's certificate.

use steppe_net::tls::config::ListenerConfig;

/// `[http.listener.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTls {
    /// The TLS settings of connections.
    pub session: ListenerConfig,
    /// The value of `Strict-Transport-Security` in responses: it has a `max-age`
    /// (RFC 6797 §6.1). `None`: the field is left to servers.
    pub strict_transport_security: Option<String>,
}

/// Conditions of a route on the client's certificate, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientCertMatch {
    /// The exact subject, as RFC 4514 writes it.
    pub subject: Option<String>,
    /// An exact subject alternative name.
    pub san: Option<String>,
    /// The SHA-256 digest of the certificate.
    pub fingerprint: Option<[u8; 32]>,
}
