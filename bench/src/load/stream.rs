//! Where a load goes: an address, and TLS on its connections or none.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::tls;

/// Who is loaded, and how its connections are made.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<tls::Client>,
}

/// A connection of a load.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Endpoint {
    #[cfg(test)]
    pub const fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// A connection that is ready for a request.
    pub async fn connect(&self) -> Result<Stream> {
        let socket = TcpStream::connect(self.address).await?;
        Ok(match &self.tls {
            None => Stream::Plain(socket),
            Some(client) => Stream::Tls(Box::new(client.handshake(socket).await?)),
        })
    }

    /// What wrk is called with.
    ///
    /// It has no option for SNI and sends the host, so that is a name, which it resolves.
    pub fn url(&self, path: &str) -> String {
        match self.tls {
            None => format!("http://{}{path}", self.address),
            Some(_) => format!("https://localhost:{}{path}", self.address.port()),
        }
    }
}

impl Stream {
    /// The socket, without what the client knows of its TLS.
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
