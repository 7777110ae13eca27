//! The results of a handshake, and the peer's identity.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, Connection, HandshakeKind, NamedGroup, ProtocolVersion};

use steppe_mem::alloc::block_bytes;

use super::x509::{Summary, X509Error};

/// Bytes of the peer's chain, which rustls keeps for as long as the session lives.
pub(super) fn chain_bytes(tls: &Connection) -> usize {
    let chain = tls.peer_certificates().unwrap_or_default();
    let each = |der: &CertificateDer<'_>| block_bytes(der.len());
    block_bytes(size_of_val(chain)) + chain.iter().map(each).sum::<usize>()
}

/// The most bytes that an [`Agreed`] takes. Names take most of a certificate: three bytes make a text of their own, with
/// its place in a list that doubles.
pub(super) fn bytes_max(tls: &Connection) -> usize {
    let der = tls.peer_certificates().and_then(|chain| chain.first());
    let der = der.filter(|_| matches!(tls, Connection::Server(_)));
    /// For names of servers and protocols.
    const TEXTS: usize = 1 << 10;
    TEXTS + der.map_or(0, |der| 32 * der.len() + TEXTS)
}

/// The results of a handshake.
#[derive(Debug, Clone)]
pub struct Agreed {
    version: Option<ProtocolVersion>,
    suite: Option<CipherSuite>,
    group: Option<NamedGroup>,
    /// Index of the certificate that the client was shown; 0 to servers.
    pub identity: usize,
    /// The name that the client asked for (RFC 6066 §3).
    pub server_name: Option<Box<str>>,
    /// The protocol that was agreed on by ALPN (RFC 7301).
    pub alpn: Option<Box<[u8]>>,
    /// An earlier session was resumed.
    pub is_resumed: bool,
    /// The client's identity, where it showed a certificate.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate, which was verified.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate itself, DER.
    pub der: CertificateDer<'static>,
    /// The names and dates in it.
    pub summary: Summary,
}

impl Agreed {
    /// # Errors
    /// The client's certificate is valid, and yet can't be read here.
    pub(super) fn new(
        tls: &Connection,
        identity: usize,
        server_name: Option<Box<str>>,
    ) -> Result<Self, X509Error> {
        let client = tls.peer_certificates().and_then(|chain| chain.first());
        let client = client.filter(|_| matches!(tls, Connection::Server(_)));
        let read = |der: &CertificateDer<'static>| {
            let summary = Summary::of(der)?;
            let der = der.clone();
            Ok(ClientCertificate { der, summary })
        };
        let client = client.map(read).transpose()?;
        let suite = tls.negotiated_cipher_suite();
        Ok(Self {
            version: tls.protocol_version(),
            suite: suite.map(|suite| suite.suite()),
            group: tls
                .negotiated_key_exchange_group()
                .map(|group| group.name()),
            identity,
            server_name,
            alpn: tls.alpn_protocol().map(Box::from),
            is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            client,
        })
    }

    /// The version, such as `TLSv1.3`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self.version {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        }
    }

    /// The cipher suite by its registered name, such as `TLS_AES_256_GCM_SHA384`.
    #[must_use]
    pub fn suite(&self) -> &'static str {
        match self.suite {
            Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => "TLS_AES_256_GCM_SHA384",
            Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => "TLS_AES_128_GCM_SHA256",
            Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => "TLS_CHACHA20_POLY1305_SHA256",
            Some(other) => other.as_str().unwrap_or(""),
            None => "",
        }
    }

    /// The group of the key exchange by its registered name, such as `x25519`; empty where a
    /// session of TLS 1.2 was resumed, which exchanges none.
    #[must_use]
    pub fn group(&self) -> &'static str {
        match self.group {
            Some(NamedGroup::X25519MLKEM768) => "X25519MLKEM768",
            Some(NamedGroup::X25519) => "x25519",
            Some(NamedGroup::secp256r1) => "secp256r1",
            Some(NamedGroup::secp384r1) => "secp384r1",
            Some(other) => other.as_str().unwrap_or(""),
            None => "",
        }
    }
}
