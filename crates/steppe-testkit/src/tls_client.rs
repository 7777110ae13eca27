//! A client's side of TLS, for peers that send any bytes above it.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, HandshakeKind,
    SignatureScheme,
};

use crate::authority::Issued;
use crate::peer::{PATIENCE, Peer};

/// The TLS configuration of clients: one value keeps the tickets of all of its connections.
///
/// Any certificate of a server is accepted; [`Peer::server_certificate`] returns it.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: ClientConfig,
}

/// A session below a [`Peer`].
#[derive(Debug)]
pub(crate) struct TlsLayer(Box<Connection>);

/// A verifier that accepts any server certificate.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
    schemes: Vec<SignatureScheme>,
}

impl TlsClient {
    /// A client of TLS 1.3 and 1.2.
    pub fn new() -> Self {
        Self::of_versions(&[&TLS13, &TLS12])
    }

    /// A client of TLS 1.2 only.
    pub fn of_1_2() -> Self {
        Self::of_versions(&[&TLS12])
    }

    fn of_versions(versions: &[&'static rustls::SupportedProtocolVersion]) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let schemes = provider
            .signature_verification_algorithms
            .supported_schemes();
        Self {
            config: configured(provider, versions, schemes, None),
        }
    }

    /// Presents a certificate to servers that ask for one.
    ///
    /// # Panics
    /// When its key does not belong to it.
    #[must_use]
    pub fn showing(self, issued: &Issued) -> Self {
        let provider = Arc::clone(self.config.crypto_provider());
        let schemes = provider
            .signature_verification_algorithms
            .supported_schemes();
        Self {
            config: configured(provider, &[&TLS13, &TLS12], schemes, Some(issued)),
        }
    }

    /// Offers signature schemes of RSA only.
    #[must_use]
    pub fn rsa_only(self) -> Self {
        let provider = Arc::clone(self.config.crypto_provider());
        let all = provider
            .signature_verification_algorithms
            .supported_schemes();
        let is_rsa =
            |scheme: &SignatureScheme| scheme.as_str().is_some_and(|name| name.starts_with("RSA"));
        let schemes = all.into_iter().filter(is_rsa).collect();
        Self {
            config: configured(provider, &[&TLS13, &TLS12], schemes, None),
        }
    }

    /// Offers these protocols by ALPN.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
        self.config.alpn_protocols = protocols.collect();
        self
    }

    /// For connections that are not a [`Peer`].
    pub(crate) fn connector(&self) -> tokio_rustls::TlsConnector {
        Arc::new(self.config.clone()).into()
    }

    /// Sends no SNI.
    #[must_use]
    pub fn without_sni(mut self) -> Self {
        self.config.enable_sni = false;
        self
    }

    /// Connects to `address` and asks for `name`.
    ///
    /// # Panics
    /// When nothing listens there, or the handshake fails.
    #[track_caller]
    pub fn connect(&self, address: SocketAddr, name: &str) -> Peer {
        match self.try_connect(address, name) {
            Ok(peer) => peer,
            Err(error) => panic!("no session with {address} for {name}: {error}"),
        }
    }

    /// As [`TlsClient::connect`], where the handshake may fail.
    ///
    /// A server of TLS 1.3 refuses a client's certificate after the client's handshake is over:
    /// its alert comes with the first read.
    ///
    /// # Errors
    /// The reason of a failed handshake, such as the server's alert.
    ///
    /// # Panics
    /// When nothing listens there.
    #[track_caller]
    pub fn try_connect(&self, address: SocketAddr, name: &str) -> io::Result<Peer> {
        self.over(Peer::connect(address), name)
    }

    /// Connects from the local address `from`.
    ///
    /// # Errors
    /// As [`TlsClient::try_connect`].
    ///
    /// # Panics
    /// When nothing listens there.
    #[track_caller]
    pub fn try_connect_from(
        &self,
        from: IpAddr,
        address: SocketAddr,
        name: &str,
    ) -> io::Result<Peer> {
        self.over(Peer::connect_from(from, address), name)
    }

    /// Connects with a first flight that `rewrite` may cut into other records, and into writes of
    /// their own; what the records contain must stay.
    ///
    /// # Errors
    /// As [`TlsClient::try_connect`].
    ///
    /// # Panics
    /// When nothing listens there.
    #[track_caller]
    pub fn try_connect_with(
        &self,
        address: SocketAddr,
        name: &str,
        rewrite: impl FnOnce(Vec<u8>) -> Vec<Vec<u8>>,
    ) -> io::Result<Peer> {
        let mut peer = Peer::connect(address);
        let mut tls = self.begin(name);
        let mut flight = Vec::new();
        tls.write_tls(&mut flight)?;
        for part in rewrite(flight) {
            peer.try_send(&part)?;
        }
        complete(&mut tls, peer.stream())?;
        Ok(peer.with_tls(TlsLayer::new(tls)))
    }

    /// Makes a handshake on an open connection.
    ///
    /// # Errors
    /// As [`TlsClient::try_connect`].
    pub fn over(&self, peer: Peer, name: &str) -> io::Result<Peer> {
        let tls = self.handshake(peer.stream(), name)?;
        Ok(peer.with_tls(TlsLayer::new(tls)))
    }

    /// Makes a handshake on `stream`.
    pub(crate) fn handshake(&self, stream: &TcpStream, name: &str) -> io::Result<ClientConnection> {
        let mut tls = self.begin(name);
        complete(&mut tls, stream)?;
        Ok(tls)
    }

    /// A client's first flight: its ClientHello, in one record.
    ///
    /// # Panics
    /// When there are no random numbers.
    pub fn hello(&self, name: &str) -> Vec<u8> {
        let mut flight = Vec::new();
        let written = self.begin(name).write_tls(&mut flight);
        written.expect("a vector takes all of it");
        flight
    }

    fn begin(&self, name: &str) -> ClientConnection {
        let name = ServerName::try_from(name.to_owned()).expect("a valid name");
        let config = Arc::new(self.config.clone());
        ClientConnection::new(config, name).expect("there are random numbers")
    }
}

impl Default for TlsClient {
    fn default() -> Self {
        Self::new()
    }
}

fn complete(tls: &mut ClientConnection, mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    while tls.is_handshaking() || tls.wants_write() {
        tls.complete_io(&mut stream)?;
    }
    Ok(())
}

fn configured(
    provider: Arc<CryptoProvider>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    schemes: Vec<SignatureScheme>,
    shown: Option<&Issued>,
) -> ClientConfig {
    let verifier = AnyServer {
        provider: Arc::clone(&provider),
        schemes,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("the provider has suites for them")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match shown.map(Issued::pair) {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => builder
            .with_client_auth_cert(vec![cert], key)
            .expect("the key belongs to the certificate"),
    };
    config.enable_secret_extraction = true;
    config
}

impl TlsLayer {
    pub(crate) fn new(session: impl Into<Connection>) -> Self {
        Self(Box::new(session.into()))
    }

    /// The session itself, with the version of TLS, for example.
    pub(crate) fn session(&self) -> &ClientConnection {
        match &*self.0 {
            Connection::Client(session) => session,
            Connection::Server(_) => panic!("it is a server's"),
        }
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn write_all(&mut self, stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(16 << 10) {
            self.0.writer().write_all(part)?;
            self.flush(stream)?;
        }
        Ok(())
    }

    fn flush(&mut self, mut stream: &TcpStream) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(&mut stream)?;
        }
        Ok(())
    }

    /// Ends this side's bytes by `close_notify`.
    pub(crate) fn finish(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.0.send_close_notify();
        self.flush(stream)
    }

    /// Asks for new keys and changes its own (RFC 8446 §4.6.3).
    pub(crate) fn update_keys(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.0.refresh_traffic_keys().map_err(io::Error::other)?;
        self.flush(stream)
    }

    /// Reads as a socket does: 0 is the end, and an end without `close_notify` is an error.
    pub(crate) fn read(&mut self, mut stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.0.read_tls(&mut stream)?;
            let processed = self.0.process_new_packets();
            let _ = self.flush(stream);
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl ServerCertVerifier for AnyServer {
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
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
