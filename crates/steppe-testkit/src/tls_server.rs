//! A server's side of TLS, for scripted origins.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection};

use crate::authority::Issued;
use crate::peer::PATIENCE;

/// The TLS configuration of an origin: its certificate. Clients get tickets, which the origin accepts.
#[derive(Debug, Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// A server of TLS 1.3 and 1.2 with this certificate.
    ///
    /// # Panics
    /// When its key does not belong to it.
    pub fn showing(issued: &Issued) -> Self {
        let (cert, key) = issued.pair();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for them")
            .with_no_client_auth()
            .with_single_cert(vec![cert], key)
            .expect("the key belongs to the certificate");
        Self {
            config: Arc::new(config),
        }
    }

    /// Makes a handshake on `stream`.
    pub(crate) fn handshake(&self, mut stream: &TcpStream) -> io::Result<ServerConnection> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let config = Arc::clone(&self.config);
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        while tls.is_handshaking() || tls.wants_write() {
            tls.complete_io(&mut stream)?;
        }
        Ok(tls)
    }
}
