//! TLS to servers.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    RootCertStore, SignatureScheme,
};
use steppe_mem::{Buffer, Lease};

use super::agreed::{self, Agreed};
use super::config::ServerTrust;
use super::identity::Identity;
use super::load::{self, LoadError};
use super::session::{self, Session, SessionMemory};
use super::x509::Summary;
use super::{provider, record, versions};
use crate::limits::{
    HELLO_READ_BYTES, RECORD_READ_BYTES_MAX, SERVER_FLIGHT_BYTES_MAX, TLS_SESSION_BYTES,
};
use crate::transport::Transport;

/// TLS to the servers of one upstream, for all workers.
pub struct ServerTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

/// A reason why there is no session with a server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server closed the connection.
    #[error("connection closed by the server during the handshake")]
    Closed,
    /// The server's handshake messages are larger than they may be.
    #[error("the server's certificates are too large")]
    TooLarge,
    /// The budget has no room.
    #[error("over budget")]
    OverBudget,
    /// The server's public key is none of those that are pinned.
    #[error("the server's public key is not in `pins`")]
    Pin,
    /// Both sides don't agree, or the server's certificate is not valid.
    #[error("{0}")]
    Refused(rustls::Error),
    /// There is no name to verify.
    #[error("no name to verify: set `server_name`")]
    NoName,
}

/// Kinds of a [`ConnectError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectErrorKind {
    /// The certificate is of no authority that is trusted.
    Untrusted,
    /// The certificate is for other names.
    Name,
    /// The certificate is past its time, or not valid yet.
    Expired,
    /// The public key is not pinned.
    Pin,
    /// The server refused.
    Alert,
    /// Anything else.
    Other,
}

impl ConnectError {
    /// Kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ConnectErrorKind {
        use CertificateError as Certificate;
        use rustls::Error;
        match self {
            Self::Refused(Error::AlertReceived(_)) => ConnectErrorKind::Alert,
            Self::Refused(Error::InvalidCertificate(error)) => match error {
                Certificate::UnknownIssuer | Certificate::BadSignature => {
                    ConnectErrorKind::Untrusted
                }
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                    ConnectErrorKind::Name
                }
                Certificate::Expired
                | Certificate::ExpiredContext { .. }
                | Certificate::NotValidYet
                | Certificate::NotValidYetContext { .. } => ConnectErrorKind::Expired,
                _ => ConnectErrorKind::Other,
            },
            Self::Pin => ConnectErrorKind::Pin,
            _ => ConnectErrorKind::Other,
        }
    }
}

impl ServerTls {
    /// Reads the files of `trust`.
    ///
    /// # Errors
    /// The error in a file; and that there is no authority to trust.
    pub fn load(trust: &ServerTrust) -> Result<Self, LoadError> {
        let provider = provider();
        let verifier = ServerVerifier::new(trust, &provider)?;
        let setup = |error: rustls::Error| LoadError::Setup(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(trust.min_version))
            .map_err(setup)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &trust.identity {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let identity = Identity::load(files, &provider)?;
                let key = Arc::new(rustls::sign::SingleCertAndKey::from(identity.key));
                builder.with_client_cert_resolver(key)
            }
        };
        config.alpn_protocols = trust.alpn.clone();
        let name = trust.server_name.as_deref();
        let server_name = name.map(|name| ServerName::try_from(name.to_owned()));
        let server_name = server_name
            .transpose()
            .map_err(|error| LoadError::Setup(error.to_string()))?;
        Ok(Self {
            config: Arc::new(config),
            server_name,
        })
    }

    /// The configuration of rustls, for a client that runs on no [`Transport`].
    #[must_use]
    pub fn rustls_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Agrees with the server behind `socket`, whose address is `host`, a name or an IP address.
    ///
    /// # Errors
    /// The reason why there is no session.
    pub async fn connect(
        &self,
        mut socket: Transport,
        host: Option<&str>,
        lease: &Lease,
    ) -> Result<(Transport, Agreed), ConnectError> {
        let mut charge = lease
            .try_reserve(TLS_SESSION_BYTES)
            .map_err(|_| ConnectError::OverBudget)?;
        let name = match (&self.server_name, host) {
            (Some(name), _) => name.clone(),
            (None, Some(host)) => name_of(host).ok_or(ConnectError::NoName)?,
            (None, None) => return Err(ConnectError::NoName),
        };
        let tls = ClientConnection::new(Arc::clone(&self.config), name);
        let mut tls = Connection::Client(tls.map_err(ConnectError::Refused)?);
        let pending = finish(&mut socket, &mut tls, lease).await?;
        charge
            .try_grow(agreed::chain_bytes(&tls))
            .map_err(|_| ConnectError::OverBudget)?;
        let agreed = Agreed::new(&tls, 0, None).expect("it reads certificates of clients only");
        let driver = Session::new(
            socket,
            tls,
            pending,
            SessionMemory {
                lease: lease.clone(),
                charge,
            },
        );
        Ok((Transport::with_driver(Box::new(driver)), agreed))
    }
}

/// Goes on until both sides are done. Returns bytes that came after the handshake.
async fn finish(
    socket: &mut Transport,
    tls: &mut Connection,
    lease: &Lease,
) -> Result<Option<Buffer>, ConnectError> {
    let mut pending: Option<Buffer> = None;
    let mut left = SERVER_FLIGHT_BYTES_MAX;
    loop {
        let sent = poll_fn(|cx| session::poll_send(cx, socket, tls)).await;
        sent.map_err(|_| ConnectError::Closed)?;
        if !tls.is_handshaking() {
            return Ok(pending.filter(|rest| !rest.is_empty()));
        }
        let Some(bytes) = &mut pending else {
            let read = poll_fn(|cx| socket.poll_read(cx, lease, HELLO_READ_BYTES)).await;
            let read = read.ok().filter(|bytes| !bytes.is_empty());
            pending = Some(read.ok_or(ConnectError::Closed)?);
            continue;
        };
        let Some(record) = record::next(bytes.filled()) else {
            let more = poll_fn(|cx| socket.poll_read_more(cx, bytes, RECORD_READ_BYTES_MAX));
            if !matches!(more.await, Ok(1..)) {
                return Err(ConnectError::Closed);
            }
            continue;
        };
        left = left.checked_sub(record).ok_or(ConnectError::TooLarge)?;
        if record::is_close_notify(&bytes.filled()[..record]) {
            return Err(ConnectError::Closed);
        }
        let fed = session::feed(tls, &bytes.filled()[..record]);
        bytes.consume(record);
        if let Err(error) = fed {
            session::send_now(socket, tls);
            return Err(refused(error));
        }
    }
}

fn refused(error: rustls::Error) -> ConnectError {
    match error {
        // Nothing else of ours is verified by hand.
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            ConnectError::Pin
        }
        other => ConnectError::Refused(other),
    }
}

fn name_of(host: &str) -> Option<ServerName<'static>> {
    match host.parse::<IpAddr>() {
        Ok(address) => Some(ServerName::from(address)),
        Err(_) => ServerName::try_from(host.to_owned()).ok(),
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS to {:?}", self.server_name)
    }
}

/// Verifies a server by authorities and by pins, each where it is asked for.
#[derive(Debug)]
struct ServerVerifier {
    by_authority: Option<Arc<WebPkiServerVerifier>>,
    pins: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    fn new(trust: &ServerTrust, provider: &Arc<CryptoProvider>) -> Result<Self, LoadError> {
        let by_authority = if trust.verify {
            let roots = match &trust.ca {
                Some(path) => load::roots(path, load::certificates(path)?)?,
                None => system_roots()?,
            };
            let provider = Arc::clone(provider);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
            let built = verifier.build();
            Some(built.map_err(|error| LoadError::Setup(error.to_string()))?)
        } else {
            None
        };
        Ok(Self {
            by_authority,
            pins: trust.pins.clone(),
            provider: Arc::clone(provider),
        })
    }
}

fn system_roots() -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    // Some that can't be read are no reason to refuse the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(LoadError::NoSystemRoots);
    }
    Ok(roots)
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.pins.is_empty() {
            let summary = Summary::of(end_entity)
                .map_err(|_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding))?;
            if !self.pins.contains(&summary.spki_fingerprint) {
                return Err(CertificateError::ApplicationVerificationFailure.into());
            }
        }
        match &self.by_authority {
            Some(verifier) => verifier.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            None => Ok(ServerCertVerified::assertion()),
        }
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
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
