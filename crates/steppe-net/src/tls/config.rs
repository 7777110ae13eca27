//! Settings of TLS, as valid types.

use std::path::PathBuf;

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// At least one; the first serves clients that name no server, or an unknown one.
    pub certificates: Vec<CertificateFiles>,
    /// The oldest version that is spoken.
    pub min_version: MinVersion,
    /// Requirement for client certificates.
    pub client: ClientAuth,
    /// Secrets that tickets are made with, shared between nodes. `None`: made here, and rotated.
    pub ticket_keys: Option<PathBuf>,
    /// Protocols for ALPN (RFC 7301), the most preferred first, such as `http/1.1`.
    pub alpn: Vec<Vec<u8>>,
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the certificate, and the intermediate ones above it.
    pub cert: PathBuf,
    /// PEM: its private key (PKCS #8, PKCS #1 or SEC 1).
    pub key: PathBuf,
    /// DER: an OCSP response that is stapled (RFC 6066 §8).
    pub ocsp: Option<PathBuf>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum MinVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Requirement for client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked for a certificate.
    None,
    /// A client need not show a certificate; one that it shows must be valid.
    Optional(ClientTrust),
    /// Each client must show a valid certificate.
    Required(ClientTrust),
}

/// Authorities and revocation of client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTrust {
    /// PEM: the authorities.
    pub ca: PathBuf,
    /// PEM or DER: revocation lists (RFC 5280 §5). Empty: nothing is revoked.
    pub crls: Vec<PathBuf>,
    /// Policy for clients whose authority's list is past its next update.
    pub expired_crl: RevocationPolicy,
    /// Policy for clients whose authority has no list, where there are lists.
    pub unknown_status: RevocationPolicy,
}

/// Policy for a client whose revocation status is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevocationPolicy {
    /// The handshake fails.
    #[default]
    Refuse,
    /// The client passes.
    Accept,
}

/// TLS to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTrust {
    /// PEM: the authorities. `None`: the system's.
    pub ca: Option<PathBuf>,
    /// The name to ask for and to verify; `None`: the server's address.
    pub server_name: Option<String>,
    /// Our own certificate, for servers that ask for one.
    pub identity: Option<CertificateFiles>,
    /// True if certificates are verified at all.
    pub verify: bool,
    /// SHA-256 of public keys (`SubjectPublicKeyInfo`), one of which the server must have;
    /// empty: any.
    pub pins: Vec<[u8; 32]>,
    /// The oldest version that is spoken.
    pub min_version: MinVersion,
    /// Protocols to offer by ALPN, the most preferred first.
    pub alpn: Vec<Vec<u8>>,
}
