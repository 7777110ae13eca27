//! Targets of outgoing connections, and the back-off between attempts.

mod backoff;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use steppe_net::tls::config::ServerTrust;
use steppe_net::tls::{LoadError, ServerTls};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub(crate) use backoff::Backoff;

use crate::io::{ALPN, Memory, Transport, reserve_session};
use crate::limits::CONNECT_TIMEOUT;

/// Address of a peer to dial, with TLS if there is any.
#[derive(Debug, Clone)]
pub struct Target {
    address: Arc<str>,
    tls: Option<TargetTls>,
}

/// TLS settings for dialed peers. Clones share them.
#[derive(Clone)]
pub struct TargetTls(Arc<Loaded>);

struct Loaded {
    trust: ServerTrust,
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl TargetTls {
    /// Loads the files of `trust`; its ALPN is set to [`ALPN`].
    ///
    /// # Errors
    /// The error of a file or of the server name; and if there is no trusted authority.
    pub fn load(trust: &ServerTrust) -> Result<Self, LoadError> {
        let trust = ServerTrust {
            alpn: vec![ALPN.to_vec()],
            ..trust.clone()
        };
        let name = trust.server_name.clone().map(ServerName::try_from);
        let name = name.transpose();
        Ok(Self(Arc::new(Loaded {
            connector: ServerTls::load(&trust)?.rustls_config().into(),
            name: name.map_err(|error| LoadError::Setup(error.to_string()))?,
            trust,
        })))
    }
}

/// Equal if both have the same trust settings.
impl PartialEq for TargetTls {
    fn eq(&self, other: &Self) -> bool {
        self.0.trust == other.0.trust
    }
}

impl fmt::Debug for TargetTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS to {:?}", self.0.name)
    }
}

impl Target {
    /// A peer at `address`: a host name or an IP address, and a port. A name is resolved for each connection.
    pub fn new(address: impl Into<Arc<str>>) -> Self {
        Self {
            address: address.into(),
            tls: None,
        }
    }

    /// The same target with these TLS settings.
    #[must_use]
    pub fn with_tls(self, tls: Option<TargetTls>) -> Self {
        Self { tls, ..self }
    }

    /// The address as it was given.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects once, within [`CONNECT_TIMEOUT`]. A TLS session is charged to `memory`.
    pub(crate) async fn dial(&self, memory: &Memory) -> io::Result<Transport> {
        let connect = async {
            let socket = TcpStream::connect(&*self.address).await?;
            socket.set_nodelay(true)?;
            let Some(tls) = &self.tls else {
                return Ok(Transport::from(socket));
            };
            let name = match &tls.0.name {
                Some(name) => name.clone(),
                None => name_of(&self.address)?,
            };
            let charge = reserve_session(memory)?;
            Transport::connect(socket, &tls.0.connector, name, charge).await
        };
        let connected = timeout(CONNECT_TIMEOUT, connect).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The host of `address`, as the name that its certificate must have.
fn name_of(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let name = ServerName::try_from(bare.unwrap_or(host).to_owned());
    name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl From<&str> for Target {
    fn from(address: &str) -> Self {
        Self::new(address)
    }
}

impl From<String> for Target {
    fn from(address: String) -> Self {
        Self::new(address)
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.to_string())
    }
}
