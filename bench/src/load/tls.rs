//! The TLS client of a load: TLS 1.3, one cipher suite, and a choice of key exchange groups.
//!
//! Invariant: all proxies are offered exactly the same, so that none is measured with a cheaper
//! cipher than another; certificates are verified. wrk gets the same offer by [`OPENSSL_CONFIG`].

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::client::{ClientSessionStore, Resumption};
use rustls::client::{Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer::credentials::{Certificate, Credentials};

/// The file that `OPENSSL_CONF` names, for programs with OpenSSL: the offer of [`Client`].
pub const OPENSSL_CONFIG: &str = "\
openssl_conf = bench
[bench]
ssl_conf = ssl
[ssl]
system_default = client
[client]
MinProtocol = TLSv1.3
Ciphersuites = TLS_AES_128_GCM_SHA256
Groups = X25519
";

/// The TLS configuration of a client, and the name of its server.
#[derive(Debug, Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The key exchange groups that a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    X25519,
    /// X25519MLKEM768, and X25519 for servers that lack it, as browsers do.
    PostQuantum,
}

/// The parameters that client and server negotiated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreed {
    pub kind: HandshakeKind,
    pub group: NamedGroup,
    cipher_suite: rustls::CipherSuite,
    version: rustls::ProtocolVersion,
}

impl Client {
    /// A client whose handshakes are all full ones.
    ///
    /// # Errors
    /// When the authority can't be read.
    pub fn new(credentials: &Credentials, server: &Certificate, groups: Groups) -> Result<Self> {
        Self::trusting(&credentials.ca, server.name, groups)
    }

    fn trusting(ca: &Path, name: &'static str, groups: Groups) -> Result<Self> {
        let authority = CertificateDer::from_pem_file(ca)
            .with_context(|| format!("cannot read {}", ca.display()))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let provider = CryptoProvider {
            cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: groups.offered(),
            ..aws_lc_rs::default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: config.into(),
            name: ServerName::try_from(name)?,
        })
    }

    /// A client that offers HTTP/2 and nothing else by ALPN.
    pub fn speaking_http2(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            config: config.into(),
            name: self.name.clone(),
        }
    }

    /// A client that keeps the tickets that it receives, and uses none.
    pub fn collecting(&self, tickets: &Arc<Tickets>) -> Self {
        self.with_store(Collecting(Arc::clone(tickets)))
    }

    /// A client that uses a ticket for each handshake, as long as there are any, and keeps no new ones.
    pub fn resuming(&self, tickets: &Arc<Tickets>) -> Self {
        self.with_store(Resuming(Arc::clone(tickets)))
    }

    /// Verifier and credentials stay the ones of `self`: rustls resumes with no others.
    fn with_store(&self, store: impl ClientSessionStore + 'static) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(store));
        Self {
            config: config.into(),
            name: self.name.clone(),
        }
    }

    /// The name that the client sends as SNI, and verifies.
    pub fn server_name(&self) -> Cow<'_, str> {
        self.name.to_str()
    }

    /// A connection whose handshake is complete on the client's side.
    ///
    /// # Errors
    /// When the handshake fails, or takes longer than `HANDSHAKE_TIMEOUT`.
    pub async fn handshake(&self, socket: TcpStream) -> Result<TlsStream<TcpStream>> {
        socket.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let handshake = connector.connect(self.name.clone(), socket);
        let outcome = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
        Ok(outcome.context("a handshake took too long")??)
    }
}

impl Groups {
    fn offered(self) -> Vec<&'static dyn SupportedKxGroup> {
        match self {
            Self::X25519 => vec![kx_group::X25519],
            Self::PostQuantum => vec![kx_group::X25519MLKEM768, kx_group::X25519],
        }
    }
}

impl Agreed {
    /// # Errors
    /// Before the handshake is complete.
    pub fn of(connection: &ClientConnection) -> Result<Self> {
        let parts = || {
            Some(Self {
                kind: connection.handshake_kind()?,
                group: connection.negotiated_key_exchange_group()?.name(),
                cipher_suite: connection.negotiated_cipher_suite()?.suite(),
                version: connection.protocol_version()?,
            })
        };
        parts().context("a handshake agreed on nothing")
    }
}

impl Display for Agreed {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let suite = self.cipher_suite.as_str().unwrap_or("an unknown cipher");
        let version = self.version.as_str().unwrap_or("an unknown version");
        write!(formatter, "{version} {suite} {:?}", self.group)
    }
}

/// Tickets of one server, each to be used once (RFC 8446 appendix C.4).
#[derive(Debug, Default)]
pub struct Tickets(Mutex<VecDeque<Tls13ClientSessionValue>>);

impl Tickets {
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        // A panic elsewhere leaves the queue intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Collecting(Arc<Tickets>);

#[derive(Debug)]
struct Resuming(Arc<Tickets>);

/// TLS 1.3 only, and one group is always offered first: a store remembers nothing but tickets.
macro_rules! no_other_sessions {
    () => {
        fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

        fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
            None
        }

        fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

        fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
            None
        }

        fn remove_tls12_session(&self, _: &ServerName<'static>) {}
    };
}

impl ClientSessionStore for Collecting {
    no_other_sessions!();

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.0.locked().push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}

impl ClientSessionStore for Resuming {
    no_other_sessions!();

    fn insert_tls13_ticket(&self, _: ServerName<'static>, _: Tls13ClientSessionValue) {}

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.locked().pop_front()
    }
}

/// A server that takes longer has failed: a phase waits no longer than this for a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
