//! The target of a load: an address, and TLS on its connections or none.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::tls;

/// The target of a load: its address, and the protocols of its connections.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<tls::Client>,
    pub protocol: Protocol,
}

/// The version of HTTP on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// A connection of a load.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Endpoint {
    #[cfg(test)]
    pub const fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            protocol: Protocol::Http1,
        }
    }

    /// A connection that is ready for a request.
    pub async fn connect(&self) -> Result<Stream> {
        let socket = TcpStream::connect(self.address).await?;
        Ok(match &self.tls {
            None => Stream::Plain(socket),
            Some(client) => Stream::Tls(Box::new(client.handshake(socket).await?)),
        })
    }

    /// The `Host` of requests: with TLS the name that SNI has, so that both mean one server.
    pub fn host(&self) -> String {
        match &self.tls {
            None => self.address.to_string(),
            Some(client) => format!("{}:{}", client.server_name(), self.address.port()),
        }
    }

    /// The URL for wrk, which sends the host as SNI, and resolves it.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme(), self.host())
    }

    /// The scheme of URLs.
    pub const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl Stream {
    /// The socket, without the client's TLS session.
    pub fn into_socket(self) -> TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.into_inner().0,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::handshakes::tests::Folder;

    #[test]
    fn host_and_sni_are_one_name() {
        let address = SocketAddr::from(([127, 0, 0, 1], 28180));
        let mut endpoint = Endpoint::plain(address);
        assert_eq!(endpoint.url("/x"), "http://127.0.0.1:28180/x");
        let folder = Folder::new("host");
        let credentials = folder.credentials();
        let client = tls::Client::new(&credentials, &credentials.p256, tls::Groups::X25519);
        endpoint.tls = Some(client.expect("PEM"));
        assert_eq!(endpoint.url("/x"), "https://localhost:28180/x");
    }
}
