//! TLS of a load: the certificates that it trusts, and the protocol that it offers.
//!
//! Every connection has a full handshake: sessions are not resumed, since a load stands for many
//! clients and not for one that comes back.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::endpoint::io_failure;
use super::tally::{ErrorKind, Failure, said};
use crate::scenario::HttpLoad;

/// TLS settings for one host.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    /// The only protocol that ALPN offers.
    protocol: &'static [u8],
}

/// Names of HTTP/1.1 and HTTP/2 in ALPN (RFC 7301).
pub(super) const HTTP1: &[u8] = b"http/1.1";
pub(super) const HTTP2: &[u8] = b"h2";

impl Tls {
    /// # Errors
    /// With the reason, when the `ca` file can't be used, or no root certificate is found.
    pub(super) fn new(
        load: &HttpLoad,
        name: ServerName<'static>,
        protocol: &'static [u8],
    ) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let mut config = if load.verify {
            builder
                .with_root_certificates(authorities(load.ca.as_deref())?)
                .with_no_client_auth()
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                .with_no_client_auth()
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
            protocol,
        })
    }

    pub(super) async fn connect(
        &self,
        stream: TcpStream,
    ) -> Result<Box<TlsStream<TcpStream>>, Failure> {
        let connecting = self.connector.connect(self.name.clone(), stream);
        let stream = connecting.await.map_err(|e| failure(&e))?;
        let agreed = stream.get_ref().1.alpn_protocol();
        // A server that does not know ALPN speaks HTTP/1.1.
        let is_agreed = agreed == Some(self.protocol);
        if is_agreed || (agreed.is_none() && self.protocol == HTTP1) {
            Ok(Box::new(stream))
        } else {
            Err(Failure::lost("no HTTP/2"))
        }
    }
}

fn failure(error: &io::Error) -> Failure {
    let of_tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(reason) => Failure {
            kind: ErrorKind::Said(said(&format!("TLS: {reason}"))),
            disconnected: true,
        },
        None => io_failure(error),
    }
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // System certificates that can't be read are not trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = file {
        let unreadable = |e: &dyn std::fmt::Display| format!("can't read {}: {e}", path.display());
        let mut count = 0;
        for found in CertificateDer::pem_file_iter(path).map_err(|e| unreadable(&e))? {
            let certificate = found.map_err(|e| unreadable(&e))?;
            roots.add(certificate).map_err(|e| unreadable(&e))?;
            count += 1;
        }
        if count == 0 {
            return Err(unreadable(&"it contains no certificate"));
        }
    }
    if roots.is_empty() {
        return Err(
            "no system root certificates found: name a `ca` file, or set `verify = false`"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// Verifier that accepts any certificate, if the server has its private key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
