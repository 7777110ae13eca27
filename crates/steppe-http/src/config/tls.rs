//! TLS of a listener, and what a route asks of a client's certificate.

use steppe_net::tls::config::ListenerConfig;

/// `[http.listener.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTls {
    /// What its connections are served with.
    pub session: ListenerConfig,
    /// The value of `Strict-Transport-Security` in responses: it has a `max-age`
    /// (RFC 6797 §6.1). `None`: the field is left to servers.
    pub strict_transport_security: Option<String>,
}

/// What a client's certificate must have for a route; at least one is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientCertMatch {
    /// Just this subject, as RFC 4514 writes it.
    pub subject: Option<String>,
    /// A subject alternative name that is just this.
    pub san: Option<String>,
    /// The SHA-256 digest of the certificate.
    pub fingerprint: Option<[u8; 32]>,
}
