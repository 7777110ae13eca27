//! What TLS is told to do, as valid types.

use std::path::PathBuf;

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// At least one; the first serves clients that name no server, or an unknown one.
    pub certificates: Vec<CertificateFiles>,
    /// The oldest version that is spoken.
    pub min_version: MinVersion,
    /// What clients must show.
    pub client: ClientAuth,
    /// Secrets that tickets are made with, shared between nodes. `None`: made here, and rotated.
    pub ticket_keys: Option<PathBuf>,
    /// What is agreed on by ALPN (RFC 7301), the most preferred first, such as `http/1.1`.
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

/// What clients must show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for a certificate.
    None,
    /// A certificate that one shows must be valid.
    Optional(ClientTrust),
    /// Each must show a valid one.
    Required(ClientTrust),
}

/// Which certificates of clients are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTrust {
    /// PEM: the authorities.
    pub ca: PathBuf,
    /// PEM or DER: revocation lists (RFC 5280 §5). Empty: nothing is revoked.
    pub crls: Vec<PathBuf>,
    /// What becomes of clients whose authority's list is past its next update.
    pub expired_crl: RevocationPolicy,
    /// What becomes of clients for whose authority there is no list, where there are any.
    pub unknown_status: RevocationPolicy,
}

/// What becomes of a client whose status nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevocationPolicy {
    /// Its handshake fails.
    #[default]
    Refuse,
    /// It passes.
    Accept,
}

/// TLS to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTrust {
    /// PEM: the authorities. `None`: the system's.
    pub ca: Option<PathBuf>,
    /// The name to ask for and to verify. `None`: the server's address.
    pub server_name: Option<String>,
    /// Our own certificate, for servers that ask for one.
    pub identity: Option<CertificateFiles>,
    /// Whether certificates are verified at all.
    pub verify: bool,
    /// SHA-256 of public keys (`SubjectPublicKeyInfo`), one of which the server must have;
    /// empty: any.
    pub pins: Vec<[u8; 32]>,
    /// The oldest version that is spoken.
    pub min_version: MinVersion,
    /// What is offered by ALPN, the most preferred first.
    pub alpn: Vec<Vec<u8>>,
}
