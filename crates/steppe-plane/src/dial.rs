//! Whom to dial, and how often.

mod backoff;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) use backoff::Backoff;

use crate::limits::CONNECT_TIMEOUT;

/// Whom to dial.
#[derive(Debug, Clone)]
pub struct Target {
    address: Arc<str>,
}

impl Target {
    /// Who listens at `address`: a name or an IP address, and a port. A name is resolved each time.
    pub fn new(address: impl Into<Arc<str>>) -> Self {
        Self {
            address: address.into(),
        }
    }

    /// Its address, as it was given.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Dials it once, for [`CONNECT_TIMEOUT`] at most.
    pub(crate) async fn dial(&self) -> io::Result<TcpStream> {
        let connect = async {
            let socket = TcpStream::connect(&*self.address).await?;
            socket.set_nodelay(true)?;
            Ok(socket)
        };
        let connected = timeout(CONNECT_TIMEOUT, connect).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
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
